// Checks the extern modules of a package for `tenon verify`. These are the Python modules that
// PyTorch's PackageImporter imports from outside of the package.
#pragma once

#include <vector>

#include "base/status.h"
#include "modules/module/package_archive.h"

namespace tenon::cli {

// Gives the reasons why PackageImporter would refuse the package or its script modules. The errors
// do not name the file.
std::vector<Status> check_extern_modules(const module::PackageArchive& package);

}  // namespace tenon::cli
