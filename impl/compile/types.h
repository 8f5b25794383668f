// How types relate: which is a subtype of which, what two have in common, and how the types of a
// schema are bound to those of operands.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compile/classes.h"
#include "script/schema.h"
#include "value/type.h"

namespace tenon::compile {

using value::Type;
using value::TypeKind;
using value::TypeRef;

// Whether a value of type `type` can stand where `wanted` is asked for, without a conversion.
bool is_subtype(const Classes& classes, const Type& type, const Type& wanted);

// The type of a variable that has one of these types, by the way that was taken. Null: there is
// none.
TypeRef unify(const Classes& classes, const TypeRef& a, const TypeRef& b);

// The T of Optional[T], or the type itself.
const TypeRef& without_optional(const TypeRef& type) noexcept;

// What type variables stand for, by name.
using Bindings = std::map<std::string_view, TypeRef>;

// Binds the variables of `formal` to parts of `actual`. False: they do not fit together.
bool bind_variables(const Classes& classes, const script::SchemaType& formal, const TypeRef& actual,
                    Bindings* bindings);

// The type with its variables replaced. Null: a variable is not bound, or no value of source has
// such a type.
TypeRef evaluate(const script::SchemaType& formal, const Bindings& bindings);

// `type` with other parts, as a type of that kind. Null: there is no such type. A kind that is no
// List, Dict, Tuple, Optional or Union gives `type` itself.
TypeRef with_parts(const TypeRef& type, TypeKind kind, std::vector<TypeRef> parts);

// The type that a value has at run time: there is no Future[T] then, and a value of that type is a
// T.
TypeRef without_futures(const TypeRef& type);
bool holds_future(const Type& type) noexcept;

// A list has this element type; null: it is no list.
const TypeRef* element_of_list(const Type& type) noexcept;

// "an int", "a Tensor", "a List[int]".
std::string with_article(const Type& type);

}  // namespace tenon::compile
