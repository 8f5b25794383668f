#include "modules/script/schema_show.h"

#include <charconv>

#include "base/status.h"

namespace tenon::script {
namespace {

using SchemaKind = SchemaType::Kind;

void add_parts(const char* name, const SchemaType& type, std::string* out) {
  *out += name;
  *out += '[';
  for (size_t i = 0; i < type.parts.size(); ++i) {
    if (i > 0) *out += ", ";
    *out += show(type.parts[i]);
  }
  *out += ']';
}

std::string shown_default(const value::Value& value) {
  using value::ValueKind;
  switch (value.kind()) {
    case ValueKind::kNone: return "None";
    case ValueKind::kBool: return value.as_bool() ? "True" : "False";
    case ValueKind::kInt: return std::to_string(value.as_int());
    case ValueKind::kFloat: {
      char text[32];
      const auto end = std::to_chars(text, text + sizeof text, value.as_float()).ptr;
      const std::string made(text, end);
      // PyTorch writes a whole float with a dot.
      return made.find_first_not_of("-0123456789") == std::string::npos ? made + "." : made;
    }
    case ValueKind::kStr: return '"' + value.as_str() + '"';
    case ValueKind::kList: {
      std::string text = "[";
      for (const value::ValueRef& item : value.items())
        text += (text.size() > 1 ? ", " : "") + shown_default(*item);
      return text + "]";
    }
    default: return "?";
  }
}

uint32_t fixed_size_of(const SchemaType& type) {
  return type.kind == SchemaKind::kOptional ? type.parts[0].fixed_size : type.fixed_size;
}

// `marks` adds fixed sizes, and a '!' to each argument that the operator writes to.
std::string shown_arguments(const Schema& schema, bool marks) {
  std::string text = "(";
  bool keyword_only = false;
  for (const SchemaArgument& argument : schema.arguments) {
    if (!text.ends_with('(')) text += ", ";
    if (argument.keyword_only && !keyword_only) text += "*, ";
    keyword_only = argument.keyword_only;
    text += show(argument.type);
    const uint32_t size = fixed_size_of(argument.type);
    if (size > 0 && marks) text += ":" + std::to_string(size);
    text += " " + argument.name;
    if (argument.is_written && marks) text += "!";
    if (argument.default_value) text += "=" + shown_default(*argument.default_value);
  }
  if (schema.takes_more) text += text.ends_with('(') ? "..." : ", ...";
  return text + ")";
}

}  // namespace

std::string show(const SchemaType& type) {
  std::string text;
  switch (type.kind) {
    case SchemaKind::kSimple: return value::Type::simple(type.simple)->print();
    case SchemaKind::kVariable:
    case SchemaKind::kClass:
    case SchemaKind::kOther: return type.name;
    case SchemaKind::kAnyEnum: return "AnyEnumType";
    case SchemaKind::kAnyClass: return "AnyClassType";
    case SchemaKind::kList: add_parts("List", type, &text); break;
    case SchemaKind::kDict: add_parts("Dict", type, &text); break;
    case SchemaKind::kTuple: add_parts("Tuple", type, &text); break;
    case SchemaKind::kOptional: add_parts("Optional", type, &text); break;
    case SchemaKind::kUnion: add_parts("Union", type, &text); break;
    case SchemaKind::kFuture: add_parts("Future", type, &text); break;
    case SchemaKind::kRRef: add_parts("RRef", type, &text); break;
    case SchemaKind::kAwait: add_parts("Await", type, &text); break;
  }
  return text;
}

std::string show_arguments(const Schema& schema) { return shown_arguments(schema, false); }

std::string show(const Schema& schema) {
  std::string text = schema.name;
  if (!schema.overload.empty()) text += "." + schema.overload;
  text += shown_arguments(schema, true) + " -> (";
  for (size_t i = 0; i < schema.returns.size(); ++i)
    text += (i > 0 ? ", " : "") + show(schema.returns[i]);
  if (schema.returns_more) text += "...";
  return text + ")";
}

}  // namespace tenon::script
