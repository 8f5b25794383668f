#include "modules/script/assigned_attributes.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

namespace tenon::script {

namespace {

using Names = std::set<std::string, std::less<>>;
// The attributes that are assigned on every path to a point of the code. Nothing: no path leads to
// the point.
using Reached = std::optional<Names>;

Reached on_both(const Reached& a, const Reached& b) {
  if (!a || !b) return a ? a : b;
  Names both;
  std::set_intersection(a->begin(), a->end(), b->begin(), b->end(),
                        std::inserter(both, both.end()));
  return both;
}

class Assignments {
 public:
  explicit Assignments(const FindMethod& find_method) : find_method_(find_method) {}

  // The attributes that `method` assigns. If a method calls itself, the inner call adds nothing.
  const Names& of(const Function& method) {
    const auto [known, is_new] = known_.try_emplace(&method);
    if (!is_new || method.params.empty()) return known->second;
    WalkState way{method.params[0].name, Names(), Reached()};
    run(method.body, &way);
    way.ends = on_both(way.ends, way.here);
    // A method that always raises gets the empty set. Any set would be right, because no code runs
    // after a call of it.
    known_[&method] = way.ends.value_or(Names());
    return known_[&method];
  }

  bool gives_self_away() const noexcept { return gives_self_away_; }

 private:
  // The state of the walk through one method.
  struct WalkState {
    std::string_view self;
    Reached here;
    Reached ends;
  };

  // Whether an expression is a `raise` as PyTorch prints one.
  static bool is_raise(const Expr& expr) {
    return expr.kind == ExprKind::kCall && dotted_name(expr.child(0)) == "ops.prim.RaiseException";
  }

  static bool is_self(const Expr& expr, const WalkState& way) {
    return expr.kind == ExprKind::kName && expr.text == way.self;
  }

  void run(StmtList statements, WalkState* way) {
    for (const Stmt* statement : statements) {
      if (!way->here) return;
      run(*statement, way);
    }
  }

  void run(const Stmt& statement, WalkState* way) {
    if (statement.value != nullptr) look(*statement.value, way);
    if (statement.message != nullptr) look(*statement.message, way);
    switch (statement.kind) {
      case StmtKind::kAssign:
        if (statement.value == nullptr) return;
        for (const Expr* target : statement.targets) assign(*target, way);
        return;
      case StmtKind::kExpr:
        if (is_raise(*statement.value)) way->here.reset();
        return;
      case StmtKind::kReturn:
        way->ends = on_both(way->ends, way->here);
        way->here.reset();
        return;
      case StmtKind::kRaise:
      case StmtKind::kBreak:
      case StmtKind::kContinue: way->here.reset(); return;
      case StmtKind::kIf: run_if(statement, way); return;
      case StmtKind::kWhile:
      case StmtKind::kFor: run_loop(statement, way); return;
      case StmtKind::kWith:
        for (const WithItem& item : statement.with_items) look(*item.value, way);
        run(statement.body, way);
        return;
      default: return;
    }
  }

  void run_if(const Stmt& statement, WalkState* way) {
    const Reached before = way->here;
    run(statement.body, way);
    const Reached after = way->here;
    way->here = before;
    run(statement.else_body, way);
    way->here = on_both(after, way->here);
  }

  void run_loop(const Stmt& statement, WalkState* way) {
    for (const Expr* iterable : statement.iterables) look(*iterable, way);
    const Reached before = way->here;
    run(statement.body, way);
    way->here = before;
  }

  void assign(const Expr& target, WalkState* way) {
    if (target.kind == ExprKind::kTuple || target.kind == ExprKind::kStarred) {
      for (const Expr* part : target.children) assign(*part, way);
    } else if (target.kind == ExprKind::kAttribute && is_self(target.child(0), *way)) {
      way->here->emplace(target.text);
    } else {
      for (const Expr* part : target.children) look(*part, way);
    }
  }

  // Finds what an expression does to `self`: it may call a method of `self`, or give `self` away.
  void look(const Expr& expr, WalkState* way) {
    if (is_self(expr, *way)) {
      gives_self_away_ = true;
      return;
    }
    if (expr.kind == ExprKind::kAttribute && is_self(expr.child(0), *way)) return;
    for (const Keyword& keyword : expr.keywords) look(*keyword.value, way);
    for (size_t i = 0; i < expr.children.size(); ++i) {
      if (expr.children[i] == nullptr) continue;
      // A child that may not run adds no attributes, but it can give `self` away.
      const Reached before = way->here;
      look(expr.child(i), way);
      if (!always_runs(expr, i)) way->here = before;
    }
    if (expr.kind != ExprKind::kCall) return;
    const Expr& callee = expr.child(0);
    if (callee.kind != ExprKind::kAttribute || !is_self(callee.child(0), *way)) return;
    const Function* const called = find_method_(callee.text);
    if (called == nullptr) return;
    const Names names = of(*called);
    way->here->insert(names.begin(), names.end());
  }

  static bool always_runs(const Expr& expr, size_t child) {
    if (expr.kind == ExprKind::kBinary && (expr.op == Operator::kAnd || expr.op == Operator::kOr))
      return child == 0;
    if (expr.kind == ExprKind::kConditional) return child == 0;
    return expr.kind != ExprKind::kListComp && expr.kind != ExprKind::kDictComp;
  }

  const FindMethod& find_method_;
  std::map<const Function*, Names> known_;
  bool gives_self_away_ = false;
};

}  // namespace

AssignedAttributes assigned_attributes(const Function& method, const FindMethod& find_method) {
  Assignments assignments(find_method);
  AssignedAttributes found;
  found.names = assignments.of(method);
  found.gives_self_away = assignments.gives_self_away();
  return found;
}

}  // namespace tenon::script
