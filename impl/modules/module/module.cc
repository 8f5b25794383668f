#include "modules/module/module.h"

#include <utility>

#include "base/immortal.h"
#include "modules/module/kept_bytecode.h"

namespace tenon::module {

using value::Value;
using value::ValueKind;

namespace {

struct NoPackage {
  const Package empty;
};

}  // namespace

const KeptBytecode* Package::bytecode() const {
  return found_bytecode && found_bytecode->check().is_ok() ? found_bytecode.get() : nullptr;
}

const Status& Package::why_no_bytecode() const {
  return found_bytecode ? found_bytecode->check() : unread_bytecode;
}

std::vector<std::string> Package::import_warnings() const {
  std::vector<std::string> warnings = report.warnings;
  if (const Status& status = why_no_bytecode(); !status.is_ok())
    warnings.push_back("bytecode is not kept: " + status.message());
  return warnings;
}

const char* member_kind_name(MemberKind kind) noexcept {
  switch (kind) {
    case MemberKind::kParameter: return "parameter";
    case MemberKind::kBuffer: return "buffer";
    case MemberKind::kAttribute: return "attribute";
    case MemberKind::kConstant: return "constant";
    case MemberKind::kSubmodule: return "submodule";
    case MemberKind::kMethod: return "method";
    case MemberKind::kState: return "state";
  }
  return "member";
}

Ref<const Counted> ClassScope::create(Ref<CodeSet> code, std::string class_name) {
  return Ref<const Counted>::adopt(new ClassScope(std::move(code), std::move(class_name)));
}

ObjectClass class_of(const Value& object, CodeSet* around) noexcept {
  if (!object.attachment()) return {around, object.class_name()};
  const auto* const scope = static_cast<const ClassScope*>(object.attachment().get());
  return {scope->code().get(), scope->class_name()};
}

bool is_module_object(const Value& value, CodeSet* around) {
  if (!value.is(ValueKind::kObject)) return false;
  const ObjectClass its = class_of(value, around);
  return its.code->is_module_class(its.name);
}

Ref<Module> Module::wrap(ValueRef object, Ref<CodeSet> code, std::shared_ptr<Package> package) {
  return Ref<Module>::adopt(new Module(std::move(object), std::move(code), std::move(package)));
}

Ref<Module> Module::defer(std::unique_ptr<const DeferredImport> import) {
  Ref<Module> module = wrap(nullptr, nullptr, nullptr);
  module->deferred_ = std::make_unique<const Deferred>(std::move(import));
  return module;
}

Result<Ref<Module>> Module::create(std::string_view class_name) {
  TENON_ASSIGN(const std::string name, full_class_name(class_name));
  Ref<CodeSet> code = CodeSet::create("module " + name, kNewCodeVersion);
  ClassBody body;
  // PyTorch's eval() and train() set this attribute.
  body.add_field({"training", value::Type::boolean(), FieldKind::kAttribute});
  TENON_ASSIGN(Definition * definition, code->add_class(name, std::move(body)));
  CodeSet::count_object(*definition);
  ValueRef object = Value::object(name);
  TENON_TRY(object->attributes().add("training", Value::of_bool(true)));
  object->set_attachment(ClassScope::create(code, name));
  return wrap(std::move(object), std::move(code), nullptr);
}

std::string Module::class_name() const { return std::string(object_class().name); }

const Package& Module::package() const noexcept {
  return package_ ? *package_ : immortal<NoPackage>().empty;
}

Package& Module::make_package() {
  if (!package_) package_ = std::make_shared<Package>();
  return *package_;
}

}  // namespace tenon::module
