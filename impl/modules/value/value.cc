#include "modules/value/value.h"

#include <utility>

#include "modules/value/dict_key.h"
#include "modules/value/tree_lock.h"

namespace tenon::value {

const char* value_kind_name(ValueKind kind) noexcept {
  switch (kind) {
    case ValueKind::kNone: return "None";
    case ValueKind::kBool: return "bool";
    case ValueKind::kInt: return "int";
    case ValueKind::kFloat: return "float";
    case ValueKind::kComplex: return "complex";
    case ValueKind::kStr: return "str";
    case ValueKind::kDevice: return "Device";
    case ValueKind::kTensor: return "Tensor";
    case ValueKind::kTuple: return "tuple";
    case ValueKind::kList: return "list";
    case ValueKind::kDict: return "dict";
    case ValueKind::kEnum: return "enum";
    case ValueKind::kObject: return "object";
  }
  return "?";
}

bool has_identity(ValueKind kind) noexcept {
  switch (kind) {
    case ValueKind::kComplex:
    case ValueKind::kTensor:
    case ValueKind::kTuple:
    case ValueKind::kList:
    case ValueKind::kDict:
    case ValueKind::kEnum:
    case ValueKind::kObject: return true;
    default: return false;
  }
}

ValueRef Value::make(ValueKind kind, Held held) {
  return ValueRef::adopt(new Value(kind, std::move(held)));
}

ValueRef Value::none() { return make(ValueKind::kNone, std::monostate()); }
ValueRef Value::of_bool(bool value) { return make(ValueKind::kBool, value); }
ValueRef Value::of_int(int64_t value) { return make(ValueKind::kInt, value); }
ValueRef Value::of_float(double value) { return make(ValueKind::kFloat, value); }
ValueRef Value::of_complex(std::complex<double> value) { return make(ValueKind::kComplex, value); }
ValueRef Value::of_str(std::string utf8) { return make(ValueKind::kStr, std::move(utf8)); }
ValueRef Value::of_device(std::string device) {
  return make(ValueKind::kDevice, std::move(device));
}
ValueRef Value::of_tensor(TensorValueRef tensor) {
  return make(ValueKind::kTensor, std::move(tensor));
}

ValueRef Value::tuple(std::vector<ValueRef> items, std::string class_name) {
  auto children = std::make_unique<Children>();
  children->items = std::move(items);
  children->class_name = std::move(class_name);
  return make(ValueKind::kTuple, std::move(children));
}

ValueRef Value::list(TypeRef type, std::vector<ValueRef> items) {
  auto children = std::make_unique<Children>();
  children->type = std::move(type);
  children->items = std::move(items);
  return make(ValueKind::kList, std::move(children));
}

Result<ValueRef> Value::dict(TypeRef type, std::vector<DictEntry> entries) {
  auto children = std::make_unique<Children>();
  TENON_TRY(order_keys(entries, &children->key_order));
  children->type = std::move(type);
  children->entries = std::move(entries);
  return make(ValueKind::kDict, std::move(children));
}

ValueRef Value::enumeration(std::string class_name, ValueRef value) {
  auto children = std::make_unique<Children>();
  children->class_name = std::move(class_name);
  children->inner = std::move(value);
  return make(ValueKind::kEnum, std::move(children));
}

ValueRef Value::object(std::string class_name) {
  auto children = std::make_unique<Children>();
  children->class_name = std::move(class_name);
  return make(ValueKind::kObject, std::move(children));
}

Result<ValueRef> Value::object(std::string class_name, std::vector<Attribute> attributes) {
  ValueRef made = object(std::move(class_name));
  if (const std::string* twice = made->attributes().assign(std::move(attributes));
      twice != nullptr) {
    return Status(Code::kInvalidArgument,
                  format("the attribute '%s' stands there twice", twice->c_str()));
  }
  return made;
}

ValueRef Value::object_with_state(std::string class_name, ValueRef state) {
  ValueRef made = object(std::move(class_name));
  made->children().inner = std::move(state);
  return made;
}

const ValueRef* Value::find(const Value& key) const noexcept {
  const Children& held = children();
  const size_t at = find_key(held.entries, held.key_order, key);
  return at < held.entries.size() ? &held.entries[at].value : nullptr;
}

const ValueRef* Value::find(std::string_view key) const noexcept {
  const Children& held = children();
  const size_t at = find_key(held.entries, held.key_order, key);
  return at < held.entries.size() ? &held.entries[at].value : nullptr;
}

size_t Value::child_count() const noexcept {
  switch (kind_) {
    case ValueKind::kTuple:
    case ValueKind::kList: return items().size();
    case ValueKind::kDict: return 2 * entries().size();
    case ValueKind::kEnum: return 1;
    case ValueKind::kObject: return is_opaque() ? 1 : attributes().size();
    default: return 0;
  }
}

Value& Value::child(size_t index) const noexcept {
  switch (kind_) {
    case ValueKind::kDict: {
      const DictEntry& entry = entries()[index / 2];
      return index % 2 == 0 ? *entry.key : *entry.value;
    }
    case ValueKind::kEnum: return *enum_value();
    case ValueKind::kObject: return is_opaque() ? *state() : *attributes().all()[index].value;
    default: return *items()[index];
  }
}

// Values may be nested as deep as memory allows, so they are not freed by recursion. A value whose
// last reference is gone is put on a list, linked through next_dead_, which needs no memory. Its
// children are then released one by one.
void Value::release_children(Value** dead) noexcept {
  auto* const held = std::get_if<std::unique_ptr<Children>>(&held_);
  if (held == nullptr) return;
  const auto let_go = [dead](ValueRef& child) {
    Value* const value = child.detach();
    if (value == nullptr || !value->release_strong()) return;
    value->next_dead_ = *dead;
    *dead = value;
  };
  for (ValueRef& item : (*held)->items) let_go(item);
  for (DictEntry& entry : (*held)->entries) {
    let_go(entry.key);
    let_go(entry.value);
  }
  let_go((*held)->inner);
  for (Attribute& attribute : (*held)->attributes.entries_) let_go(attribute.value);
}

void Value::free_dead(Value* dead) noexcept {
  while (dead != nullptr) {
    Value* const value = std::exchange(dead, dead->next_dead_);
    value->release_children(&dead);
    value->weak_release();
  }
}

void Value::dispose() noexcept {
  if (Value** const later = values_to_free_later()) {
    weak_retain();  // for the list, in which free_dead() finds this value
    next_dead_ = std::exchange(*later, this);
    return;
  }
  Value* dead = nullptr;
  release_children(&dead);
  free_dead(dead);
}

}  // namespace tenon::value
