/// @file
/// Conversions: this header makes values from C++ objects and from other values, and C++ objects
/// from values. value.hpp includes this header.
#ifndef TENON_CPP_VALUE_ITEMS_HPP
#define TENON_CPP_VALUE_ITEMS_HPP

#include <tenon/cpp/value.hpp>

#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

TENON_CPP_BEGIN

namespace detail {

// In some calls of the C library NULL means None. So an empty object, which holds no value, must
// not be passed as NULL.
inline Error no_value(const std::string& what) {
  return wrong(what + " is an empty object, and no value");
}

// Makes an array of values for the C library. The array borrows the values. value_of(item) returns
// the value of an item.
template <class T, class ValueOf>
Result<std::vector<tenon_value*>> c_values(std::span<const T> items, ValueOf&& value_of) {
  std::vector<tenon_value*> c;
  c.reserve(items.size());
  for (const T& item : items) {
    const Value& value = value_of(item);
    if (!value) return no_value("number " + std::to_string(c.size()) + " of the values");
    c.push_back(value.get());
  }
  return c;
}
inline Result<std::vector<tenon_value*>> c_values(const Values& values) {
  return c_values(values.get(), [](const Value& value) -> const Value& { return value; });
}

// Two arrays for the C library, of names and of values. The arrays borrow both.
struct CNamedValues {
  std::vector<const char*> names;
  std::vector<tenon_value*> values;
};
inline Result<CNamedValues> c_named_values(const NamedValues& named, std::string_view what) {
  CNamedValues c;
  for (const NamedValue& each : named.get()) {
    if (!is_c_text(each.name)) return has_nul(what);
    c.names.push_back(each.name.c_str());
  }
  Result<std::vector<tenon_value*>> values =
      c_values(named.get(), [](const NamedValue& each) -> const Value& { return each.value; });
  if (!values) return values.error();
  c.values = *std::move(values);
  return c;
}

// Calls function(class, value, out, err), which makes a value of a class from one value inside it.
template <class Function>
Result<Value> make_of_one(const std::string& class_name, const Value& value, Function&& function) {
  if (!is_c_text(class_name)) return has_nul("the class");
  return make<Value>([&](tenon_value** out, tenon_error** err) {
    return function(class_name.c_str(), value.get(), out, err);
  });
}

template <class T>
Result<Value> to_value(const T& from) {
  if constexpr (std::same_as<T, Value>) {
    return from;
  } else if constexpr (kIsOptional<T>) {
    return from ? to_value(*from) : to_value(std::nullopt);
  } else if constexpr (kIsVector<T>) {
    std::vector<Value> items;
    items.reserve(from.size());
    // The element type is written out, because from[i] of a std::vector<bool> is a proxy object.
    for (std::size_t i = 0; i < from.size(); ++i) {
      Result<Value> item = to_value<typename T::value_type>(from[i]);
      if (!item) return item.error();
      items.push_back(*std::move(item));
    }
    return Value::try_list(type_of<T>(), items);
  } else if constexpr (kIsMap<T>) {
    std::vector<Entry> entries;
    entries.reserve(from.size());
    for (const auto& [name, mapped] : from) {
      Result<Value> key = to_value(name);
      if (!key) return key.error();
      Result<Value> value = to_value(mapped);
      if (!value) return value.error();
      entries.push_back({*std::move(key), *std::move(value)});
    }
    return Value::try_dict(type_of<T>(), entries);
  } else {
    return make<Value>([&](tenon_value** out, tenon_error** err) {
      if constexpr (std::same_as<T, std::nullopt_t>) {
        return tenon_value_new_none(out, err);
      } else if constexpr (std::same_as<T, bool>) {
        return tenon_value_new_bool(from ? 1 : 0, out, err);
      } else if constexpr (IsInt<T>) {
        return tenon_value_new_int(static_cast<std::int64_t>(from), out, err);
      } else if constexpr (std::floating_point<T>) {
        return tenon_value_new_float(static_cast<double>(from), out, err);
      } else if constexpr (IsPlain<T>) {
        return tenon_value_new_complex(static_cast<double>(from.real()),
                                       static_cast<double>(from.imag()), out, err);
      } else if constexpr (std::same_as<T, Tensor>) {
        return tenon_value_new_tensor(from.get(), out, err);
      } else {
        const std::string_view text(from);
        return tenon_value_new_str(text.data(), text.size(), out, err);
      }
    });
  }
}

template <class T>
Result<T> from_value(const Value& value);

template <class T>
Result<T> items_from_value(const Value& value) {
  if (value.kind() != ValueKind::kList && value.kind() != ValueKind::kTuple)
    return wrong("the value is no list and no tuple");
  const Result<std::vector<Value>> items = value.try_items();
  if (!items) return items.error();
  T all;
  all.reserve(items->size());
  for (const Value& item : *items) {
    Result<typename T::value_type> each = from_value<typename T::value_type>(item);
    if (!each) return each.error();
    all.push_back(*std::move(each));
  }
  return all;
}

template <class T>
Result<T> entries_from_value(const Value& value) {
  if (value.kind() != ValueKind::kDict) return wrong("the value is no dict");
  const Result<std::vector<Value>> keys = value.try_keys();
  if (!keys) return keys.error();
  const Result<std::vector<Value>> items = value.try_items();
  if (!items) return items.error();
  T all;
  for (std::size_t i = 0; i < keys->size(); ++i) {
    Result<typename T::key_type> key = from_value<typename T::key_type>((*keys)[i]);
    if (!key) return key.error();
    Result<typename T::mapped_type> mapped = from_value<typename T::mapped_type>((*items)[i]);
    if (!mapped) return mapped.error();
    all.emplace(*std::move(key), *std::move(mapped));
  }
  return all;
}

template <class T>
Result<T> from_value(const Value& value) {
  if constexpr (std::same_as<T, Value>) {
    return value;
  } else if constexpr (kIsOptional<T>) {
    if (value.kind() == ValueKind::kNone) return T();
    Result<typename T::value_type> inner = from_value<typename T::value_type>(value);
    if (!inner) return inner.error();
    return T(*std::move(inner));
  } else if constexpr (kIsVector<T>) {
    return items_from_value<T>(value);
  } else if constexpr (kIsMap<T>) {
    return entries_from_value<T>(value);
  } else if constexpr (std::same_as<T, Tensor>) {
    return make<Tensor>([&](tenon_tensor** out, tenon_error** err) {
      return tenon_value_get_tensor(value.get(), out, err);
    });
  } else if constexpr (std::same_as<T, std::complex<double>>) {
    double real = 0;
    double imaginary = 0;
    const Result<void> called = call([&](tenon_error** err) {
      return tenon_value_get_complex(value.get(), &real, &imaginary, err);
    });
    if (!called) return called.error();
    return T(real, imaginary);
  } else if constexpr (std::same_as<T, std::string> || std::same_as<T, std::string_view>) {
    const char* text = nullptr;
    std::size_t nbytes = 0;
    const Result<void> called = call(
        [&](tenon_error** err) { return tenon_value_get_str(value.get(), &text, &nbytes, err); });
    if (!called) return called.error();
    return T(text, nbytes);
  } else if constexpr (std::same_as<T, bool>) {
    int number = 0;
    const Result<void> called =
        call([&](tenon_error** err) { return tenon_value_get_bool(value.get(), &number, err); });
    if (!called) return called.error();
    return number != 0;
  } else if constexpr (std::same_as<T, double>) {
    double number = 0;
    const Result<void> called =
        call([&](tenon_error** err) { return tenon_value_get_float(value.get(), &number, err); });
    if (!called) return called.error();
    return number;
  } else {
    std::int64_t number = 0;
    const Result<void> called =
        call([&](tenon_error** err) { return tenon_value_get_int(value.get(), &number, err); });
    if (!called) return called.error();
    if (!std::in_range<T>(number)) {
      return wrong("the int " + std::to_string(number) + " is none of " +
                   std::to_string(std::numeric_limits<T>::min()) + " to " +
                   std::to_string(std::numeric_limits<T>::max()));
    }
    return static_cast<T>(number);
  }
}

}  // namespace detail

template <class T>
  requires detail::kIsSource<T>
Result<Value> Value::try_make(const T& from) {
  return detail::to_value(from);
}

template <class T>
  requires(detail::kIsTarget<T> || std::same_as<T, std::string_view>)
Result<T> Value::try_as() const& {
  return detail::from_value<T>(*this);
}

inline Result<Value> Value::try_tuple(const Values& items) {
  const Result<std::vector<tenon_value*>> c = detail::c_values(items);
  if (!c) return c.error();
  return detail::make<Value>([&](tenon_value** out, tenon_error** err) {
    return tenon_value_new_tuple(nullptr, c->data(), c->size(), out, err);
  });
}

inline Result<Value> Value::try_named_tuple(const std::string& class_name, const Values& items) {
  if (!detail::is_c_text(class_name)) return detail::has_nul("the class");
  const Result<std::vector<tenon_value*>> c = detail::c_values(items);
  if (!c) return c.error();
  return detail::make<Value>([&](tenon_value** out, tenon_error** err) {
    return tenon_value_new_tuple(class_name.c_str(), c->data(), c->size(), out, err);
  });
}

inline Result<Value> Value::try_list(const std::optional<std::string>& type, const Values& items) {
  if (!detail::is_c_text(type)) return detail::has_nul("the type");
  const Result<std::vector<tenon_value*>> c = detail::c_values(items);
  if (!c) return c.error();
  return detail::make<Value>([&](tenon_value** out, tenon_error** err) {
    return tenon_value_new_list(detail::c_text(type), c->data(), c->size(), out, err);
  });
}

inline Result<Value> Value::try_dict(const std::optional<std::string>& type,
                                     const Entries& entries) {
  if (!detail::is_c_text(type)) return detail::has_nul("the type");
  const Result<std::vector<tenon_value*>> keys =
      detail::c_values(entries.get(), [](const Entry& each) -> const Value& { return each.key; });
  if (!keys) return keys.error();
  const Result<std::vector<tenon_value*>> values =
      detail::c_values(entries.get(), [](const Entry& each) -> const Value& { return each.value; });
  if (!values) return values.error();
  return detail::make<Value>([&](tenon_value** out, tenon_error** err) {
    return tenon_value_new_dict(detail::c_text(type), keys->data(), values->data(), keys->size(),
                                out, err);
  });
}

inline Result<Value> Value::try_enum_member(const std::string& class_name, const Value& value) {
  return detail::make_of_one(class_name, value, tenon_value_new_enum);
}

inline Result<Value> Value::try_object(const std::string& class_name,
                                       const NamedValues& attributes) {
  if (!detail::is_c_text(class_name)) return detail::has_nul("the class");
  const Result<detail::CNamedValues> c = detail::c_named_values(attributes, "the attribute");
  if (!c) return c.error();
  return detail::make<Value>([&](tenon_value** out, tenon_error** err) {
    return tenon_value_new_object(class_name.c_str(), c->names.data(), c->values.data(),
                                  c->values.size(), out, err);
  });
}

inline Result<Value> Value::try_opaque(const std::string& class_name, const Value& state) {
  return detail::make_of_one(class_name, state, tenon_value_new_opaque);
}

inline Result<std::vector<NamedValue>> Value::try_attributes() const {
  std::vector<NamedValue> found;
  while (const char* const text = tenon_value_attribute_name(get(), found.size())) {
    std::string name(text);
    Result<Value> value = try_find(name);
    // Another thread can have removed the attribute since. Then another one has its index.
    if (!value && value.error().code() == Code::kNotFound) continue;
    if (!value) return value.error();
    found.push_back({std::move(name), std::move(*value)});
  }
  return found;
}

#ifndef TENON_NO_EXCEPTIONS
inline std::vector<NamedValue> Value::attributes() const { return try_attributes().value(); }
#endif

TENON_CPP_END

#endif
