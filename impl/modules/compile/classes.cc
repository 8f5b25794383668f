#include "modules/compile/classes.h"

#include <utility>

#include "modules/script/signature.h"

namespace tenon::compile {

using script::ClassKind;
using value::TypeKind;

Result<const ClassInfo*> Classes::find(std::string_view qualified_name) const {
  const auto known = found_.find(qualified_name);
  if (known != found_.end()) return known->second.get();
  const script::Declarations::ItemInFile* const place = declarations_.find_place(qualified_name);
  if (place == nullptr || place->item->class_def == nullptr) return nullptr;
  auto info = std::make_unique<ClassInfo>();
  info->declaration = declarations_.find_class(qualified_name);
  info->source = &place->file->source();
  info->name_range = place->item->class_def->name_range;
  TENON_ASSIGN(info->parts, script::class_parts(*info->source, *place->item->class_def));
  for (const script::Method& method : info->parts.methods)
    info->methods.insert_or_assign(method.function->name, method.function);
  for (const script::Constant& constant : info->parts.constants)
    info->constants.try_emplace(constant.name, &constant);
  for (size_t i = 0; i < info->declaration->fields.size(); ++i)
    info->fields.try_emplace(info->declaration->fields[i].name, i);
  for (const script::Field& field : info->parts.fields) {
    TENON_ASSIGN(value::TypeRef type, script::annotation_type(*info->source, *field.annotation));
    info->attributes.try_emplace(field.name,
                                 ClassInfo::Attribute{info->attributes.size(), std::move(type)});
  }
  const auto order = slots_ != nullptr ? slots_->find(qualified_name) : SlotNames::const_iterator();
  if (slots_ != nullptr && order != slots_->end()) {
    for (size_t i = 0; i < order->second.size(); ++i) {
      const auto attribute = info->attributes.find(order->second[i]);
      if (attribute != info->attributes.end()) attribute->second.slot = i;
    }
  }
  const ClassInfo* const made = info.get();
  found_.emplace(qualified_name, std::move(info));
  return made;
}

const script::ClassDeclaration* Classes::declaration_of(const value::Type& type) const {
  return type.kind() == TypeKind::kClass ? declarations_.find_class(type.class_name()) : nullptr;
}

bool Classes::is_named_tuple(const value::Type& type) const {
  const script::ClassDeclaration* const declared = declaration_of(type);
  return declared != nullptr && declared->kind == ClassKind::kNamedTuple;
}

bool Classes::is_enum(const value::Type& type) const {
  const script::ClassDeclaration* const declared = declaration_of(type);
  return declared != nullptr && declared->kind == ClassKind::kEnum;
}

bool Classes::is_interface(const value::Type& type) const {
  const script::ClassDeclaration* const declared = declaration_of(type);
  return declared != nullptr && declared->is_interface();
}

std::vector<value::TypeRef> Classes::items_of(const value::Type& type) const {
  if (type.kind() == TypeKind::kTuple) return {type.parts().begin(), type.parts().end()};
  std::vector<value::TypeRef> items;
  const script::ClassDeclaration* const declared = declaration_of(type);
  if (declared == nullptr || declared->kind != ClassKind::kNamedTuple) return items;
  for (const script::ParameterDeclaration& field : declared->fields)
    items.push_back(field.type ? field.type : value::Type::tensor());
  return items;
}

}  // namespace tenon::compile
