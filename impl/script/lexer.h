// From text to tokens, as PyTorch's importer reads it: a blank of any kind counts one column of
// indentation, only a line feed ends a line, `not in` and `is not` are one word with one space, and
// what follows that word may be a letter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "script/source.h"
#include "script/token.h"

namespace tenon::script {

class Lexer {
 public:
  explicit Lexer(const Source& source);

  // The next token; after kEnd and kError that one again. What kError stands for is in error(): a
  // mistake earlier in the text is reported first, because the parser has not come here yet.
  Token next();
  const Status& error() const noexcept { return error_; }
  // Columns of the first line that has something, from which all others are counted.
  uint32_t indent() const noexcept { return indents_.front(); }

 private:
  bool starts(std::string_view word) const noexcept { return text_.substr(at_).starts_with(word); }
  bool at_end() const noexcept { return at_ >= text_.size(); }
  Token take(TokenKind kind, size_t nbytes) noexcept;
  Token fail(Code code, Range range, const std::string& what);
  Token name();
  Token string();
  Token unknown();
  Token line_end();
  void skip_comment() noexcept;
  uint32_t next_line() noexcept;

  const Source& source_;
  std::string_view text_;
  size_t at_ = 0;
  size_t line_begin_ = 0;
  size_t nesting_ = 0;
  // Of the blocks that the current line is in, the text's own indent first.
  std::vector<uint32_t> indents_;
  // Blocks that ended with a line, of which no token has told yet; and the column of the line after
  // them.
  bool closing_ = false;
  uint32_t closing_columns_ = 0;
  size_t closing_at_ = 0;
  bool failed_ = false;
  Token failure_;
  Status error_;
};

}  // namespace tenon::script
