// Type::optional() and Type::union_of(). They make these types as PyTorch does: flat, without
// duplicates, without a member that another member contains, and in PyTorch's order.
#include <algorithm>
#include <set>
#include <utility>

#include "modules/value/type.h"

namespace tenon::value {
namespace {

bool contains_kind(const std::vector<TypeRef>& types, TypeKind kind) noexcept {
  return std::any_of(types.begin(), types.end(),
                     [kind](const TypeRef& type) { return type->kind() == kind; });
}

void erase_kind(std::vector<TypeRef>* types, TypeKind kind) {
  std::erase_if(*types, [kind](const TypeRef& type) { return type->kind() == kind; });
}

struct Before {
  bool operator()(const Type* a, const Type* b) const noexcept { return Type::compare(*a, *b) < 0; }
};

// The members of a Union without duplicates, in the order in which each was added first.
class Members {
 public:
  Status add_flat(const TypeRef& type) {
    if (type->kind() == TypeKind::kUnion || type->kind() == TypeKind::kOptional) {
      for (const TypeRef& part : type->parts()) TENON_TRY(add_flat(part));
      return type->kind() == TypeKind::kOptional ? add(Type::none()) : Status::ok();
    }
    return add(type);
  }
  std::vector<TypeRef> take() { return std::move(types_); }

 private:
  Status add(const TypeRef& type) {
    if (known_.contains(type.get())) return Status::ok();
    if (types_.size() == Type::kMaxUnionMembers)
      return invalid(format("a Union of more than %zu types", Type::kMaxUnionMembers));
    types_.push_back(type);
    known_.insert(type.get());
    return Status::ok();
  }

  std::vector<TypeRef> types_;
  std::set<const Type*, Before> known_;
};

// Removes members that another member contains.
void drop_contained(std::vector<TypeRef>* members) {
  const bool all_numbers = contains_kind(*members, TypeKind::kInt) &&
                           contains_kind(*members, TypeKind::kFloat) &&
                           contains_kind(*members, TypeKind::kComplex);
  if (all_numbers && !contains_kind(*members, TypeKind::kNumber))
    members->push_back(Type::simple(TypeKind::kNumber));
  if (contains_kind(*members, TypeKind::kNumber)) {
    for (const TypeKind kind : {TypeKind::kInt, TypeKind::kFloat, TypeKind::kComplex})
      erase_kind(members, kind);
  }
  if (contains_kind(*members, TypeKind::kAnyList)) erase_kind(members, TypeKind::kList);
  if (contains_kind(*members, TypeKind::kAnyTuple)) erase_kind(members, TypeKind::kTuple);
}

// The place of a kind in PyTorch's order.
int rank(TypeKind kind) noexcept {
  switch (kind) {
    case TypeKind::kAny: return 0;
    case TypeKind::kTensor: return 1;
    case TypeKind::kTuple: return 2;
    case TypeKind::kList: return 3;
    case TypeKind::kDict: return 4;
    case TypeKind::kFloat: return 6;
    case TypeKind::kComplex: return 7;
    case TypeKind::kFuture: return 8;
    case TypeKind::kAwait: return 9;
    case TypeKind::kRRef: return 10;
    case TypeKind::kInt: return 11;
    case TypeKind::kNone: return 12;
    case TypeKind::kStr: return 13;
    case TypeKind::kGenerator: return 14;
    case TypeKind::kBool: return 15;
    case TypeKind::kOptional: return 16;
    case TypeKind::kUnion: return 17;
    case TypeKind::kDevice: return 18;
    case TypeKind::kStream: return 19;
    case TypeKind::kClass: return 20;
    case TypeKind::kCapsule: return 21;
    case TypeKind::kAnyList: return 22;
    case TypeKind::kAnyTuple: return 23;
    case TypeKind::kNumber: return 24;  // sorted among the others, and printed last
  }
  return 25;
}

// The text of a type in operator schemas, such as "int[]" or "Dict(str, int)". PyTorch sorts types
// of one kind by it. False if the type contains a class, because the text then depends on whether
// the class is an enum.
bool schema_text(const Type& type, std::string* out) {
  const auto in_parentheses = [&](std::string_view name) {
    out->append(name).push_back('(');
    for (size_t i = 0; i < type.parts().size(); ++i) {
      if (i > 0) out->append(", ");
      if (!schema_text(*type.parts()[i], out)) return false;
    }
    out->push_back(')');
    return true;
  };
  switch (type.kind()) {
    case TypeKind::kClass: return false;
    case TypeKind::kList:
      if (!schema_text(*type.element(), out)) return false;
      out->append("[]");
      return true;
    case TypeKind::kOptional:
      if (!schema_text(*type.element(), out)) return false;
      out->push_back('?');
      return true;
    case TypeKind::kTuple: return in_parentheses("");
    case TypeKind::kDict: return in_parentheses("Dict");
    case TypeKind::kUnion: return in_parentheses("Union");
    case TypeKind::kFuture: return in_parentheses("Future");
    case TypeKind::kRRef: return in_parentheses("RRef");
    case TypeKind::kAwait: return in_parentheses("Await");
    case TypeKind::kNumber: out->append("Scalar"); return true;
    default: out->append(type.print()); return true;
  }
}

struct Member {
  TypeRef type;
  std::string text;
};

void sort_run(std::vector<Member>::iterator begin, std::vector<Member>::iterator end) {
  if (end - begin < 2) return;
  for (auto member = begin; member != end; ++member) {
    if (!schema_text(*member->type, &member->text)) return;
  }
  std::stable_sort(begin, end, [](const Member& a, const Member& b) { return a.text < b.text; });
}

// Sorts the members as PyTorch does. A list that PyTorch has sorted stays as it is.
void sort_members(std::vector<TypeRef>* members) {
  std::vector<Member> sorted;
  for (const TypeRef& member : *members) {
    if (member->kind() != TypeKind::kClass) sorted.push_back({member, {}});
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const Member& a, const Member& b) {
    return rank(a.type->kind()) < rank(b.type->kind());
  });
  for (auto begin = sorted.begin(); begin != sorted.end();) {
    const TypeKind kind = begin->type->kind();
    const auto end = std::find_if(
        begin, sorted.end(), [kind](const Member& member) { return member.type->kind() != kind; });
    sort_run(begin, end);
    begin = end;
  }
  auto next = sorted.begin();
  for (TypeRef& member : *members) {
    if (member->kind() != TypeKind::kClass) member = std::move((next++)->type);
  }
}

// The other member, if there are two members and one is None. Otherwise null.
const TypeRef* other_than_none(const std::vector<TypeRef>& members) noexcept {
  if (members.size() != 2) return nullptr;
  if (members[0]->kind() == TypeKind::kNone) return &members[1];
  if (members[1]->kind() == TypeKind::kNone) return &members[0];
  return nullptr;
}

}  // namespace

Result<TypeRef> Type::optional(TypeRef element) {
  if (element->kind() == TypeKind::kOptional) return element;
  if (element->kind() == TypeKind::kNone) return invalid("an Optional of NoneType");
  if (element->kind() != TypeKind::kUnion || !contains_kind(element->parts_, TypeKind::kNone)) {
    return compound(TypeKind::kOptional, {std::move(element)});
  }
  std::vector<TypeRef> members = element->parts_;
  erase_kind(&members, TypeKind::kNone);
  TENON_ASSIGN(TypeRef others, union_of(members));
  return compound(TypeKind::kOptional, {std::move(others)});
}

Result<TypeRef> Type::union_of(const std::vector<TypeRef>& given) {
  Members added;
  for (const TypeRef& type : given) TENON_TRY(added.add_flat(type));
  std::vector<TypeRef> members = added.take();
  if (contains_kind(members, TypeKind::kAny)) {
    if (contains_kind(members, TypeKind::kNone)) return optional(any());
    return invalid("Any in a Union, which contains the others");
  }
  drop_contained(&members);
  if (const TypeRef* other = other_than_none(members); other != nullptr) return optional(*other);
  // PyTorch makes Union[number] of int, float and complex, and reads that text again.
  if (members.size() < 2 && !contains_kind(members, TypeKind::kNumber))
    return invalid("a Union of fewer than two types");
  sort_members(&members);
  return compound(TypeKind::kUnion, std::move(members));
}

}  // namespace tenon::value
