// Qualified names replaced in code whose every other byte stays: what mangling a class does to the
// code that means it.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "script/ast.h"
#include "script/parser.h"

namespace tenon::script {

// From old qualified name to new. Of several names that begin a dotted one the longest is meant:
// with __torch__.A to be renamed, a class
// __torch__.A.B that stays must be in the map too, as itself.
using NewNames = std::map<std::string, std::string, std::less<>>;

// The text of `range` of the file, a whole item's extent for example, with the names replaced: in
// annotations, calls and every other use of the dotted name. A local variable is not meant by a
// name of the map that begins with its name; strings and comments stay.
std::string renamed(const File& file, Range range, const NewNames& names);

// The qualified names that the code of `range` uses: every dotted name whose first part is no local
// variable, at its longest
// ("__torch__.E.RED", "torch.add"). Sorted, each once. If `first_parts` is not empty, only names
// that begin with one of these parts are looked for: most names of a body are variables and
// operators, and to look for each of them among the variables takes long.
std::vector<std::string> used_names(const File& file, Range range,
                                    std::span<const std::string_view> first_parts = {});

}  // namespace tenon::script
