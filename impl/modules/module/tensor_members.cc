#include "modules/module/tensor_members.h"

#include <utility>

#include "modules/module/tensor_places.h"

namespace tenon::module {

namespace {

Result<MemberKind> kind_of(const TensorPlace& place) {
  if (place.in_state()) return MemberKind::kState;
  const ObjectClass own = class_of(*place.object, place.code);
  TENON_ASSIGN(const CodeSet::FoundClass found, own.code->find_class(own.name));
  const size_t field = found.body->find_field(place.object->attributes().all()[place.index].name);
  return found.body->fields[field].kind == FieldKind::kParameter ? MemberKind::kParameter
                                                                 : MemberKind::kBuffer;
}

}  // namespace

Result<std::vector<Member>> tensor_members(const Module& module) {
  TENON_ASSIGN(std::vector<TensorPlace> places,
               tensor_places(module.object(), module.object_class().code));
  std::vector<Member> members;
  members.reserve(places.size());
  for (TensorPlace& place : places) {
    if (!place.held->is(value::ValueKind::kTensor)) continue;
    Member member;
    TENON_ASSIGN(member.kind, kind_of(place));
    member.name = std::move(place.path);
    member.type = std::move(place.type);
    member.value = std::move(place.held);
    members.push_back(std::move(member));
  }
  return members;
}

}  // namespace tenon::module
