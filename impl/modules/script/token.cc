#include "modules/script/token.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "modules/script/scan.h"

namespace tenon::script {
namespace {

struct Word {
  std::string_view text;
  TokenKind kind;
};

constexpr auto kKeywords = std::to_array<Word>({
    {"def", TokenKind::kDef},
    {"class", TokenKind::kClass},
    {"import", TokenKind::kImport},
    {"if", TokenKind::kIf},
    {"elif", TokenKind::kElif},
    {"else", TokenKind::kElse},
    {"while", TokenKind::kWhile},
    {"for", TokenKind::kFor},
    {"in", TokenKind::kIn},
    {"is", TokenKind::kIs},
    {"not", TokenKind::kNot},
    {"and", TokenKind::kAnd},
    {"or", TokenKind::kOr},
    {"return", TokenKind::kReturn},
    {"raise", TokenKind::kRaise},
    {"assert", TokenKind::kAssert},
    {"break", TokenKind::kBreak},
    {"continue", TokenKind::kContinue},
    {"pass", TokenKind::kPass},
    {"del", TokenKind::kDel},
    {"global", TokenKind::kGlobal},
    {"with", TokenKind::kWith},
    {"as", TokenKind::kAs},
    {"True", TokenKind::kTrue},
    {"False", TokenKind::kFalse},
    {"None", TokenKind::kNone},
    {"NoneType", TokenKind::kNoneType},
    {"Ellipsis", TokenKind::kEllipsisName},
});

// The words are sorted by the first byte. A longer word stands before the shorter words that it
// begins with.
constexpr auto kPunctuation = std::to_array<Word>({
    {"!=", TokenKind::kNotEqual},
    {"!", TokenKind::kExclamation},
    {"%=", TokenKind::kPercentAssign},
    {"%", TokenKind::kPercent},
    {"&=", TokenKind::kAmpersandAssign},
    {"&", TokenKind::kAmpersand},
    {"(", TokenKind::kOpenParen},
    {")", TokenKind::kCloseParen},
    {"**=", TokenKind::kStarStarAssign},
    {"**", TokenKind::kStarStar},
    {"*=", TokenKind::kStarAssign},
    {"*", TokenKind::kStar},
    {"+=", TokenKind::kPlusAssign},
    {"+", TokenKind::kPlus},
    {",", TokenKind::kComma},
    {"-=", TokenKind::kMinusAssign},
    {"->", TokenKind::kArrow},
    {"-", TokenKind::kMinus},
    {"...", TokenKind::kDots},
    {".", TokenKind::kDot},
    {"//", TokenKind::kSlashSlash},
    {"/=", TokenKind::kSlashAssign},
    {"/", TokenKind::kSlash},
    {":", TokenKind::kColon},
    {"<<=", TokenKind::kLeftShiftAssign},
    {"<=>", TokenKind::kLessEqualGreater},
    {"<<", TokenKind::kLeftShift},
    {"<=", TokenKind::kLessEqual},
    {"<", TokenKind::kLess},
    {"==", TokenKind::kEqual},
    {"=", TokenKind::kAssign},
    {">>=", TokenKind::kRightShiftAssign},
    {">=", TokenKind::kGreaterEqual},
    {">>", TokenKind::kRightShift},
    {">", TokenKind::kGreater},
    {"?", TokenKind::kQuestion},
    {"@", TokenKind::kAt},
    {"[", TokenKind::kOpenBracket},
    {"]", TokenKind::kCloseBracket},
    {"^=", TokenKind::kCaretAssign},
    {"^", TokenKind::kCaret},
    {"{", TokenKind::kOpenBrace},
    {"|=", TokenKind::kBarAssign},
    {"|", TokenKind::kBar},
    {"}", TokenKind::kCloseBrace},
    {"~", TokenKind::kTilde},
});

// For each first byte: the index in kPunctuation of the first word that begins with it.
constexpr size_t kNoWord = kPunctuation.size();
constexpr auto kFirstWord = [] {
  std::array<size_t, 128> first{};
  first.fill(kNoWord);
  for (size_t i = kPunctuation.size(); i-- > 0;)
    first[static_cast<unsigned char>(kPunctuation[i].text[0])] = i;
  return first;
}();

// For each first letter: a bit for each size of a keyword with that letter. Most words of a program
// are no keywords, and this finds most of them without a search.
constexpr std::array<uint16_t, 128> keyword_sizes() {
  std::array<uint16_t, 128> sizes{};
  for (const Word& word : kKeywords) {
    uint16_t& of_letter = sizes[static_cast<unsigned char>(word.text.front())];
    of_letter = static_cast<uint16_t>(of_letter | 1U << word.text.size());
  }
  return sizes;
}
constexpr std::array<uint16_t, 128> kKeywordSizes = keyword_sizes();

}  // namespace

TokenKind word_kind(std::string_view word) noexcept {
  const auto first = static_cast<unsigned char>(word.front());
  if (word.size() >= 16 || first >= kKeywordSizes.size() ||
      (kKeywordSizes[first] >> word.size() & 1) == 0)
    return TokenKind::kName;
  const auto* const keyword = std::find_if(kKeywords.begin(), kKeywords.end(),
                                           [&](const Word& k) { return k.text == word; });
  return keyword != kKeywords.end() ? keyword->kind : TokenKind::kName;
}

bool is_identifier(std::string_view name) noexcept {
  return !name.empty() && is_name_start(name[0]) &&
         std::all_of(name.begin(), name.end(), is_name_part) && word_kind(name) == TokenKind::kName;
}

Punctuation punctuation_at(std::string_view text) noexcept {
  const auto c = static_cast<unsigned char>(text[0]);
  if (c >= kFirstWord.size()) return {};
  for (size_t i = kFirstWord[c]; i < kPunctuation.size() && kPunctuation[i].text[0] == text[0];
       ++i) {
    if (text.starts_with(kPunctuation[i].text))
      return {kPunctuation[i].kind, kPunctuation[i].text.size()};
  }
  return {};
}

std::string_view token_text(TokenKind kind) noexcept {
  switch (kind) {
    case TokenKind::kEnd: return "the end of the text";
    case TokenKind::kError: return "what cannot be read";
    case TokenKind::kNewline: return "the end of the line";
    case TokenKind::kIndent: return "a deeper indent";
    case TokenKind::kDedent: return "the end of the block";
    case TokenKind::kName: return "a name";
    case TokenKind::kNumber: return "a number";
    case TokenKind::kString: return "a string";
    case TokenKind::kTypeComment: return "a type comment";
    case TokenKind::kNotIn: return "not in";
    case TokenKind::kIsNot: return "is not";
    default: break;
  }
  for (const Word& word : kKeywords) {
    if (word.kind == kind) return word.text;
  }
  for (const Word& word : kPunctuation) {
    if (word.kind == kind) return word.text;
  }
  return "";
}

}  // namespace tenon::script
