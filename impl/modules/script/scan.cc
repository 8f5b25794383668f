#include "modules/script/scan.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>

namespace tenon::script {
namespace {

constexpr bool is_hex_digit(char c) noexcept {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

template <typename Predicate>
size_t count_while(std::string_view text, size_t at, Predicate holds) noexcept {
  size_t end = at;
  while (end < text.size() && holds(text[end])) ++end;
  return end - at;
}

char at_or_nul(std::string_view text, size_t at) noexcept {
  return at < text.size() ? text[at] : '\0';
}

// The number of bytes of an exponent, `[eEpP][+-]digits`, at `at`. 0: there is none.
size_t exponent_nbytes(std::string_view text, size_t at, char lower) noexcept {
  const char c = at_or_nul(text, at);
  if (c != lower && c != lower - 'a' + 'A') return 0;
  const size_t sign = at_or_nul(text, at + 1) == '+' || at_or_nul(text, at + 1) == '-' ? 1 : 0;
  const size_t digits = count_while(text, at + 1 + sign, is_digit);
  return digits == 0 ? 0 : 1 + sign + digits;
}

// The number of bytes of the digits at `at`, with at most one dot among them. 0: there is no digit.
template <typename Predicate>
size_t mantissa_nbytes(std::string_view text, size_t at, Predicate is_one) noexcept {
  const size_t whole = count_while(text, at, is_one);
  if (at_or_nul(text, at + whole) != '.') return whole;
  const size_t fraction = count_while(text, at + whole + 1, is_one);
  return whole + fraction == 0 ? 0 : whole + 1 + fraction;
}

bool is_hexadecimal(std::string_view text) noexcept {
  return text.starts_with("0x") || text.starts_with("0X");
}

// For a number that a double cannot hold: whether it is too large. Otherwise it is too small. The
// place of the first digit that is not 0 decides.
bool is_large(std::string_view mantissa_and_exponent, bool hexadecimal) noexcept {
  const size_t mark = std::min(mantissa_and_exponent.find_first_of(hexadecimal ? "pP" : "eE"),
                               mantissa_and_exponent.size());
  const std::string_view mantissa = mantissa_and_exponent.substr(0, mark);
  std::string_view exponent_text =
      mantissa_and_exponent.substr(std::min(mark + 1, mantissa_and_exponent.size()));
  if (exponent_text.starts_with('+')) exponent_text.remove_prefix(1);
  int64_t exponent = 0;
  if (std::from_chars(exponent_text.data(), exponent_text.data() + exponent_text.size(), exponent)
          .ec == std::errc::result_out_of_range) {
    return !exponent_text.starts_with('-');
  }
  const auto point = static_cast<int64_t>(std::min(mantissa.find('.'), mantissa.size()));
  const auto first =
      static_cast<int64_t>(std::min(mantissa.find_first_not_of("0."), mantissa.size()));
  // |point - first| is at most the length of the text, so nothing here overflows.
  const int64_t scale = (point - first) * (hexadecimal ? 4 : 1);
  return exponent > -scale;
}

}  // namespace

size_t number_nbytes(std::string_view text) noexcept {
  if (text.empty() || (!is_digit(text[0]) && text[0] != '.')) return 0;
  size_t nbytes = 0;
  if (const size_t hex = is_hexadecimal(text) ? mantissa_nbytes(text, 2, is_hex_digit) : 0;
      hex > 0) {
    nbytes = 2 + hex;
    nbytes += exponent_nbytes(text, nbytes, 'p');
  } else {
    nbytes = mantissa_nbytes(text, 0, is_digit);
    if (nbytes > 0) nbytes += exponent_nbytes(text, nbytes, 'e');
  }
  return nbytes > 0 && at_or_nul(text, nbytes) == 'j' ? nbytes + 1 : nbytes;
}

ExprKind number_kind(std::string_view text) noexcept {
  if (text.find('j') != std::string_view::npos) return ExprKind::kComplex;
  return text.find_first_of(".eE") != std::string_view::npos ? ExprKind::kFloat : ExprKind::kInt;
}

std::optional<int64_t> int_value(std::string_view text) noexcept {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  int base = 10;
  if (is_hexadecimal(text)) {
    base = 16;
    text.remove_prefix(2);
  } else if (text.starts_with('0')) {
    base = 8;
  }
  uint64_t magnitude = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), magnitude, base).ec ==
      std::errc::result_out_of_range)
    return std::nullopt;
  constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (magnitude > kMax + (negative ? 1 : 0)) return std::nullopt;
  return static_cast<int64_t>(negative ? ~magnitude + 1 : magnitude);
}

double float_value(std::string_view text) noexcept {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  if (text.ends_with('j')) text.remove_suffix(1);
  const bool hexadecimal = is_hexadecimal(text);
  if (hexadecimal) text.remove_prefix(2);
  double value = 0;
  const auto format = hexadecimal ? std::chars_format::hex : std::chars_format::general;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value, format);
  if (read.ec == std::errc::result_out_of_range) {
    // from_chars does not say whether the number is too large or too small.
    value = is_large(text, hexadecimal) ? std::numeric_limits<double>::infinity() : 0;
  }
  return negative ? -value : value;
}

size_t string_nbytes(std::string_view text) noexcept {
  const char quote = text[0];
  const bool triple = text.size() >= 3 && text[1] == quote && text[2] == quote;
  const size_t n_quotes = triple ? 3 : 1;
  for (size_t at = n_quotes; at + n_quotes <= text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == '\n' && !triple) {
      return 0;
    } else if (text[at] == quote && (!triple || (text[at + 1] == quote && text[at + 2] == quote))) {
      return at + n_quotes;
    }
  }
  return 0;
}

bool append_string_value(std::string_view literal, std::string& value, BadEscape& bad) {
  const bool triple = literal.size() >= 6 && literal[1] == literal[0] && literal[2] == literal[0];
  const size_t n_quotes = triple ? 3 : 1;
  const size_t end = literal.size() - n_quotes;
  for (size_t at = n_quotes; at < end; ++at) {
    if (literal[at] != '\\') {
      value += literal[at];
      continue;
    }
    const char escaped = literal[++at];
    switch (escaped) {
      case '\\':
      case '\'':
      case '"':
      case '\n': value += escaped; continue;
      case 'a': value += '\a'; continue;
      case 'b': value += '\b'; continue;
      case 'f': value += '\f'; continue;
      case 'n': value += '\n'; continue;
      case 't': value += '\t'; continue;
      case 'v': value += '\v'; continue;
      default: break;
    }
    unsigned octal = 0;
    size_t digits = 0;
    while (digits < 3 && at + digits < end && literal[at + digits] >= '0' &&
           literal[at + digits] <= '7') {
      octal = octal * 8 + static_cast<unsigned>(literal[at + digits++] - '0');
    }
    if (digits < 3 || octal > 0xff) {
      bad = {at - 1, 1 + std::max<size_t>(digits, 1)};
      return false;
    }
    value += static_cast<char>(octal);
    at += 2;
  }
  return true;
}

}  // namespace tenon::script
