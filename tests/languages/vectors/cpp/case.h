// One case in the flat form (tests/languages/vectors/README.md, "cases.txt"), and the comparison
// with its expectation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Why a case failed.
struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Case {
 public:
  // Reads the next case of a file. Returns false at the end.
  bool read(std::istream& file);

  const std::vector<std::pair<std::string, std::string>>& lines() const { return lines_; }
  std::optional<std::string> find(const std::string& key) const;
  std::string text(const std::string& key) const;
  std::int64_t number(const std::string& key) const { return std::stoll(text(key)); }
  std::int64_t number_or(const std::string& key, std::int64_t otherwise) const;
  // Returns nothing if the key is absent or null.
  std::optional<std::vector<std::int64_t>> numbers(const std::string& key) const;
  std::vector<std::string> texts(const std::string& key) const;

  // Compares bytes with expect.bytes, except those under expect.mask.
  void same_bytes(std::span<const std::byte> got) const;

 private:
  std::vector<std::pair<std::string, std::string>> lines_;
};

std::vector<std::byte> bytes_of_hex(std::string_view hex);
std::string hex_of(std::span<const std::byte> bytes);
std::string text_of(const std::vector<std::byte>& bytes);

inline std::string shown(const std::string& value) { return value; }
inline std::string shown(std::int64_t value) { return std::to_string(value); }
inline std::string shown(const std::vector<std::int64_t>& values) {
  std::string all;
  for (const std::int64_t value : values) all += std::to_string(value) + " ";
  return all;
}

template <class Value>
void same(const std::string& what, const Value& got, const Value& wanted) {
  if (!(got == wanted))
    throw Wrong(what + " is " + shown(got).substr(0, 200) + ", not " +
                shown(wanted).substr(0, 200));
}
