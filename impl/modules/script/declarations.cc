#include "modules/script/declarations.h"

#include <algorithm>
#include <utility>

#include "modules/script/schema_table.h"
#include "modules/script/signature.h"

namespace tenon::script {
namespace {

// Returns the type of an annotation. Null: there is no annotation, or it cannot be read.
value::TypeRef type_or_unknown(const Source& source, const Expr* annotation) {
  if (annotation == nullptr) return nullptr;
  Result<value::TypeRef> type = annotation_type(source, *annotation);
  return type.is_ok() ? std::move(type).value() : nullptr;
}

// `self.name = value` in __init__ declares an attribute, whose type PyTorch infers.
void add_attributes_set(StmtList body, std::string_view receiver, ClassDeclaration* out) {
  for (const Stmt* stmt : body) {
    add_attributes_set(stmt->body, receiver, out);
    add_attributes_set(stmt->else_body, receiver, out);
    if (stmt->kind != StmtKind::kAssign) continue;
    for (const Expr* target : stmt->targets) {
      const bool is_attribute =
          target->kind == ExprKind::kAttribute && target->child(0).kind == ExprKind::kName;
      if (is_attribute && target->child(0).text == receiver)
        out->attributes.try_emplace(std::string(target->text));
    }
  }
}

// Whether the type names a custom class that the schema table does not know. The members of such a
// class are not known.
bool names_unknown_class(const value::TypeRef& type) {
  if (!type) return false;
  std::vector<const value::Type*> todo{type.get()};
  while (!todo.empty()) {
    const value::Type* const here = todo.back();
    todo.pop_back();
    const std::string& name = here->class_name();
    if (name.starts_with(kCustomClasses) && SchemaTable::get().find_class(name).empty())
      return true;
    for (const value::TypeRef& part : here->parts()) todo.push_back(part.get());
  }
  return false;
}

bool names_unknown_class(const FunctionDeclaration& function) {
  const auto of_parameter = [](const ParameterDeclaration& parameter) {
    return names_unknown_class(parameter.type);
  };
  return names_unknown_class(function.returns) ||
         std::any_of(function.parameters.begin(), function.parameters.end(), of_parameter);
}

}  // namespace

std::string qualified(std::string_view qualifier, std::string_view name) {
  std::string text(qualifier);
  if (!text.empty()) text.push_back('.');
  return text.append(name);
}

Formals FunctionDeclaration::formals(size_t skip) const {
  Formals out;
  out.list.reserve(parameters.size());
  for (size_t i = skip; i < parameters.size(); ++i) {
    const ParameterDeclaration& parameter = parameters[i];
    const bool is_list = parameter.type && parameter.type->kind() == value::TypeKind::kList;
    out.list.push_back({parameter.name, parameter.has_default, parameter.keyword_only, is_list});
  }
  return out;
}

FunctionDeclaration declare_function(const Source& source, const Function& function) {
  FunctionDeclaration out;
  out.name = function.name;
  out.returns = type_or_unknown(source, function.returns);
  const TypeComment* const comment = function.type_comment;
  if (comment != nullptr && !out.returns) out.returns = type_or_unknown(source, comment->returns);
  // A type comment has no type for a method's receiver.
  const size_t left_out = comment != nullptr && comment->params.size() < function.params.size()
                              ? function.params.size() - comment->params.size()
                              : 0;
  out.parameters.reserve(function.params.size());
  for (size_t i = 0; i < function.params.size(); ++i) {
    const Param& param = function.params[i];
    const Expr* annotation = param.annotation;
    if (annotation == nullptr && comment != nullptr && i >= left_out)
      annotation = comment->params[i - left_out];
    out.parameters.push_back({std::string(param.name), type_or_unknown(source, annotation),
                              param.default_value != nullptr, param.keyword_only});
  }
  return out;
}

Result<ClassDeclaration> declare_class(const Source& source, std::string qualified_name,
                                       const Class& class_def) {
  TENON_ASSIGN(const ClassParts parts, class_parts(source, class_def));
  ClassDeclaration out;
  out.name = std::move(qualified_name);
  out.kind = parts.kind;
  for (const Field& field : parts.fields) {
    value::TypeRef type = type_or_unknown(source, field.annotation);
    if (parts.kind == ClassKind::kNamedTuple)
      out.fields.push_back({field.name, type, false, false});
    out.attributes[field.name] = {std::move(type), false};
  }
  for (const Constant& constant : parts.constants)
    out.attributes[constant.name] = {type_or_unknown(source, constant.annotation), true};
  for (const EnumMember& member : parts.members) out.attributes[member.name] = {nullptr, true};
  for (const Method& method : parts.methods) {
    const Function& function = *method.function;
    out.methods[std::string(function.name)] = declare_function(source, function);
    if (function.name == "__init__" && !function.params.empty())
      add_attributes_set(function.body, function.params[0].name, &out);
  }
  return out;
}

Status Declarations::add(std::string_view qualifier, const std::shared_ptr<const File>& file) {
  for (const Item& item : file->items()) {
    if (item.kind != ItemKind::kClass && item.kind != ItemKind::kFunction) continue;
    const std::string name = qualified(qualifier, item.name());
    if (item.kind == ItemKind::kClass) {
      TENON_ASSIGN(ClassDeclaration declared, declare_class(file->source(), name, *item.class_def));
      for (const auto& [member, attribute] : declared.attributes) {
        members_.insert(member);
        unknown_classes_ = unknown_classes_ || names_unknown_class(attribute.type);
      }
      for (const auto& [member, method] : declared.methods) {
        members_.insert(member);
        unknown_classes_ = unknown_classes_ || names_unknown_class(method);
      }
      classes_[name] = std::move(declared);
      functions_.erase(name);
    } else {
      FunctionDeclaration declared = declare_function(file->source(), *item.function);
      unknown_classes_ = unknown_classes_ || names_unknown_class(declared);
      functions_[name] = std::move(declared);
      classes_.erase(name);
    }
    places_[name] = {file, &item};
  }
  return {};
}

const ClassDeclaration* Declarations::find_class(std::string_view name) const {
  return find_in(classes_, name);
}
const FunctionDeclaration* Declarations::find_function(std::string_view name) const {
  return find_in(functions_, name);
}
const Declarations::ItemInFile* Declarations::find_place(std::string_view name) const {
  return find_in(places_, name);
}
bool Declarations::any_class_has(std::string_view member) const {
  return unknown_classes_ || members_.contains(member);
}

}  // namespace tenon::script
