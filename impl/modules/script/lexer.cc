#include "modules/script/lexer.h"

#include <algorithm>

#include "modules/script/scan.h"

namespace tenon::script {
namespace {

constexpr std::string_view kTypeComment = "# type:";

constexpr uint32_t offset(size_t at) noexcept { return static_cast<uint32_t>(at); }

}  // namespace

Lexer::Lexer(const Source& source) : source_(source), text_(source.text()) {
  indents_.push_back(next_line());
}

Token Lexer::next() {
  if (failed_) return failure_;
  if (closing_) {
    if (indents_.back() == closing_columns_) {
      closing_ = false;
    } else {
      indents_.pop_back();
      if (indents_.empty() || indents_.back() < closing_columns_) {
        return fail(Code::kCorrupt,
                    {offset(line_begin_), offset(line_begin_ + std::max(closing_columns_, 1U))},
                    format("no line above is indented by %u", closing_columns_));
      }
      return {TokenKind::kDedent, {offset(closing_at_), offset(closing_at_)}};
    }
  }
  for (;;) {
    while (!at_end() && is_blank(text_[at_])) ++at_;
    if (at_end()) return {TokenKind::kEnd, {offset(at_), offset(at_)}};
    if (starts("\\\n")) {
      at_ += 2;
    } else if (text_[at_] == '\n' && nesting_ > 0) {
      ++at_;
    } else if (text_[at_] == '#' && !starts(kTypeComment)) {
      skip_comment();
    } else {
      break;
    }
  }
  const char c = text_[at_];
  if (c == '\n') return line_end();
  if (c == '#') return take(TokenKind::kTypeComment, kTypeComment.size());
  if (const size_t nbytes = number_nbytes(text_.substr(at_)); nbytes > 0)
    return take(TokenKind::kNumber, nbytes);
  if (c == '"' || c == '\'') return string();
  if (is_name_start(c)) return name();
  const Punctuation found = punctuation_at(text_.substr(at_));
  if (found.nbytes == 0) return unknown();
  if (found.kind == TokenKind::kOpenParen || found.kind == TokenKind::kOpenBracket ||
      found.kind == TokenKind::kOpenBrace)
    ++nesting_;
  if (found.kind == TokenKind::kCloseParen || found.kind == TokenKind::kCloseBracket ||
      found.kind == TokenKind::kCloseBrace) {
    // The parser reports a closing bracket too many.
    if (nesting_ > 0) --nesting_;
  }
  return take(found.kind, found.nbytes);
}

Token Lexer::take(TokenKind kind, size_t nbytes) noexcept {
  const size_t begin = at_;
  at_ += nbytes;
  return {kind, {offset(begin), offset(at_)}};
}

Token Lexer::fail(Code code, Range range, const std::string& what) {
  range.end = std::min(range.end, offset(text_.size()));
  error_ = source_.error(code, range, what);
  failed_ = true;
  failure_ = {TokenKind::kError, range};
  return failure_;
}

Token Lexer::name() {
  size_t end = at_ + 1;
  while (end < text_.size() && is_name_part(text_[end])) ++end;
  const std::string_view word = text_.substr(at_, end - at_);
  // The importer wants exactly one space, and does not look at the next character.
  if (word == "not" && starts("not in")) return take(TokenKind::kNotIn, 6);
  if (word == "is" && starts("is not")) return take(TokenKind::kIsNot, 6);
  return take(word_kind(word), word.size());
}

Token Lexer::string() {
  const size_t nbytes = string_nbytes(text_.substr(at_));
  if (nbytes == 0)
    return fail(Code::kCorrupt, {offset(at_), offset(at_ + 1)}, "this string does not end");
  return take(TokenKind::kString, nbytes);
}

Token Lexer::unknown() {
  const auto c = static_cast<unsigned char>(text_[at_]);
  Range range{offset(at_), offset(at_ + 1)};
  if (c == ';')
    return fail(Code::kUnsupported, range, "';' is not read: a statement has its own line");
  if (c == '\\') return fail(Code::kCorrupt, range, "only a line end may follow '\\'");
  if (c < 0x80)
    return fail(Code::kCorrupt, range,
                c > 0x20 && c < 0x7f ? format("'%c' has no meaning", c)
                                     : format("byte 0x%02x has no meaning", c));
  while (range.end < text_.size() && static_cast<unsigned char>(text_[range.end]) >= 0x80)
    ++range.end;
  return fail(Code::kUnsupported, range,
              "letters beyond ASCII are read in strings and comments only");
}

void Lexer::skip_comment() noexcept { at_ = std::min(text_.find('\n', at_), text_.size()); }

// Called at the beginning of a line. Skips empty lines and comments up to the first other line, and
// returns its indentation in columns.
uint32_t Lexer::next_line() noexcept {
  for (;;) {
    line_begin_ = at_;
    while (!at_end() && is_blank(text_[at_])) ++at_;
    const uint32_t columns = offset(at_ - line_begin_);
    if (!at_end() && text_[at_] == '#' && !starts(kTypeComment)) skip_comment();
    if (at_end() || text_[at_] != '\n') return columns;
    ++at_;
  }
}

Token Lexer::line_end() {
  const size_t end = at_++;
  uint32_t columns = next_line();
  // Blanks at the end of the text are no indentation. The text may come from a literal that ends
  // with some.
  if (at_end()) columns = indents_.front();
  if (columns > indents_.back()) {
    indents_.push_back(columns);
    return {TokenKind::kIndent, {offset(line_begin_), offset(line_begin_ + columns)}};
  }
  closing_ = true;
  closing_columns_ = columns;
  closing_at_ = end;
  return {TokenKind::kNewline, {offset(end), offset(end)}};
}

}  // namespace tenon::script
