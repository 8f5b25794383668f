#include "module_input.h"

#include <cstddef>
#include <span>
#include <utility>

#include "modules/archive/file_mapping.h"
#include "modules/archive/zip_reader.h"
#include "modules/module/archive_kind.h"
#include "output.h"
#include "weights_facts.h"

namespace tenon::cli {

using module::Module;
using module::PackageArchive;

namespace {

Status ask_for_module(const ArchiveInput& input, const PackageArchive& package) {
  const std::string count = plural_text(package.entries().size(), "module", "modules");
  if (package.entries().empty()) {
    return {Code::kNotFound,
            input.shown +
                " is a package without script modules. Give a package or an archive that has one"};
  }
  return {Code::kInvalidArgument, input.shown + " is a package of " + count +
                                      ". Name one with --module. It has " + module_names(package)};
}

Status verify_storages(const PackageArchive& package, const std::string& id) {
  for (const std::string& name : storage_records(package, id)) {
    const archive::ZipRecord* const record = package.reader().find(name);
    if (record != nullptr) TENON_TRY(package.reader().verify(*record));
  }
  return Status::ok();
}

Result<Ref<Module>> import_packaged(const ArchiveInput& input, const std::string& name,
                                    const module::ImportOptions& options) {
  module::ImportOptions one = options;
  one.check = archive::Check::kStructure;
  TENON_ASSIGN(Ref<PackageArchive> package, open_package(input, one));
  if (name.empty()) return ask_for_module(input, *package);
  TENON_ASSIGN(Ref<Module> module, package->module(name));
  if (options.check != archive::Check::kAll) return module;
  for (const PackageArchive::Entry& entry : package->entries()) {
    const bool is_it = entry.id == name || entry.resource == name;
    if (is_it) TENON_TRY(verify_storages(*package, entry.id));
  }
  return module;
}

}  // namespace

std::set<std::string> storage_records(const PackageArchive& package, const std::string& id) {
  std::set<std::string> names;
  for (const char* const pickle : {"/data.pkl", "/constants.pkl"}) {
    const archive::ZipRecord* const record =
        package.reader().find(std::string(module::kPackageModules) + id + pickle);
    if (record == nullptr) continue;
    for (std::string& name : package.mentions_of(*record).storages) {
      // A script module writes the end of the record's name into the pickle, and Python's
      // pickler does not.
      if (!package.reader().has(name)) name.resize(name.size() - module::kPackageStorageEnd.size());
      names.insert(std::move(name));
    }
  }
  return names;
}

ContainerKind container_kind(const ArchiveInput& input) {
  if (input.is_plain_weights()) return ContainerKind::kWeights;
  if (!input.is_zip()) return ContainerKind::kOther;
  Result<Ref<archive::ZipSource>> source = archive::FileMapping::open(input.fd.get());
  if (!source.is_ok()) return ContainerKind::kOther;
  Result<Ref<archive::ZipReader>> opened = archive::ZipReader::open(
      std::move(source).value(), archive::Check::kStructure, {}, archive::Prefix::kOptional);
  if (!opened.is_ok()) return ContainerKind::kOther;
  const archive::ZipReader& reader = *opened.value();
  // Only exported programs can have records without a folder around them.
  if (!reader.prefix().empty() && module::is_package(reader)) return ContainerKind::kPackage;
  const bool is_weights = weights_form(reader) && !reader.has("data.pkl");
  return is_weights ? ContainerKind::kWeights : ContainerKind::kOther;
}

Result<Ref<PackageArchive>> open_package(const ArchiveInput& input,
                                         const module::ImportOptions& options) {
  Result<Ref<PackageArchive>> opened = PackageArchive::open(input.fd_path(), options);
  if (!opened.is_ok()) return of_file(input, opened.status());
  return opened;
}

Status refuse_module_name(const ArchiveInput& input) {
  return {
      Code::kInvalidArgument,
      input.shown + " is no package of torch.package, which --module is for. Leave out --module"};
}

Result<Ref<Module>> import_input(const ArchiveInput& input, const std::string& name,
                                 const module::ImportOptions& options) {
  const ContainerKind kind = container_kind(input);
  if (kind == ContainerKind::kPackage) {
    Result<Ref<Module>> read = import_packaged(input, name, options);
    if (!read.is_ok()) return of_file(input, read.status());
    return read;
  }
  if (kind == ContainerKind::kWeights) return refuse_weights_as_module(input);
  if (!name.empty()) return refuse_module_name(input);
  Result<Ref<Module>> imported = module::import_module(input.fd.get(), options);
  if (!imported.is_ok()) return of_file(input, imported.status());
  return imported;
}

Status of_module(const ArchiveInput& input, const PackageArchive::Entry& entry,
                 const Status& status) {
  if (status.is_ok()) return status;
  const Status named = of_file(input, status);
  std::string message = named.message();
  // The library calls a module by its id, which a user may never have seen.
  for (const std::string& label :
       {input.shown + ", module " + entry.id + ": ", input.shown + ": "}) {
    if (!message.starts_with(label)) continue;
    message = message.substr(label.size());
    break;
  }
  Status out(status.code(), input.shown + ": " + entry.name() + ": " + message);
  out = std::move(out).with_details_of(status);
  return out;
}

std::string module_names(const PackageArchive& package) {
  constexpr size_t kMostListed = 10;
  const std::span<const PackageArchive::Entry> entries = package.entries();
  std::string names;
  for (size_t i = 0; i < entries.size() && i < kMostListed; ++i)
    names += (i == 0 ? "" : ", ") + entries[i].name();
  if (entries.size() > kMostListed) names += format(", and %zu more", entries.size() - kMostListed);
  return names;
}

}  // namespace tenon::cli
