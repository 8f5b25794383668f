/// @file
/// Values: the contents of attributes of a module, of constants and of arguments. tenon/value.h has
/// the details.
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
#include <utility>
#include <vector>

TENON_CPP_BEGIN

/// The kind of a value.
enum class ValueKind : std::int32_t {
  /// An empty object, which holds no value. (None is a value, of kind kNone.)
  kEmpty = -1,
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

/// Returns the name of a kind, such as "list", in static storage. It is "" for kEmpty and for a
/// kind of a newer library.
inline std::string_view name_of(ValueKind kind) noexcept {
  constexpr std::array<std::string_view, 13> kNames{"none", "bool",   "int",    "float", "complex",
                                                    "str",  "device", "tensor", "tuple", "list",
                                                    "dict", "enum",   "object"};
  const auto index = static_cast<std::size_t>(static_cast<std::int32_t>(kind));
  return index < kNames.size() ? kNames[index] : std::string_view();
}

class Value;
struct NamedValue;
struct Entry;
struct ValueTensorSpec;

/// Values that a call takes as an argument: {1, "a", tensor}, or a vector or a span of Value.
using Values = Items<Value>;
/// Values with names that a call takes as an argument: {{"width", 2}, {"name", "n"}}, or a vector
/// or a span of NamedValue.
using NamedValues = Items<NamedValue>;
/// Entries of a dict that a call takes as an argument: {{"a", 1}, {"b", 2}}, or a vector or a span
/// of Entry.
using Entries = Items<Entry>;

/// A value. It never changes, with one exception: the attributes of an object change when its
/// module is changed. A copy is another reference to the same value. A value that is stored in two
/// places is one object in an archive, and is one object again when the archive is read (is_same).
///
/// Types are written as in TorchScript: "Tensor", "Optional[Tensor]", "Dict[str, List[int]]",
/// "__torch__.my.Class". A list or a dict without a type takes the type that is declared for the
/// place where it is stored.
class Value : public detail::Counted<Value, tenon_value, tenon_value_retain, tenon_value_release> {
 public:
  Value() noexcept = default;

#ifdef TENON_NO_EXCEPTIONS
  /// Makes a value of a bool, an int, a float, a complex number, or std::nullopt, which gives None.
  /// If there is no memory, it prints the error and aborts.
  template <class T>
    requires detail::IsPlain<T>
  Value(const T& from) : Value(try_make(from).value()) {}
#else
  /// Makes a value as make does, so that a call that takes a Value accepts everything that can
  /// become a value. If an argument of a try_ form is made by this constructor, the exceptions of
  /// the constructor come out of that call.
  template <class T>
    requires(detail::kIsSource<T> && !std::same_as<T, Value>)
  Value(const T& from) : Value(make(from)) {}
#endif

  static Value none() { return std::nullopt; }

  /// Makes a value of a bool, an int, a float, a complex number, a text in UTF-8 or a tensor.
  /// std::nullopt gives None. Unsigned 64-bit ints must be cast to signed ints. A std::optional, a
  /// std::vector (a list) and a std::map (a dict) of these types are possible too. The type of a
  /// list or a dict follows from its C++ type: std::vector<double> gives "List[float]", and a
  /// std::vector<Value> gives a list without a type. The bytes of a tensor are not copied. Tensors
  /// over one storage share it in an archive too, and an archive holds the whole storage.
  template <class T>
    requires detail::kIsSource<T>
  static Result<Value> try_make(const T& from);

  /// Makes a device such as "cpu" or "cuda:0".
  static Result<Value> try_device(const std::string& name) {
    if (!detail::is_c_text(name)) return detail::has_nul("the device");
    return detail::make<Value>([&](tenon_value** out, tenon_error** err) {
      return tenon_value_new_device(name.c_str(), out, err);
    });
  }

  /// Makes a tensor that a Tensor object cannot hold: a quantised or sparse tensor, a tensor on the
  /// device meta, or a tensor of an element type that DLPack does not have. Every element that its
  /// layout can address must lie inside its storage. The contents of the indices of a sparse tensor
  /// are not checked.
  static Result<Value> try_tensor_from_spec(const ValueTensorSpec& spec);

  /// Makes a tuple.
  static Result<Value> try_tuple(const Values& items);
  /// Makes a NamedTuple of the class with this qualified name.
  static Result<Value> try_named_tuple(const std::string& class_name, const Values& items);
  /// Makes a list. The items are checked against `type`, such as "List[Optional[int]]".
  /// std::nullopt makes a list without a type.
  static Result<Value> try_list(const std::optional<std::string>& type, const Values& items);
  /// Makes a dict. It keeps the order of its entries. `type`, such as "Dict[str, Tensor]", has the
  /// same meaning as for a list.
  static Result<Value> try_dict(const std::optional<std::string>& type, const Entries& entries);
  /// Makes a member of the enum with this qualified name. `value` is an int, a float or a str.
  static Result<Value> try_enum_member(const std::string& class_name, const Value& value);
  /// Makes an object of a plain class with attributes. Module::make makes modules.
  static Result<Value> try_object(const std::string& class_name, const NamedValues& attributes);
  /// Makes an object that has a state and no attributes: an object of a class with __getstate__, or
  /// of a custom C++ class.
  static Result<Value> try_opaque(const std::string& class_name, const Value& state);

  ValueKind kind() const noexcept { return static_cast<ValueKind>(tenon_value_kind(get())); }

  /// Gives the value's own type. For a list it is the type with which the list was made, such as
  /// "List[int]", or "List[Any]" for a list without a type. For a tuple it follows from the items,
  /// as in "Tuple[int, str]". For a value of a class it is the name of the class.
  Result<std::string> try_type_text() const {
    return detail::written(
        [&](char* out, std::size_t capacity, std::size_t* nbytes, tenon_error** err) {
          return tenon_value_type(get(), out, capacity, nbytes, err);
        });
  }

  /// The qualified name of the class of a NamedTuple, an enum or an object, borrowed from the
  /// value. "" for other values.
  std::string_view class_name() const& noexcept { return tenon_value_class_name(get()); }
  std::string_view class_name() const&& = delete;

  /// Whether the value is an object that has a state, which is its only item, and no attributes.
  bool is_opaque() const noexcept { return tenon_value_is_opaque(get()) != 0; }
  /// Whether both objects refer to the same value, which is one object in an archive.
  bool is_same(const Value& other) const noexcept { return get() == other.get(); }

  /// The number of items: the items of a tuple or a list, the entries of a dict, the attributes of
  /// an object. It is 1 for a member of an enum (its value) and for an object with a state, and
  /// otherwise 0.
  std::size_t size() const noexcept { return tenon_value_count(get()); }

  /// Gives one of the items that size counts. For a dict it is the value of an entry, for an object
  /// the value of an attribute.
  Result<Value> try_item(std::size_t index) const {
    return detail::make<Value>([&](tenon_value** out, tenon_error** err) {
      return tenon_value_item(get(), index, out, err);
    });
  }
  /// Gives all items.
  Result<std::vector<Value>> try_items() const {
    return all([&](std::size_t index) { return try_item(index); });
  }
  /// Gives the keys of a dict, in the order of its items.
  Result<std::vector<Value>> try_keys() const {
    return all([&](std::size_t index) {
      return detail::make<Value>([&](tenon_value** out, tenon_error** err) {
        return tenon_value_key(get(), index, out, err);
      });
    });
  }
  /// Gives the attributes of an object, in the order of its class. Other values have none.
  Result<std::vector<NamedValue>> try_attributes() const;

  /// Gives an attribute of an object, or the value that a dict has for this str.
  Result<Value> try_find(const std::string& name) const {
    if (!detail::is_c_text(name)) return detail::has_nul("the name");
    return detail::make<Value>([&](tenon_value** out, tenon_error** err) {
      return tenon_value_find(get(), name.c_str(), out, err);
    });
  }

  /// Gives the value as a C++ object: bool, an integer type, double, std::complex<double>,
  /// std::string or Tensor; std::vector<T> for the items of a list or a tuple, std::map<K, T> for
  /// the entries of a dict, std::optional<T> for a value that may be None; Value for the value
  /// itself. A std::string_view is borrowed from the value. The call does not round and does not
  /// convert between kinds: another kind is kInvalidArgument (an int is not a float, a bool is not
  /// an int), and so is an int that T cannot hold. A Tensor lies over the same bytes. A tensor that
  /// a Tensor object cannot hold is kUnsupported; see try_tensor_spec.
  template <class T>
    requires(detail::kIsTarget<T> || std::same_as<T, std::string_view>)
  Result<T> try_as() const&;
  template <class T>
    requires std::same_as<T, std::string_view>
  Result<T> try_as() const&& = delete;

  /// The name of a device, borrowed from the value.
  Result<std::string_view> try_as_device() const& {
    const char* out = nullptr;
    const Result<void> called =
        detail::call([&](tenon_error** err) { return tenon_value_get_device(get(), &out, err); });
    if (!called) return called.error();
    return std::string_view(out);
  }
  Result<std::string_view> try_as_device() const&& = delete;

  /// Gives the full description of a tensor, whatever kind of tensor it is.
  Result<ValueTensorSpec> try_tensor_spec() const;

  /// Checks that the value fits a type, with all values inside it. The error has the details
  /// "where", "wanted" and "found".
  Result<void> try_check(const std::string& type) const {
    if (!detail::is_c_text(type)) return detail::has_nul("the type");
    return detail::call(
        [&](tenon_error** err) { return tenon_value_check(get(), type.c_str(), err); });
  }

#ifndef TENON_NO_EXCEPTIONS
  // Each function throws the error that its try_ form returns.
  template <class T>
    requires detail::kIsSource<T>
  static Value make(const T& from) {
    return try_make(from).value();
  }
  static Value device(const std::string& name) { return try_device(name).value(); }
  static Value tensor_from_spec(const ValueTensorSpec& spec) {
    return try_tensor_from_spec(spec).value();
  }
  static Value tuple(const Values& items) { return try_tuple(items).value(); }
  static Value named_tuple(const std::string& class_name, const Values& items) {
    return try_named_tuple(class_name, items).value();
  }
  static Value list(const std::optional<std::string>& type, const Values& items) {
    return try_list(type, items).value();
  }
  static Value dict(const std::optional<std::string>& type, const Entries& entries) {
    return try_dict(type, entries).value();
  }
  static Value enum_member(const std::string& class_name, const Value& value) {
    return try_enum_member(class_name, value).value();
  }
  static Value object(const std::string& class_name, const NamedValues& attributes) {
    return try_object(class_name, attributes).value();
  }
  static Value opaque(const std::string& class_name, const Value& state) {
    return try_opaque(class_name, state).value();
  }
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

/// A key of a dict and the value that the dict has for it.
struct Entry {
  Value key = {};
  Value value = {};
};

/// Gives a type as PyTorch writes it: "Union[str, None]" becomes "Optional[str]". If the text is
/// not a type, the error's detail "column" has the place.
inline Result<std::string> try_type_text(const std::string& type) {
  if (!detail::is_c_text(type)) return detail::has_nul("the type");
  return detail::written(
      [&](char* out, std::size_t capacity, std::size_t* nbytes, tenon_error** err) {
        return tenon_type_text(type.c_str(), out, capacity, nbytes, err);
      });
}

#ifndef TENON_NO_EXCEPTIONS
inline std::string type_text(const std::string& type) { return try_type_text(type).value(); }
#endif

TENON_CPP_END

// These headers hold the definitions of functions that are only declared here.
#include <tenon/cpp/value_items.hpp>
#include <tenon/cpp/value_tensor.hpp>

#endif
