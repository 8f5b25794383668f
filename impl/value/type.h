// Type: what an annotation of TorchScript says, as in "Dict[str, Optional[Tensor]]". Immutable and
// shared. Parsed from, and printed in, the text that PyTorch puts into code and into the type tags
// of pickled lists and dicts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/counted.h"
#include "base/status.h"

namespace tenon::value {

class Type;
using TypeRef = Ref<const Type>;

enum class TypeKind : uint8_t {
  // No parts.
  kAny,
  kTensor,
  kInt,
  kFloat,
  kBool,
  kComplex,
  kStr,
  kDevice,
  kNone,
  kNumber,
  kGenerator,
  kStream,
  kCapsule,
  kAnyList,   // "list": any List
  kAnyTuple,  // "tuple": any Tuple
  // parts(): the element types.
  kList,
  kDict,  // key, value
  kTuple,
  kOptional,
  kUnion,
  kFuture,
  kRRef,
  kAwait,
  // class_name(): a module, class, interface, NamedTuple, enum or custom C++ class; which of these
  // it is, the code says and not the type.
  kClass,
};
inline constexpr size_t kSimpleTypeCount = static_cast<size_t>(TypeKind::kAnyTuple) + 1;

struct TypeParseOptions {
  // Names without a dot that are no type of PyTorch's become class types ("MyTuple"), for sources
  // that import or alias names; else they are an error. Names with a dot always are class types.
  bool short_class_names = false;
};

class Type : public Counted {
 public:
  // Of hostile text or values. Nodes count every mention (a long class name counts more), so that
  // printing and comparing take bounded room and time however types are shared.
  static constexpr uint32_t kMaxDepth = 64;
  static constexpr uint32_t kMaxNodes = 16384;
  static constexpr size_t kMaxUnionMembers = 256;

  // An error is INVALID_ARGUMENT, says what was wanted, and has the details "column" (from 1, in
  // bytes) and "type" (the text, cut).
  static Result<TypeRef> parse(std::string_view text, const TypeParseOptions& options = {});

  // One object per kind for the life of the process. `kind` is one of those without parts.
  static const TypeRef& simple(TypeKind kind);
  static const TypeRef& tensor() { return simple(TypeKind::kTensor); }
  static const TypeRef& integer() { return simple(TypeKind::kInt); }
  static const TypeRef& floating() { return simple(TypeKind::kFloat); }
  static const TypeRef& boolean() { return simple(TypeKind::kBool); }
  static const TypeRef& complex() { return simple(TypeKind::kComplex); }
  static const TypeRef& str() { return simple(TypeKind::kStr); }
  static const TypeRef& device() { return simple(TypeKind::kDevice); }
  static const TypeRef& none() { return simple(TypeKind::kNone); }
  static const TypeRef& any() { return simple(TypeKind::kAny); }

  // These fail (INVALID_ARGUMENT) where the type would be too deep or too large, a dict's key type
  // cannot be one, a name is no qualified name, or PyTorch refuses the type too
  // (Optional[NoneType], a Union of one). What PyTorch reads as another type is that other type
  // here: Optional[Optional[T]] is Optional[T], Union[T, NoneType] is Optional[T], int, float and
  // complex together are number, and the members of a Union stand in PyTorch's order (classes stay
  // where they are: whether one is an enum or an interface, which decides, a type does not know).
  static Result<TypeRef> list(TypeRef element);
  static Result<TypeRef> dict(TypeRef key, TypeRef mapped);
  static Result<TypeRef> tuple(std::vector<TypeRef> elements);
  static Result<TypeRef> optional(TypeRef element);
  static Result<TypeRef> union_of(const std::vector<TypeRef>& members);
  static Result<TypeRef> future(TypeRef element);
  static Result<TypeRef> rref(TypeRef element);
  static Result<TypeRef> await(TypeRef element);
  static Result<TypeRef> class_type(std::string_view qualified_name);

  TypeKind kind() const noexcept { return kind_; }
  std::span<const TypeRef> parts() const noexcept { return parts_; }
  // Of List, Optional, Future, RRef, Await.
  const TypeRef& element() const noexcept { return parts_[0]; }
  // Of Dict.
  const TypeRef& key() const noexcept { return parts_[0]; }
  const TypeRef& mapped() const noexcept { return parts_[1]; }
  // Of kClass, as "__torch__.a.b.C"; else empty.
  const std::string& class_name() const noexcept { return class_name_; }

  // PyTorch's own text: "Tuple[int, List[Tensor]]", "NoneType", "Tuple[()]". parse() of it gives an
  // equal type. PyTorch 1.8 and older write the type of None as "None", which newer ones read too.
  static constexpr std::string_view kNoneName = "NoneType";
  std::string print(std::string_view none_name = kNoneName) const;

  // Structural; the members of a Union in any order. Linear in the smaller of the two types.
  bool equals(const Type& other) const noexcept;
  // Some order of all types: below, at or above 0, as strcmp. The bound of equals() holds.
  static int compare(const Type& a, const Type& b) noexcept;

  // Whether a value of this type can be a Tensor, or can have one in it: of Tensor, Any, classes
  // and types with one of these in them.
  bool may_hold_tensor() const noexcept { return may_hold_tensor_; }

  uint32_t depth() const noexcept { return depth_; }
  uint32_t nodes() const noexcept { return nodes_; }

 private:
  explicit Type(TypeKind kind) noexcept;
  ~Type() override = default;
  static Result<TypeRef> compound(TypeKind kind, std::vector<TypeRef> parts);
  void print_to(std::string_view none_name, std::string* out) const;
  void order_members();

  TypeKind kind_;
  bool may_hold_tensor_;
  uint32_t depth_ = 1;
  uint32_t nodes_ = 1;
  std::vector<TypeRef> parts_;
  // Of a Union: its members in the order of compare(), so that two Unions are compared in one pass.
  std::vector<uint8_t> order_;
  std::string class_name_;
};

inline bool operator==(const Type& a, const Type& b) noexcept { return a.equals(b); }

// "a.b.C": identifiers of ASCII letters, digits, '_' (and bytes from 0x80 on), joined by dots.
bool is_qualified_name(std::string_view name) noexcept;

}  // namespace tenon::value
