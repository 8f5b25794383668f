// How far a number, a string or a name reaches, and what literals stand for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "script/ast.h"

namespace tenon::script {

// Blanks within a line; locale-free, as all of this.
constexpr bool is_blank(char c) noexcept {
  return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}
constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
constexpr bool is_name_start(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
constexpr bool is_name_part(char c) noexcept { return is_name_start(c) || is_digit(c); }

// Bytes of the number that `text` begins with, 0 for none: what strtod reads (hexadecimal too), and
// a 'j' after it.
size_t number_nbytes(std::string_view text) noexcept;
// kInt, kFloat or kComplex: by the letters in it, as PyTorch does (so that 0x1E is a float).
ExprKind number_kind(std::string_view text) noexcept;
// The value of a kInt: hexadecimal and, after a leading 0, octal too, up to the first byte that
// does not belong. None: beyond 64 bits.
std::optional<int64_t> int_value(std::string_view text) noexcept;
// The value of a kFloat, or the imaginary part of a kComplex.
double float_value(std::string_view text) noexcept;

// Bytes of the string literal that `text` begins with, quotes included; 0: it does not end.
size_t string_nbytes(std::string_view text) noexcept;

// What one string literal stands for, appended to `value`. False with the escape that PyTorch does
// not read, as offset and length in `literal`.
struct BadEscape {
  size_t begin = 0;
  size_t nbytes = 0;
};
bool append_string_value(std::string_view literal, std::string& value, BadEscape& bad);

}  // namespace tenon::script
