#include "modules/module/state_path.h"

#include <charconv>
#include <span>
#include <utility>

#include "modules/module/declared_types.h"
#include "modules/value/check.h"
#include "modules/value/path.h"
#include "modules/value/walk.h"
#include "tensor/scalar_type.h"

namespace tenon::module {

using value::DictEntry;
using value::Type;
using value::TypeKind;
using value::Value;
using value::ValueKind;

namespace {

constexpr std::string_view kState = "state";

bool leads_to_state(std::string_view rest) noexcept {
  if (!rest.starts_with(kState)) return false;
  return rest.size() == kState.size() || rest[kState.size()] == '[' || rest[kState.size()] == '.';
}

TypeRef type_of_state(const CodeSet& code, std::string_view class_name) {
  const value::ClassDecl* const decl = code.find(class_name);
  return decl == nullptr ? nullptr : decl->state_type;
}

// The type of a child of a value. `type` is the value's type, and may be null.
TypeRef type_of_child(const CodeSet& code, const TypeRef& type, const Value& parent, size_t index) {
  if (!type) return nullptr;
  if (type->kind() == TypeKind::kOptional)
    return type_of_child(code, type->element(), parent, index);
  if (type->kind() == TypeKind::kTuple && index < type->parts().size()) return type->parts()[index];
  if (type->kind() == TypeKind::kList && parent.is(ValueKind::kList)) return type->element();
  if (type->kind() == TypeKind::kDict && parent.is(ValueKind::kDict)) return type->mapped();
  if (type->kind() != TypeKind::kClass) return nullptr;
  const value::ClassDecl* const decl = code.find(type->class_name());
  const bool is_named_tuple = decl != nullptr &&
                              decl->kind == value::ClassDecl::Kind::kNamedTuple &&
                              index < decl->fields.size();
  return is_named_tuple ? decl->fields[index].type : nullptr;
}

// Finds the child that the beginning of `rest` names, and removes this beginning. SIZE_MAX: there
// is no such child.
size_t take_child(const Value& parent, std::string_view* rest) {
  if (parent.is(ValueKind::kTuple) || parent.is(ValueKind::kList)) {
    size_t index = 0;
    const auto [end, error] = std::from_chars(rest->data() + 1, rest->data() + rest->size(), index);
    if (error != std::errc() || end == rest->data() + rest->size() || *end != ']' ||
        index >= parent.child_count())
      return SIZE_MAX;
    rest->remove_prefix(static_cast<size_t>(end - rest->data()) + 1);
    return index;
  }
  if (!parent.is(ValueKind::kDict)) return SIZE_MAX;
  for (size_t index = 1; index < parent.child_count(); index += 2) {
    const std::string key = value::step_text(parent, index);
    if (!rest->starts_with(key)) continue;
    rest->remove_prefix(key.size());
    return index;
  }
  return SIZE_MAX;
}

// Follows the part of a path after "state".
Status follow(StatePlace* place, std::string_view rest, std::string_view path) {
  while (!rest.empty()) {
    const Value& here = *place->value;
    if (here.is(ValueKind::kObject) && here.is_opaque() && rest[0] == '.' &&
        leads_to_state(rest.substr(1))) {
      const ObjectClass own = class_of(here, place->code);
      place->object = place->value;
      place->code = own.code;
      place->steps.clear();
      place->type = type_of_state(*own.code, own.name);
      place->value = here.state();
      rest.remove_prefix(1 + kState.size());
      continue;
    }
    const std::string_view before = rest;
    const size_t index = rest[0] == '[' ? take_child(here, &rest) : SIZE_MAX;
    if (index == SIZE_MAX) {
      const std::string at(path.substr(0, path.size() - before.size()));
      return Status(Code::kNotFound,
                    format("\"%.200s\" is a %s, and has no \"%.200s\"", at.c_str(),
                           value::value_kind_name(here.kind()), std::string(before).c_str()));
    }
    place->type = type_of_child(*place->code, place->type, here, index);
    place->steps.push_back(index);
    place->value = ValueRef::share(&here.child(index));
  }
  return Status::ok();
}

Result<ValueRef> with_child(const ValueRef& parent, std::span<const size_t> steps, ValueRef value) {
  if (steps.empty()) return value;
  TENON_ASSIGN(ValueRef made, with_child(ValueRef::share(&parent->child(steps[0])),
                                         steps.subspan(1), std::move(value)));
  if (parent->is(ValueKind::kDict)) {
    std::vector<DictEntry> entries(parent->entries().begin(), parent->entries().end());
    entries[steps[0] / 2].value = std::move(made);
    return Value::dict(parent->declared_type(), std::move(entries));
  }
  std::vector<ValueRef> items(parent->items().begin(), parent->items().end());
  items[steps[0]] = std::move(made);
  if (parent->is(ValueKind::kTuple)) return Value::tuple(std::move(items), parent->class_name());
  return Value::list(parent->declared_type(), std::move(items));
}

// Checks a value for the state of a C++ class, which no code declares. The class reads values as
// PyTorch wrote them, so the value must have the type of the value in that place. None is always
// accepted, and a place that holds None accepts any value, because a part may be optional.
Result<ValueRef> check_undeclared(const StatePlace& place, std::string_view path,
                                  const ValueRef& given) {
  if (given->is(ValueKind::kNone) || place.value->is(ValueKind::kNone)) return given;
  TENON_ASSIGN(const TypeRef wanted, value::type_of(*place.value));
  value::CheckOptions options;
  options.classes = place.code;
  TENON_TRY(value::check_value(*given, *wanted, path, options));
  return given;
}

}  // namespace

Result<std::optional<StatePlace>> find_state_place(const ValueRef& root, CodeSet* around,
                                                   std::string_view path) {
  ValueRef object = root;
  CodeSet* code = around;
  std::string_view rest = path;
  for (;;) {
    const ObjectClass own = class_of(*object, code);
    code = own.code;
    if (object->is_opaque()) {
      if (!leads_to_state(rest)) return std::optional<StatePlace>();
      StatePlace place{
          std::string(rest), object, code, {}, object->state(), type_of_state(*code, own.name)};
      TENON_TRY(follow(&place, rest.substr(kState.size()), path));
      return std::optional<StatePlace>(std::move(place));
    }
    const size_t dot = rest.find('.');
    if (dot == std::string_view::npos) return std::optional<StatePlace>();
    const ValueRef* const held = object->attributes().find(rest.substr(0, dot));
    if (held == nullptr || !(*held)->is(ValueKind::kObject)) return std::optional<StatePlace>();
    object = ValueRef(*held);
    rest.remove_prefix(dot + 1);
  }
}

Status check_state_tensor(const Value& object, const Value& held, const Value& given,
                          std::string_view path) {
  if (!is_custom_class(object.class_name()) || !held.is(ValueKind::kTensor) ||
      !given.is(ValueKind::kTensor))
    return Status::ok();
  const tensor::ScalarType wanted = held.as_tensor()->type();
  const tensor::ScalarType found = given.as_tensor()->type();
  if (wanted == found) return Status::ok();
  const char* const wanted_name = tensor::scalar_type_info(wanted).dtype_name;
  const char* const found_name = tensor::scalar_type_info(found).dtype_name;
  return Status(Code::kInvalidArgument, format("%.200s: a tensor of %s is wanted, and one of %s is "
                                               "given. PyTorch's own class %.200s reads it",
                                               std::string(path).c_str(), wanted_name, found_name,
                                               object.class_name().c_str()))
      .with("where", std::string(path))
      .with("wanted", wanted_name)
      .with("found", found_name);
}

Result<ValueRef> check_state_value(const StatePlace& place, std::string_view path,
                                   const ValueRef& value) {
  // If the value contained the object itself, neither would ever be freed.
  TENON_TRY(value::for_each(*value, [&](Value& below, size_t) {
    if (&below != place.object.get() && !is_module_object(below, place.code)) return Status::ok();
    return Status(Code::kInvalidArgument,
                  format("%.200s: an object of %s cannot be in a state here",
                         std::string(path).c_str(), below.class_name().c_str()));
  }));
  TENON_TRY(check_state_tensor(*place.object, *place.value, *value, path));
  if (!place.type) return check_undeclared(place, path, value);
  DeclaredTypes conformer(*place.code);
  TENON_ASSIGN(ValueRef conformed, conformer.conform(value, *place.type));
  value::CheckOptions options;
  options.classes = place.code;
  TENON_TRY(value::check_value(*conformed, *place.type, path, options));
  return conformed;
}

Result<ValueRef> state_with(const StatePlace& place, ValueRef value) {
  return with_child(place.object->state(), place.steps, std::move(value));
}

}  // namespace tenon::module
