// Element types: DLPack's numbers, their names, and the C++ types that stand for them.
#ifndef TENON_CPP_DTYPE_HPP
#define TENON_CPP_DTYPE_HPP

#include <tenon/tensor.h>
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

/// An element type in DLPack's numbers: code (TENON_DTYPE_*), bits of one lane, lanes.
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

namespace detail {

struct NamedDtype {
  std::string_view name;
  unsigned code;
  unsigned bits;
};
inline constexpr NamedDtype kNamedDtypes[] = {
    {"bool", TENON_DTYPE_BOOL, 8},
    {"int1", TENON_DTYPE_INT, 1},
    {"int2", TENON_DTYPE_INT, 2},
    {"int4", TENON_DTYPE_INT, 4},
    {"int8", TENON_DTYPE_INT, 8},
    {"int16", TENON_DTYPE_INT, 16},
    {"int32", TENON_DTYPE_INT, 32},
    {"int64", TENON_DTYPE_INT, 64},
    {"uint1", TENON_DTYPE_UINT, 1},
    {"uint2", TENON_DTYPE_UINT, 2},
    {"uint4", TENON_DTYPE_UINT, 4},
    {"uint8", TENON_DTYPE_UINT, 8},
    {"uint16", TENON_DTYPE_UINT, 16},
    {"uint32", TENON_DTYPE_UINT, 32},
    {"uint64", TENON_DTYPE_UINT, 64},
    {"float16", TENON_DTYPE_FLOAT, 16},
    {"float32", TENON_DTYPE_FLOAT, 32},
    {"float64", TENON_DTYPE_FLOAT, 64},
    {"bfloat16", TENON_DTYPE_BFLOAT, 16},
    {"complex32", TENON_DTYPE_COMPLEX, 32},
    {"complex64", TENON_DTYPE_COMPLEX, 64},
    {"complex128", TENON_DTYPE_COMPLEX, 128},
    {"float8_e3m4", TENON_DTYPE_FLOAT8_E3M4, 8},
    {"float8_e4m3", TENON_DTYPE_FLOAT8_E4M3, 8},
    {"float8_e4m3b11fnuz", TENON_DTYPE_FLOAT8_E4M3B11FNUZ, 8},
    {"float8_e4m3fn", TENON_DTYPE_FLOAT8_E4M3FN, 8},
    {"float8_e4m3fnuz", TENON_DTYPE_FLOAT8_E4M3FNUZ, 8},
    {"float8_e5m2", TENON_DTYPE_FLOAT8_E5M2, 8},
    {"float8_e5m2fnuz", TENON_DTYPE_FLOAT8_E5M2FNUZ, 8},
    {"float8_e8m0fnu", TENON_DTYPE_FLOAT8_E8M0FNU, 8},
    {"float6_e2m3fn", TENON_DTYPE_FLOAT6_E2M3FN, 6},
    {"float6_e3m2fn", TENON_DTYPE_FLOAT6_E3M2FN, 6},
    {"float4_e2m1fn", TENON_DTYPE_FLOAT4_E2M1FN, 4},
};

}  // namespace detail

/// The name of an element type, such as "float32", "bfloat16" or, with more lanes than one, "uint8x4".
inline std::string name_of(Dtype dtype) {
  std::string name = "dtype_" + std::to_string(dtype.code) + "_" + std::to_string(dtype.bits);
  for (const detail::NamedDtype& each : detail::kNamedDtypes) {
    if (each.code == dtype.code && each.bits == dtype.bits) name = each.name;
  }
  return dtype.lanes == 1 ? name : name + "x" + std::to_string(dtype.lanes);
}

/// The element type of that name; nothing if there is none. The inverse of name_of for every type that has a name.
inline std::optional<Dtype> dtype_of(std::string_view name) {
  for (const detail::NamedDtype& each : detail::kNamedDtypes) {
    if (each.name == name) return Dtype(each.code, each.bits);
    if (!name.starts_with(each.name) || name.size() < each.name.size() + 2 || name[each.name.size()] != 'x') continue;
    unsigned lanes = 0;
    for (const char digit : name.substr(each.name.size() + 1)) {
      if (digit < '0' || digit > '9') return std::nullopt;
      lanes = lanes * 10 + static_cast<unsigned>(digit - '0');
      if (lanes > 0xFFFF) return std::nullopt;
    }
    if (lanes > 0) return Dtype(each.code, each.bits, lanes);
  }
  return std::nullopt;
}

/// An element of a bool tensor: one byte, which a peer may have set to anything. C++ may not read such a byte as bool, so it is this.
enum class Bool : std::uint8_t { kFalse = 0, kTrue = 1 };
constexpr bool is_true(Bool value) noexcept { return value != Bool::kFalse; }

/// The element type for which a C++ type stands; specialise it for types of your own, such as a half:
///     template <> struct tenon::Element<my::half> { static constexpr tenon::Dtype kDtype{TENON_DTYPE_FLOAT, 16}; };
/// It must be trivially copyable, of that size, and fit for any bits that a peer may write.
template <class T>
struct Element;

template <class T>
  requires(std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char> && !std::same_as<T, wchar_t> && !std::same_as<T, char8_t> &&
           !std::same_as<T, char16_t> && !std::same_as<T, char32_t>)
struct Element<T> {
  static constexpr Dtype kDtype{std::signed_integral<T> ? unsigned{TENON_DTYPE_INT} : unsigned{TENON_DTYPE_UINT}, unsigned{8 * sizeof(T)}};
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

/// What view, view_mut and the makers of tensors take for an element.
template <class T>
concept IsElement = std::is_trivially_copyable_v<T> && !std::is_const_v<T> && requires {
  { Element<T>::kDtype } -> std::convertible_to<Dtype>;
} && Element<T>::kDtype.bits * Element<T>::kDtype.lanes == 8 * sizeof(T);

/// The element type of a C++ type.
template <IsElement T>
inline constexpr Dtype kDtypeOf = Element<T>::kDtype;

TENON_CPP_END

#endif
