#include "modules/script/rename.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

namespace tenon::script {
namespace {

// Collects the dotted names in a range of code that do not begin with a local variable.
class DottedNames {
 public:
  DottedNames(Range range, std::span<const std::string_view> first_parts)
      : range_(range), first_parts_(first_parts) {}

  void item(const Item& item) {
    if (item.class_def != nullptr) {
      // The search skips methods outside the range. A caller that asks for the names of each method
      // of a large class would walk over all methods each time.
      const StmtList body = item.class_def->body;
      auto stmt = std::partition_point(body.begin(), body.end(), [&](const Stmt* each) {
        return each->range.end <= range_.begin;
      });
      for (; stmt != body.end() && (*stmt)->range.begin < range_.end; ++stmt) this->stmt(**stmt);
    }
    if (item.function != nullptr) function(*item.function);
  }

  std::vector<const Expr*> take() {
    std::sort(found_.begin(), found_.end(),
              [](const Expr* a, const Expr* b) { return a->range.begin < b->range.begin; });
    return std::move(found_);
  }

 private:
  // A function or comprehension around the current expression. Its variables are collected and
  // sorted when has() is called first.
  struct Scope {
    // null: a comprehension, whose variables are in `bound` from the start.
    const Function* function = nullptr;
    std::vector<std::string_view> bound;
    bool is_sorted = false;

    bool has(std::string_view name) {
      if (!is_sorted) {
        if (function != nullptr) {
          for (const Param& param : function->params) bound.push_back(param.name);
          for (const Stmt* stmt : function->body) collect(*stmt, bound);
        }
        std::sort(bound.begin(), bound.end());
        is_sorted = true;
      }
      return std::binary_search(bound.begin(), bound.end(), name);
    }
  };

  bool is_local(std::string_view name) {
    return std::any_of(scopes_.begin(), scopes_.end(),
                       [&](Scope& scope) { return scope.has(name); });
  }

  bool is_wanted(std::string_view first_part) const {
    return first_parts_.empty() ||
           std::find(first_parts_.begin(), first_parts_.end(), first_part) != first_parts_.end();
  }

  // A function's variables are local everywhere in it, even before they are set.
  void function(const Function& function) {
    for (const Param& param : function.params) {
      if (param.annotation != nullptr) type(*param.annotation);
      if (param.default_value != nullptr) expr(*param.default_value);
    }
    if (function.returns != nullptr) type(*function.returns);
    if (function.type_comment != nullptr) {
      for (const Expr* param : function.type_comment->params) type(*param);
      if (function.type_comment->returns != nullptr) type(*function.type_comment->returns);
    }
    scopes_.push_back({&function, {}, false});
    for (const Stmt* stmt : function.body) this->stmt(*stmt);
    scopes_.pop_back();
  }

  static void collect_target(const Expr& target, std::vector<std::string_view>& bound) {
    if (target.kind == ExprKind::kName) bound.push_back(target.text);
    if (target.kind != ExprKind::kTuple && target.kind != ExprKind::kList &&
        target.kind != ExprKind::kStarred)
      return;
    for (const Expr* item : target.children) collect_target(*item, bound);
  }

  static void collect(const Stmt& stmt, std::vector<std::string_view>& bound) {
    if (stmt.kind == StmtKind::kAssign || stmt.kind == StmtKind::kAugAssign ||
        stmt.kind == StmtKind::kFor) {
      for (const Expr* target : stmt.targets) collect_target(*target, bound);
    }
    for (const WithItem& item : stmt.with_items) {
      if (item.name != nullptr) bound.push_back(item.name->text);
    }
    if (stmt.function != nullptr) bound.push_back(stmt.function->name);
    for (const Stmt* inner : stmt.body) collect(*inner, bound);
    for (const Stmt* inner : stmt.else_body) collect(*inner, bound);
  }

  void stmt(const Stmt& stmt) {
    // A name that a statement sets is a variable, or a field in the body of a class.
    for (const Expr* target : stmt.targets) {
      if (target->kind != ExprKind::kName) expr(*target);
    }
    for (const Expr* iterable : stmt.iterables) expr(*iterable);
    for (const WithItem& item : stmt.with_items) expr(*item.value);
    if (stmt.value != nullptr) expr(*stmt.value);
    if (stmt.annotation != nullptr) type(*stmt.annotation);
    if (stmt.message != nullptr) expr(*stmt.message);
    if (stmt.function != nullptr) function(*stmt.function);
    for (const Stmt* inner : stmt.body) this->stmt(*inner);
    for (const Stmt* inner : stmt.else_body) this->stmt(*inner);
  }

  // Names in a type never mean a variable.
  void type(const Expr& expr) {
    std::vector<Scope> none;
    std::swap(scopes_, none);
    this->expr(expr);
    std::swap(scopes_, none);
  }

  void expr(const Expr& expr) {
    const Expr* root = &expr;
    while (root->kind == ExprKind::kAttribute) root = root->children[0];
    if (root->kind == ExprKind::kName) {
      const bool within = expr.range.begin >= range_.begin && expr.range.end <= range_.end;
      if (within && is_wanted(root->text) && !is_local(root->text)) found_.push_back(&expr);
      return;
    }
    if (expr.kind == ExprKind::kAttribute) return this->expr(*root);
    if (expr.kind == ExprKind::kListComp || expr.kind == ExprKind::kDictComp)
      return comprehension(expr);
    if (expr.kind == ExprKind::kCall) return call(expr);
    for (const Expr* child : expr.children) {
      if (child != nullptr) this->expr(*child);
    }
  }

  void comprehension(const Expr& expr) {
    std::vector<std::string_view> bound;
    const size_t target = expr.children.size() - 2;
    collect_target(expr.child(target), bound);
    this->expr(expr.child(target + 1));
    scopes_.push_back({nullptr, std::move(bound), false});
    for (size_t i = 0; i <= target; ++i) this->expr(expr.child(i));
    scopes_.pop_back();
  }

  void call(const Expr& expr) {
    const Expr& callee = expr.child(0);
    const std::string_view name = callee.kind == ExprKind::kName ? callee.text : std::string_view();
    const bool first_is_type =
        name == "annotate" || name == "unchecked_cast" || name == "uninitialized";
    const size_t type_at = first_is_type ? 1 : name == "isinstance" ? 2 : 0;
    this->expr(callee);
    for (size_t i = 1; i < expr.children.size(); ++i)
      i == type_at ? type(expr.child(i)) : this->expr(expr.child(i));
    for (const Keyword& keyword : expr.keywords) this->expr(*keyword.value);
  }

  Range range_;
  std::span<const std::string_view> first_parts_;
  std::vector<Scope> scopes_;
  std::vector<const Expr*> found_;
};

std::vector<const Expr*> names_in(const File& file, Range range,
                                  std::span<const std::string_view> first_parts = {}) {
  DottedNames names(range, first_parts);
  const std::span<const Item> items = file.items();
  auto item = std::partition_point(items.begin(), items.end(),
                                   [&](const Item& each) { return each.range.end <= range.begin; });
  for (; item != items.end() && item->range.begin < range.end; ++item) names.item(*item);
  return names.take();
}

}  // namespace

std::string renamed(const File& file, Range range, const NewNames& names) {
  std::string made;
  uint32_t done = range.begin;
  for (const Expr* use : names_in(file, range)) {
    // The loop tries the whole name and then ever shorter ones. The longest one in the map counts.
    std::string dotted = dotted_name(*use);
    for (const Expr* at = use;; at = at->children[0]) {
      if (const auto found = names.find(dotted); found != names.end()) {
        if (found->second != dotted) {
          made.append(file.source().text({done, at->range.begin})).append(found->second);
          done = at->range.end;
        }
        break;
      }
      if (at->kind != ExprKind::kAttribute) break;
      dotted.resize(dotted.size() - at->text.size() - 1);
    }
  }
  made.append(file.source().text({done, range.end}));
  return made;
}

std::vector<std::string> used_names(const File& file, Range range,
                                    std::span<const std::string_view> first_parts) {
  std::vector<std::string> names;
  for (const Expr* use : names_in(file, range, first_parts)) names.push_back(dotted_name(*use));
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace tenon::script
