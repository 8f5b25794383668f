// A Type is an annotation of TorchScript, such as "Dict[str, Optional[Tensor]]". It is immutable
// and shared, so any thread may use it. It is parsed from, and printed as, the text that PyTorch
// writes into code and into the type tags of pickled lists and dicts.
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
  // Types without parts.
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
  // Types with parts, which are the element types.
  kList,
  kDict,  // key, value
  kTuple,
  kOptional,
  kUnion,
  kFuture,
  kRRef,
  kAwait,
  // A type with a class_name(): a module, class, interface, NamedTuple, enum or custom C++ class.
  // Only the code says which of these it is.
  kClass,
};
inline constexpr size_t kSimpleTypeCount = static_cast<size_t>(TypeKind::kAnyTuple) + 1;

struct TypeParseOptions {
  // If true, an unknown name without a dot becomes a class type ("MyTuple"). Sources that import or
  // alias names need this. If false, such a name is an error. A name with a dot is always a class
  // type.
  bool short_class_names = false;
};

class Type : public Counted {
 public:
  // Limits, because texts and values can be hostile. Nodes count every mention of a shared type,
  // and a long class name counts as several. So printing and comparing take bounded memory and
  // time.
  static constexpr uint32_t kMaxDepth = 64;
  static constexpr uint32_t kMaxNodes = 16384;
  static constexpr size_t kMaxUnionMembers = 256;

  // Parses a text. The error is INVALID_ARGUMENT. It says what was wanted, and has the details
  // "column" (from 1, in bytes) and "type" (the text, cut).
  static Result<TypeRef> parse(std::string_view text, const TypeParseOptions& options = {});

  // One object per kind for the life of the process. `kind` must be a kind without parts.
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

  // Make types with parts. They fail with INVALID_ARGUMENT if the type would be too deep or too
  // large, if a type cannot be the key of a dict, if a name is no qualified name, or if PyTorch
  // refuses the type too (Optional[NoneType], a Union of one).
  //
  // A type that PyTorch reads as another type becomes that other type here. Optional[Optional[T]]
  // becomes Optional[T], Union[T, NoneType] becomes Optional[T], and int, float and complex
  // together become number. The members of a Union are sorted in PyTorch's order. Only classes stay
  // at their places: their order depends on whether one is an enum or an interface, which a type
  // does not know.
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
  // For List, Optional, Future, RRef and Await.
  const TypeRef& element() const noexcept { return parts_[0]; }
  // For Dict.
  const TypeRef& key() const noexcept { return parts_[0]; }
  const TypeRef& mapped() const noexcept { return parts_[1]; }
  // For kClass, as in "__torch__.a.b.C". Empty for other kinds.
  const std::string& class_name() const noexcept { return class_name_; }

  // PyTorch's own text: "Tuple[int, List[Tensor]]", "NoneType", "Tuple[()]". parse() turns it into
  // an equal type again. PyTorch 1.8 and older write the type of None as "None", which newer
  // versions also read.
  static constexpr std::string_view kNoneName = "NoneType";
  std::string print(std::string_view none_name = kNoneName) const;

  // Structural equality. The members of a Union may be in any order. The time is linear in the
  // smaller of the two types.
  bool equals(const Type& other) const noexcept;
  // A total order of types. The result is below, at or above 0, as for strcmp. The time is bounded
  // as for equals().
  static int compare(const Type& a, const Type& b) noexcept;

  // Whether a value of this type can be a Tensor or contain one. True for Tensor, Any, Capsule,
  // "list", "tuple" and classes, and for types with one of these among their parts.
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
  // For a Union: its members in the order of compare(), so that two Unions are compared in one
  // pass.
  std::vector<uint8_t> order_;
  std::string class_name_;
};

inline bool operator==(const Type& a, const Type& b) noexcept { return a.equals(b); }

// Whether a name is qualified, as in "a.b.C": identifiers of ASCII letters, digits, '_' and bytes
// from 0x80 on, joined by dots.
bool is_qualified_name(std::string_view name) noexcept;

}  // namespace tenon::value
