// Scans numbers and strings in source text: how many bytes a literal has, and which value it stands
// for. The lexer, the parser and impl/modules/module call these functions. None of them depends on
// the locale.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "modules/script/ast.h"

namespace tenon::script {

// Whether `c` is a blank within a line.
constexpr bool is_blank(char c) noexcept {
  return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}
constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
constexpr bool is_name_start(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
constexpr bool is_name_part(char c) noexcept { return is_name_start(c) || is_digit(c); }

// The number of bytes of the number that `text` begins with. 0: there is none. A number is what
// strtod reads (hexadecimal too), with an optional 'j' after it.
size_t number_nbytes(std::string_view text) noexcept;
// Returns kInt, kFloat or kComplex. The letters in the number decide, as in PyTorch, so 0x1E is a
// float.
ExprKind number_kind(std::string_view text) noexcept;
// The value of a kInt. It may be hexadecimal, or octal after a leading 0. Reading stops at the
// first byte that is no digit of the base. Nothing: the value does not fit into 64 bits.
std::optional<int64_t> int_value(std::string_view text) noexcept;
// The value of a kFloat, or the imaginary part of a kComplex.
double float_value(std::string_view text) noexcept;

// The number of bytes of the string literal that `text` begins with, with its quotes. 0: the
// literal has no end.
size_t string_nbytes(std::string_view text) noexcept;

// An escape in a string literal that PyTorch does not read, as offset and length in the literal.
struct BadEscape {
  size_t begin = 0;
  size_t nbytes = 0;
};
// Appends the value of one string literal to `value`. False: `bad` is an escape in `literal` that
// PyTorch does not read.
bool append_string_value(std::string_view literal, std::string& value, BadEscape& bad);

}  // namespace tenon::script
