// Implements Type::parse(), which parses the text of an annotation as PyTorch's importer does.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "modules/value/type.h"

namespace tenon::value {
namespace {

constexpr size_t kMaxShownTextNbytes = 80;

struct WrittenName {
  std::string_view name;
  TypeKind kind;
};

constexpr std::array kWrittenNames = {
    WrittenName{"Tensor", TypeKind::kTensor},
    WrittenName{"int", TypeKind::kInt},
    WrittenName{"float", TypeKind::kFloat},
    WrittenName{"bool", TypeKind::kBool},
    WrittenName{"complex", TypeKind::kComplex},
    WrittenName{"str", TypeKind::kStr},
    WrittenName{"Device", TypeKind::kDevice},
    WrittenName{"NoneType", TypeKind::kNone},
    WrittenName{"None", TypeKind::kNone},
    WrittenName{"number", TypeKind::kNumber},
    WrittenName{"Any", TypeKind::kAny},
    WrittenName{"Generator", TypeKind::kGenerator},
    WrittenName{"Stream", TypeKind::kStream},
    WrittenName{"Capsule", TypeKind::kCapsule},
    WrittenName{"list", TypeKind::kAnyList},
    WrittenName{"tuple", TypeKind::kAnyTuple},
    WrittenName{"LongTensor", TypeKind::kTensor},
    WrittenName{"FloatTensor", TypeKind::kTensor},
    WrittenName{"DoubleTensor", TypeKind::kTensor},
    WrittenName{"IntTensor", TypeKind::kTensor},
    WrittenName{"ShortTensor", TypeKind::kTensor},
    WrittenName{"HalfTensor", TypeKind::kTensor},
    WrittenName{"CharTensor", TypeKind::kTensor},
    WrittenName{"ByteTensor", TypeKind::kTensor},
    WrittenName{"BoolTensor", TypeKind::kTensor},
};

std::optional<TypeKind> simple_kind(std::string_view name) noexcept {
  constexpr std::string_view kTorch = "torch.";
  const bool of_torch = name.starts_with(kTorch);
  if (of_torch) name.remove_prefix(kTorch.size());
  for (const WrittenName& simple : kWrittenNames) {
    if (simple.name == name && (!of_torch || simple.kind == TypeKind::kTensor)) return simple.kind;
  }
  return std::nullopt;
}

std::optional<TypeKind> constructor_kind(std::string_view name) noexcept {
  if (name == "List" || name == "list") return TypeKind::kList;
  if (name == "Dict" || name == "dict") return TypeKind::kDict;
  if (name == "Tuple" || name == "tuple") return TypeKind::kTuple;
  if (name == "Optional") return TypeKind::kOptional;
  if (name == "Union") return TypeKind::kUnion;
  if (name == "Future") return TypeKind::kFuture;
  if (name == "RRef") return TypeKind::kRRef;
  if (name == "Await") return TypeKind::kAwait;
  // "BroadcastingList2[int]" is a list for which a single int may stand.
  constexpr std::string_view kBroadcasting = "BroadcastingList";
  if (name.starts_with(kBroadcasting) && name.size() == kBroadcasting.size() + 1 &&
      name.back() >= '1' && name.back() <= '9') {
    return TypeKind::kList;
  }
  return std::nullopt;
}

bool is_space(char c) noexcept { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool is_name_byte(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

class Parser {
 public:
  Parser(std::string_view text, const TypeParseOptions& options) noexcept
      : text_(text), options_(options) {}

  Result<TypeRef> parse() {
    TENON_ASSIGN(TypeRef type, parse_type(1));
    skip_spaces();
    if (at_ < text_.size()) return error("the end of the type expected");
    return type;
  }

 private:
  // Parses one or more types, joined by '|'. `depth` limits the recursion. Parentheses count as
  // well, although the parsed type does not show them.
  Result<TypeRef> parse_type(uint32_t depth) {
    if (depth > Type::kMaxDepth)
      return error(format("types are nested deeper than %u", Type::kMaxDepth));
    TENON_ASSIGN(TypeRef first, parse_one(depth));
    if (!next_is('|')) return first;
    const size_t begin = at_;
    std::vector<TypeRef> members{std::move(first)};
    while (take('|')) {
      TENON_ASSIGN(TypeRef member, parse_one(depth));
      members.push_back(std::move(member));
    }
    return placed(Type::union_of(members), begin);
  }

  Result<TypeRef> parse_one(uint32_t depth) {
    if (take('(')) {
      TENON_ASSIGN(TypeRef type, parse_type(depth + 1));
      if (!take(')')) return error("')' expected");
      return type;
    }
    skip_spaces();
    const size_t begin = at_;
    TENON_ASSIGN(const std::string name, parse_name());
    if (!take('[')) return type_of_name(name, begin);
    const std::optional<TypeKind> kind = constructor_kind(name);
    if (!kind) return error_at(begin, format("'%s' takes no element types", shown(name).c_str()));
    TENON_ASSIGN(std::vector<TypeRef> parts, parse_parts(*kind, depth + 1));
    return placed(make(*kind, std::move(parts)), begin);
  }

  // Parses a name with dots. Spaces may stand around the dots, as between any tokens.
  Result<std::string> parse_name() {
    std::string name;
    for (;;) {
      skip_spaces();
      const size_t begin = at_;
      while (at_ < text_.size() && is_name_byte(text_[at_])) ++at_;
      if (at_ == begin || (text_[begin] >= '0' && text_[begin] <= '9'))
        return error_at(begin, "a type expected");
      name.append(text_.substr(begin, at_ - begin));
      if (!take('.')) return name;
      name.push_back('.');
    }
  }

  Result<TypeRef> type_of_name(const std::string& name, size_t begin) const {
    if (const std::optional<TypeKind> kind = simple_kind(name)) return Type::simple(*kind);
    if (constructor_kind(name))
      return error_at(begin, format("'%s' without its element types", shown(name).c_str()));
    if (!options_.short_class_names && name.find('.') == std::string::npos) {
      return error_at(begin, format("there is no type '%s'", shown(name).c_str()));
    }
    return placed(Type::class_type(name), begin);
  }

  // Parses the parts from behind '[' to the ']', inclusive. A comma may follow the last part.
  Result<std::vector<TypeRef>> parse_parts(TypeKind kind, uint32_t depth) {
    std::vector<TypeRef> parts;
    if (kind == TypeKind::kTuple) {
      const size_t begin = at_;
      if (take('(') && take(')') && take(']')) return parts;
      at_ = begin;
      if (take(']')) return parts;
    }
    for (;;) {
      TENON_ASSIGN(TypeRef part, parse_type(depth));
      parts.push_back(std::move(part));
      const bool comma = take(',');
      if (take(']')) return parts;
      if (!comma) return error("',' or ']' expected");
    }
  }

  static Result<TypeRef> make(TypeKind kind, std::vector<TypeRef> parts) {
    if (kind == TypeKind::kTuple) return Type::tuple(std::move(parts));
    if (kind == TypeKind::kUnion) return Type::union_of(parts);
    const size_t wanted = kind == TypeKind::kDict ? 2 : 1;
    if (parts.size() != wanted) {
      return Status(Code::kInvalidArgument, format("%zu element type%s wanted, and there are %zu",
                                                   wanted, wanted == 1 ? "" : "s", parts.size()));
    }
    switch (kind) {
      case TypeKind::kDict: return Type::dict(std::move(parts[0]), std::move(parts[1]));
      case TypeKind::kOptional: return Type::optional(std::move(parts[0]));
      case TypeKind::kFuture: return Type::future(std::move(parts[0]));
      case TypeKind::kRRef: return Type::rref(std::move(parts[0]));
      case TypeKind::kAwait: return Type::await(std::move(parts[0]));
      default: return Type::list(std::move(parts[0]));
    }
  }

  void skip_spaces() noexcept {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  bool next_is(char c) noexcept {
    skip_spaces();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool take(char c) noexcept {
    if (!next_is(c)) return false;
    ++at_;
    return true;
  }

  static std::string shown(std::string_view text) {
    return text.size() <= kMaxShownTextNbytes
               ? std::string(text)
               : std::string(text.substr(0, kMaxShownTextNbytes)) + "...";
  }
  Status error(const std::string& what) const { return error_at(at_, what); }
  Status error_at(size_t at, const std::string& what) const {
    Status status(Code::kInvalidArgument,
                  format("type '%s', column %zu: %s", shown(text_).c_str(), at + 1, what.c_str()));
    return std::move(status)
        .with("column", static_cast<uint64_t>(at + 1))
        .with("type", shown(text_));
  }
  Result<TypeRef> placed(Result<TypeRef> result, size_t at) const {
    if (result.is_ok()) return result;
    return error_at(at, result.status().message());
  }

  std::string_view text_;
  TypeParseOptions options_;
  size_t at_ = 0;
};

}  // namespace

Result<TypeRef> Type::parse(std::string_view text, const TypeParseOptions& options) {
  return Parser(text, options).parse();
}

}  // namespace tenon::value
