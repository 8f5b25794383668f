// The functions by which CodeSet implements value::ClassTable. value::check_value() calls them.
#include "base/immortal.h"
#include "modules/module/code.h"
#include "modules/script/signature.h"

namespace tenon::module {

using value::ClassDecl;

namespace {

// The type of the state that `__setstate__` takes. Null if it declares none.
value::TypeRef state_type(const CodeSet::Text& text) {
  for (const script::Stmt* statement : text.item->class_def->body) {
    if (statement->kind != script::StmtKind::kDef) continue;
    const script::Function& function = *statement->function;
    if (function.name != "__setstate__") continue;
    if (function.params.size() != 2 || function.params[1].annotation == nullptr) return nullptr;
    auto type = script::annotation_type(text.source(), *function.params[1].annotation);
    return type.is_ok() ? std::move(type).value() : nullptr;
  }
  return nullptr;
}

struct CustomClass {
  CustomClass() noexcept { decl.kind = ClassDecl::Kind::kOpaque; }
  ClassDecl decl;
};

}  // namespace

std::unique_ptr<Definition::Decl> CodeSet::make_decl(const Definition& definition) const {
  auto made = std::make_unique<Definition::Decl>();
  auto found = body(definition);
  if (!found.is_ok()) return made;
  const ClassBody& body = *found.value();
  made->is_good = true;
  ClassDecl& decl = made->decl;
  switch (body.kind) {
    case ClassKind::kModule:
    case ClassKind::kPlain: decl.kind = ClassDecl::Kind::kObject; break;
    case ClassKind::kNamedTuple: decl.kind = ClassDecl::Kind::kNamedTuple; break;
    case ClassKind::kEnum: decl.kind = ClassDecl::Kind::kEnum; break;
    case ClassKind::kInterface:
    case ClassKind::kModuleInterface:
      decl.kind = ClassDecl::Kind::kInterface;
      decl.methods = body.methods.size();
      break;
  }
  for (const FieldDecl& field : body.fields) decl.fields.push_back({field.name, field.type});
  for (const ConstantDecl& member : body.enum_members) {
    if (member.literal) decl.enum_values.push_back(member.literal);
  }
  // If a class has only one of the two methods, PyTorch reads the attributes.
  if (body.find_method("__setstate__") != SIZE_MAX &&
      body.find_method("__getstate__") != SIZE_MAX) {
    decl.has_state = true;
    if (auto source = text(definition); source.is_ok())
      decl.state_type = state_type(source.value());
  }
  return made;
}

const ClassDecl* CodeSet::find(std::string_view class_name) const {
  if (is_custom_class(class_name)) return &immortal<CustomClass>().decl;
  auto found = find_definition(class_name);
  if (!found.is_ok() || found.value() == nullptr || !found.value()->is_class()) return nullptr;
  const Definition& definition = *found.value();
  const Definition::Decl& decl = definition.decl_.get([&] { return make_decl(definition); });
  return decl.is_good ? &decl.decl : nullptr;
}

bool CodeSet::implements(std::string_view class_name, std::string_view declared) const {
  auto implementation = find_class(class_name);
  auto interface = find_class(declared);
  if (!implementation.is_ok() || !interface.is_ok()) return false;
  return implements_body(*implementation.value().body, *interface.value().body);
}

bool CodeSet::implements_body(const ClassBody& implementation, const ClassBody& interface) {
  if (interface.kind != ClassKind::kInterface && interface.kind != ClassKind::kModuleInterface)
    return false;
  if (interface.kind == ClassKind::kModuleInterface && implementation.kind != ClassKind::kModule)
    return false;
  for (const MethodDecl& method : interface.methods) {
    if (implementation.find_method(method.name) == SIZE_MAX) return false;
  }
  return true;
}

bool CodeSet::is_submodule_type(const value::Type& type) const {
  if (type.kind() != value::TypeKind::kClass) return false;
  auto found = find_class(type.class_name());
  if (!found.is_ok()) return false;
  return found.value().body->kind == ClassKind::kModule ||
         found.value().body->kind == ClassKind::kModuleInterface;
}

Status CodeSet::check_type(const value::Type& type) const {
  if (type.kind() == value::TypeKind::kClass && !is_custom_class(type.class_name())) {
    TENON_ASSIGN(const Definition* found, find_definition(type.class_name()));
    if (found == nullptr || !found->is_class()) {
      return Status(Code::kInvalidArgument,
                    format("%s has no class %.200s", label_.c_str(), type.class_name().c_str()));
    }
  }
  for (const value::TypeRef& part : type.parts()) TENON_TRY(check_type(*part));
  return Status::ok();
}

}  // namespace tenon::module
