// Renamer (resolve.h): gives the values of an export the class names that they have in the archive.
// Each function returns the value or type that it was given if nothing in it changes.
#include <utility>

#include "modules/module/resolve.h"

namespace tenon::module {

using value::Attribute;
using value::DictEntry;
using value::Type;
using value::TypeKind;
using value::Value;
using value::ValueKind;

// The archive's name of the class that `class_name` means in the code `around`. A custom C++ class
// keeps its name, because its code is not in the archive.
Result<std::string> Renamer::name_of(const std::string& class_name, CodeSet* around) const {
  if (class_name.empty() || is_custom_class(class_name)) return class_name;
  TENON_ASSIGN(const CodeSet::FoundClass found, around->find_class(class_name));
  const ClassGraph::Node* const node = graph_->find(found.definition);
  if (node == nullptr)
    return Status(Code::kInternal, format("%s is in no graph", class_name.c_str()));
  return node->name;
}

Result<TypeRef> Renamer::rename_type(const TypeRef& type, CodeSet* around) const {
  if (type->kind() == TypeKind::kClass) {
    TENON_ASSIGN(const std::string name, name_of(type->class_name(), around));
    return name == type->class_name() ? type : Type::class_type(name);
  }
  std::vector<TypeRef> parts;
  bool changed = false;
  for (const TypeRef& part : type->parts()) {
    TENON_ASSIGN(TypeRef renamed, rename_type(part, around));
    changed = changed || renamed.get() != part.get();
    parts.push_back(std::move(renamed));
  }
  if (!changed) return type;
  switch (type->kind()) {
    case TypeKind::kList: return Type::list(std::move(parts[0]));
    case TypeKind::kDict: return Type::dict(std::move(parts[0]), std::move(parts[1]));
    case TypeKind::kTuple: return Type::tuple(std::move(parts));
    case TypeKind::kOptional: return Type::optional(std::move(parts[0]));
    case TypeKind::kUnion: return Type::union_of(parts);
    case TypeKind::kFuture: return Type::future(std::move(parts[0]));
    case TypeKind::kRRef: return Type::rref(std::move(parts[0]));
    case TypeKind::kAwait: return Type::await(std::move(parts[0]));
    default: return Status(Code::kInternal, "a type with parts that is none of those known");
  }
}

// A value without children stays as it is, unless it is an object, a list or a dict.
Result<ValueRef> Renamer::rename(const ValueRef& value, CodeSet* around) {
  if (value->child_count() == 0 && !value->is(ValueKind::kObject) && !value->is(ValueKind::kList) &&
      !value->is(ValueKind::kDict)) {
    return value;
  }
  if (const auto found = done_.find(value.get()); found != done_.end()) return found->second;
  TENON_ASSIGN(ValueRef renamed, rename_now(value, around));
  done_[value.get()] = renamed;
  return renamed;
}

Result<ValueRef> Renamer::rename_now(const ValueRef& value, CodeSet* around) {
  switch (value->kind()) {
    case ValueKind::kObject: return rename_object(value, around);
    case ValueKind::kTuple:
    case ValueKind::kList: return rename_items(value, around);
    case ValueKind::kDict: return rename_dict(value, around);
    case ValueKind::kEnum: {
      TENON_ASSIGN(const std::string name, name_of(value->class_name(), around));
      return name == value->class_name() ? value : Value::enumeration(name, value->enum_value());
    }
    default: return value;
  }
}

Result<ValueRef> Renamer::rename_object(const ValueRef& value, CodeSet* around) {
  const ClassGraph::Node* const node = graph_->find(*value);
  CodeSet* const inside = node != nullptr ? node->code : around;
  std::string name;
  if (node != nullptr) {
    name = node->name;
  } else {
    TENON_ASSIGN(name, name_of(value->class_name(), around));
  }
  bool changed = name != value->class_name();
  if (value->is_opaque()) {
    TENON_ASSIGN(ValueRef state, rename(value->state(), inside));
    if (!changed && state.get() == value->state().get()) return value;
    return Value::object_with_state(std::move(name), std::move(state));
  }
  std::vector<Attribute> attributes;
  attributes.reserve(value->attributes().size());
  for (const Attribute& attribute : value->attributes().all()) {
    TENON_ASSIGN(ValueRef renamed, rename(attribute.value, inside));
    changed = changed || renamed.get() != attribute.value.get();
    attributes.push_back({attribute.name, std::move(renamed)});
  }
  if (node != nullptr && node->definition->is_new()) {
    // The class is new or was changed, and PyTorch expects the attributes in the class's order.
    TENON_ASSIGN(const ClassBody* body, node->code->body(*node->definition));
    std::vector<Attribute> ordered;
    for (const size_t field : body->field_order()) {
      const size_t index = value->attributes().index_of(body->fields[field].name);
      if (index == attributes.size()) {
        return Status(Code::kInvalidArgument,
                      format("%s has no attribute \"%.200s\", which its class declares",
                             name.c_str(), body->fields[field].name.c_str()));
      }
      changed = changed || index != ordered.size();
      ordered.push_back(std::move(attributes[index]));
    }
    attributes = std::move(ordered);
  }
  if (!changed) return value;
  ValueRef made = Value::object(std::move(name));
  for (Attribute& attribute : attributes)
    TENON_TRY(made->attributes().add(std::move(attribute.name), std::move(attribute.value)));
  return made;
}

Result<ValueRef> Renamer::rename_items(const ValueRef& value, CodeSet* around) {
  const bool is_list = value->is(ValueKind::kList);
  std::vector<ValueRef> items;
  items.reserve(value->items().size());
  bool changed = false;
  for (const ValueRef& item : value->items()) {
    TENON_ASSIGN(ValueRef renamed, rename(item, around));
    changed = changed || renamed.get() != item.get();
    items.push_back(std::move(renamed));
  }
  if (is_list) {
    TypeRef type = value->declared_type();
    if (type) {
      TENON_ASSIGN(type, rename_type(value->declared_type(), around));
    }
    if (!changed && type.get() == value->declared_type().get()) return value;
    return Value::list(std::move(type), std::move(items));
  }
  TENON_ASSIGN(const std::string name, name_of(value->class_name(), around));
  if (!changed && name == value->class_name()) return value;
  return Value::tuple(std::move(items), name);
}

Result<ValueRef> Renamer::rename_dict(const ValueRef& value, CodeSet* around) {
  TypeRef type = value->declared_type();
  if (type) {
    TENON_ASSIGN(type, rename_type(value->declared_type(), around));
  }
  bool changed = type.get() != value->declared_type().get();
  std::vector<DictEntry> entries;
  entries.reserve(value->entries().size());
  for (const DictEntry& entry : value->entries()) {
    TENON_ASSIGN(ValueRef key, rename(entry.key, around));
    TENON_ASSIGN(ValueRef mapped, rename(entry.value, around));
    changed = changed || key.get() != entry.key.get() || mapped.get() != entry.value.get();
    entries.push_back({std::move(key), std::move(mapped)});
  }
  if (!changed) return value;
  return Value::dict(std::move(type), std::move(entries));
}

}  // namespace tenon::module
