// Source: the text of a code file, positions in the text, and errors that name them. The lexer, the
// parser, the checker and the compiler report their errors through it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tenon::script {

// Byte offsets in a Source; `end` is one past the last byte.
struct Range {
  uint32_t begin = 0;
  uint32_t end = 0;
  uint32_t nbytes() const noexcept { return end - begin; }
  bool operator==(const Range&) const noexcept = default;
};

// Line and column count from 1. A column is one byte.
struct Position {
  uint32_t line = 1;
  uint32_t column = 1;
};

// A Source never changes, and any thread may use it. Moving it keeps the ranges valid, but not the
// views of its texts.
class Source {
 public:
  // `name` is what errors call the file: "code/__torch__.py". `first_line` is the number of the
  // text's first line.
  Source(std::string name, std::string text, uint32_t first_line = 1);

  const std::string& name() const noexcept { return name_; }
  std::string_view text() const noexcept { return text_; }
  std::string_view text(Range range) const noexcept {
    return std::string_view(text_).substr(range.begin, range.nbytes());
  }

  Position position(uint32_t offset) const noexcept;

  // Makes the error "<name>:<line>:<column>: <what>" with the details file, line, column and
  // excerpt. The excerpt is the line and, below it, carets under the range. A long line is cut to
  // the part near the range.
  Status error(Code code, Range range, const std::string& what) const;

 private:
  std::string excerpt(Range range) const;

  std::string name_;
  std::string text_;
  uint32_t first_line_;
  std::vector<uint32_t> line_begins_;
};

}  // namespace tenon::script
