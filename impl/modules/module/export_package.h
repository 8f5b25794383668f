// Writes a torch.package archive: script modules that share their classes, constants and storages,
// and other files. docs/format/package.md describes it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "cuda/stream.h"
#include "modules/archive/file_output.h"
#include "modules/archive/sink.h"
#include "modules/module/export.h"
#include "modules/module/module.h"
#include "modules/module/package_archive.h"

namespace tenon::module {

// One resource of the package: "models/net.pkl" is the resource "net.pkl" of the Python package
// "models".
struct PackageEntry {
  std::string name;
  Ref<Module> module;                // null: the resource is a file of `bytes`
  std::span<const std::byte> bytes;  // borrowed for the call, and read by loads
};

struct PackageOptions {
  // A package whose resources are written again, except those that an entry replaces. Its modules
  // are written with the changes that were made to them. The call reads those that were not read
  // yet. UNSUPPORTED if the package is big-endian. May be null.
  Ref<PackageArchive> base;
  std::vector<std::string> externs;  // added to those of the base and those that modules need
  std::string archive_name;          // as in ExportOptions
  bool keep_device = false;          // likewise
  cuda::Stream stream = nullptr;     // likewise
  bool check = true;                 // likewise
};

// INVALID_ARGUMENT for an invalid name, or one that is given twice. Otherwise these behave as
// export_module() does.
Status export_package(std::span<const PackageEntry> entries, archive::Sink* sink,
                      const PackageOptions& options, ExportReport* report);
Status export_package(std::span<const PackageEntry> entries, const std::string& path,
                      archive::Durability durability, const PackageOptions& options,
                      ExportReport* report);

}  // namespace tenon::module
