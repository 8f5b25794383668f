// Reads a typed line of the schema table into a Schema. SchemaTable::schemas() calls it when an
// operator is first asked for.
#pragma once

#include <string_view>

#include "modules/script/schema.h"

namespace tenon::script {

// False: the line has no types, or a word in it is none that the table can have. `overload` is "-"
// for an overload without a name, as in the table. The text is Tenon's own, so nothing here limits
// its nesting.
bool parse_schema(std::string_view name, std::string_view overload, std::string_view text,
                  Schema* out);

}  // namespace tenon::script
