// Arithmetic that reports an overflow. All computations with sizes that came from outside use it.
//
// The checked functions return false if the exact result does not fit into the type. `*out` must
// not be used then.
#pragma once

#include <cstdint>

namespace tenon {

template <typename T>
[[nodiscard]] inline bool checked_add(T a, T b, T* out) noexcept {
  return !__builtin_add_overflow(a, b, out);
}

template <typename T>
[[nodiscard]] inline bool checked_mul(T a, T b, T* out) noexcept {
  return !__builtin_mul_overflow(a, b, out);
}

// `value` rounded up to a multiple of `unit`, a power of two.
[[nodiscard]] inline bool checked_round_up(uint64_t value, uint64_t unit, uint64_t* out) noexcept {
  uint64_t sum = 0;
  if (!checked_add(value, unit - 1, &sum)) return false;
  *out = sum & ~(unit - 1);
  return true;
}

// The same without a check, for values that cannot overflow.
inline uint64_t round_up(uint64_t value, uint64_t unit) noexcept {
  return (value + unit - 1) & ~(unit - 1);
}

inline bool is_power_of_two(uint64_t value) noexcept {
  return value != 0 && (value & (value - 1)) == 0;
}

// Whether [offset, offset + nbytes) lies in [0, total).
[[nodiscard]] inline bool range_inside(uint64_t offset, uint64_t nbytes, uint64_t total) noexcept {
  return offset <= total && nbytes <= total - offset;
}

}  // namespace tenon
