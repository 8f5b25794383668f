#include "modules/module/class_body.h"

#include <algorithm>
#include <cstdint>
#include <unordered_set>

#include "modules/module/literal.h"
#include "modules/script/printer.h"
#include "modules/script/signature.h"

namespace tenon::module {

namespace {

constexpr uint32_t kBodyIndent = 2;

bool is_identifier(std::string_view name) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !name.empty() && letter(name[0]) && std::all_of(name.begin(), name.end(), [&](char c) {
    return letter(c) || (c >= '0' && c <= '9');
  });
}

// The words that PyTorch's lexer reserves.
bool is_reserved(std::string_view name) {
  static constexpr std::string_view kWords[] = {
      "False",    "None",  "NoneType", "True", "and",   "as",     "assert",   "break", "class",
      "continue", "def",   "del",      "elif", "else",  "except", "finally",  "for",   "from",
      "global",   "if",    "import",   "in",   "is",    "lambda", "nonlocal", "not",   "or",
      "pass",     "raise", "return",   "try",  "while", "with",   "yield"};
  return std::find(std::begin(kWords), std::end(kWords), name) != std::end(kWords);
}

Result<value::TypeRef> type_at(const script::Source& source, const script::Expr* annotation) {
  if (annotation == nullptr) return value::TypeRef();
  return script::annotation_type(source, *annotation);
}

std::string method_text(const script::Source& source, const script::Method& method) {
  const script::Range range = method.statement->range;
  if (source.position(range.begin).column == kBodyIndent + 1) {
    std::string text(kBodyIndent, ' ');
    text += source.text(range);
    return text + "\n";
  }
  return script::print(*method.function, 1);
}

std::string list_line(std::string_view name, const std::vector<std::string>& names) {
  std::string line = "  " + std::string(name) + " = [";
  for (const std::string& one : names) line += script::quoted(one) + ", ";
  return line + "]\n";
}

void add_names(const std::optional<script::NameList>& list, std::vector<std::string>* names) {
  if (list) *names = list->names;
}

using Names = std::unordered_set<std::string_view>;

Names names_of(const std::optional<script::NameList>& list) {
  return list ? Names(list->names.begin(), list->names.end()) : Names();
}

std::string_view base_text(ClassKind kind) {
  switch (kind) {
    case ClassKind::kPlain: return "";
    case ClassKind::kModule: return "(Module)";
    case ClassKind::kNamedTuple: return "(NamedTuple)";
    case ClassKind::kEnum: return "(Enum)";
    case ClassKind::kInterface: return "(Interface)";
    case ClassKind::kModuleInterface: return "(ModuleInterface)";
  }
  return "";
}

}  // namespace

Result<ClassBody> ClassBody::create(const script::File& file, const script::Class& class_def,
                                    int version) {
  const script::Source& source = file.source();
  TENON_ASSIGN(const script::ClassParts parts, script::class_parts(source, class_def));
  ClassBody body;
  body.kind = parts.kind;
  const Names parameters = names_of(parts.parameters);
  const Names buffers = names_of(parts.buffers);
  // Keeps the last type, so that a row of fields of one type, such as a module's layers, needs one
  // parse.
  std::string_view type_text;
  value::TypeRef type;
  for (const script::Field& field : parts.fields) {
    FieldDecl decl;
    decl.name = field.name;
    if (field.annotation == nullptr)
      return source.error(Code::kCorrupt, field.statement->range, "a field without a type");
    if (const std::string_view text = source.text(field.annotation->range);
        !type || text != type_text) {
      TENON_ASSIGN(type, type_at(source, field.annotation));
      type_text = text;
    }
    decl.type = type;
    if (parameters.contains(field.name))
      decl.kind = FieldKind::kParameter;
    else if (buffers.contains(field.name))
      decl.kind = FieldKind::kBuffer;
    if (body.find_field(field.name) != SIZE_MAX) {
      return source.error(Code::kCorrupt, field.statement->range,
                          format("%s is declared twice", field.name.c_str()));
    }
    body.add_field(std::move(decl));
  }
  for (const script::Constant& constant : parts.constants) {
    ConstantDecl decl;
    decl.name = constant.name;
    TENON_ASSIGN(decl.type, type_at(source, constant.annotation));
    decl.text = source.text(constant.value->range);
    decl.literal = literal_value(*constant.value);
    body.constants.push_back(std::move(decl));
  }
  for (const script::EnumMember& member : parts.members) {
    ConstantDecl decl;
    decl.name = member.name;
    decl.text = source.text(member.value->range);
    decl.literal = literal_value(*member.value);
    body.enum_members.push_back(std::move(decl));
  }
  for (const script::Method& method : parts.methods) {
    body.add_method({std::string(method.function->name), method_text(source, method), version});
  }
  add_names(parts.forward_hooks, &body.forward_hooks);
  add_names(parts.forward_pre_hooks, &body.forward_pre_hooks);
  return body;
}

size_t ClassBody::find_in(const Places& places, std::string_view name) {
  const auto found = places.find(name);
  return found == places.end() ? SIZE_MAX : found->second;
}

size_t ClassBody::find_constant(std::string_view constant_name) const {
  for (size_t i = 0; i < constants.size(); ++i) {
    if (constants[i].name == constant_name) return i;
  }
  return SIZE_MAX;
}

const char* ClassBody::taken_by(std::string_view name) const {
  if (const size_t field = find_field(name); field != SIZE_MAX) {
    switch (fields[field].kind) {
      case FieldKind::kParameter: return "a parameter";
      case FieldKind::kBuffer: return "a buffer";
      case FieldKind::kAttribute: return "an attribute";
      case FieldKind::kSubmodule: return "a submodule";
    }
  }
  if (find_constant(name) != SIZE_MAX) return "a constant";
  if (find_method(name) != SIZE_MAX) return "a method";
  return nullptr;
}

void ClassBody::add_field(FieldDecl field) {
  field_places_[field.name] = fields.size();
  fields.push_back(std::move(field));
}

void ClassBody::add_method(MethodDecl method) {
  const auto [place, is_new] = method_places_.try_emplace(method.name, methods.size());
  if (is_new)
    methods.push_back(std::move(method));
  else
    methods[place->second] = std::move(method);
}

void ClassBody::remove_field(size_t index) {
  field_places_.erase(fields[index].name);
  fields.erase(fields.begin() + static_cast<ptrdiff_t>(index));
  for (size_t i = index; i < fields.size(); ++i) field_places_[fields[i].name] = i;
}

void ClassBody::remove_method(size_t index) {
  method_places_.erase(methods[index].name);
  methods.erase(methods.begin() + static_cast<ptrdiff_t>(index));
  for (size_t i = index; i < methods.size(); ++i) method_places_[methods[i].name] = i;
}

std::vector<size_t> ClassBody::field_order() const {
  const auto rank = [this](size_t i) {
    const FieldKind field_kind = fields[i].kind;
    return field_kind == FieldKind::kSubmodule ? 2 : field_kind == FieldKind::kAttribute ? 1 : 0;
  };
  std::vector<size_t> order(fields.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return rank(a) < rank(b); });
  return order;
}

std::string ClassBody::print(std::string_view base_name) const {
  std::string text = "class " + std::string(base_name) + std::string(base_text(kind)) + ":\n";
  const std::vector<size_t> order = field_order();
  if (kind == ClassKind::kModule) {
    std::vector<std::string> parameters;
    std::vector<std::string> buffers;
    for (const size_t i : order) {
      if (fields[i].kind == FieldKind::kParameter) parameters.push_back(fields[i].name);
      if (fields[i].kind == FieldKind::kBuffer) buffers.push_back(fields[i].name);
    }
    text += list_line("__parameters__", parameters);
    text += list_line("__buffers__", buffers);
    if (!forward_pre_hooks.empty()) text += list_line("__forward_pre_hooks__", forward_pre_hooks);
    if (!forward_hooks.empty()) text += list_line("__forward_hooks__", forward_hooks);
  }
  bool first = true;
  for (const size_t i : order) {
    const FieldDecl& field = fields[i];
    if (is_identifier(field.name) && !is_reserved(field.name)) {
      text += "  " + field.name + " : " + field.type->print() + "\n";
    } else {
      // PyTorch writes this line too. In Python, `__annotations__` would not exist yet.
      if (first) text += "  __annotations__ = []\n";
      text +=
          "  __annotations__[" + script::quoted(field.name) + "] = " + field.type->print() + "\n";
    }
    first = false;
  }
  for (const ConstantDecl& constant : constants) {
    const std::string type = constant.type ? "Final[" + constant.type->print() + "]" : "Final";
    text += "  " + constant.name + " : " + type + " = " + constant.text + "\n";
  }
  for (const ConstantDecl& member : enum_members)
    text += "  " + member.name + " = " + member.text + "\n";
  for (const MethodDecl& method : methods) text += method.text;
  return text;
}

}  // namespace tenon::module
