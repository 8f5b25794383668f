// What is remarkable about an archive that was read, and no error.
#pragma once

#include <string>
#include <vector>

#include "module/module.h"

namespace tenon::module {

// One line each: what the import met, records that an export does not write again, files of code that cannot be parsed, operators that
// mean something else at the archive's version than today. All code is parsed for it. Of the root of an imported tree; else nothing.
std::vector<std::string> import_warnings(const Module& module);

}  // namespace tenon::module
