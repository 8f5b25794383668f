#include "modules/compile/types.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace tenon::compile {
namespace {

using Kind = script::SchemaType::Kind;

TypeRef taken(Result<TypeRef> type) { return type.is_ok() ? std::move(type).value() : TypeRef(); }

bool is_number(TypeKind kind) noexcept {
  return kind == TypeKind::kInt || kind == TypeKind::kFloat || kind == TypeKind::kComplex;
}

bool all_items_are_subtypes(const Classes& classes, const std::vector<TypeRef>& items,
                            const std::vector<TypeRef>& wanted) {
  if (items.size() != wanted.size()) return false;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!is_subtype(classes, *items[i], *wanted[i])) return false;
  }
  return true;
}

// Whether the class has a method of every name that the interface has.
bool implements(const script::ClassDeclaration& owner, const script::ClassDeclaration& interface) {
  return std::all_of(interface.methods.begin(), interface.methods.end(), [&](const auto& entry) {
    return owner.methods.find(std::string_view(entry.first)) != owner.methods.end();
  });
}

}  // namespace

bool is_subtype(const Classes& classes, const Type& type, const Type& wanted) {
  if (wanted.kind() == TypeKind::kAny || type.equals(wanted)) return true;
  if (type.kind() == TypeKind::kUnion && wanted.kind() != TypeKind::kUnion) {
    return std::all_of(type.parts().begin(), type.parts().end(),
                       [&](const TypeRef& part) { return is_subtype(classes, *part, wanted); });
  }
  switch (wanted.kind()) {
    case TypeKind::kNumber: return is_number(type.kind());
    case TypeKind::kAnyList: return type.kind() == TypeKind::kList;
    case TypeKind::kAnyTuple:
      return type.kind() == TypeKind::kTuple || classes.is_named_tuple(type);
    case TypeKind::kOptional:
      if (type.kind() == TypeKind::kOptional)
        return is_subtype(classes, *type.element(), *wanted.element());
      return type.kind() == TypeKind::kNone || is_subtype(classes, type, *wanted.element());
    case TypeKind::kUnion: {
      const auto fits = [&](const Type& part) {
        return std::any_of(
            wanted.parts().begin(), wanted.parts().end(),
            [&](const TypeRef& member) { return is_subtype(classes, part, *member); });
      };
      if (type.kind() == TypeKind::kUnion || type.kind() == TypeKind::kOptional) {
        const bool parts_fit = std::all_of(type.parts().begin(), type.parts().end(),
                                           [&](const TypeRef& part) { return fits(*part); });
        return parts_fit && (type.kind() == TypeKind::kUnion || fits(*Type::none()));
      }
      return fits(type);
    }
    case TypeKind::kTuple: {
      if (type.kind() != TypeKind::kTuple && !classes.is_named_tuple(type)) return false;
      return all_items_are_subtypes(classes, classes.items_of(type), classes.items_of(wanted));
    }
    case TypeKind::kFuture:
      return type.kind() == TypeKind::kFuture &&
             is_subtype(classes, *type.element(), *wanted.element());
    case TypeKind::kClass: {
      const script::ClassDeclaration* const owner = classes.declaration_of(type);
      const script::ClassDeclaration* const interface = classes.declaration_of(wanted);
      return owner != nullptr && interface != nullptr && interface->is_interface() &&
             implements(*owner, *interface);
    }
    default: return false;
  }
}

TypeRef unify(const Classes& classes, const TypeRef& a, const TypeRef& b) {
  if (is_subtype(classes, *a, *b)) return b;
  if (is_subtype(classes, *b, *a)) return a;
  if (a->kind() == TypeKind::kNone) return taken(Type::optional(b));
  if (b->kind() == TypeKind::kNone) return taken(Type::optional(a));
  if (a->kind() == TypeKind::kOptional || b->kind() == TypeKind::kOptional) {
    const TypeRef inner = unify(classes, without_optional(a), without_optional(b));
    return inner ? taken(Type::optional(inner)) : TypeRef();
  }
  if (a->kind() == TypeKind::kTuple && b->kind() == TypeKind::kTuple &&
      a->parts().size() == b->parts().size()) {
    std::vector<TypeRef> items;
    for (size_t i = 0; i < a->parts().size(); ++i) {
      items.push_back(unify(classes, a->parts()[i], b->parts()[i]));
      if (!items.back()) return {};
    }
    return taken(Type::tuple(std::move(items)));
  }
  return {};
}

const TypeRef& without_optional(const TypeRef& type) noexcept {
  return type->kind() == TypeKind::kOptional ? type->element() : type;
}

bool holds_future(const Type& type) noexcept {
  return type.kind() == TypeKind::kFuture ||
         std::any_of(type.parts().begin(), type.parts().end(),
                     [](const TypeRef& part) { return holds_future(*part); });
}

TypeRef with_parts(const TypeRef& type, TypeKind kind, std::vector<TypeRef> parts) {
  const auto made = [](Result<TypeRef> result) {
    return result.is_ok() ? std::move(result).value() : TypeRef();
  };
  switch (kind) {
    case TypeKind::kList: return made(Type::list(parts[0]));
    case TypeKind::kDict: return made(Type::dict(parts[0], parts[1]));
    case TypeKind::kTuple: return made(Type::tuple(std::move(parts)));
    case TypeKind::kOptional: return made(Type::optional(parts[0]));
    case TypeKind::kUnion: return made(Type::union_of(parts));
    default: return type;
  }
}

TypeRef without_futures(const TypeRef& type) {
  if (!holds_future(*type)) return type;
  std::vector<TypeRef> parts;
  for (const TypeRef& part : type->parts()) parts.push_back(without_futures(part));
  if (type->kind() == TypeKind::kFuture) return parts[0];
  TypeRef made = with_parts(type, type->kind(), std::move(parts));
  return made ? made : type;
}

const TypeRef* element_of_list(const Type& type) noexcept {
  return type.kind() == TypeKind::kList ? &type.element() : nullptr;
}

bool bind_variables(const Classes& classes, const script::SchemaType& formal, const TypeRef& actual,
                    Bindings* bindings) {
  const auto parts_bind = [&](TypeKind kind) {
    if (actual->kind() != kind || actual->parts().size() != formal.parts.size()) return false;
    for (size_t i = 0; i < formal.parts.size(); ++i) {
      if (!bind_variables(classes, formal.parts[i], actual->parts()[i], bindings)) return false;
    }
    return true;
  };
  const auto has_variable = [](const auto& self, const script::SchemaType& type) -> bool {
    return type.kind == Kind::kVariable ||
           std::any_of(type.parts.begin(), type.parts.end(),
                       [&](const script::SchemaType& part) { return self(self, part); });
  };
  if (!has_variable(has_variable, formal)) return true;  // the caller compares the types
  switch (formal.kind) {
    case Kind::kVariable: {
      const auto [found, is_new] = bindings->emplace(formal.name, actual);
      if (is_new) return true;
      const TypeRef both = unify(classes, found->second, actual);
      if (!both) return false;
      found->second = both;
      return true;
    }
    case Kind::kList:
      if (actual->kind() == TypeKind::kTuple) {
        // A tuple of items of one type can become a list.
        if (actual->parts().empty()) return false;
        return std::all_of(actual->parts().begin(), actual->parts().end(),
                           [&](const TypeRef& part) {
                             return bind_variables(classes, formal.parts[0], part, bindings);
                           });
      }
      return parts_bind(TypeKind::kList);
    case Kind::kDict: return parts_bind(TypeKind::kDict);
    case Kind::kTuple: return parts_bind(TypeKind::kTuple);
    case Kind::kFuture: return parts_bind(TypeKind::kFuture);
    case Kind::kRRef: return parts_bind(TypeKind::kRRef);
    case Kind::kAwait: return parts_bind(TypeKind::kAwait);
    case Kind::kOptional:
      if (actual->kind() == TypeKind::kOptional)
        return bind_variables(classes, formal.parts[0], actual->element(), bindings);
      // None says nothing about the variable.
      return actual->kind() == TypeKind::kNone ||
             bind_variables(classes, formal.parts[0], actual, bindings);
    default: return true;
  }
}

TypeRef evaluate(const script::SchemaType& formal, const Bindings& bindings) {
  std::vector<TypeRef> parts;
  for (const script::SchemaType& part : formal.parts) {
    parts.push_back(evaluate(part, bindings));
    if (!parts.back()) return {};
  }
  switch (formal.kind) {
    case Kind::kSimple: return Type::simple(formal.simple);
    case Kind::kVariable: {
      const auto found = bindings.find(formal.name);
      return found != bindings.end() ? found->second : TypeRef();
    }
    case Kind::kList: return taken(Type::list(parts[0]));
    case Kind::kDict: return taken(Type::dict(parts[0], parts[1]));
    case Kind::kTuple: return taken(Type::tuple(std::move(parts)));
    case Kind::kOptional: return taken(Type::optional(parts[0]));
    case Kind::kUnion: return taken(Type::union_of(parts));
    case Kind::kFuture: return taken(Type::future(parts[0]));
    case Kind::kRRef: return taken(Type::rref(parts[0]));
    case Kind::kAwait: return taken(Type::await(parts[0]));
    case Kind::kClass: return taken(Type::class_type(formal.name));
    case Kind::kAnyEnum:
    case Kind::kAnyClass:
    case Kind::kOther: return {};
  }
  return {};
}

std::string with_article(const Type& type) {
  const std::string text = type.print();
  return (std::string_view("AEIOUaeiou").find(text.front()) != std::string_view::npos ? "an "
                                                                                      : "a ") +
         text;
}

}  // namespace tenon::compile
