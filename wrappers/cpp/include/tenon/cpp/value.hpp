// Values: what an attribute of a module, an argument or a constant can be.
#ifndef TENON_CPP_VALUE_HPP
#define TENON_CPP_VALUE_HPP

#include <tenon/value.h>
#include <tenon/cpp/error.hpp>
#include <tenon/cpp/handle.hpp>
#include <tenon/cpp/tensor.hpp>
#include <tenon/cpp/text.hpp>
#include <tenon/cpp/value_convert.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

TENON_CPP_BEGIN

/// What a value is.
enum class ValueKind : std::int32_t {
  kEmpty = -1,  ///< an empty object, which holds no value; None is one
  kNone = TENON_VALUE_NONE,
  kBool = TENON_VALUE_BOOL,
  kInt = TENON_VALUE_INT,
  kFloat = TENON_VALUE_FLOAT,
  kComplex = TENON_VALUE_COMPLEX,
  kStr = TENON_VALUE_STR,
  kDevice = TENON_VALUE_DEVICE,
  kTensor = TENON_VALUE_TENSOR,
  kTuple = TENON_VALUE_TUPLE,
  kList = TENON_VALUE_LIST,
  kDict = TENON_VALUE_DICT,
  kEnum = TENON_VALUE_ENUM,
  kObject = TENON_VALUE_OBJECT
};

/// The name of a kind, as in "list". Static storage; "" for kEmpty, and for a kind of a newer library.
inline std::string_view name_of(ValueKind kind) noexcept {
  constexpr std::array<std::string_view, 13> kNames{"none",   "bool",  "int",  "float", "complex", "str",   "device",
                                                    "tensor", "tuple", "list", "dict",  "enum",    "object"};
  const auto index = static_cast<std::size_t>(static_cast<std::int32_t>(kind));
  return index < kNames.size() ? kNames[index] : std::string_view();
}

class Value;
struct NamedValue;       // below
struct Entry;            // below
struct ValueTensorSpec;  // value_tensor.hpp

/// Values that a call takes: {1, "a", tensor}, or a vector or a span of Value.
using Values = Items<Value>;
/// Values with names that a call takes: {{"width", 2}, {"name", "n"}}, or a vector or a span of NamedValue.
using NamedValues = Items<NamedValue>;
/// Entries of a dict that a call takes: {{"a", 1}, {"b", 2}}, or a vector or a span of Entry.
using Entries = Items<Entry>;

/// A value never changes, but for the attributes of an object while its module is changed. A copy is one more reference to the same value:
/// the same value in two places is one object in an archive, and stays one when it is read again (is_same).
///
/// Types are written as in TorchScript: "Tensor", "Optional[Tensor]", "Dict[str, List[int]]", "__torch__.my.Class". A list or a dict that
/// is given none takes the one that is declared where it is put.
class Value : public detail::Counted<Value, tenon_value, tenon_value_retain, tenon_value_release> {
 public:
  Value() noexcept = default;

#ifdef TENON_NO_EXCEPTIONS
  /// A bool, an int, a float, a complex number, or None of std::nullopt. Without memory it prints why, and aborts.
  template <class T>
    requires detail::IsPlain<T>
  Value(const T& from) : Value(try_make(from).value()) {}
#else
  /// As make, so that a call that takes a Value takes what can become one. A try_ form throws what it throws.
  template <class T>
    requires(detail::kIsSource<T> && !std::same_as<T, Value>)
  Value(const T& from) : Value(make(from)) {}
#endif

  static Value none() { return std::nullopt; }

  /// The value of a bool, an int (one of 64 bits without a sign must be cast to one with a sign), a float, a complex number, a text in
  /// UTF-8, a tensor, None of std::nullopt; of a std::optional of these, a list of a std::vector, a dict of a std::map, whose types follow
  /// from theirs: of std::vector<double> comes a "List[float]", and one of Value is given none. Nothing of a tensor is copied: tensors over
  /// one storage share it in an archive too, and a storage goes there whole.
  template <class T>
    requires detail::kIsSource<T>
  static Result<Value> try_make(const T& from);

  /// A device, as "cpu" or "cuda:0".
  static Result<Value> try_device(const std::string& name) {
    if (!detail::is_c_text(name)) return detail::has_nul("the device");
    return detail::make<Value>([&](tenon_value** out, tenon_error** err) { return tenon_value_new_device(name.c_str(), out, err); });
  }

  /// A tensor that a Tensor cannot be: quantised, sparse, on meta, of an element type that DLPack has not. Every element that it can name
  /// must lie inside its storage; what the indices of a sparse one say is not looked at.
  static Result<Value> try_tensor_from_spec(const ValueTensorSpec& spec);

  /// A tuple.
  static Result<Value> try_tuple(const Values& items);
  /// A NamedTuple of that qualified name.
  static Result<Value> try_named_tuple(const std::string& class_name, const Values& items);
  /// A list, whose items are checked against its type, as "List[Optional[int]]"; std::nullopt: it is given none.
  static Result<Value> try_list(const std::optional<std::string>& type, const Values& items);
  /// A dict, which keeps the order of its entries; its type as for a list, as "Dict[str, Tensor]".
  static Result<Value> try_dict(const std::optional<std::string>& type, const Entries& entries);
  /// A member of the enum of that qualified name; `value` is an int, a float or a str.
  static Result<Value> try_enum_member(const std::string& class_name, const Value& value);
  /// An object of a plain class with attributes. Modules are made with Module::make.
  static Result<Value> try_object(const std::string& class_name, const NamedValues& attributes);
  /// An object that has a state and no attributes: of a class with __getstate__, or of a custom C++ class.
  static Result<Value> try_opaque(const std::string& class_name, const Value& state);

  ValueKind kind() const noexcept { return static_cast<ValueKind>(tenon_value_kind(get())); }

  /// The type that it shows by itself: "List[int]" as the list says, "List[Any]" if it says none, "Tuple[int, str]" of its items, a class
  /// by its name.
  Result<std::string> try_type_text() const {
    return detail::written([&](char* out, std::size_t capacity, std::size_t* nbytes, tenon_error** err) {
      return tenon_value_type(get(), out, capacity, nbytes, err);
    });
  }

  /// The qualified name of a NamedTuple, an enum or an object, borrowed from the value; "" for what has none.
  std::string_view class_name() const& noexcept { return tenon_value_class_name(get()); }
  std::string_view class_name() const&& = delete;

  /// Whether an object has a state, which is its only item, and no attributes.
  bool is_opaque() const noexcept { return tenon_value_is_opaque(get()) != 0; }
  /// Whether both are the same value, and so one object in an archive.
  bool is_same(const Value& other) const noexcept { return get() == other.get(); }

  /// How many items there are: of a tuple or list, entries of a dict, attributes of an object; 1 of an enum's member (its value) and of an
  /// object with a state; else 0.
  std::size_t size() const noexcept { return tenon_value_count(get()); }

  /// One of the items that size counts; of a dict the value of an entry, of an object that of an attribute.
  Result<Value> try_item(std::size_t index) const {
    return detail::make<Value>([&](tenon_value** out, tenon_error** err) { return tenon_value_item(get(), index, out, err); });
  }
  /// All of them.
  Result<std::vector<Value>> try_items() const {
    return all([&](std::size_t index) { return try_item(index); });
  }
  /// The keys of a dict, in the order of its items.
  Result<std::vector<Value>> try_keys() const {
    return all([&](std::size_t index) {
      return detail::make<Value>([&](tenon_value** out, tenon_error** err) { return tenon_value_key(get(), index, out, err); });
    });
  }
  /// The attributes of an object, in the order of its class; of everything else none.
  Result<std::vector<NamedValue>> try_attributes() const;

  /// An attribute of an object, or what a dict has under that str.
  Result<Value> try_find(const std::string& name) const {
    if (!detail::is_c_text(name)) return detail::has_nul("the name");
    return detail::make<Value>([&](tenon_value** out, tenon_error** err) { return tenon_value_find(get(), name.c_str(), out, err); });
  }

  /// The bool, int, double, std::complex<double>, std::string, Tensor in it; std::vector<T> of a list's or tuple's items, std::map<K, T> of
  /// a dict's entries, std::optional<T> of what may be None; Value is the value itself. A std::string_view is borrowed from the value.
  /// Nothing is rounded or guessed: another kind is kInvalidArgument (an int is no float, a bool no int), and so is an int that T cannot
  /// hold. A tensor is over the same bytes; one that a Tensor cannot be is kUnsupported, see try_tensor_spec.
  template <class T>
    requires(detail::kIsTarget<T> || std::same_as<T, std::string_view>)
  Result<T> try_as() const&;
  template <class T>
    requires std::same_as<T, std::string_view>
  Result<T> try_as() const&& = delete;

  /// The name in a device, borrowed from the value.
  Result<std::string_view> try_as_device() const& {
    const char* out = nullptr;
    const Result<void> called = detail::call([&](tenon_error** err) { return tenon_value_get_device(get(), &out, err); });
    if (!called) return called.error();
    return std::string_view(out);
  }
  Result<std::string_view> try_as_device() const&& = delete;

  /// All that is known of the tensor in it, whatever kind of tensor that is.
  Result<ValueTensorSpec> try_tensor_spec() const;

  /// Check that it fits a type, all the way down. The error's details are "where", "wanted" and "found".
  Result<void> try_check(const std::string& type) const {
    if (!detail::is_c_text(type)) return detail::has_nul("the type");
    return detail::call([&](tenon_error** err) { return tenon_value_check(get(), type.c_str(), err); });
  }

#ifndef TENON_NO_EXCEPTIONS
  // Each throws what its try_ form returns.
  template <class T>
    requires detail::kIsSource<T>
  static Value make(const T& from) {
    return try_make(from).value();
  }
  static Value device(const std::string& name) { return try_device(name).value(); }
  static Value tensor_from_spec(const ValueTensorSpec& spec) { return try_tensor_from_spec(spec).value(); }
  static Value tuple(const Values& items) { return try_tuple(items).value(); }
  static Value named_tuple(const std::string& class_name, const Values& items) { return try_named_tuple(class_name, items).value(); }
  static Value list(const std::optional<std::string>& type, const Values& items) { return try_list(type, items).value(); }
  static Value dict(const std::optional<std::string>& type, const Entries& entries) { return try_dict(type, entries).value(); }
  static Value enum_member(const std::string& class_name, const Value& value) { return try_enum_member(class_name, value).value(); }
  static Value object(const std::string& class_name, const NamedValues& attributes) { return try_object(class_name, attributes).value(); }
  static Value opaque(const std::string& class_name, const Value& state) { return try_opaque(class_name, state).value(); }
  std::string type_text() const { return try_type_text().value(); }
  Value item(std::size_t index) const { return try_item(index).value(); }
  std::vector<Value> items() const { return try_items().value(); }
  std::vector<Value> keys() const { return try_keys().value(); }
  std::vector<NamedValue> attributes() const;
  Value find(const std::string& name) const { return try_find(name).value(); }
  template <class T>
    requires(detail::kIsTarget<T> || std::same_as<T, std::string_view>)
  T as() const& {
    return try_as<T>().value();
  }
  template <class T>
    requires std::same_as<T, std::string_view>
  T as() const&& = delete;
  std::string_view as_device() const& { return try_as_device().value(); }
  std::string_view as_device() const&& = delete;
  ValueTensorSpec tensor_spec() const;
  void check(const std::string& type) const { try_check(type).value(); }
#endif

 private:
  template <class Function>
  Result<std::vector<Value>> all(Function&& at) const {
    std::vector<Value> found;
    for (std::size_t i = 0; i < size(); ++i) {
      Result<Value> each = at(i);
      if (!each) return each.error();
      found.push_back(*std::move(each));
    }
    return found;
  }
};

/// A value and its name.
struct NamedValue {
  std::string name = {};
  Value value = {};
};

/// A key of a dict, and what the dict has under it.
struct Entry {
  Value key = {};
  Value value = {};
};

/// A type in PyTorch's own text: "Union[str, None]" is "Optional[str]". The error's detail "column" says where one is wrong.
inline Result<std::string> try_type_text(const std::string& type) {
  if (!detail::is_c_text(type)) return detail::has_nul("the type");
  return detail::written([&](char* out, std::size_t capacity, std::size_t* nbytes, tenon_error** err) {
    return tenon_type_text(type.c_str(), out, capacity, nbytes, err);
  });
}

#ifndef TENON_NO_EXCEPTIONS
inline std::string type_text(const std::string& type) { return try_type_text(type).value(); }
#endif

TENON_CPP_END

// The definitions of what was only declared here.
#include <tenon/cpp/value_items.hpp>
#include <tenon/cpp/value_tensor.hpp>

#endif
