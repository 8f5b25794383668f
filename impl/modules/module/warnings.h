// Lists remarkable facts about a module that are not errors.
#pragma once

#include <string>
#include <vector>

#include "modules/module/module.h"

namespace tenon::module {

// Gives one line for each warning. For the root of an imported tree these tell what the import
// found, which records an export does not write again, which files of code cannot be parsed, which
// devices the code names, and which operators mean something else at the archive's version than
// today. For every module they tell which calls PyTorch 1.13 refuses and the newest accepts, or the
// reverse. To find this, all code is parsed and checked. A module that cannot be exported is no
// error here: Module::check() tells why.
std::vector<std::string> module_warnings(const Module& module);

}  // namespace tenon::module
