// Reads the modules that the command line names. A module is in a module archive, in a flatbuffer
// or in a package.
#pragma once

#include <set>
#include <string>

#include "archive_input.h"
#include "base/counted.h"
#include "base/status.h"
#include "modules/module/import.h"
#include "modules/module/module.h"
#include "modules/module/package_archive.h"

namespace tenon::cli {

// Every error message of these functions names the file.

// The kind of a file with tensors, as far as its records tell.
enum class ContainerKind {
  kOther,
  kPackage,  // an archive of torch.package
  kWeights,  // a file of weights of a form in WeightsForm (weights_facts.h)
};
// kOther if the file cannot be read too: the function that opens it then tells the error.
ContainerKind container_kind(const ArchiveInput& input);
Result<Ref<module::PackageArchive>> open_package(const ArchiveInput& input,
                                                 const module::ImportOptions& options);

// Imports a module. `name` is the resource or the id of a module in a package, and is empty for a
// file with one module. If the name does not fit the file, the error says which names do. Only
// those parts of a package are checked that this module needs, so that a good module can be taken
// out of a damaged package. The other errors are those of module::import_module(). The module keeps
// the file mapped, and `input` may end before it.
Result<Ref<module::Module>> import_input(const ArchiveInput& input, const std::string& name,
                                         const module::ImportOptions& options);
// Gives the error for a module's name that was given for a file that is no package.
Status refuse_module_name(const ArchiveInput& input);

// Lists the records that hold the tensors of the module with that id.
std::set<std::string> storage_records(const module::PackageArchive& package, const std::string& id);

// Puts the names of the file and of the module in front of an error's message.
Status of_module(const ArchiveInput& input, const module::PackageArchive::Entry& entry,
                 const Status& status);

// Lists the first modules: "models/a.pkl, models/b.pkl, and 3 more".
std::string module_names(const module::PackageArchive& package);

}  // namespace tenon::cli
