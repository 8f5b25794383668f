// The functions of Module that add members.
#include <algorithm>
#include <utility>

#include "modules/module/declared_types.h"
#include "modules/module/literal.h"
#include "modules/module/module.h"
#include "modules/script/printer.h"
#include "modules/value/check.h"
#include "modules/value/walk.h"

namespace tenon::module {

using value::Type;
using value::Value;
using value::ValueKind;

namespace {

// Whether an attribute can have this name. The names of PyTorch's own attributes have no dots. A
// control character would break the printed source.
bool can_be_member(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameNbytes &&
         std::none_of(name.begin(), name.end(), [](char c) {
           return c == '.' || static_cast<unsigned char>(c) < ' ' || c == '\x7f';
         });
}

bool is_printable_name(std::string_view name) {
  return value::is_qualified_name(name) &&
         std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

}  // namespace

Result<ClassBody*> Module::edit_class() {
  const ObjectClass own = object_class();
  TENON_TRY(own.code->check_may_change());
  TENON_ASSIGN(const CodeSet::FoundClass found, own.code->find_class(own.name));
  if (CodeSet::objects(*found.definition) <= 1) return own.code->edit(*found.definition);
  TENON_ASSIGN(Definition * alone, own.code->split(*found.definition));
  CodeSet::discount_object(*found.definition);
  CodeSet::count_object(*alone);
  object_->set_attachment(ClassScope::create(Ref<CodeSet>::share(own.code), alone->name()));
  return object_class().code->edit(*alone);
}

Status Module::check_new_member(std::string_view name) const {
  const std::string text(name);
  if (!can_be_member(name))
    return Status(Code::kInvalidArgument,
                  format("\"%.200s\" is no name of an attribute", text.c_str()));
  const ObjectClass own = object_class();
  TENON_ASSIGN(const CodeSet::FoundClass found, own.code->find_class(own.name));
  if (const char* const taken = found.body->taken_by(name)) {
    return Status(Code::kInvalidArgument,
                  format("%s has %s \"%s\" already", class_name().c_str(), taken, text.c_str()))
        .with("name", text);
  }
  return Status::ok();
}

Result<ValueRef> Module::check_member_value(std::string_view path, const TypeRef& type,
                                            const ValueRef& value) const {
  CodeSet* const code = object_class().code;
  TENON_TRY(code->check_type(*type));
  TENON_TRY(value::for_each(*value, [&](Value& below, size_t) {
    if (!below.is(ValueKind::kObject) || !code->is_module_class(below.class_name()))
      return Status::ok();
    return Status(
        Code::kInvalidArgument,
        format("%.200s: an object of %s is a module, which is added and replaced as a submodule",
               std::string(path).c_str(), below.class_name().c_str()));
  }));
  DeclaredTypes conformer(*code);
  TENON_ASSIGN(ValueRef conformed, conformer.conform(value, *type));
  value::CheckOptions options;
  options.classes = code;
  TENON_TRY(value::check_value(*conformed, *type, path, options));
  return conformed;
}

Status Module::add_field(std::string_view name, const TypeRef& type, FieldKind kind,
                         ValueRef value) {
  if (object_->is_opaque()) {
    return Status(Code::kUnsupported,
                  format("%s has a state, from which __setstate__ makes its attributes, so "
                         "\"%.200s\" would have no value: add attributes "
                         "before the module gets a state",
                         class_name().c_str(), std::string(name).c_str()));
  }
  TENON_ASSIGN(ClassBody * body, edit_class());
  TENON_TRY(object_->attributes().add(std::string(name), std::move(value)));
  body->add_field({std::string(name), type, kind});
  return Status::ok();
}

Status Module::add_tensor(std::string_view name, FieldKind kind, ValueRef tensor_or_none) {
  TENON_TRY(check_new_member(name));
  const TypeRef& type = tensor_or_none->is(ValueKind::kNone) ? Type::none() : Type::tensor();
  TENON_ASSIGN(ValueRef checked, check_member_value(name, type, tensor_or_none));
  return add_field(name, type, kind, std::move(checked));
}

Status Module::add_parameter(std::string_view name, ValueRef tensor_or_none) {
  return add_tensor(name, FieldKind::kParameter, std::move(tensor_or_none));
}

Status Module::add_buffer(std::string_view name, ValueRef tensor_or_none) {
  return add_tensor(name, FieldKind::kBuffer, std::move(tensor_or_none));
}

Status Module::add_attribute(std::string_view name, const TypeRef& type, ValueRef value) {
  TENON_TRY(check_new_member(name));
  TypeRef declared = type;
  if (!declared) {
    TENON_ASSIGN(declared, value::type_of(*value));
  }
  TENON_ASSIGN(ValueRef checked, check_member_value(name, declared, value));
  return add_field(name, declared, FieldKind::kAttribute, std::move(checked));
}

Status Module::add_constant(std::string_view name, const TypeRef& type, ValueRef value) {
  TENON_TRY(check_new_member(name));
  if (!is_printable_name(name)) {
    return Status(Code::kInvalidArgument,
                  format("\"%.200s\" is no name of a constant", std::string(name).c_str()));
  }
  TypeRef declared = type;
  if (!declared) {
    TENON_ASSIGN(declared, value::type_of(*value));
  }
  TENON_ASSIGN(ValueRef checked, check_member_value(name, declared, value));
  TENON_TRY(value::for_each(*checked, [&](Value& below, size_t) {
    if (!below.is(ValueKind::kTensor) || !below.as_tensor()->requires_grad()) return Status::ok();
    return Status(Code::kInvalidArgument, format("%s: a constant of code cannot require a gradient",
                                                 std::string(name).c_str()));
  }));
  TENON_ASSIGN(ClassBody * body, edit_class());
  ConstantDecl constant{std::string(name), declared, {}, nullptr};
  if (std::optional<std::string> text = literal_text(*checked)) {
    constant.text = std::move(*text);
    constant.literal = std::move(checked);
  } else {
    constant.text =
        "CONSTANTS.c" + std::to_string(object_class().code->add_constant(std::move(checked)));
  }
  body->constants.push_back(std::move(constant));
  return Status::ok();
}

Status Module::check_child(const Module& child, const TypeRef& type) const {
  CodeSet* const code = object_class().code;
  const ObjectClass its = child.object_class();
  TENON_TRY(code->check_may_change());
  TENON_TRY(its.code->check_may_change());
  if (value::reaches(*child.object_, *object_)) {
    return Status(Code::kInvalidArgument, format("%s is above %s already, and would be in itself",
                                                 child.class_name().c_str(), class_name().c_str()));
  }
  TENON_ASSIGN(const CodeSet::FoundClass found, its.code->find_class(its.name));
  if (!type) return Status::ok();
  if (type->kind() != value::TypeKind::kClass) {
    return Status(
        Code::kInvalidArgument,
        format("a submodule is declared as an interface, and %s is none", type->print().c_str()));
  }
  TENON_ASSIGN(const CodeSet::FoundClass interface, code->find_class(type->class_name()));
  if (interface.body->kind != ClassKind::kModuleInterface) {
    return Status(Code::kInvalidArgument,
                  format("%s is no interface of modules", type->class_name().c_str()));
  }
  for (const MethodDecl& method : interface.body->methods) {
    if (found.body->find_method(method.name) != SIZE_MAX) continue;
    return Status(
        Code::kInvalidArgument,
        format("%s has no method %s, which the interface %s wants", child.class_name().c_str(),
               method.name.c_str(), type->class_name().c_str()));
  }
  return Status::ok();
}

void Module::settle_child(const Module& child) const {
  const ObjectClass its = child.object_class();
  if (child.object_->attachment()) return;
  // So far the class was looked up in the code of the owner.
  if (its.code != object_class().code)
    child.object_->set_attachment(
        ClassScope::create(Ref<CodeSet>::share(its.code), std::string(its.name)));
}

Status Module::add_submodule(std::string_view name, const Ref<Module>& child, const TypeRef& type) {
  TENON_TRY(check_new_member(name));
  TENON_TRY(check_child(*child, type));
  TypeRef declared = type;
  if (!declared) {
    TENON_ASSIGN(declared, Type::class_type(child->class_name()));
  }
  settle_child(*child);
  return add_field(name, declared, FieldKind::kSubmodule, child->object_);
}

Status Module::define(std::string_view source) {
  const ObjectClass own = object_class();
  TENON_TRY(own.code->check_may_change());
  TENON_ASSIGN(auto file, script::parse_file("methods of " + class_name(), std::string(source)));
  TENON_ASSIGN(const CodeSet::FoundClass found, own.code->find_class(own.name));
  const script::Source& text = file->source();
  for (const script::Item& item : file->items()) {
    if (item.kind != script::ItemKind::kFunction)
      return text.error(Code::kInvalidArgument, item.range, "a method is wanted, which is a def");
    const std::string name(item.name());
    if (item.function->params.empty())
      return text.error(Code::kInvalidArgument, item.function->name_range, "a method has self");
    if (file->find(name) != &item)
      return text.error(Code::kInvalidArgument, item.function->name_range,
                        name + " is defined twice");
    const char* const taken = found.body->taken_by(name);
    if (taken != nullptr && found.body->find_method(name) == SIZE_MAX) {
      return text.error(Code::kInvalidArgument, item.function->name_range,
                        format("%s has %s %s already", class_name().c_str(), taken, name.c_str()));
    }
  }
  TENON_ASSIGN(ClassBody * body, edit_class());
  for (const script::Item& item : file->items()) {
    body->add_method({std::string(item.name()), script::print(*item.function, 1), kNewCodeVersion});
  }
  return Status::ok();
}

Status Module::remove_method(std::string_view name) {
  TENON_TRY(object_class().code->check_may_change());
  TENON_ASSIGN(const Member member, find_member(name));
  if (member.kind != MemberKind::kMethod) {
    return Status(Code::kInvalidArgument,
                  format("%s is a %s of %s and no method", member.name.c_str(),
                         member_kind_name(member.kind), class_name().c_str()));
  }
  TENON_ASSIGN(ClassBody * body, edit_class());
  for (std::vector<std::string>* hooks : {&body->forward_hooks, &body->forward_pre_hooks}) {
    hooks->erase(std::remove(hooks->begin(), hooks->end(), member.name), hooks->end());
  }
  body->remove_method(body->find_method(name));
  return Status::ok();
}

Status Module::define_types(std::string_view qualifier, std::string_view source) {
  TENON_ASSIGN(const std::string full, qualifier == "__torch__"
                                           ? Result<std::string>(std::string(qualifier))
                                           : full_class_name(qualifier));
  return object_class().code->add_source(full, source);
}

Status Module::set_hooks(bool before_forward, std::vector<std::string> method_names) {
  TENON_TRY(object_class().code->check_may_change());
  for (const std::string& name : method_names) {
    TENON_ASSIGN(const Member member, find_member(name));
    if (member.kind != MemberKind::kMethod) {
      return Status(Code::kInvalidArgument,
                    format("%s is a %s of %s and no method", name.c_str(),
                           member_kind_name(member.kind), class_name().c_str()));
    }
  }
  TENON_ASSIGN(ClassBody * body, edit_class());
  (before_forward ? body->forward_pre_hooks : body->forward_hooks) = std::move(method_names);
  return Status::ok();
}

Status Module::set_extra_file(std::string_view name, std::string content) {
  TENON_TRY(object_class().code->check_may_change());
  if (name.empty()) return Status(Code::kInvalidArgument, "an extra file has no name");
  std::vector<ExtraFile>& files = make_package().extra_files;
  const auto found = std::find_if(files.begin(), files.end(),
                                  [&](const ExtraFile& file) { return file.name == name; });
  if (found != files.end())
    found->content = std::move(content);
  else
    files.push_back({std::string(name), std::move(content)});
  return Status::ok();
}

Status Module::remove_extra_file(std::string_view name) {
  TENON_TRY(object_class().code->check_may_change());
  std::vector<ExtraFile>& files = make_package().extra_files;
  const auto found = std::find_if(files.begin(), files.end(),
                                  [&](const ExtraFile& file) { return file.name == name; });
  if (found == files.end())
    return Status(Code::kNotFound,
                  format("there is no extra file \"%.200s\"", std::string(name).c_str()));
  files.erase(found);
  return Status::ok();
}

Status Module::set_traced_inputs(std::string_view method, std::vector<ValueRef> inputs) {
  TENON_TRY(object_class().code->check_may_change());
  TENON_ASSIGN(const Member member, find_member(method));
  if (member.kind != MemberKind::kMethod) {
    return Status(Code::kInvalidArgument,
                  format("%s is a %s of %s and no method", member.name.c_str(),
                         member_kind_name(member.kind), class_name().c_str()));
  }
  std::vector<value::DictEntry> entries;
  Package& package = make_package();
  if (package.traced_inputs) {
    for (const value::DictEntry& entry : package.traced_inputs->entries()) {
      if (entry.key->as_str() != method) entries.push_back(entry);
    }
  }
  TENON_ASSIGN(TypeRef any_list, Type::list(Type::any()));
  entries.push_back({Value::of_str(std::string(method)), Value::list(any_list, std::move(inputs))});
  TENON_ASSIGN(TypeRef type, Type::dict(Type::str(), std::move(any_list)));
  TENON_ASSIGN(package.traced_inputs, Value::dict(std::move(type), std::move(entries)));
  package.traced_inputs_pickle.clear();
  return Status::ok();
}

}  // namespace tenon::module
