// What is remarkable about a module and no error.
#pragma once

#include <string>
#include <vector>

#include "module/module.h"

namespace tenon::module {

// One line each. Of the root of an imported tree: what the import met, records that an export does
// not write again, files of code that cannot be parsed, operators that mean something else at the
// archive's version than today. Of every module: calls that PyTorch 1.13 refuses and the newest
// takes, or the other way round. All code is parsed and checked for it.
std::vector<std::string> module_warnings(const Module& module);

}  // namespace tenon::module
