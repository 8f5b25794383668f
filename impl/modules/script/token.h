// Token: one word, literal or punctuation mark of a code file. The lexer makes tokens and the
// parser reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "modules/script/source.h"

namespace tenon::script {

enum class TokenKind : uint8_t {
  kEnd,    // the end of the text
  kError,  // a mistake in the text; Lexer::error() says what is wrong
  // The end of the last line of a statement. If the next line is indented deeper, there is a
  // kIndent and no kNewline.
  kNewline,
  kIndent,
  kDedent,
  kName,
  kNumber,
  kString,
  kTypeComment,  // `# type:` alone; the rest of the comment becomes tokens too
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
  kQuestion,          // has no use in the language
  kExclamation,       // has no use either
  kLessEqualGreater,  // `<=>`, has no use either
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  // The bytes of the token. kNewline and kDedent have no bytes and stand at the end of the
  // statement's last line, so that an error points to the place where something is missing. kIndent
  // has the blanks of its line. kEnd stands at the end of the text.
  Range range;
};

// Returns the kind of a keyword, and kName for any other word.
TokenKind word_kind(std::string_view word) noexcept;

// The longest operator or bracket that `text` begins with. `nbytes` is 0 if there is none.
struct Punctuation {
  TokenKind kind = TokenKind::kError;
  size_t nbytes = 0;
};
Punctuation punctuation_at(std::string_view text) noexcept;

// How an error calls a token of that kind: "')'", "a name", "the end of the line".
std::string_view token_text(TokenKind kind) noexcept;

// Whether code could have `name` as a variable or an attribute: it consists of letters, digits and
// '_', and is no keyword.
bool is_identifier(std::string_view name) noexcept;

}  // namespace tenon::script
