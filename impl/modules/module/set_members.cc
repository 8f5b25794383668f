// The functions of Module that replace and remove members.
#include <utility>

#include "modules/module/module.h"
#include "modules/module/replace.h"
#include "modules/module/state_path.h"

namespace tenon::module {

using value::ValueKind;

namespace {

Status no_value(const std::string& path, const Member& member) {
  return Status(Code::kInvalidArgument, format("\"%.200s\" is a %s, which has no value to replace",
                                               path.c_str(), member_kind_name(member.kind)));
}

}  // namespace

Status Module::set(std::string_view path, ValueRef value) {
  const std::string text(path);
  TENON_ASSIGN(const std::optional<StatePlace> state, find_state_place(object_, code_.get(), path));
  if (state) return replace_in_state(*state, path, value);
  TENON_ASSIGN(const OwnedMember place, place_of(path));
  TENON_ASSIGN(const Member member, place.owner->find_member(place.name));
  if (member.kind == MemberKind::kSubmodule) {
    return Status(
        Code::kInvalidArgument,
        format("\"%.200s\" is a submodule, and only a module can take its place", text.c_str()));
  }
  if (place.owner->object_->is_opaque() && member.kind == MemberKind::kAttribute) {
    return Status(
        Code::kInvalidArgument,
        format("\"%.200s\" has no value: its module has a state, from which __setstate__ makes the "
               "attributes. Replace the state, or a part of it, such as \"state[0]\"",
               text.c_str()));
  }
  if (member.kind == MemberKind::kConstant || member.kind == MemberKind::kMethod || !member.value)
    return no_value(text, member);
  CodeSet* const code = place.owner->object_class().code;
  TENON_TRY(code->check_may_change());
  TENON_ASSIGN(ValueRef checked, place.owner->check_member_value(path, member.type, value));
  if (member.kind == MemberKind::kParameter) {
    TENON_ASSIGN(checked, with_gradient_of(*member.value, std::move(checked)));
  }
  if (member.value->is(ValueKind::kTensor) && checked->is(ValueKind::kTensor)) {
    Replacement replacement;
    replacement.add(member.value, std::move(checked));
    TENON_TRY(replacement.collect(object_, code_.get()));
    replacement.apply();
    return Status::ok();
  }
  place.owner->object_->attributes().replace(place.name, std::move(checked));
  return Status::ok();
}

Status Module::set_submodule(std::string_view path, const Ref<Module>& child) {
  const std::string text(path);
  TENON_ASSIGN(const OwnedMember place, place_of(path));
  TENON_ASSIGN(const Member member, place.owner->find_member(place.name));
  if (member.kind != MemberKind::kSubmodule) {
    return Status(Code::kInvalidArgument, format("\"%.200s\" is a %s and no submodule",
                                                 text.c_str(), member_kind_name(member.kind)));
  }
  const ObjectClass own = place.owner->object_class();
  TENON_ASSIGN(const CodeSet::FoundClass found, own.code->find_class(own.name));
  const TypeRef& declared = found.body->fields[found.body->find_field(place.name)].type;
  if (declared->kind() != value::TypeKind::kClass) {
    return Status(Code::kUnsupported, format("\"%.200s\" is declared as %s, and only what is "
                                             "declared by its class or interface is replaced",
                                             text.c_str(), declared->print().c_str()));
  }
  // If the submodule was built elsewhere, its class is in its own code. An interface is always in
  // this code.
  bool is_interface = false;
  TENON_ASSIGN(const Definition* wanted, own.code->find_definition(declared->class_name()));
  if (wanted != nullptr && wanted->is_class()) {
    TENON_ASSIGN(const ClassBody* body, own.code->body(*wanted));
    is_interface = body->kind == ClassKind::kModuleInterface;
  }
  TENON_TRY(place.owner->check_child(*child, is_interface ? declared : nullptr));
  place.owner->settle_child(*child);
  place.owner->object_->attributes().replace(place.name, child->object_);
  return Status::ok();
}

Status Module::remove(std::string_view path) {
  TENON_ASSIGN(const OwnedMember place, place_of(path));
  Module& owner = *place.owner;
  TENON_ASSIGN(const Member member, owner.find_member(place.name));
  if (member.kind == MemberKind::kMethod) return owner.remove_method(place.name);
  TENON_ASSIGN(ClassBody * body, owner.edit_class());
  if (member.kind == MemberKind::kConstant) {
    body->constants.erase(body->constants.begin() +
                          static_cast<ptrdiff_t>(body->find_constant(place.name)));
    return Status::ok();
  }
  body->remove_field(body->find_field(place.name));
  owner.object_->attributes().remove(place.name);
  return Status::ok();
}

}  // namespace tenon::module
