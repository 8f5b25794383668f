#include "modules/bytecode/type_text.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <string>

#include "modules/value/type.h"

namespace tenon::bytecode {
namespace {

// The tokens of one character that PyTorch's parser knows. Every other character but a space
// belongs to a word.
constexpr std::string_view kSpecialCharacters = "+-*/%@()[]:,={}><.?!&^|~";
constexpr std::string_view kSimpleTypes[] = {
    "Tensor", "int",    "float", "bool", "complex",  "str",  "Device", "Generator",
    "Stream", "number", "None",  "Any",  "NoneType", "list", "tuple",  "Capsule"};
// TorchScript has these types, and PyTorch's lite interpreter does not.
constexpr std::string_view kUnreadTypes[] = {"Union", "Future", "RRef", "Await"};
constexpr std::string_view kRootName = "__torch__";
constexpr std::string_view kCustomClasses = "__torch__.torch.classes.";
constexpr std::ptrdiff_t kDotsOfCustomClass = 4;

bool is_one_of(std::string_view word, std::span<const std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

class TypeTextParser {
 public:
  explicit TypeTextParser(std::string_view text) : text_(text) { advance(); }

  Result<TypeShape> run() {
    TENON_ASSIGN(const TypeShape shape, parse(1));
    if (!token_.empty()) return unexpected("the end");
    return shape;
  }

 private:
  Result<TypeShape> parse(size_t depth) {
    if (depth > kMaxTypeTextDepth) {
      return Status(Code::kResourceExhausted,
                    format("it is nested deeper than %zu levels", kMaxTypeTextDepth));
    }
    if (token_ == kRootName) return parse_class(depth);
    const std::string_view word = token_;
    if (is_one_of(word, kUnreadTypes)) {
      return Status(Code::kUnsupported, format("the lite interpreter does not read the type %s",
                                               std::string(word).c_str()));
    }
    if (is_one_of(word, kSimpleTypes)) {
      advance();
      return TypeShape{};
    }
    if (word == "Tuple") return parse_tuple(depth);
    if (word != "List" && word != "Optional" && word != "Dict") return unexpected("a type");
    advance();
    TENON_TRY(expect("["));
    TENON_TRY(parse(depth + 1).status());
    if (word == "Dict") {
      TENON_TRY(expect(","));
      TENON_TRY(parse(depth + 1).status());
    }
    TENON_TRY(expect("]"));
    if (word == "Optional") return TypeShape{};
    return TypeShape{word == "List" ? TypeForm::kList : TypeForm::kDict, 0};
  }

  Result<TypeShape> parse_tuple(size_t depth) {
    advance();
    TENON_TRY(expect("["));
    if (token_ == "(")
      return Status(Code::kUnsupported,
                    "the lite interpreter does not read the empty tuple Tuple[()]");
    TypeShape shape{TypeForm::kTuple, 0};
    while (token_ != "]") {
      if (shape.parts > 0) TENON_TRY(expect(","));
      TENON_TRY(parse(depth + 1).status());
      ++shape.parts;
    }
    advance();
    return shape;
  }

  // Parses a name, and the definition of a NamedTuple if one follows.
  Result<TypeShape> parse_class(size_t depth) {
    std::string name(token_);
    advance();
    while (token_ == ".") {
      advance();
      name.append(".").append(token_);
      TENON_TRY(take_identifier("a name"));
    }
    if (name == kRootName) return unexpected("'.'");
    if (name.starts_with(kCustomClasses)) {
      if (std::count(name.begin(), name.end(), '.') != kDotsOfCustomClass)
        return unexpected("a class of __torch__.torch.classes");
      return TypeShape{TypeForm::kCustomClass, 0};
    }
    if (token_ != "[") return TypeShape{TypeForm::kName, 0};
    advance();
    TENON_TRY(expect("NamedTuple"));
    TENON_TRY(expect(","));
    return parse_fields(depth);
  }

  // Parses the fields of a NamedTuple, "[[x, Tensor],[n, int]]]".
  Result<TypeShape> parse_fields(size_t depth) {
    TENON_TRY(expect("["));
    TypeShape shape{TypeForm::kNamedTuple, 0};
    while (token_ != "]") {
      if (shape.parts > 0) TENON_TRY(expect(","));
      TENON_TRY(expect("["));
      TENON_TRY(take_identifier("the name of a field"));
      TENON_TRY(expect(","));
      TENON_TRY(parse(depth + 1).status());
      TENON_TRY(expect("]"));
      ++shape.parts;
    }
    advance();
    TENON_TRY(expect("]"));
    return shape;
  }

  // Goes on to the next token. At the end of the text, token_ is empty.
  void advance() {
    begin_ = std::min(text_.find_first_not_of(' ', end_), text_.size());
    end_ = begin_;
    if (begin_ < text_.size()) {
      const size_t special =
          std::min(text_.find_first_of(kSpecialCharacters, begin_), text_.size());
      end_ = special == begin_ ? begin_ + 1 : std::min(special, text_.find(' ', begin_));
    }
    token_ = text_.substr(begin_, end_ - begin_);
  }

  Status expect(std::string_view wanted) {
    if (token_ != wanted) return unexpected("'" + std::string(wanted) + "'");
    advance();
    return Status::ok();
  }

  Status take_identifier(const char* what) {
    if (!value::is_qualified_name(token_)) return unexpected(what);
    advance();
    return Status::ok();
  }

  Status unexpected(const std::string& wanted) const {
    constexpr size_t kMaxShown = 60;
    const std::string there =
        token_.empty() ? "its end" : "'" + std::string(token_.substr(0, kMaxShown)) + "'";
    return Status(Code::kCorrupt,
                  format("byte %zu is %s, and not %s", begin_, there.c_str(), wanted.c_str()));
  }

  std::string_view text_;
  std::string_view token_;
  size_t begin_ = 0;  // the range of the token in the text
  size_t end_ = 0;
};

}  // namespace

Result<TypeShape> parse_type_text(std::string_view text) { return TypeTextParser(text).run(); }

}  // namespace tenon::bytecode
