#include "modules/module/code.h"

#include <utility>

#include "modules/module/inline_constants.h"

namespace tenon::module {

namespace {

constexpr std::string_view kRoot = "__torch__";
constexpr std::string_view kCustomClasses = "__torch__.torch.classes.";
constexpr std::string_view kMangle = "___torch_mangle_";

}  // namespace

std::string_view qualifier_of(std::string_view qualified_name) noexcept {
  const size_t dot = qualified_name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : qualified_name.substr(0, dot);
}

std::string_view base_name_of(std::string_view qualified_name) noexcept {
  const size_t dot = qualified_name.rfind('.');
  return dot == std::string_view::npos ? qualified_name : qualified_name.substr(dot + 1);
}

Result<std::string> full_class_name(std::string_view name) {
  std::string full(name);
  if (qualifier_of(name) != kRoot && !name.starts_with(std::string(kRoot) + "."))
    full = std::string(kRoot) + "." + full;
  if (!value::is_qualified_name(full) || full.size() > kMaxNameNbytes) {
    return Status(Code::kInvalidArgument, format("\"%.200s\" is no name of a class", full.c_str()));
  }
  return full;
}

bool is_custom_class(std::string_view qualified_name) noexcept {
  return qualified_name.starts_with(kCustomClasses);
}

std::string mangled_name(std::string_view qualified_name, uint64_t* next,
                         const std::function<bool(const std::string&)>& is_taken) {
  std::string_view qualifier = qualifier_of(qualified_name);
  if (base_name_of(qualifier).starts_with(kMangle)) qualifier = qualifier_of(qualifier);
  for (;;) {
    std::string name(qualifier);
    name += "." + std::string(kMangle) + std::to_string((*next)++) + "." +
            std::string(base_name_of(qualified_name));
    if (!is_taken(name)) return name;
  }
}

Ref<CodeSet> CodeSet::create(std::string label, int version) {
  auto code = Ref<CodeSet>::adopt(new CodeSet);
  code->label_ = std::move(label);
  code->version_ = version;
  return code;
}

CodeFile* CodeSet::find_file(std::string_view qualifier) const {
  const auto found = by_qualifier_.find(qualifier);
  return found == by_qualifier_.end() ? nullptr : found->second;
}

Result<Definition*> CodeSet::find_definition(std::string_view qualified_name) const {
  const CodeFile* const file = find_file(qualifier_of(qualified_name));
  if (file == nullptr) return nullptr;
  return file->find(base_name_of(qualified_name));
}

Result<Definition*> CodeSet::find_owner(std::string_view dotted_name) const {
  for (std::string_view name = dotted_name; !name.empty(); name = qualifier_of(name)) {
    TENON_ASSIGN(Definition * found, find_definition(name));
    if (found != nullptr) return found;
  }
  return nullptr;
}

Result<CodeSet::Text> CodeSet::text(const Definition& definition) const {
  const Definition::Text& text = definition.text_.get([&] {
    // Only a changed class has no text, so its body is printed.
    auto made = std::make_unique<Definition::Text>();
    const Definition::Body& body = body_of(definition);
    made->status = body.status;
    if (!made->status.is_ok()) return made;
    auto file = script::parse_file("class " + definition.name(),
                                   body.body.print(base_name_of(definition.name())));
    if (file.is_ok()) {
      const script::Item* const printed = file.value()->find(base_name_of(definition.name()));
      const std::string inlined =
          printed == nullptr ? std::string()
                             : inline_constants(*file.value(), *printed->class_def, body.body);
      if (!inlined.empty()) file = script::parse_file("class " + definition.name(), inlined);
    }
    if (file.is_ok()) {
      made->file = file.value();
      made->item = made->file->find(base_name_of(definition.name()));
    }
    if (made->item == nullptr)
      made->status =
          file.is_ok() ? Status(Code::kInternal, "the class is not in its text") : file.status();
    return made;
  });
  TENON_TRY(text.status);
  return Text{text.file, text.item};
}

const Definition::Body& CodeSet::body_of(const Definition& definition) const {
  return definition.body_.get([&] {
    auto made = std::make_unique<Definition::Body>();
    auto found = text(definition);
    made->status = found.status();
    if (!found.is_ok()) return made;
    auto body = ClassBody::create(*found.value().file, *found.value().item->class_def,
                                  definition.version());
    made->status = body.status();
    if (body.is_ok()) made->body = std::move(body).value();
    return made;
  });
}

Result<const ClassBody*> CodeSet::body(const Definition& definition) const {
  if (!definition.is_class())
    return Status(Code::kInvalidArgument, format("%s is a function", definition.name().c_str()));
  const Definition::Body& body = body_of(definition);
  TENON_TRY(body.status);
  return &body.body;
}

Result<CodeSet::FoundClass> CodeSet::find_class(std::string_view qualified_name) const {
  FoundClass found;
  TENON_ASSIGN(found.definition, find_definition(qualified_name));
  if (found.definition == nullptr) {
    return Status(Code::kNotFound, format("%s has no class %.200s", label_.c_str(),
                                          std::string(qualified_name).c_str()));
  }
  TENON_ASSIGN(found.body, body(*found.definition));
  return found;
}

bool CodeSet::is_module_class(std::string_view qualified_name) const {
  auto found = find_definition(qualified_name);
  if (!found.is_ok() || found.value() == nullptr || !found.value()->is_class()) return false;
  const Definition::Body& body = body_of(*found.value());
  return body.status.is_ok() && body.body.kind == ClassKind::kModule;
}

Status CodeSet::check_may_change() const {
  if (exports_.load(std::memory_order_acquire) == 0) return Status::ok();
  return Status(Code::kPermission,
                format("%s is being exported, and cannot be changed meanwhile", label_.c_str()));
}

}  // namespace tenon::module
