#include "modules/script/schema_parse.h"

#include <array>
#include <charconv>
#include <string>
#include <system_error>
#include <utility>

#include "modules/script/schema_text.h"

namespace tenon::script {
namespace {

using value::TypeKind;
using value::Value;
using value::ValueRef;
using SchemaKind = SchemaType::Kind;

struct NamedKind {
  std::string_view name;
  TypeKind kind;
};

// ScalarType, Layout and MemoryFormat are ints for TorchScript.
constexpr auto kSimpleNames = std::to_array<NamedKind>({
    {"Tensor", TypeKind::kTensor},
    {"int", TypeKind::kInt},
    {"float", TypeKind::kFloat},
    {"bool", TypeKind::kBool},
    {"complex", TypeKind::kComplex},
    {"str", TypeKind::kStr},
    {"Device", TypeKind::kDevice},
    {"NoneType", TypeKind::kNone},
    {"Scalar", TypeKind::kNumber},
    {"Generator", TypeKind::kGenerator},
    {"Stream", TypeKind::kStream},
    {"Capsule", TypeKind::kCapsule},
    {"Any", TypeKind::kAny},
    {"AnyListType", TypeKind::kAnyList},
    {"AnyTupleType", TypeKind::kAnyTuple},
    {"ScalarType", TypeKind::kInt},
    {"Layout", TypeKind::kInt},
    {"MemoryFormat", TypeKind::kInt},
    {"Dimname", TypeKind::kStr},
});

bool is_word_byte(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.';
}

class SchemaTypeReader {
 public:
  explicit SchemaTypeReader(std::string_view text) noexcept : text_(text) {}

  bool at_end() const noexcept { return text_.empty(); }

  bool take(char c) noexcept {
    if (!text_.starts_with(c)) return false;
    text_.remove_prefix(1);
    return true;
  }

  bool type(SchemaType* out) {
    if (!base(out)) return false;
    for (;;) {
      if (take('(')) {
        // The parentheses say what the value may alias. parse_schema() has noted already whether
        // the operator writes to it.
        const size_t end = text_.find(')');
        if (end == std::string_view::npos) return false;
        text_.remove_prefix(end + 1);
      } else if (take('[')) {
        uint32_t size = 0;
        const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), size);
        if (error == std::errc()) text_.remove_prefix(static_cast<size_t>(end - text_.data()));
        if (!take(']')) return false;
        wrap(SchemaKind::kList, out);
        out->fixed_size = size;
      } else if (take('?')) {
        wrap(SchemaKind::kOptional, out);
      } else {
        return true;
      }
    }
  }

 private:
  static void wrap(SchemaType::Kind kind, SchemaType* type) {
    SchemaType outer;
    outer.kind = kind;
    outer.parts.push_back(std::move(*type));
    *type = std::move(outer);
  }

  // Reads types up to the ')' that ends the list, and takes it too.
  bool parts(SchemaType* out) {
    do {
      if (!type(&out->parts.emplace_back())) return false;
    } while (take(','));
    return take(')');
  }

  bool base(SchemaType* out) {
    if (take('(')) {
      out->kind = SchemaKind::kTuple;
      return parts(out);
    }
    size_t size = 0;
    while (size < text_.size() && is_word_byte(text_[size])) ++size;
    if (size == 0) return false;
    const std::string_view name = text_.substr(0, size);
    text_.remove_prefix(size);
    for (const auto& [known, kind] :
         {std::pair("Dict", SchemaKind::kDict), std::pair("Future", SchemaKind::kFuture),
          std::pair("RRef", SchemaKind::kRRef), std::pair("Await", SchemaKind::kAwait),
          std::pair("Union", SchemaKind::kUnion)}) {
      if (name != known) continue;
      out->kind = kind;
      return take('(') && parts(out) &&
             out->parts.size() == (kind == SchemaKind::kDict    ? 2
                                   : kind == SchemaKind::kUnion ? out->parts.size()
                                                                : 1);
    }
    for (const NamedKind& known : kSimpleNames) {
      if (name != known.name) continue;
      out->kind = SchemaKind::kSimple;
      out->simple = known.kind;
      return true;
    }
    if (name == "AnyEnumType" || name == "AnyClassType") {
      out->kind = name == "AnyEnumType" ? SchemaKind::kAnyEnum : SchemaKind::kAnyClass;
      return true;
    }
    const bool is_variable = name.front() >= 'a' && name.front() <= 'z';
    out->kind = name.starts_with("__torch__.") ? SchemaKind::kClass
                : is_variable                  ? SchemaKind::kVariable
                                               : SchemaKind::kOther;
    out->name = name;
    return true;
  }

  std::string_view text_;
};

// Reads a default that is a string. "\" \\n\\t\"" in the text is a space, a line end and a tab.
bool unquoted(std::string_view text, std::string* out) {
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') return false;
  text = text.substr(1, text.size() - 2);
  constexpr std::string_view kLetters = "abfnrtv";
  constexpr std::string_view kMeant = "\a\b\f\n\r\t\v";
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '\\' && ++i < text.size()) {
      const size_t letter = kLetters.find(text[i]);
      c = letter != std::string_view::npos ? kMeant[letter] : text[i];
    }
    out->push_back(c);
  }
  return true;
}

template <typename Number>
bool whole_number(std::string_view text, Number* out) noexcept {
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto [stopped, error] = std::from_chars(begin, end, *out);
  return error == std::errc() && stopped == end;
}

// Reads a default that is no list. Null: the type cannot have it.
ValueRef scalar_default(std::string_view text, TypeKind kind) {
  if (text == "True" || text == "False") return Value::of_bool(text == "True");
  if (text.starts_with('"')) {
    std::string made;
    return unquoted(text, &made) ? Value::of_str(std::move(made)) : ValueRef();
  }
  int64_t integer = 0;
  const bool is_integer = whole_number(text, &integer);
  if (is_integer && kind == TypeKind::kBool) return Value::of_bool(integer != 0);
  if (is_integer && kind != TypeKind::kFloat) return Value::of_int(integer);
  double number = 0;
  return whole_number(text, &number) ? Value::of_float(number) : ValueRef();
}

value::TypeRef list_of(TypeKind kind) {
  Result<value::TypeRef> made = value::Type::list(value::Type::simple(kind));
  return made.is_ok() ? std::move(made).value() : value::TypeRef();
}

ValueRef default_of(std::string_view text, const SchemaType& type) {
  if (text == "None") return Value::none();
  if (type.kind == SchemaKind::kOptional) return default_of(text, type.parts[0]);
  if (type.kind != SchemaKind::kList) return scalar_default(text, type.simple);
  const TypeKind kind = type.parts[0].simple;
  std::vector<ValueRef> items;
  if (!text.starts_with('[')) {
    // One value stands for all of "int[2]".
    const ValueRef one = scalar_default(text, kind);
    if (!one) return {};
    items.assign(type.fixed_size, one);
    return Value::list(list_of(kind), std::move(items));
  }
  text.remove_prefix(1);
  while (!text.empty() && text.front() != ']') {
    const size_t size = text.find_first_of(",]");
    ValueRef one = scalar_default(text.substr(0, size), kind);
    if (!one || size == std::string_view::npos) return {};
    items.push_back(std::move(one));
    text.remove_prefix(size + (text[size] == ',' ? 1 : 0));
  }
  return Value::list(list_of(kind), std::move(items));
}

}  // namespace

bool parse_schema(std::string_view name, std::string_view overload, std::string_view text,
                  Schema* out) {
  *out = {};
  out->name = name;
  if (overload != "-") out->overload = overload;
  bool keyword_only = false;
  for (SchemaWord word; next_schema_word(&text, &word);) {
    if (word.name == "*") {
      keyword_only = true;
      continue;
    }
    if (word.name == "...") {
      out->takes_more = true;
      continue;
    }
    SchemaArgument argument;
    SchemaTypeReader reader(word.type);
    if (word.type.empty() || !reader.type(&argument.type) || !reader.at_end()) return false;
    argument.name = word.name;
    argument.keyword_only = keyword_only;
    argument.is_written = word.type.find('!') != std::string_view::npos;
    argument.is_out = keyword_only && argument.is_written;
    if (word.has_default) {
      argument.default_value = default_of(word.default_text, argument.type);
      if (!argument.default_value) return false;
    }
    out->arguments.push_back(std::move(argument));
  }
  if (!text.starts_with('>')) return false;
  text.remove_prefix(1);
  out->returns_more = text == "...";
  if (text.empty() || out->returns_more) return true;
  SchemaTypeReader reader(text);
  do {
    if (!reader.type(&out->returns.emplace_back())) return false;
  } while (reader.take(','));
  return reader.at_end();
}

}  // namespace tenon::script
