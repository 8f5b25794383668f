// What `tenon verify` finds wrong with the extern modules of a package: the Python modules that
// PyTorch's PackageImporter takes from outside of it.
#pragma once

#include <vector>

#include "base/status.h"
#include "module/package_archive.h"

namespace tenon::cli {

// Gives the reasons why PackageImporter refuses the package or its script modules. An error has no
// name of the file.
std::vector<Status> check_extern_modules(const module::PackageArchive& package);

}  // namespace tenon::cli
