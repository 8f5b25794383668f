/// @file
/// Says which C++ types can become values, and which TorchScript types they have. A program uses
/// nothing in this header by name.
#ifndef TENON_CPP_VALUE_CONVERT_HPP
#define TENON_CPP_VALUE_CONVERT_HPP

#include <tenon/cpp/config.hpp>

#include <complex>
#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

TENON_CPP_BEGIN

class Tensor;
class Value;

namespace detail {

template <class T>
concept IsInt = std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char> &&
                !std::same_as<T, wchar_t> && !std::same_as<T, char8_t> &&
                !std::same_as<T, char16_t> && !std::same_as<T, char32_t>;

// Types that always become a value unless there is no memory. An int type that may be too large for
// a value is not among them: the caller must cast it.
template <class T>
concept IsPlain = std::same_as<T, std::nullopt_t> || std::same_as<T, bool> ||
                  (IsInt<T> && (std::signed_integral<T> || sizeof(T) < sizeof(std::int64_t))) ||
                  std::same_as<T, float> || std::same_as<T, double> ||
                  std::same_as<T, std::complex<float>> || std::same_as<T, std::complex<double>>;

template <class T>
concept IsText = std::same_as<T, std::string> || std::same_as<T, std::string_view> ||
                 std::same_as<std::decay_t<T>, char*> || std::same_as<std::decay_t<T>, const char*>;

// Types that can become a value. A container is one of them if its elements are.
template <class T>
inline constexpr bool kIsSource =
    IsPlain<T> || IsText<T> || std::same_as<T, Tensor> || std::same_as<T, Value>;
template <class T>
inline constexpr bool kIsSource<std::optional<T>> = kIsSource<T>;
template <class T>
inline constexpr bool kIsSource<std::vector<T>> = kIsSource<T>;
template <class K, class T>
inline constexpr bool kIsSource<std::map<K, T>> = kIsSource<K> && kIsSource<T>;

// Types that a value can become. A type is not among them if the value would be cut or rounded, or
// if the result would be borrowed from a value that may be gone.
template <class T>
inline constexpr bool kIsTarget =
    std::same_as<T, bool> || IsInt<T> || std::same_as<T, double> ||
    std::same_as<T, std::complex<double>> || std::same_as<T, std::string> ||
    std::same_as<T, Tensor> || std::same_as<T, Value>;
template <class T>
inline constexpr bool kIsTarget<std::optional<T>> = kIsTarget<T>;
template <class T>
inline constexpr bool kIsTarget<std::vector<T>> = kIsTarget<T>;
template <class K, class T>
inline constexpr bool kIsTarget<std::map<K, T>> = kIsTarget<K> && kIsTarget<T>;

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <class T>
inline constexpr bool kIsVector = false;
template <class T>
inline constexpr bool kIsVector<std::vector<T>> = true;
template <class T>
inline constexpr bool kIsMap = false;
template <class K, class T>
inline constexpr bool kIsMap<std::map<K, T>> = true;

// Returns the TorchScript type of the values of T. The result is empty if T holds a Value, because
// a Value can be of any type.
template <class T>
std::optional<std::string> type_of() {
  if constexpr (std::same_as<T, std::nullopt_t>) {
    return "NoneType";
  } else if constexpr (std::same_as<T, bool>) {
    return "bool";
  } else if constexpr (IsInt<T>) {
    return "int";
  } else if constexpr (std::floating_point<T>) {
    return "float";
  } else if constexpr (IsPlain<T>) {
    return "complex";
  } else if constexpr (IsText<T>) {
    return "str";
  } else if constexpr (std::same_as<T, Tensor>) {
    return "Tensor";
  } else if constexpr (kIsOptional<T> || kIsVector<T>) {
    const std::optional<std::string> inner = type_of<typename T::value_type>();
    if (!inner) return std::nullopt;
    return (kIsVector<T> ? "List[" : "Optional[") + *inner + "]";
  } else if constexpr (kIsMap<T>) {
    const std::optional<std::string> key = type_of<typename T::key_type>();
    const std::optional<std::string> mapped = type_of<typename T::mapped_type>();
    if (!key || !mapped) return std::nullopt;
    return "Dict[" + *key + ", " + *mapped + "]";
  } else {
    static_assert(std::same_as<T, Value>, "no type that stands for values");
    return std::nullopt;
  }
}

}  // namespace detail

TENON_CPP_END

#endif
