// The functions of Module that give objects a state.
#include <optional>
#include <utility>

#include "modules/module/module.h"
#include "modules/module/replace.h"
#include "modules/module/state_path.h"

namespace tenon::module {

using value::Value;
using value::ValueKind;

namespace {

// Checks that the class has both methods, for which PyTorch looks before it reads a state.
Status check_has_state(const ClassBody& body, const std::string& class_name) {
  for (const char* const method : {"__getstate__", "__setstate__"}) {
    if (body.find_method(method) != SIZE_MAX) continue;
    return Status(Code::kInvalidArgument,
                  format("%s has no method %s: define __getstate__ and __setstate__ first, because "
                         "PyTorch reads a state only for a class "
                         "that has both",
                         class_name.c_str(), method))
        .with("class", class_name);
  }
  return Status::ok();
}

}  // namespace

Status Module::replace_in_state(const StatePlace& place, std::string_view path,
                                const ValueRef& value) {
  TENON_TRY(place.code->check_may_change());
  TENON_ASSIGN(ValueRef checked, check_state_value(place, path, value));
  if (place.value->is(ValueKind::kTensor) && checked->is(ValueKind::kTensor)) {
    Replacement replacement;
    replacement.add(place.value, std::move(checked));
    TENON_TRY(replacement.collect(object_, code_.get()));
    replacement.apply();
    return Status::ok();
  }
  TENON_ASSIGN(ValueRef state, state_with(place, std::move(checked)));
  place.object->set_state(std::move(state));
  return Status::ok();
}

Status Module::set_state(std::string_view path, ValueRef state) {
  const std::string to_state = path.empty() ? "state" : std::string(path) + ".state";
  TENON_ASSIGN(const std::optional<StatePlace> place,
               find_state_place(object_, code_.get(), to_state));
  if (place) return replace_in_state(*place, to_state, state);
  if (path.empty()) return start_state(std::move(state));
  TENON_ASSIGN(const Member member, find(path));
  if (member.kind == MemberKind::kSubmodule) return member.module->start_state(std::move(state));
  return Status(Code::kInvalidArgument,
                format("\"%.200s\" is a %s, and neither a module nor an object that has a state",
                       std::string(path).c_str(), member_kind_name(member.kind)));
}

Status Module::start_state(ValueRef state) {
  const ObjectClass own = object_class();
  TENON_TRY(own.code->check_may_change());
  TENON_ASSIGN(const CodeSet::FoundClass found, own.code->find_class(own.name));
  TENON_TRY(check_has_state(*found.body, class_name()));
  for (const value::Attribute& attribute : object_->attributes().all()) {
    if (!is_module_object(*attribute.value, own.code)) continue;
    return Status(Code::kUnsupported, format("%s has the submodule \"%.200s\", which no "
                                             "__setstate__ can make: a module with a state has "
                                             "no submodules",
                                             class_name().c_str(), attribute.name.c_str()));
  }
  const value::ClassDecl* const decl = own.code->find(own.name);
  if (decl == nullptr || !decl->state_type) {
    return Status(Code::kInvalidArgument,
                  format("%s: __setstate__ does not say the type of the state that it takes",
                         class_name().c_str()));
  }
  const StatePlace place{"state", object_, own.code, {}, Value::none(), decl->state_type};
  TENON_ASSIGN(ValueRef checked, check_state_value(place, "state", state));
  object_->set_state(std::move(checked));
  return Status::ok();
}

}  // namespace tenon::module
