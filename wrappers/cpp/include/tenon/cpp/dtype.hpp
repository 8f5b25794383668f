/// @file
/// Element types of tensors: DLPack's numbers, their names, and the C++ types that stand for them.
#ifndef TENON_CPP_DTYPE_HPP
#define TENON_CPP_DTYPE_HPP

#include <tenon/dtype.h>
#include <tenon/cpp/config.hpp>

#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#if __has_include(<stdfloat>)
#include <stdfloat>
#endif

TENON_CPP_BEGIN

/// An element type in DLPack's numbers: a type code (TENON_DTYPE_*), the bits of one lane, and the
/// number of lanes.
struct Dtype {
  std::uint8_t code = 0;
  std::uint8_t bits = 0;
  std::uint16_t lanes = 1;

  constexpr Dtype() noexcept = default;
  constexpr Dtype(unsigned code_number, unsigned lane_bits, unsigned lane_count = 1) noexcept
      : code(static_cast<std::uint8_t>(code_number)),
        bits(static_cast<std::uint8_t>(lane_bits)),
        lanes(static_cast<std::uint16_t>(lane_count)) {}
  constexpr Dtype(tenon_dtype c) noexcept : code(c.code), bits(c.bits), lanes(c.lanes) {}
  constexpr operator tenon_dtype() const noexcept { return {code, bits, lanes}; }
  friend constexpr bool operator==(const Dtype&, const Dtype&) noexcept = default;
};

/// Returns the name of an element type, such as "float32" or "bfloat16". A type with more than one
/// lane has a name like "uint8x4".
inline std::string name_of(Dtype dtype) {
  char name[TENON_DTYPE_MAX_NAME_NBYTES];
  return {name, tenon_dtype_name(dtype, name, sizeof name)};
}

/// Returns the element type with that name, or nothing if there is no such type. It is the inverse
/// of name_of.
inline std::optional<Dtype> dtype_of(std::string_view name) {
  tenon_dtype dtype{};
  // A longer text is not a name, and a NUL inside would hide the rest of the text.
  if (name.size() >= TENON_DTYPE_MAX_NAME_NBYTES || name.find('\0') != std::string_view::npos)
    return std::nullopt;
  if (tenon_dtype_parse(std::string(name).c_str(), &dtype, nullptr) != TENON_OK)
    return std::nullopt;
  return dtype;
}

/// An element of a bool tensor. The element is one byte, and a peer may have set that byte to any
/// number. C++ must not read such a byte as bool, so this type stands for it.
enum class Bool : std::uint8_t { kFalse = 0, kTrue = 1 };
constexpr bool is_true(Bool value) noexcept { return value != Bool::kFalse; }

/// The element type for which a C++ type stands. Specialise it for a type of your own, such as a
/// half:
///
///     template <> struct tenon::Element<my::half> {
///       static constexpr tenon::Dtype kDtype{TENON_DTYPE_FLOAT, 16};
///     };
///
/// The type must be trivially copyable, must have the size of the element, and must accept any bits
/// that a peer may write.
template <class T>
struct Element;

template <class T>
  requires(std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char> &&
           !std::same_as<T, wchar_t> && !std::same_as<T, char8_t> && !std::same_as<T, char16_t> &&
           !std::same_as<T, char32_t>)
struct Element<T> {
  static constexpr Dtype kDtype{
      std::signed_integral<T> ? unsigned{TENON_DTYPE_INT} : unsigned{TENON_DTYPE_UINT},
      unsigned{8 * sizeof(T)}};
};
template <>
struct Element<float> {
  static constexpr Dtype kDtype{TENON_DTYPE_FLOAT, 32};
};
template <>
struct Element<double> {
  static constexpr Dtype kDtype{TENON_DTYPE_FLOAT, 64};
};
template <>
struct Element<std::complex<float>> {
  static constexpr Dtype kDtype{TENON_DTYPE_COMPLEX, 64};
};
template <>
struct Element<std::complex<double>> {
  static constexpr Dtype kDtype{TENON_DTYPE_COMPLEX, 128};
};
template <>
struct Element<Bool> {
  static constexpr Dtype kDtype{TENON_DTYPE_BOOL, 8};
};
#ifdef __STDCPP_FLOAT16_T__
template <>
struct Element<std::float16_t> {
  static constexpr Dtype kDtype{TENON_DTYPE_FLOAT, 16};
};
#endif
#ifdef __STDCPP_BFLOAT16_T__
template <>
struct Element<std::bfloat16_t> {
  static constexpr Dtype kDtype{TENON_DTYPE_BFLOAT, 16};
};
#endif

/// The types that view, view_mut and the functions that make tensors accept as elements.
template <class T>
concept IsElement = std::is_trivially_copyable_v<T> && !std::is_const_v<T> && requires {
  { Element<T>::kDtype } -> std::convertible_to<Dtype>;
} && Element<T>::kDtype.bits * Element<T>::kDtype.lanes == 8 * sizeof(T);

/// The element type for which the C++ type T stands.
template <IsElement T>
inline constexpr Dtype kDtypeOf = Element<T>::kDtype;

TENON_CPP_END

#endif
