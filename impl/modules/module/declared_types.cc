#include "modules/module/declared_types.h"

namespace tenon::module {

using value::ClassDecl;
using value::DictEntry;
using value::Type;
using value::TypeKind;
using value::TypeRef;
using value::Value;
using value::ValueKind;
using value::ValueRef;

namespace {

// Whether such a value, or a value below it, may change.
bool can_change(ValueKind kind) noexcept {
  return kind == ValueKind::kObject || kind == ValueKind::kTuple || kind == ValueKind::kList ||
         kind == ValueKind::kDict;
}

}  // namespace

Status DeclaredTypes::conform_object(const ValueRef& object) {
  if (seen_objects_.insert(object.get()).second) objects_.push_back(object);
  while (!objects_.empty()) {
    const ValueRef next = std::move(objects_.back());
    objects_.pop_back();
    if (!next->is_opaque()) TENON_TRY(conform_attributes(*next));
  }
  return Status::ok();
}

Status DeclaredTypes::conform_attributes(Value& object) {
  const ClassDecl* const decl = classes_.find(object.class_name());
  if (decl == nullptr || decl->kind != ClassDecl::Kind::kObject) return Status::ok();
  value::Attributes& attributes = object.attributes();
  for (size_t i = 0; i < decl->fields.size(); ++i) {
    const value::Field& field = decl->fields[i];
    // PyTorch writes the attributes in the order of the class, so the search mostly succeeds at
    // once.
    const bool in_order = i < attributes.size() && attributes.all()[i].name == field.name;
    const size_t place = in_order ? i : attributes.index_of(field.name);
    if (place == attributes.size() || !can_change(attributes.all()[place].value->kind())) continue;
    if (const ValueRef& only = attributes.all()[place].value;
        only->is(ValueKind::kObject) && only->strong_count() == 1) {
      objects_.push_back(only);  // an object with one owner cannot be met twice
      continue;
    }
    const ValueRef now = attributes.all()[place].value;
    TENON_ASSIGN(ValueRef conformed, conform(now, *field.type));
    if (conformed.get() != now.get()) attributes.replace_at(place, std::move(conformed));
  }
  return Status::ok();
}

Result<ValueRef> DeclaredTypes::conform(const ValueRef& value, const Type& type) {
  if (!can_change(value->kind())) return value;
  if (value->is(ValueKind::kObject)) {
    if (seen_objects_.insert(value.get()).second) objects_.push_back(value);
    return value;
  }
  if (const auto found = done_.find(value.get()); found != done_.end()) return found->second.second;
  TENON_ASSIGN(ValueRef conformed, conform_now(value, type));
  done_[value.get()] = {value, conformed};
  return conformed;
}

Result<ValueRef> DeclaredTypes::conform_now(const ValueRef& value, const Type& type) {
  switch (type.kind()) {
    case TypeKind::kOptional: return conform(value, *type.element());
    case TypeKind::kUnion: {
      const TypeKind wanted = value->is(ValueKind::kList)   ? TypeKind::kList
                              : value->is(ValueKind::kDict) ? TypeKind::kDict
                                                            : TypeKind::kTuple;
      const Type* found = nullptr;
      for (const TypeRef& part : type.parts()) {
        if (part->kind() != wanted) continue;
        // If two parts of the union fit, the type is unknown.
        if (found != nullptr) return value;
        found = part.get();
      }
      return found == nullptr ? Result<ValueRef>(value) : conform_now(value, *found);
    }
    case TypeKind::kList:
      return value->is(ValueKind::kList) ? conform_items(value, type) : Result<ValueRef>(value);
    case TypeKind::kTuple:
      return value->is(ValueKind::kTuple) ? conform_items(value, type) : Result<ValueRef>(value);
    case TypeKind::kDict:
      return value->is(ValueKind::kDict) ? conform_dict(value, type) : Result<ValueRef>(value);
    case TypeKind::kClass:
      return value->is(ValueKind::kTuple) ? conform_named_tuple(value, type)
                                          : Result<ValueRef>(value);
    default: return value;
  }
}

Result<ValueRef> DeclaredTypes::conform_items(const ValueRef& value, const Type& type) {
  const bool is_list = value->is(ValueKind::kList);
  if (!is_list && value->items().size() != type.parts().size()) return value;
  std::vector<ValueRef> items;
  items.reserve(value->items().size());
  bool changed = is_list && !value->declared_type();
  for (size_t i = 0; i < value->items().size(); ++i) {
    TENON_ASSIGN(ValueRef item,
                 conform(value->items()[i], is_list ? *type.element() : *type.parts()[i]));
    changed = changed || item.get() != value->items()[i].get();
    items.push_back(std::move(item));
  }
  if (!changed) return value;
  if (!is_list) return Value::tuple(std::move(items), value->class_name());
  return Value::list(value->declared_type() ? value->declared_type() : TypeRef::share(&type),
                     std::move(items));
}

Result<ValueRef> DeclaredTypes::conform_dict(const ValueRef& value, const Type& type) {
  std::vector<DictEntry> entries;
  entries.reserve(value->entries().size());
  bool changed = !value->declared_type();
  for (const DictEntry& entry : value->entries()) {
    TENON_ASSIGN(ValueRef mapped, conform(entry.value, *type.mapped()));
    changed = changed || mapped.get() != entry.value.get();
    entries.push_back({entry.key, std::move(mapped)});
  }
  if (!changed) return value;
  return Value::dict(value->declared_type() ? value->declared_type() : TypeRef::share(&type),
                     std::move(entries));
}

Result<ValueRef> DeclaredTypes::conform_named_tuple(const ValueRef& value, const Type& type) {
  const ClassDecl* const decl = classes_.find(type.class_name());
  if (decl == nullptr || decl->kind != ClassDecl::Kind::kNamedTuple ||
      decl->fields.size() != value->items().size())
    return value;
  std::vector<ValueRef> items;
  items.reserve(decl->fields.size());
  for (size_t i = 0; i < decl->fields.size(); ++i) {
    TENON_ASSIGN(ValueRef item, conform(value->items()[i], *decl->fields[i].type));
    items.push_back(std::move(item));
  }
  return Value::tuple(std::move(items),
                      value->class_name().empty() ? type.class_name() : value->class_name());
}

}  // namespace tenon::module
