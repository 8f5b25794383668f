// Reads arguments that several functions of module.h take.
#pragma once

#include <tenon/module.h>

#include <string_view>

#include "handles.h"
#include "modules/value/type.h"
#include "text.h"

namespace tenon::capi {

// Gives the value None for NULL. Takes a reference of its own.
inline value::ValueRef value_or_none(tenon_value* value) {
  return value == nullptr ? value::Value::none() : value::ValueRef::share(object(value));
}

// Gives null for NULL. INVALID_ARGUMENT for a text that is no type.
inline Result<value::TypeRef> type_or_null(const char* type) {
  if (type == nullptr) return value::TypeRef();
  TENON_ASSIGN(const std::string_view text, read_text(type, "type"));
  return value::Type::parse(text);
}

}  // namespace tenon::capi
