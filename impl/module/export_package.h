// Writes a torch.package archive: script modules that share their classes, constants and storages,
// and other files. docs/format/package.md describes it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "archive/file_output.h"
#include "archive/sink.h"
#include "base/status.h"
#include "cuda/stream.h"
#include "module/export.h"
#include "module/module.h"
#include "module/package_archive.h"

namespace tenon::module {

// One resource: "models/net.pkl" is the resource "net.pkl" of the Python package "models".
struct PackageEntry {
  std::string name;
  Ref<Module> module;                // null: a file with these bytes
  std::span<const std::byte> bytes;  // borrowed
};

struct PackageOptions {
  // A package of which everything is written again that no entry replaces. Its modules are written
  // as they are now.
  Ref<PackageArchive> base;
  std::vector<std::string> externs;  // besides those of the base and those that modules need
  std::string archive_name;          // as in ExportOptions
  bool keep_device = false;          // likewise
  cuda::Stream stream = nullptr;     // likewise
  bool check = true;                 // likewise
};

// INVALID_ARGUMENT for a name that is none, or is given twice. In all else as export_module().
Status export_package(std::span<const PackageEntry> entries, archive::Sink* sink,
                      const PackageOptions& options, ExportReport* report);
Status export_package(std::span<const PackageEntry> entries, const std::string& path,
                      archive::Durability durability, const PackageOptions& options,
                      ExportReport* report);

}  // namespace tenon::module
