#include "modules/value/type.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/immortal.h"
#include "base/once.h"

namespace tenon::value {
namespace {

constexpr std::array<std::string_view, kSimpleTypeCount> kSimpleNames = {
    "Any",      "Tensor", "int",       "float",  "bool",    "complex", "str",  "Device",
    "NoneType", "number", "Generator", "Stream", "Capsule", "list",    "tuple"};

std::string_view constructor_name(TypeKind kind) noexcept {
  switch (kind) {
    case TypeKind::kList: return "List";
    case TypeKind::kDict: return "Dict";
    case TypeKind::kTuple: return "Tuple";
    case TypeKind::kOptional: return "Optional";
    case TypeKind::kUnion: return "Union";
    case TypeKind::kFuture: return "Future";
    case TypeKind::kRRef: return "RRef";
    case TypeKind::kAwait: return "Await";
    default: return {};
  }
}

bool can_be_key(TypeKind kind) noexcept {
  switch (kind) {
    case TypeKind::kStr:
    case TypeKind::kInt:
    case TypeKind::kFloat:
    case TypeKind::kBool:
    case TypeKind::kComplex:
    case TypeKind::kTensor:
    case TypeKind::kDevice:
    case TypeKind::kAny: return true;
    default: return false;
  }
}

bool is_letter(char c) noexcept {
  const auto byte = static_cast<unsigned char>(c);
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || byte >= 0x80;
}

bool kind_may_hold_tensor(TypeKind kind) noexcept {
  switch (kind) {
    case TypeKind::kAny:
    case TypeKind::kTensor:
    case TypeKind::kCapsule:
    case TypeKind::kAnyList:
    case TypeKind::kAnyTuple:
    case TypeKind::kClass: return true;
    default: return false;  // for types with parts, the parts decide
  }
}

// Printing this many bytes of a class name costs as much as printing another type.
constexpr size_t kNameBytesPerNode = 16;
constexpr size_t kMaxShownTypeNbytes = 64;

using SimpleTypes = std::array<TypeRef, kSimpleTypeCount>;
struct SimpleTypesOnce {
  Once<SimpleTypes> once;
};

}  // namespace

Type::Type(TypeKind kind) noexcept : kind_(kind), may_hold_tensor_(kind_may_hold_tensor(kind)) {}

bool is_qualified_name(std::string_view name) noexcept {
  bool at_start = true;
  for (const char c : name) {
    if (c == '.') {
      if (at_start) return false;
      at_start = true;
    } else if (is_letter(c) || (!at_start && c >= '0' && c <= '9')) {
      at_start = false;
    } else {
      return false;
    }
  }
  return !at_start;
}

const TypeRef& Type::simple(TypeKind kind) {
  // These types are never destroyed, because values that outlive static destruction hold them.
  const SimpleTypes& types = immortal<SimpleTypesOnce>().once.get([] {
    auto made = std::make_unique<SimpleTypes>();
    for (size_t i = 0; i < made->size(); ++i)
      (*made)[i] = TypeRef::adopt(new Type(static_cast<TypeKind>(i)));
    return made;
  });
  return types[static_cast<size_t>(kind)];
}

Result<TypeRef> Type::compound(TypeKind kind, std::vector<TypeRef> parts) {
  auto* const made = new Type(kind);
  TypeRef type = TypeRef::adopt(made);
  uint64_t nodes = 1;
  for (const TypeRef& part : parts) {
    made->depth_ = std::max(made->depth_, part->depth_ + 1);
    made->may_hold_tensor_ = made->may_hold_tensor_ || part->may_hold_tensor_;
    nodes += part->nodes_;
    if (nodes > kMaxNodes) return invalid(format("a type of more than %u parts", kMaxNodes));
  }
  if (made->depth_ > kMaxDepth)
    return invalid(format("types are nested deeper than %u", kMaxDepth));
  made->nodes_ = static_cast<uint32_t>(nodes);
  made->parts_ = std::move(parts);
  if (kind == TypeKind::kUnion) made->order_members();
  return type;
}

Result<TypeRef> Type::list(TypeRef element) {
  return compound(TypeKind::kList, {std::move(element)});
}

Result<TypeRef> Type::dict(TypeRef key, TypeRef mapped) {
  if (!can_be_key(key->kind())) {
    return invalid(
        format("the keys of a Dict cannot be %s: only str, int, float, bool, complex, Tensor, "
               "Device and Any can",
               key->print().substr(0, kMaxShownTypeNbytes).c_str()));
  }
  return compound(TypeKind::kDict, {std::move(key), std::move(mapped)});
}

Result<TypeRef> Type::tuple(std::vector<TypeRef> elements) {
  return compound(TypeKind::kTuple, std::move(elements));
}

Result<TypeRef> Type::future(TypeRef element) {
  return compound(TypeKind::kFuture, {std::move(element)});
}
Result<TypeRef> Type::rref(TypeRef element) {
  return compound(TypeKind::kRRef, {std::move(element)});
}
Result<TypeRef> Type::await(TypeRef element) {
  return compound(TypeKind::kAwait, {std::move(element)});
}

Result<TypeRef> Type::class_type(std::string_view qualified_name) {
  if (!is_qualified_name(qualified_name)) {
    return invalid(format("'%s' is no qualified name",
                          std::string(qualified_name.substr(0, kMaxShownTypeNbytes)).c_str()));
  }
  const size_t nodes = 1 + qualified_name.size() / kNameBytesPerNode;
  if (nodes > kMaxNodes) return invalid(format("a class name of %zu bytes", qualified_name.size()));
  auto* const made = new Type(TypeKind::kClass);
  TypeRef type = TypeRef::adopt(made);
  made->nodes_ = static_cast<uint32_t>(nodes);
  made->class_name_ = qualified_name;
  return type;
}

void Type::print_to(std::string_view none_name, std::string* out) const {
  if (static_cast<size_t>(kind_) < kSimpleTypeCount) {
    out->append(kind_ == TypeKind::kNone ? none_name : kSimpleNames[static_cast<size_t>(kind_)]);
    return;
  }
  if (kind_ == TypeKind::kClass) {
    out->append(class_name_);
    return;
  }
  out->append(constructor_name(kind_)).push_back('[');
  if (parts_.empty()) out->append("()");
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (i > 0) out->append(", ");
    parts_[i]->print_to(none_name, out);
  }
  out->push_back(']');
}

std::string Type::print(std::string_view none_name) const {
  std::string text;
  print_to(none_name, &text);
  return text;
}

void Type::order_members() {
  static_assert(kMaxUnionMembers <= 256);
  order_.resize(parts_.size());
  std::iota(order_.begin(), order_.end(), uint8_t{0});
  std::sort(order_.begin(), order_.end(),
            [this](uint8_t a, uint8_t b) { return compare(*parts_[a], *parts_[b]) < 0; });
}

int Type::compare(const Type& a, const Type& b) noexcept {
  if (&a == &b) return 0;
  const auto by = [](uint64_t x, uint64_t y) { return x < y ? -1 : x > y ? 1 : 0; };
  if (const int kinds = by(static_cast<uint64_t>(a.kind_), static_cast<uint64_t>(b.kind_));
      kinds != 0)
    return kinds;
  // Types of different sizes are not compared further, which keeps the time linear in the smaller
  // one.
  if (const int nodes = by(a.nodes_, b.nodes_); nodes != 0) return nodes;
  if (const int depths = by(a.depth_, b.depth_); depths != 0) return depths;
  if (const int counts = by(a.parts_.size(), b.parts_.size()); counts != 0) return counts;
  if (const int names = a.class_name_.compare(b.class_name_); names != 0) return names;
  for (size_t i = 0; i < a.parts_.size(); ++i) {
    const bool is_union = a.kind_ == TypeKind::kUnion;
    const int parts =
        compare(*a.parts_[is_union ? a.order_[i] : i], *b.parts_[is_union ? b.order_[i] : i]);
    if (parts != 0) return parts;
  }
  return 0;
}

bool Type::equals(const Type& other) const noexcept { return compare(*this, other) == 0; }

}  // namespace tenon::value
