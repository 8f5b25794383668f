#include "module/tensor_members.h"

#include <utility>

namespace tenon::module {

Result<std::vector<Member>> tensor_members(const Module& module) {
  TENON_ASSIGN(std::vector<TensorPlace> places, tensor_places(module.object(), module.object_class().code));
  std::vector<Member> members;
  members.reserve(places.size());
  for (TensorPlace& place : places) {
    const value::Attribute& held = place.object->attributes().all()[place.index];
    if (!held.value->is(value::ValueKind::kTensor)) continue;
    const ObjectClass own = class_of(*place.object, place.code);
    TENON_ASSIGN(const CodeSet::FoundClass found, own.code->find_class(own.name));
    const FieldKind kind = found.body->fields[found.body->find_field(held.name)].kind;
    Member member;
    member.kind = kind == FieldKind::kParameter ? MemberKind::kParameter : MemberKind::kBuffer;
    member.name = std::move(place.path);
    member.type = std::move(place.type);
    member.value = held.value;
    members.push_back(std::move(member));
  }
  return members;
}

}  // namespace tenon::module
