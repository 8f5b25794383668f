#include "modules/module/state_check.h"

#include <string>

#include "modules/compile/classes.h"
#include "modules/compile/types.h"
#include "modules/script/assigned_attributes.h"
#include "modules/script/signature.h"

namespace tenon::module {

using compile::ClassInfo;
using script::Function;
using script::Signature;
using value::TypeKind;

namespace {

class StateChecker {
 public:
  StateChecker(const compile::Classes& classes, const ClassInfo& info)
      : classes_(classes), info_(info) {}

  Status run() const {
    const Function& get = *info_.find_method("__getstate__");
    const Function& set = *info_.find_method("__setstate__");
    TENON_ASSIGN(const Signature got, script::signature(*info_.source, get, true));
    TENON_ASSIGN(const Signature taken, script::signature(*info_.source, set, true));
    if (got.parameters.size() != 1) return error(get, "__getstate__ takes self and nothing else");
    if (!got.returns)
      return error(
          get,
          "say what __getstate__ returns, as in `def __getstate__(self) -> Tuple[Tensor, bool]:`");
    if (taken.parameters.size() != 2)
      return error(set, "__setstate__ takes self and the state that __getstate__ returns");
    const value::TypeRef& wanted = taken.parameters[1].type;
    if (!wanted)
      return error(set,
                   "say the type of the state, as in `def __setstate__(self, state: Tuple[Tensor, "
                   "bool]) -> None:`");
    if (taken.returns && taken.returns->kind() != TypeKind::kNone)
      return error(set, "__setstate__ returns None");
    if (!compile::is_subtype(classes_, *got.returns, *wanted)) {
      return error(set, "__setstate__ takes " + wanted->print() + ", and __getstate__ returns " +
                            got.returns->print() + ": both have the same type");
    }
    return check_assigned(set);
  }

 private:
  Status error(const Function& function, const std::string& text) const {
    return info_.source->error(Code::kInvalidArgument, function.name_range, text);
  }

  // PyTorch refuses an object with an attribute that has no value, unless its type allows None.
  static bool may_be_unset(const value::Type& type) noexcept {
    return type.kind() == TypeKind::kOptional || type.kind() == TypeKind::kUnion ||
           type.kind() == TypeKind::kNone;
  }

  Status check_assigned(const Function& set) const {
    const script::AssignedAttributes assigned = script::assigned_attributes(
        set, [this](std::string_view name) { return info_.find_method(name); });
    if (assigned.gives_self_away) return Status::ok();
    for (const script::Field& field : info_.parts.fields) {
      const auto found = info_.attributes.find(field.name);
      if (found == info_.attributes.end() || may_be_unset(*found->second.type) ||
          assigned.names.contains(field.name))
        continue;
      return error(set, "__setstate__ does not assign self." + field.name +
                            " on every way to its end, and PyTorch refuses an object with an "
                            "attribute that has no value");
    }
    return Status::ok();
  }

  const compile::Classes& classes_;
  const ClassInfo& info_;
};

}  // namespace

Status check_state_methods(const script::Declarations& declarations, std::string_view class_name) {
  const compile::Classes classes(declarations, nullptr);
  TENON_ASSIGN(const ClassInfo* const info, classes.find(class_name));
  if (info == nullptr) return Status::ok();
  return StateChecker(classes, *info).run();
}

}  // namespace tenon::module
