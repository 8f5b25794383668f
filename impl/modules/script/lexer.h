// Lexer: splits the text of a code file into tokens for the parser, as PyTorch's importer does. A
// blank of any kind counts one column of indentation. Only a line feed ends a line. `not in` and
// `is not` are one word with exactly one space, and a letter may follow that word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "modules/script/source.h"
#include "modules/script/token.h"

namespace tenon::script {

class Lexer {
 public:
  // `source` must outlive the lexer.
  explicit Lexer(const Source& source);

  // Returns the next token. After kEnd or kError it returns the same token again.
  Token next();
  // The error behind a kError. The parser reports it when it reaches that token. It may have found
  // a mistake earlier in the text by then, because it looks one token ahead.
  const Status& error() const noexcept { return error_; }
  // The indentation, in columns, of the first line that is not empty and no comment. It is the
  // level of the file's items.
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
  // The columns of the blocks that the current line is in. The first element is indent().
  std::vector<uint32_t> indents_;
  // While closing_ is set, next() returns kDedent for each block that ended with the last line. The
  // next line has closing_columns_ columns, and the last line ended at closing_at_.
  bool closing_ = false;
  uint32_t closing_columns_ = 0;
  size_t closing_at_ = 0;
  bool failed_ = false;
  Token failure_;
  Status error_;
};

}  // namespace tenon::script
