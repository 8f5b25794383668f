// The words of one line of steps. A word of the wrong form throws an exception.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tenon/tenon.hpp>
#include <utility>
#include <vector>

class Words {
 public:
  explicit Words(const std::string& line) : words_(1) {
    for (size_t i = 0; i < line.size(); ++i) {
      if (line[i] == '\t') {
        words_.emplace_back();
      } else if (line[i] == '\\') {
        const char c = line.at(++i);
        words_.back() += c == 'n' ? '\n' : c == 't' ? '\t' : c == '0' ? '\0' : c;
      } else {
        words_.back() += line[i];
      }
    }
  }

  size_t size() const { return words_.size(); }
  const std::string& text(size_t at) const {
    if (at >= words_.size()) throw std::runtime_error("there is no word " + std::to_string(at));
    return words_[at];
  }
  // Returns nothing for an empty word.
  std::optional<std::string> given(size_t at) const {
    return text(at).empty() ? std::nullopt : std::optional(text(at));
  }
  std::vector<std::string> texts(size_t first) const {
    return {words_.begin() + static_cast<std::ptrdiff_t>(std::min(first, size())), words_.end()};
  }

  std::int64_t number(size_t at) const {
    size_t end = 0;
    const std::int64_t found = std::stoll(text(at), &end);
    if (end != text(at).size()) throw std::runtime_error(text(at) + " is no number");
    return found;
  }
  std::uint64_t size_at(size_t at) const { return static_cast<std::uint64_t>(number(at)); }
  std::uint32_t flag(size_t at, std::uint32_t flag) const { return number(at) != 0 ? flag : 0; }

  // Returns an empty list for "-".
  std::vector<std::int64_t> numbers(size_t at) const {
    std::vector<std::int64_t> found;
    if (text(at) == "-") return found;
    std::istringstream stream(text(at));
    for (std::string word; std::getline(stream, word, ',');) found.push_back(std::stoll(word));
    return found;
  }

  // Reads a float from the 16 hexadecimal digits of its bits.
  double floating(size_t at) const {
    size_t end = 0;
    const std::uint64_t bits = std::stoull(text(at), &end, 16);
    if (end != 16 || text(at).size() != 16)
      throw std::runtime_error(text(at) + " are no bits of a float");
    return std::bit_cast<double>(bits);
  }

  std::string bytes(size_t at) const {
    std::string found;
    for (size_t i = 0; i < text(at).size(); i += 2)
      found += static_cast<char>(std::stoi(text(at).substr(i, 2), nullptr, 16));
    return found;
  }

  tenon::ScalarType scalar_type(size_t at) const {
    const std::optional<tenon::ScalarType> found = tenon::scalar_type_of(text(at));
    if (!found) throw std::runtime_error("there is no element type " + text(at));
    return *found;
  }

  // Returns the object whose number the word has.
  template <class T>
  const T& of(const std::vector<T>& made, size_t at) const {
    return made.at(size_at(at));
  }

  template <class T>
  T named(const std::map<std::string, T>& names, size_t at) const {
    const auto found = names.find(text(at));
    if (found == names.end()) throw std::runtime_error("there is no " + text(at));
    return found->second;
  }

 private:
  std::vector<std::string> words_;
};
