// The part of Parser that makes the errors for text that it cannot read. If the text is a feature
// of Python that PyTorch's importer does not read, the error names the feature.
#include "modules/script/parser_impl.h"
#include "modules/script/scan.h"

namespace tenon::script {
namespace {

// Features of Python that the importer lacks, by the word at the mistake or just before it. These
// words are plain names to the importer: `try = 1` is fine.
struct Refused {
  std::string_view word;
  const char* what;
};
constexpr Refused kRefused[] = {
    {"lambda", "a lambda is not read: write a function"},
    {"try", "try is not read: nothing can be caught"},
    {"except", "except is not read: nothing can be caught"},
    {"finally", "finally is not read: nothing can be caught"},
    {"yield", "yield is not read: there are no generators"},
    {"async", "async is not read: use fork"},
    {"await", "await is not read: use fork and wait"},
    {"from", "from is not read: names are written out, from their root on"},
    {"nonlocal", "nonlocal is not read: a nested function has its own names"},
    {"match", "match is not read: write if and elif"},
    {"print", "print is a function: its arguments stand in parentheses"},
};

const Refused* refused_word(std::string_view word) {
  for (const Refused& refused : kRefused) {
    if (refused.word == word) return &refused;
  }
  return nullptr;
}

bool is_string_prefix(std::string_view word) {
  return !word.empty() && word.size() <= 2 &&
         word.find_first_not_of("fFrRbBuUtT") == std::string_view::npos;
}

}  // namespace

std::string token_name(TokenKind kind) {
  const std::string text(token_text(kind));
  // A token without a text of its own has a description of several words.
  const bool is_described =
      text.find(' ') != std::string::npos && kind != TokenKind::kNotIn && kind != TokenKind::kIsNot;
  return is_described ? text : "'" + text + "'";
}

std::nullptr_t Parser::expected(std::string_view what) {
  if (!status_.is_ok()) return nullptr;
  if (kind() == TokenKind::kError) {
    status_ = lexer_.error();
    return nullptr;
  }
  if (refused_for_words() || refused_for_token()) return nullptr;
  return fail(Code::kCorrupt, current_.range,
              format("%.*s is wanted here, not %s", static_cast<int>(what.size()), what.data(),
                     token_name(kind()).c_str()));
}

// Looks for a refused word before the mistake, and at the mistake. For `try:` the parser finds the
// mistake on the next line.
bool Parser::refused_for_words() {
  std::string_view before = source_.text().substr(0, last_end_);
  if (before.ends_with(':') && (kind() == TokenKind::kIndent || kind() == TokenKind::kNewline))
    before.remove_suffix(1);
  Range range{0, static_cast<uint32_t>(before.size())};
  range.begin = range.end;
  while (range.begin > 0 && is_name_part(before[range.begin - 1])) --range.begin;
  const bool is_attribute = range.begin > 0 && before[range.begin - 1] == '.';
  const std::string_view word = is_attribute ? std::string_view() : source_.text(range);

  if (kind() == TokenKind::kString && last_end_ == current_.range.begin && is_string_prefix(word)) {
    const bool is_format = word.find_first_of("fFtT") != std::string_view::npos;
    const std::string prefix = format("a string with the prefix %.*s is not read",
                                      static_cast<int>(word.size()), word.data());
    fail(Code::kUnsupported, {range.begin, current_.range.end},
         is_format ? "an f-string is not read: use str.format" : prefix);
    return true;
  }
  if (const Refused* const refused = refused_word(word); refused != nullptr) {
    fail(Code::kUnsupported, range, refused->what);
    return true;
  }
  const Refused* const refused =
      kind() == TokenKind::kName ? refused_word(text(current_)) : nullptr;
  if (refused != nullptr) fail(Code::kUnsupported, current_.range, refused->what);
  return refused != nullptr;
}

bool Parser::refused_for_token() {
  const char* what = nullptr;
  Range range = current_.range;
  switch (kind()) {
    case TokenKind::kAt: what = "'@' is not read here: there are no decorators"; break;
    case TokenKind::kImport: what = "import is read between classes and functions only"; break;
    case TokenKind::kClass: what = "a class stands at the file's level only"; break;
    case TokenKind::kTypeComment:
      what = "a type comment is read as the first line of a function's body only";
      break;
    case TokenKind::kStarStar: what = "'**' before an argument or a parameter is not read"; break;
    case TokenKind::kAssign:
      if (range.begin > 0) --range.begin;
      [[fallthrough]];
    case TokenKind::kColon:
      range.end = range.begin + 2;
      if (source_.text().substr(range.begin).starts_with(":=")) what = "':=' is not read";
      break;
    default: break;
  }
  if (what != nullptr) fail(Code::kUnsupported, range, what);
  return what != nullptr;
}

}  // namespace tenon::script
