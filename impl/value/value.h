// Value: what an attribute of a module, an argument or a constant can be. A tree, or with shared
// nodes a graph without cycles.
//
// The pointer is the identity: the same Ref<Value> in two places is one shared object in an
// archive, pickled once, and a reader gives the same pointer back. That matters for has_identity()
// kinds only; numbers, strings and devices are written again wherever they stand.
//
// A value never changes, but for the attributes and the state of an object: modules are objects,
// and whoever builds or edits one orders those calls. Whoever sets an attribute sees to it that no
// cycle comes up (reaches() in walk.h tells); a cycle would never be freed. There are no weak
// references to values.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/counted.h"
#include "base/status.h"
#include "value/tensor_value.h"
#include "value/type.h"

namespace tenon::value {

class Value;
using ValueRef = Ref<Value>;

enum class ValueKind : uint8_t {
  kNone,
  kBool,
  kInt,
  kFloat,
  kComplex,
  kStr,
  kDevice,
  kTensor,
  kTuple,
  kList,
  kDict,
  kEnum,
  kObject,
};
inline constexpr size_t kValueKindCount = static_cast<size_t>(ValueKind::kObject) + 1;

// "None", "bool", "int", "float", "complex", "str", "Device", "Tensor", "tuple", "list", "dict",
// "enum", "object": as error messages say it.
const char* value_kind_name(ValueKind kind) noexcept;
// Complex, tensor, tuple, list, dict, enum and object: PyTorch pickles one that is used twice once.
bool has_identity(ValueKind kind) noexcept;

struct DictEntry {
  ValueRef key;
  ValueRef value;
};

struct Attribute {
  std::string name;
  ValueRef value;
};

// Named values in their order, no name twice.
class Attributes {
 public:
  std::span<const Attribute> all() const noexcept { return entries_; }
  size_t size() const noexcept { return entries_.size(); }
  // The index, or size() if there is none of that name.
  size_t index_of(std::string_view name) const noexcept;
  // The same, where the name most likely is that of entry `likely`: PyTorch writes attributes in
  // the order of their class.
  size_t index_of(std::string_view name, size_t likely) const noexcept {
    return likely < entries_.size() && entries_[likely].name == name ? likely : index_of(name);
  }
  // Null if there is none.
  const ValueRef* find(std::string_view name) const noexcept;
  // INVALID_ARGUMENT if there is one already. `value` is not null.
  Status add(std::string name, ValueRef value);
  // False if there is none.
  bool replace(std::string_view name, ValueRef value);
  // Of a valid index.
  void replace_at(size_t index, ValueRef value) { entries_[index].value = std::move(value); }
  // False if there is none. Those behind it keep their order.
  bool remove(std::string_view name);

 private:
  friend class Value;
  // In order_: of the name, or where it would go.
  size_t place_of(std::string_view name) const noexcept;
  // Null, or the name that stands there twice.
  const std::string* assign(std::vector<Attribute> entries);
  void order_names();

  std::vector<Attribute> entries_;
  // Indices of entries_, by name: found in logarithmic time whatever names a file has. Empty where
  // there are few of them.
  std::vector<uint32_t> order_;
};

class Value : public Counted {
 public:
  // Never fail, but for want of memory.
  static ValueRef none();
  static ValueRef of_bool(bool value);
  static ValueRef of_int(int64_t value);
  static ValueRef of_float(double value);
  static ValueRef of_complex(std::complex<double> value);
  static ValueRef of_str(std::string utf8);
  static ValueRef of_device(std::string device);  // any name: "cuda:0" may stand in an attribute
  static ValueRef of_tensor(TensorValueRef tensor);
  // `class_name` is a NamedTuple's, or empty.
  static ValueRef tuple(std::vector<ValueRef> items, std::string class_name = {});
  // `type` is the whole type, List[T], or null if nobody said it (PyTorch pickles such lists bare).
  static ValueRef list(TypeRef type, std::vector<ValueRef> items);
  // `type` is Dict[K, V] or null. INVALID_ARGUMENT, naming the key, for one that stands there
  // twice, or that cannot be a key: only None, bool, int, float, complex, str, Device, enum, Tensor
  // (by identity) and small tuples of these can. Keys of different kinds are different.
  static Result<ValueRef> dict(TypeRef type, std::vector<DictEntry> entries);
  static ValueRef enumeration(std::string class_name, ValueRef value);
  // With attributes, none at first: object(c)->attributes().add(...).
  static ValueRef object(std::string class_name);
  // With these attributes: one call for many of them, as a reader has them. INVALID_ARGUMENT,
  // naming it, for a name that stands there twice.
  static Result<ValueRef> object(std::string class_name, std::vector<Attribute> attributes);
  // Opaque: a class with __getstate__, or a custom C++ class. The state is kept exactly.
  static ValueRef object_with_state(std::string class_name, ValueRef state);

  ValueKind kind() const noexcept { return kind_; }
  bool is(ValueKind kind) const noexcept { return kind_ == kind; }

  // Each of the kinds that are named only.
  bool as_bool() const noexcept { return *std::get_if<bool>(&held_); }
  int64_t as_int() const noexcept { return *std::get_if<int64_t>(&held_); }
  double as_float() const noexcept { return *std::get_if<double>(&held_); }
  std::complex<double> as_complex() const noexcept {
    return *std::get_if<std::complex<double>>(&held_);
  }
  const std::string& as_str() const noexcept { return *std::get_if<std::string>(&held_); }
  const std::string& as_device() const noexcept { return *std::get_if<std::string>(&held_); }
  const TensorValueRef& as_tensor() const noexcept { return *std::get_if<TensorValueRef>(&held_); }
  // Of tuple and list.
  std::span<const ValueRef> items() const noexcept { return children().items; }
  // Of dict.
  std::span<const DictEntry> entries() const noexcept { return children().entries; }
  // Of dict: the value of that key, or null.
  const ValueRef* find(const Value& key) const noexcept;
  const ValueRef* find(std::string_view key) const noexcept;
  // Of list and dict: the whole type, or null.
  const TypeRef& declared_type() const noexcept { return children().type; }
  // Of tuple (empty if it is no NamedTuple), enum and object.
  const std::string& class_name() const noexcept { return children().class_name; }
  // Of enum.
  const ValueRef& enum_value() const noexcept { return children().inner; }
  // Of object: whether it has a state, and not attributes.
  bool is_opaque() const noexcept { return static_cast<bool>(children().inner); }
  const ValueRef& state() const noexcept { return children().inner; }
  // Of object: it has this state from now on, and no attributes. Under the rule for attributes.
  void set_state(ValueRef state) {
    children().attributes = Attributes();
    children().inner = std::move(state);
  }
  const Attributes& attributes() const noexcept { return children().attributes; }
  Attributes& attributes() noexcept { return children().attributes; }
  // Of object: what its class is looked up in, kept here for impl/module; null: where the class of
  // whatever holds it is. Set under the rule for attributes. It must not lead to the object.
  const Ref<const Counted>& scope() const noexcept { return children().scope; }
  void set_scope(Ref<const Counted> scope) noexcept { children().scope = std::move(scope); }

  // All values right below: items; of a dict key, value, key, value, …; the enum's value;
  // attributes; the state.
  size_t child_count() const noexcept;
  Value& child(size_t index) const noexcept;

 private:
  struct Children {
    TypeRef type;
    std::string class_name;
    std::vector<ValueRef> items;
    std::vector<DictEntry> entries;
    std::vector<uint32_t> key_order;  // indices of entries, as order_keys of dict_key.h puts them
    ValueRef inner;
    Attributes attributes;
    Ref<const Counted> scope;
  };
  using Held = std::variant<std::monostate, bool, int64_t, double, std::complex<double>,
                            std::string, TensorValueRef, std::unique_ptr<Children>>;

  Value(ValueKind kind, Held held) noexcept : kind_(kind), held_(std::move(held)) {}
  ~Value() override = default;
  void dispose() noexcept override;
  static ValueRef make(ValueKind kind, Held held);
  Children& children() const noexcept { return **std::get_if<std::unique_ptr<Children>>(&held_); }

  ValueKind kind_;
  Value* next_dead_ = nullptr;  // see dispose()
  Held held_;
};

}  // namespace tenon::value
