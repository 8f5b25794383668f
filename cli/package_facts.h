// Gathers the facts that `tenon inspect` and `tenon verify` print about a package of torch.package,
// before anything is printed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "archive_facts.h"
#include "archive_input.h"
#include "base/status.h"
#include "modules/archive/zip_reader.h"
#include "modules/module/package_archive.h"

namespace tenon::cli {

struct PackagedModule {
  std::string id;
  std::string resource;  // empty: no record is this module alone
  Status wrong;          // ok: the module can be read, and PyTorch accepts its code
  std::string class_name;
  size_t modules = 0;  // the number of modules: itself and those below it
  size_t tensors = 0;
  uint64_t nbytes = 0;         // the size of its storages
  std::string oldest_pytorch;  // empty: unknown
  const std::string& name() const noexcept { return resource.empty() ? id : resource; }
};

struct PackageFacts {
  Ref<archive::ZipReader> container;
  Ref<module::PackageArchive> package;
  std::vector<PackagedModule> modules;
  std::vector<CodeFact> code;  // the code of all modules
  // The damaged records that no module needs, and the faults in the list of extern modules for
  // which PyTorch refuses the package. Each error names its record.
  std::vector<Status> wrong_records;
  // These count each storage once, for all modules together.
  uint64_t storages = 0;
  uint64_t shared_storages = 0;  // storages that several modules share
  uint64_t storage_nbytes = 0;
  std::string oldest_pytorch;               // the oldest that runs every module; empty: unknown
  std::vector<std::string> partly_refused;  // as in ArchiveFacts, for all modules
  std::vector<std::string> warnings;

  // The first error of a module, or else the first of a record.
  const Status& wrong() const noexcept;
};

// Fails only if the package cannot be opened. `check` kAll reads every record, which finds those
// that are damaged. Every message names the file.
Result<PackageFacts> gather_package(const ArchiveInput& input, archive::Check check);

// Gathers the facts of one module as if it were in an archive of its own.
Result<ArchiveFacts> gather_packaged_module(const ArchiveInput& input, const std::string& name);

}  // namespace tenon::cli
