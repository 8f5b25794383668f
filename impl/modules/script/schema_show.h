// Writes types and schemas as text, for error messages and for tests.
#pragma once

#include <string>

#include "modules/script/schema.h"

namespace tenon::script {

// Returns a type as PyTorch prints the type of an argument: "Optional[List[int]]", "t", "number".
std::string show(const SchemaType& type);

// Returns the arguments alone: "(Tensor self, Tensor other, *, number alpha=1)".
std::string show_arguments(const Schema& schema);

// Returns the whole schema: "aten::add.Tensor(Tensor self, Tensor other, *, number alpha=1) ->
// (Tensor)". `:2` after a type is its fixed size, and `!` after a name marks an argument that the
// operator writes to.
std::string show(const Schema& schema);

}  // namespace tenon::script
