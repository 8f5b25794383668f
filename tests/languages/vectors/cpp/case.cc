#include "case.h"

#include <sstream>

bool Case::read(std::istream& file) {
  lines_.clear();
  std::string line;
  while (std::getline(file, line) && !line.empty()) {
    const std::size_t space = line.find(' ');
    if (space == std::string::npos) throw std::runtime_error("no line of `key value`: " + line);
    lines_.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  return !lines_.empty();
}

std::optional<std::string> Case::find(const std::string& key) const {
  for (const auto& [name, value] : lines_) {
    if (name == key) return value;
  }
  return std::nullopt;
}

std::string Case::text(const std::string& key) const {
  const std::optional<std::string> value = find(key);
  if (!value) throw std::runtime_error("a case lacks " + key);
  return *value;
}

std::int64_t Case::number_or(const std::string& key, std::int64_t otherwise) const {
  return find(key) ? number(key) : otherwise;
}

std::vector<std::string> Case::texts(const std::string& key) const {
  std::vector<std::string> parts;
  std::stringstream all(text(key));
  std::string part;
  while (std::getline(all, part, ',')) parts.push_back(part);
  // An empty text at the end counts too.
  if (text(key).ends_with(',')) parts.emplace_back();
  return parts;
}

std::optional<std::vector<std::int64_t>> Case::numbers(const std::string& key) const {
  if (!find(key) || text(key) == "-") return std::nullopt;
  std::vector<std::int64_t> numbers;
  for (const std::string& part : texts(key)) numbers.push_back(std::stoll(part));
  return numbers;
}

void Case::same_bytes(std::span<const std::byte> got) const {
  const std::vector<std::byte> wanted = bytes_of_hex(text("expect.bytes"));
  same<std::int64_t>("length", static_cast<std::int64_t>(got.size()),
                     static_cast<std::int64_t>(wanted.size()));
  std::vector<bool> hidden(got.size());
  if (find("expect.mask")) {
    for (const std::string& range : texts("expect.mask")) {
      const std::size_t end = std::stoul(range.substr(range.find(':') + 1));
      for (std::size_t i = std::stoul(range); i < end && i < hidden.size(); ++i) hidden[i] = true;
    }
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!hidden[i] && got[i] != wanted[i])
      same("byte " + std::to_string(i), hex_of(got.subspan(i, 1)),
           hex_of(std::span(wanted).subspan(i, 1)));
  }
}

std::vector<std::byte> bytes_of_hex(std::string_view hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  return bytes;
}

std::string hex_of(std::span<const std::byte> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const std::byte byte : bytes) {
    hex += kDigits[std::to_integer<unsigned>(byte) >> 4];
    hex += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return hex;
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
