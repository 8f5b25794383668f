// Relations between types: which type is a subtype of which, which type two types have in common,
// and how the types of a schema are bound to the types of operands.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "modules/compile/classes.h"
#include "modules/script/schema.h"
#include "modules/value/type.h"

namespace tenon::compile {

using value::Type;
using value::TypeKind;
using value::TypeRef;

// Whether a value of type `type` can be used as a `wanted` without a conversion.
bool is_subtype(const Classes& classes, const Type& type, const Type& wanted);

// The type of a variable that has type `a` on one path and type `b` on another. Null: there is
// none.
TypeRef unify(const Classes& classes, const TypeRef& a, const TypeRef& b);

// The T of Optional[T], or the type itself.
const TypeRef& without_optional(const TypeRef& type) noexcept;

// The types for which type variables stand, by name.
using Bindings = std::map<std::string_view, TypeRef>;

// Binds the type variables in `formal` to parts of `actual`. False: the two do not fit together.
bool bind_variables(const Classes& classes, const script::SchemaType& formal, const TypeRef& actual,
                    Bindings* bindings);

// Returns `formal` with its type variables replaced. Null: a variable is not bound, or no value of
// TorchScript source has such a type.
TypeRef evaluate(const script::SchemaType& formal, const Bindings& bindings);

// Returns the type of kind `kind` with `parts`. Null: there is no such type. If `kind` is no List,
// Dict, Tuple, Optional or Union, the result is `type` itself.
TypeRef with_parts(const TypeRef& type, TypeKind kind, std::vector<TypeRef> parts);

// The type that a value has at run time if forks run at once. There is no Future[T] then, and a
// value of that type is a T.
TypeRef without_futures(const TypeRef& type);
bool holds_future(const Type& type) noexcept;

// The type of a list's elements. Null: the type is no list.
const TypeRef* element_of_list(const Type& type) noexcept;

// Returns the name of the type for messages: "an int", "a Tensor", "a List[int]".
std::string with_article(const Type& type);

}  // namespace tenon::compile
