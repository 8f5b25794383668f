// A Value is what an attribute of a module, an argument or a constant can be. Values form a tree,
// or, with shared nodes, a graph without cycles.
//
// The pointer is the identity. If the same Ref<Value> stands in two places, an archive contains one
// shared object, which is pickled once, and a reader gives one pointer back. That holds only for
// kinds with has_identity(). Numbers, strings and devices are written again in each place.
//
// A value never changes, except for the attributes, the state and the attachment of an object.
// The lock of tree_lock.h guards these three. A thread that reads them holds ReadTrees, and a
// thread that changes them holds ChangeTrees. A caller that sets an attribute must not make a
// cycle, because a cycle would never be freed. reaches() in walk.h tells whether it would. There
// are no weak references to values.
//
// Any number of threads may read a value and hold references to it, and a forked child may do the
// same.
// No function of impl/modules catches std::bad_alloc, so every one that is not noexcept may throw
// it. The boundary of the C API turns it into RESOURCE_EXHAUSTED.
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
#include "modules/value/lent_names.h"
#include "modules/value/tensor_value.h"
#include "modules/value/type.h"

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

// The name of a kind for error messages: "None", "bool", "int", "float", "complex", "str",
// "Device", "Tensor", "tuple", "list", "dict", "enum", "object".
const char* value_kind_name(ValueKind kind) noexcept;
// True for complex, tensor, tuple, list, dict, enum and object. PyTorch pickles such a value once,
// even if it is used twice.
bool has_identity(ValueKind kind) noexcept;

struct DictEntry {
  ValueRef key;
  ValueRef value;
};

struct Attribute {
  std::string name;
  ValueRef value;
};

// Named values in their order. No name occurs twice. The spans and pointers that the functions give
// are valid until the next change. A function that fails changes nothing.
class Attributes {
 public:
  std::span<const Attribute> all() const noexcept { return entries_; }
  size_t size() const noexcept { return entries_.size(); }
  // The index of the entry with that name, or size() if there is none.
  size_t index_of(std::string_view name) const noexcept;
  // The same, but tries entry `likely` first, because PyTorch writes attributes in the order of
  // their class.
  size_t index_of(std::string_view name, size_t likely) const noexcept {
    return likely < entries_.size() && entries_[likely].name == name ? likely : index_of(name);
  }
  // Null if there is no entry of that name.
  const ValueRef* find(std::string_view name) const noexcept;
  // Appends an entry. INVALID_ARGUMENT if there is already one of that name. `value` must not be
  // null.
  Status add(std::string name, ValueRef value);
  // False if there is no entry of that name.
  bool replace(std::string_view name, ValueRef value);
  // `index` must be valid.
  void replace_at(size_t index, ValueRef value) { entries_[index].value = std::move(value); }
  // False if there is no entry of that name. The entries behind it keep their order.
  bool remove(std::string_view name);

 private:
  friend class Value;
  // The place in order_ of that name, or where it would be inserted.
  size_t place_of(std::string_view name) const noexcept;
  // Replaces all entries. Returns a name that occurs twice, or null.
  const std::string* assign(std::vector<Attribute> entries);
  void order_names();

  std::vector<Attribute> entries_;
  // Indices of entries_, sorted by name. So a name is found in logarithmic time, whatever names a
  // file contains. Empty if there are only few entries.
  std::vector<uint32_t> order_;
};

class Value : public Counted {
 public:
  // These functions cannot fail, except for lack of memory. A ValueRef or TensorValueRef that is
  // given to them must not be null, and nothing checks that.
  static ValueRef none();
  static ValueRef of_bool(bool value);
  static ValueRef of_int(int64_t value);
  static ValueRef of_float(double value);
  static ValueRef of_complex(std::complex<double> value);
  static ValueRef of_str(std::string utf8);
  static ValueRef of_device(std::string device);  // any text; "cuda:0" may stand in an attribute
  static ValueRef of_tensor(TensorValueRef tensor);
  // `class_name` is the name of a NamedTuple, or empty.
  static ValueRef tuple(std::vector<ValueRef> items, std::string class_name = {});
  // `type` is the whole type, List[T]. It is null if it is not known, because PyTorch pickles some
  // lists without their type.
  static ValueRef list(TypeRef type, std::vector<ValueRef> items);
  // `type` is Dict[K, V] or null. INVALID_ARGUMENT, with the name of the key, if a key occurs twice
  // or cannot be a key. A key can be None, bool, int, float, complex, str, Device, an enum, a
  // Tensor (compared by identity) or a small tuple of these. Keys of different kinds are different.
  static Result<ValueRef> dict(TypeRef type, std::vector<DictEntry> entries);
  static ValueRef enumeration(std::string class_name, ValueRef value);
  // An object with attributes, none at first. The caller adds them:
  // object(c)->attributes().add(...).
  static ValueRef object(std::string class_name);
  // An object with these attributes, for a reader that has many of them at once. INVALID_ARGUMENT,
  // with the name, if a name occurs twice.
  static Result<ValueRef> object(std::string class_name, std::vector<Attribute> attributes);
  // An opaque object: its class has __getstate__, or is a custom C++ class. The state is kept
  // exactly.
  static ValueRef object_with_state(std::string class_name, ValueRef state);

  ValueKind kind() const noexcept { return kind_; }
  bool is(ValueKind kind) const noexcept { return kind_ == kind; }

  // Each of the following functions is valid only for the kinds that it names, and nothing checks
  // that. References, spans and pointers are valid as long as the value. Those into the
  // attributes or the state of an object are valid until these are changed.
  bool as_bool() const noexcept { return *std::get_if<bool>(&held_); }
  int64_t as_int() const noexcept { return *std::get_if<int64_t>(&held_); }
  double as_float() const noexcept { return *std::get_if<double>(&held_); }
  std::complex<double> as_complex() const noexcept {
    return *std::get_if<std::complex<double>>(&held_);
  }
  const std::string& as_str() const noexcept { return *std::get_if<std::string>(&held_); }
  const std::string& as_device() const noexcept { return *std::get_if<std::string>(&held_); }
  const TensorValueRef& as_tensor() const noexcept { return *std::get_if<TensorValueRef>(&held_); }
  // For tuple and list.
  std::span<const ValueRef> items() const noexcept { return children().items; }
  // For dict.
  std::span<const DictEntry> entries() const noexcept { return children().entries; }
  // For dict: the value of that key, or null.
  const ValueRef* find(const Value& key) const noexcept;
  const ValueRef* find(std::string_view key) const noexcept;
  // For list and dict: the whole type, or null.
  const TypeRef& declared_type() const noexcept { return children().type; }
  // For tuple (empty if it is no NamedTuple), enum and object.
  const std::string& class_name() const noexcept { return children().class_name; }
  // For enum.
  const ValueRef& enum_value() const noexcept { return children().inner; }
  // For object: whether it has a state instead of attributes.
  bool is_opaque() const noexcept { return static_cast<bool>(children().inner); }
  const ValueRef& state() const noexcept { return children().inner; }
  // For object: sets the state and removes the attributes.
  void set_state(ValueRef state) {
    children().attributes = Attributes();
    children().inner = std::move(state);
  }
  // For object: the name of an attribute, in memory that stays as long as the value, whatever
  // happens to the attribute. `index` must be valid.
  const char* lend_name(size_t index) const {
    return children().lent_names.lend(attributes().all()[index].name);
  }
  const Attributes& attributes() const noexcept { return children().attributes; }
  Attributes& attributes() noexcept { return children().attributes; }
  // For object: a slot for one upper folder, which keeps there what belongs to the object. Null at
  // first. The attachment must not lead back to the object.
  const Ref<const Counted>& attachment() const noexcept { return children().attachment; }
  void set_attachment(Ref<const Counted> attachment) noexcept {
    children().attachment = std::move(attachment);
  }

  // All values directly below this one: the items; for a dict key, value, key, value, …; the value
  // of an enum; the attributes; the state.
  size_t child_count() const noexcept;
  Value& child(size_t index) const noexcept;

  // Frees a list of dead values, which values_to_free_later() of tree_lock.h gave. May be null.
  static void free_dead(Value* dead) noexcept;

 private:
  struct Children {
    TypeRef type;
    std::string class_name;
    std::vector<ValueRef> items;
    std::vector<DictEntry> entries;
    std::vector<uint32_t> key_order;  // indices of entries, as order_keys() of dict_key.h sorts
                                      // them
    ValueRef inner;
    Attributes attributes;
    Ref<const Counted> attachment;
    LentNames lent_names;
  };
  using Held = std::variant<std::monostate, bool, int64_t, double, std::complex<double>,
                            std::string, TensorValueRef, std::unique_ptr<Children>>;

  Value(ValueKind kind, Held held) noexcept : kind_(kind), held_(std::move(held)) {}
  ~Value() override = default;
  void dispose() noexcept override;
  // Puts the children whose last reference this value had on the list `dead`.
  void release_children(Value** dead) noexcept;
  static ValueRef make(ValueKind kind, Held held);
  Children& children() const noexcept { return **std::get_if<std::unique_ptr<Children>>(&held_); }

  ValueKind kind_;
  Value* next_dead_ = nullptr;  // see dispose()
  Held held_;
};

}  // namespace tenon::value
