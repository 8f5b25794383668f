// The words of a code file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "script/source.h"

namespace tenon::script {

enum class TokenKind : uint8_t {
  kEnd,      // of the text
  kError,    // what no token begins with; the lexer has said why
  kNewline,  // the end of a line that is a statement's last; where the next line is indented
             // deeper, kIndent stands in its place
  kIndent,
  kDedent,
  kName,
  kNumber,
  kString,
  kTypeComment,  // `# type:`, whose rest is tokens too
  // Keywords.
  kDef,
  kClass,
  kImport,
  kIf,
  kElif,
  kElse,
  kWhile,
  kFor,
  kIn,
  kNotIn,
  kIs,
  kIsNot,
  kNot,
  kAnd,
  kOr,
  kReturn,
  kRaise,
  kAssert,
  kBreak,
  kContinue,
  kPass,
  kDel,
  kGlobal,
  kWith,
  kAs,
  kTrue,
  kFalse,
  kNone,
  kNoneType,
  kEllipsisName,
  // Punctuation.
  kOpenParen,
  kCloseParen,
  kOpenBracket,
  kCloseBracket,
  kOpenBrace,
  kCloseBrace,
  kComma,
  kColon,
  kDot,
  kDots,
  kArrow,
  kAssign,
  kPlus,
  kMinus,
  kStar,
  kStarStar,
  kSlash,
  kSlashSlash,
  kPercent,
  kAt,
  kAmpersand,
  kBar,
  kCaret,
  kTilde,
  kLeftShift,
  kRightShift,
  kLess,
  kGreater,
  kLessEqual,
  kGreaterEqual,
  kEqual,
  kNotEqual,
  kPlusAssign,
  kMinusAssign,
  kStarAssign,
  kSlashAssign,
  kPercentAssign,
  kAmpersandAssign,
  kBarAssign,
  kCaretAssign,
  kLeftShiftAssign,
  kRightShiftAssign,
  kStarStarAssign,
  kQuestion,          // with no use in the language
  kExclamation,       // likewise
  kLessEqualGreater,  // `<=>`, likewise
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  // Of kNewline, kIndent, kDedent and kEnd the end of the line before, so that an error stands
  // where something is missing; of kIndent the blanks of its line.
  Range range;
};

// The keyword's kind, or kName.
TokenKind word_kind(std::string_view word) noexcept;

// The longest operator or bracket that `text` begins with; no bytes: none.
struct Punctuation {
  TokenKind kind = TokenKind::kError;
  size_t nbytes = 0;
};
Punctuation punctuation_at(std::string_view text) noexcept;

// How an error calls a token of that kind: "')'", "a name", "the end of the line".
std::string_view token_text(TokenKind kind) noexcept;

// `name` could be written as a variable or an attribute: letters, digits and '_', and no keyword.
bool is_identifier(std::string_view name) noexcept;

}  // namespace tenon::script
