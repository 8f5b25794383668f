// The functions of Module that find and list members.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>

#include "modules/module/module.h"
#include "modules/module/state_path.h"
#include "modules/module/tensor_places.h"

namespace tenon::module {

using value::Type;
using value::Value;
using value::ValueKind;

namespace {

// Gives 3 for "CONSTANTS.c3", and SIZE_MAX for another text.
size_t constant_index(std::string_view text) {
  constexpr std::string_view kPrefix = "CONSTANTS.c";
  size_t index = SIZE_MAX;
  if (!text.starts_with(kPrefix)) return index;
  const std::string_view digits = text.substr(kPrefix.size());
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  return error == std::errc() && end == digits.data() + digits.size() ? index : SIZE_MAX;
}

Result<Member> state_member(const StatePlace& place) {
  Member member;
  member.kind = MemberKind::kState;
  member.name = place.name;
  member.value = place.value;
  member.type = place.type;
  if (!member.type) {
    TENON_ASSIGN(member.type, value::type_of(*place.value));
  }
  return member;
}

}  // namespace

Member Module::field_member(const FieldDecl& field, size_t index) const {
  const ObjectClass own = object_class();
  Member member;
  member.kind = field.kind == FieldKind::kParameter ? MemberKind::kParameter
                : field.kind == FieldKind::kBuffer  ? MemberKind::kBuffer
                                                    : MemberKind::kAttribute;
  member.name = field.name;
  member.type = field.type;
  if (object_->is_opaque()) return member;
  const value::Attributes& attributes = object_->attributes();
  const size_t place = attributes.index_of(field.name, index);
  if (place == attributes.size()) return member;
  const ValueRef& held = attributes.all()[place].value;
  if (!is_module_object(*held, own.code)) {
    member.value = held;
    return member;
  }
  member.kind = MemberKind::kSubmodule;
  member.module = wrap(held, Ref<CodeSet>::share(own.code), nullptr);
  if (auto type = Type::class_type(member.module->class_name()); type.is_ok())
    member.type = std::move(type).value();
  return member;
}

Result<Member> Module::constant_member(const ConstantDecl& constant) const {
  const std::vector<ValueRef>& constants = object_class().code->constants();
  Member member;
  member.kind = MemberKind::kConstant;
  member.name = constant.name;
  member.type = constant.type;
  member.source = constant.text;
  const size_t index = constant_index(constant.text);
  member.value = index < constants.size() ? constants[index] : constant.literal;
  if (!member.type && member.value) {
    TENON_ASSIGN(member.type, value::type_of(*member.value));
  }
  return member;
}

Result<Member> Module::find_member(std::string_view name) const {
  const ObjectClass own = object_class();
  TENON_ASSIGN(const CodeSet::FoundClass found, own.code->find_class(own.name));
  const ClassBody& body = *found.body;
  if (const size_t field = body.find_field(name); field != SIZE_MAX)
    return field_member(body.fields[field], field);
  if (const size_t constant = body.find_constant(name); constant != SIZE_MAX)
    return constant_member(body.constants[constant]);
  if (const size_t method = body.find_method(name); method != SIZE_MAX) {
    Member member;
    member.kind = MemberKind::kMethod;
    member.name = body.methods[method].name;
    member.source = body.methods[method].text;
    return member;
  }
  return Status(Code::kNotFound, format("%s has no member \"%.200s\"", class_name().c_str(),
                                        std::string(name).c_str()));
}

Result<Module::OwnedMember> Module::place_of(std::string_view path) const {
  OwnedMember place{Ref<Module>::share(const_cast<Module*>(this)), path};
  for (size_t dot = place.name.find('.'); dot != std::string_view::npos;
       dot = place.name.find('.')) {
    const std::string_view part = place.name.substr(0, dot);
    TENON_ASSIGN(Member member, place.owner->find_member(part));
    if (member.kind != MemberKind::kSubmodule) {
      return Status(Code::kNotFound,
                    format("\"%.200s\": %.200s is a %s of %s and no submodule",
                           std::string(path).c_str(), std::string(part).c_str(),
                           member_kind_name(member.kind), place.owner->class_name().c_str()));
    }
    place.owner = std::move(member.module);
    place.name.remove_prefix(dot + 1);
  }
  return place;
}

Result<Member> Module::find(std::string_view path) const {
  TENON_ASSIGN(const std::optional<StatePlace> state, find_state_place(object_, code_.get(), path));
  if (state) return state_member(*state);
  TENON_ASSIGN(const OwnedMember place, place_of(path));
  return place.owner->find_member(place.name);
}

Result<std::vector<Member>> Module::members() const {
  const ObjectClass own = object_class();
  TENON_ASSIGN(const CodeSet::FoundClass found, own.code->find_class(own.name));
  std::vector<Member> members;
  members.reserve(found.body->fields.size() + found.body->constants.size() +
                  found.body->methods.size());
  for (size_t i = 0; i < found.body->fields.size(); ++i)
    members.push_back(field_member(found.body->fields[i], i));
  for (const ConstantDecl& constant : found.body->constants) {
    TENON_ASSIGN(Member member, constant_member(constant));
    members.push_back(std::move(member));
  }
  for (const MethodDecl& method : found.body->methods) {
    Member member;
    member.kind = MemberKind::kMethod;
    member.name = method.name;
    member.source = method.text;
    members.push_back(std::move(member));
  }
  return members;
}

Result<std::vector<NamedTensor>> Module::tensors() const {
  TENON_ASSIGN(std::vector<TensorPlace> places, tensor_places(object_, code_.get()));
  std::vector<NamedTensor> tensors;
  for (TensorPlace& place : places) {
    if (place.held->is(ValueKind::kTensor))
      tensors.push_back({std::move(place.path), std::move(place.held)});
  }
  return tensors;
}

Result<std::vector<std::string>> Module::states() const {
  return state_paths(object_, code_.get());
}

}  // namespace tenon::module
