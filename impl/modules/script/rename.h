// Finds and replaces qualified names in code and leaves every other byte as it is.
// impl/modules/module uses this when it gives a class another name: all code that names the class
// then follows.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "modules/script/ast.h"
#include "modules/script/parser.h"

namespace tenon::script {

// Maps old qualified names to new ones. If several names of the map are the beginning of a dotted
// name in the code, the longest one counts. So if __torch__.A is renamed and a class __torch__.A.B
// is not, the map must have __torch__.A.B with itself as its new name.
using NewNames = std::map<std::string, std::string, std::less<>>;

// Returns the text of `range` of the file, such as an item's extent, with the names replaced in
// annotations, calls and every other use. A dotted name whose first part is a local variable stays.
// Strings and comments stay too.
std::string renamed(const File& file, Range range, const NewNames& names);

// Returns the qualified names that the code of `range` uses: every dotted name whose first part is
// no local variable, at its full length ("__torch__.E.RED", "torch.add"). The names are sorted and
// each is listed once. If `first_parts` is not empty, only names that begin with one of these parts
// are returned. This saves time: most names of a body are variables and operators, and each of them
// would have to be looked up among the variables.
std::vector<std::string> used_names(const File& file, Range range,
                                    std::span<const std::string_view> first_parts = {});

}  // namespace tenon::script
