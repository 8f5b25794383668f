#include "modules/script/class_parts.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

namespace tenon::script {
namespace {

class Sorter {
 public:
  Sorter(const Source& source, const Class& class_def) : source_(source), class_def_(class_def) {}

  Result<ClassParts> run() {
    TENON_TRY(base());
    for (const Stmt* stmt : class_def_.body) {
      switch (parts_.kind) {
        case ClassKind::kPlain:
        case ClassKind::kModule: TENON_TRY(class_statement(*stmt)); break;
        case ClassKind::kNamedTuple: TENON_TRY(named_tuple_statement(*stmt)); break;
        case ClassKind::kEnum: TENON_TRY(enum_statement(*stmt)); break;
        case ClassKind::kInterface:
        case ClassKind::kModuleInterface: TENON_TRY(interface_statement(*stmt)); break;
      }
    }
    return std::move(parts_);
  }

 private:
  Status refuse(Range range, const std::string& what) const {
    return source_.error(Code::kCorrupt, range, what);
  }
  static std::string named(std::string_view name) { return "'" + std::string(name) + "'"; }

  Status base() {
    if (class_def_.base == nullptr) return Status::ok();
    constexpr std::array<std::pair<std::string_view, ClassKind>, 5> kBases = {
        {{"Module", ClassKind::kModule},
         {"NamedTuple", ClassKind::kNamedTuple},
         {"Enum", ClassKind::kEnum},
         {"Interface", ClassKind::kInterface},
         {"ModuleInterface", ClassKind::kModuleInterface}}};
    for (const auto& [name, kind] : kBases) {
      if (class_def_.base->kind != ExprKind::kName || class_def_.base->text != name) continue;
      parts_.kind = kind;
      return Status::ok();
    }
    return refuse(class_def_.base->range,
                  "a class's base is Module, NamedTuple, Enum, Interface or ModuleInterface, or "
                  "there is none");
  }

  Status class_statement(const Stmt& stmt) {
    if (stmt.kind == StmtKind::kDef) return method(stmt);
    if (stmt.kind != StmtKind::kAssign || stmt.targets.size() != 1)
      return refuse(stmt.range, "a class has fields, constants and methods only");
    const Expr& target = *stmt.targets[0];
    if (target.kind == ExprKind::kSubscript) return quoted_field(stmt, target);
    if (target.kind != ExprKind::kName)
      return refuse(target.range, "a field or a constant has a name");
    if (target.text == "__annotations__" && stmt.value != nullptr) return Status::ok();
    if (target.text == "__parameters__") return name_list(stmt, parts_.parameters);
    if (target.text == "__buffers__") return name_list(stmt, parts_.buffers);
    if (target.text == "__forward_hooks__") return name_list(stmt, parts_.forward_hooks);
    if (target.text == "__forward_pre_hooks__") return name_list(stmt, parts_.forward_pre_hooks);
    TENON_TRY(once(target));
    if (stmt.value != nullptr) return constant(stmt);
    parts_.fields.push_back({std::string(target.text), stmt.annotation, &stmt, false});
    return Status::ok();
  }

  Status once(const Expr& target) {
    if (names_.insert(target.text).second) return Status::ok();
    return refuse(target.range, named(target.text) + " is in this class twice");
  }

  Status method(const Stmt& stmt) {
    const Function& function = *stmt.function;
    if (!method_names_.insert(function.name).second)
      return refuse(function.name_range, named(function.name) + " is in this class twice");
    if (function.params.empty())
      return refuse(function.name_range, "a method has the object as its first parameter");
    parts_.methods.push_back({&function, &stmt});
    return Status::ok();
  }

  // `__annotations__["0"] = T`: a field whose name is no identifier.
  Status quoted_field(const Stmt& stmt, const Expr& target) {
    const ExprList names = target.arguments();
    const Expr& value = target.child(0);
    if (value.kind != ExprKind::kName || value.text != "__annotations__" || names.size() != 1 ||
        names[0]->kind != ExprKind::kString || stmt.value == nullptr) {
      return refuse(stmt.range,
                    "a field in brackets is written __annotations__[\"its name\"] = its type");
    }
    TENON_TRY(once(*names[0]));
    parts_.fields.push_back({std::string(names[0]->text), stmt.value, &stmt, true});
    return Status::ok();
  }

  Status constant(const Stmt& stmt) {
    const Expr* const type = stmt.annotation;
    const bool is_final = type != nullptr && type->kind == ExprKind::kSubscript &&
                          type->children.size() == 2 && type->child(0).kind == ExprKind::kName &&
                          type->child(0).text == "Final";
    if (!is_final)
      return refuse(stmt.range,
                    "only a constant, whose type is Final[...], has a value in a class");
    parts_.constants.push_back(
        {std::string(stmt.targets[0]->text), type->children[1], stmt.value, &stmt});
    return Status::ok();
  }

  Status name_list(const Stmt& stmt, std::optional<NameList>& into) {
    const std::string name(stmt.targets[0]->text);
    if (parts_.kind != ClassKind::kModule) return refuse(stmt.range, name + " belongs to a Module");
    if (stmt.value == nullptr || stmt.value->kind != ExprKind::kList)
      return refuse(stmt.range, name + " is a list of strings");
    if (!into) into.emplace();
    into->statement = &stmt;
    for (const Expr* item : stmt.value->children) {
      if (item->kind != ExprKind::kString)
        return refuse(item->range, name + " is a list of strings");
      into->names.emplace_back(item->text);
    }
    return Status::ok();
  }

  Status named_tuple_statement(const Stmt& stmt) {
    const bool is_field = stmt.kind == StmtKind::kAssign && stmt.targets.size() == 1 &&
                          stmt.targets[0]->kind == ExprKind::kName && stmt.annotation != nullptr &&
                          stmt.value == nullptr;
    if (!is_field)
      return refuse(stmt.range, "a NamedTuple has fields with a type and without a default only");
    parts_.fields.push_back({std::string(stmt.targets[0]->text), stmt.annotation, &stmt, false});
    return Status::ok();
  }

  Status enum_statement(const Stmt& stmt) {
    const bool is_member = stmt.kind == StmtKind::kAssign && stmt.targets.size() == 1 &&
                           stmt.targets[0]->kind == ExprKind::kName && stmt.value != nullptr;
    if (!is_member) return refuse(stmt.range, "an Enum has members with a value only");
    const ExprKind kind = stmt.value->kind;
    if (kind != ExprKind::kInt && kind != ExprKind::kFloat && kind != ExprKind::kString) {
      return refuse(stmt.value->range, "an Enum's member is a number or a string");
    }
    if (!parts_.members.empty() && parts_.members[0].value->kind != kind) {
      return refuse(stmt.value->range, "the members of an Enum are of one type");
    }
    parts_.members.push_back({std::string(stmt.targets[0]->text), stmt.value, &stmt});
    return Status::ok();
  }

  Status interface_statement(const Stmt& stmt) {
    if (stmt.kind != StmtKind::kDef) return refuse(stmt.range, "an interface has methods only");
    const Function& function = *stmt.function;
    const Expr* const returns =
        function.type_comment != nullptr ? function.type_comment->returns : function.returns;
    if (returns == nullptr)
      return refuse(function.name_range, "a method of an interface says what it returns");
    const bool has_pass = std::any_of(function.body.begin(), function.body.end(),
                                      [](const Stmt* s) { return s->kind == StmtKind::kPass; });
    if (!has_pass)
      return refuse(function.name_range, "the body of a method of an interface is pass");
    // Only in an interface does PyTorch take two methods of one name. The first one counts here.
    if (method_names_.contains(function.name)) return Status::ok();
    return method(stmt);
  }

  const Source& source_;
  const Class& class_def_;
  ClassParts parts_;
  std::set<std::string_view> names_;
  std::set<std::string_view> method_names_;
};

}  // namespace

Result<ClassParts> class_parts(const Source& source, const Class& class_def) {
  return Sorter(source, class_def).run();
}

}  // namespace tenon::script
