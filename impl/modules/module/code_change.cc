// The functions of CodeSet that add and change code.
#include <utility>

#include "modules/module/code.h"
#include "modules/script/rename.h"

namespace tenon::module {

using value::ValueRef;

Status CodeSet::check_is_free(std::string_view qualified_name) const {
  TENON_ASSIGN(const Definition* present, find_definition(qualified_name));
  if (present == nullptr) return Status::ok();
  return Status(Code::kInvalidArgument,
                format("%s has a %s %s already", label_.c_str(),
                       present->is_class() ? "class" : "function", present->name().c_str()));
}

Result<CodeFile*> CodeSet::make_file(std::string_view qualifier) {
  CodeFile* file = find_file(qualifier);
  if (file == nullptr) {
    files_.push_back(
        std::make_unique<CodeFile>(std::string(qualifier), std::string(), kNewCodeVersion));
    file = files_.back().get();
    by_qualifier_[std::string(qualifier)] = file;
  }
  TENON_ASSIGN(const std::vector<CodeFile::Piece>* pieces, file->pieces());
  (void)pieces;
  return file;
}

Status CodeSet::add_file(std::string qualifier, std::string text) {
  if (find_file(qualifier) != nullptr) {
    return Status(Code::kInvalidArgument, format("%s has a file %s already", label_.c_str(),
                                                 code_record_of(qualifier).c_str()));
  }
  files_.push_back(std::make_unique<CodeFile>(qualifier, std::move(text), version_));
  by_qualifier_[std::move(qualifier)] = files_.back().get();
  return Status::ok();
}

void CodeSet::set_constants(std::vector<ValueRef> constants, ConstantsOrigin origin) {
  constants_ = std::move(constants);
  constants_origin_ = std::move(origin);
}

size_t CodeSet::add_constant(ValueRef constant) {
  is_changed_ = true;
  constants_.push_back(std::move(constant));
  constants_origin_.memoised.clear();
  return constants_.size() - 1;
}

Result<Definition*> CodeSet::add_class(std::string qualified_name, ClassBody body) {
  TENON_TRY(check_may_change());
  TENON_TRY(check_is_free(qualified_name));
  TENON_ASSIGN(CodeFile * file, make_file(qualifier_of(qualified_name)));
  auto definition = std::make_unique<Definition>();
  Definition* const made = definition.get();
  made->name_ = std::move(qualified_name);
  made->version_ = kNewCodeVersion;
  made->is_new_ = true;
  auto held = std::make_unique<Definition::Body>();
  held->body = std::move(body);
  made->body_.set(std::move(held));
  file->add(std::move(definition), {});
  is_changed_ = true;
  return made;
}

Status CodeSet::add_source(std::string_view qualifier, std::string_view source) {
  TENON_TRY(check_may_change());
  TENON_ASSIGN(auto file, script::parse_file(code_record_of(qualifier), std::string(source)));
  for (const script::Item& item : file->items()) {
    if (item.kind == script::ItemKind::kVersion) {
      return file->source().error(
          Code::kInvalidArgument, item.range,
          "new code is written for the newest operators, and says no version");
    }
    if (item.kind == script::ItemKind::kImport) continue;
    TENON_TRY(check_is_free(std::string(qualifier) + "." + std::string(item.name())));
    if (file->find(item.name()) != &item) {
      return file->source().error(Code::kInvalidArgument, item.range,
                                  std::string(item.name()) + " is defined twice");
    }
    if (item.class_def != nullptr) {
      TENON_ASSIGN(const ClassBody body,
                   ClassBody::create(*file, *item.class_def, kNewCodeVersion));
      (void)body;
    }
  }
  TENON_ASSIGN(CodeFile * into, make_file(qualifier));
  for (const script::Item& item : file->items()) {
    if (item.kind == script::ItemKind::kImport) continue;
    auto definition = std::make_unique<Definition>();
    definition->name_ = std::string(qualifier) + "." + std::string(item.name());
    definition->is_class_ = item.class_def != nullptr;
    definition->version_ = kNewCodeVersion;
    definition->is_new_ = true;
    auto text = std::make_unique<Definition::Text>();
    text->file = file;
    text->item = &item;
    definition->text_.set(std::move(text));
    into->add(std::move(definition), {nullptr, file, &item});
  }
  is_changed_ = true;
  return Status::ok();
}

Result<ClassBody*> CodeSet::edit(Definition& definition) {
  TENON_TRY(check_may_change());
  TENON_ASSIGN(const ClassBody* body, this->body(definition));
  if (!definition.is_new_) {
    // The printed order of fields depends on which of them are submodules.
    auto copy = std::make_unique<Definition::Body>();
    copy->body = *body;
    for (FieldDecl& field : copy->body.fields) {
      if (field.kind == FieldKind::kAttribute && field.type->kind() == value::TypeKind::kClass &&
          is_submodule_type(*field.type)) {
        field.kind = FieldKind::kSubmodule;
      }
    }
    definition.body_.set(std::move(copy));
    definition.is_new_ = true;
  }
  definition.text_.set(nullptr);
  definition.decl_.set(nullptr);
  if (CodeFile* const file = find_file(qualifier_of(definition.name()))) file->mark_changed();
  is_changed_ = true;
  return const_cast<ClassBody*>(&body_of(definition).body);
}

Result<Definition*> CodeSet::split(const Definition& definition) {
  TENON_TRY(check_may_change());
  TENON_ASSIGN(const ClassBody* old_body, body(definition));
  TENON_ASSIGN(const Text old_text, text(definition));
  Status failed;
  uint64_t next = 0;
  const std::string name =
      mangled_name(definition.name(), &next, [&](const std::string& candidate) {
        auto found = find_definition(candidate);
        if (!found.is_ok()) failed = found.status();
        return found.is_ok() && found.value() != nullptr;
      });
  TENON_TRY(failed);
  script::NewNames names{{definition.name(), name}};
  for (const std::string& used : script::used_names(*old_text.file, old_text.item->range)) {
    TENON_ASSIGN(const Definition* owner, find_owner(used));
    if (owner != nullptr && owner != &definition) names[owner->name()] = owner->name();
  }
  const std::string source = script::renamed(*old_text.file, old_text.item->extent, names);
  TENON_ASSIGN(auto file, script::parse_file("class " + name, source));
  const script::Item* const item = file->find(base_name_of(name));
  if (item == nullptr || item->class_def == nullptr)
    return Status(Code::kInternal, "a renamed class is not in its text");
  TENON_ASSIGN(ClassBody copy, ClassBody::create(*file, *item->class_def, definition.version()));
  for (size_t i = 0; i < copy.methods.size(); ++i) {
    if (const size_t old = old_body->find_method(copy.methods[i].name); old != SIZE_MAX) {
      copy.methods[i].version = old_body->methods[old].version;
    }
  }
  TENON_ASSIGN(Definition * made, add_class(name, std::move(copy)));
  made->version_ = definition.version();
  // edit() finds the submodules only of a definition that is not new.
  made->is_new_ = definition.is_new();
  if (definition.is_new()) {
    ClassBody& body = const_cast<Definition::Body&>(body_of(*made)).body;
    for (FieldDecl& field : body.fields) {
      if (const size_t old = old_body->find_field(field.name); old != SIZE_MAX)
        field.kind = old_body->fields[old].kind;
    }
  }
  return made;
}

}  // namespace tenon::module
