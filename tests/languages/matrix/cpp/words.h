// Words of the driver's lines, and the pattern (tests/languages/matrix/README.md).
#ifndef TENON_TESTS_MATRIX_CPP_WORDS_H
#define TENON_TESTS_MATRIX_CPP_WORDS_H

#include <cstddef>
#include <cstdint>
#include <span>
#include <sstream>
#include <string>
#include <tenon/tenon.hpp>
#include <vector>

extern "C" {
#include "../c/wire.h"
}

using Words = std::vector<std::string>;
using Bytes = std::vector<std::byte>;

inline std::vector<std::int64_t> numbers_of(const std::string& word, char separator = ',') {
  std::vector<std::int64_t> numbers;
  std::stringstream parts(word == "-" ? "" : word);
  for (std::string part; std::getline(parts, part, separator);) numbers.push_back(std::stoll(part));
  return numbers;
}

inline std::string word_of(std::span<const std::int64_t> numbers) {
  std::string word;
  for (const std::int64_t number : numbers)
    word += (word.empty() ? "" : ",") + std::to_string(number);
  return word.empty() ? "-" : word;
}

inline tenon::Dtype dtype_of(const std::string& word) {
  const std::vector<std::int64_t> parts = numbers_of(word, ':');
  return {static_cast<unsigned>(parts.at(0)), static_cast<unsigned>(parts.at(1)),
          static_cast<unsigned>(parts.at(2))};
}

inline std::string hex_of(std::span<const std::byte> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const std::byte byte : bytes) {
    hex += kDigits[std::to_integer<unsigned>(byte) >> 4];
    hex += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return hex.empty() ? "-" : hex;
}

inline Bytes bytes_of(const std::string& hex) {
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

inline Bytes pattern(unsigned seed, std::uint64_t nbytes) {
  Bytes bytes;
  for (std::uint64_t i = 0; i < nbytes; ++i)
    bytes.push_back(static_cast<std::byte>(wire_pattern(seed, i)));
  return bytes;
}

#endif
