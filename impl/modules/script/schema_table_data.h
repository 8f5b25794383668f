// The schema table's deflated text, generated into schema_table_data.cc by
// tools/make_schema_table.py.
#pragma once

#include <cstddef>

namespace tenon::script {

extern const size_t kSchemaTableNbytes;          // the size of the inflated text
extern const size_t kSchemaTableDeflatedNbytes;  // the size of kSchemaTableDeflated (raw deflate)
extern const char kSchemaTableDeflated[];

}  // namespace tenon::script
