// PackageArchive is an opened torch.package archive: any number of script modules, pickles, Python
// sources and other files, with the storages that they share. docs/format/package.md describes it.
// Nothing in it is executed.
//
// Any thread may use a package. A lock guards the modules that were read, and module() holds it
// while it reads one. A forked child must not call module(), find_read() or storage_keys() if
// another thread of the parent may have been in one of them. For the modules see module.h.
#pragma once

#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/counted.h"
#include "base/status.h"
#include "modules/archive/zip_reader.h"
#include "modules/module/import.h"
#include "modules/module/import_storages.h"
#include "modules/module/module.h"

namespace tenon::module {

// The names that PyTorch gives the records of a package.
inline constexpr std::string_view kPackageData = ".data/";
inline constexpr std::string_view kPackageModules = ".data/ts_code/";
inline constexpr std::string_view kPackageStorageEnd = ".storage";
inline constexpr std::string_view kPackageExterns = ".data/extern_modules";

// The function that a pickle of a package calls for a script module.
inline constexpr std::string_view kUnpackModule = "torch.jit._script";
inline constexpr std::string_view kUnpackFunction = "unpackage_script_module";

class PackageArchive final : public Counted {
 public:
  // UNSUPPORTED for a file of another kind, and the message says what is missing. CORRUPT for a bad
  // list of extern modules. `options` applies to all modules. Debug tables and bytecode are not
  // read. The package keeps a copy of the options and a reference to their arena.
  static Result<Ref<PackageArchive>> open(const std::string& path, const ImportOptions& options);

  const std::string& label() const noexcept { return label_; }
  const archive::ZipReader& reader() const noexcept { return *reader_; }
  int version() const noexcept { return version_; }
  // The Python modules that the package's pickles import from outside of it.
  const std::vector<std::string>& externs() const noexcept { return externs_; }
  // Whether the numbers in the package's tensors are big-endian.
  bool is_foreign_endian() const noexcept { return foreign_endian_; }

  // A script module. `id` is the name of its folder in .data/ts_code/. `resource` is the first
  // record that is a pickle of this module and nothing else, or empty if there is none.
  struct Entry {
    std::string id;
    std::string resource;
    const std::string& name() const noexcept { return resource.empty() ? id : resource; }
  };
  std::span<const Entry> entries() const noexcept { return entries_; }

  // Gives the module of that resource or id. Every call gives the same one, with the changes that
  // were made to it. A storage that several modules share is one storage. NOT_FOUND lists the
  // names. A module that cannot be read does not prevent the reading of others, and the next call
  // tries again. The other errors are those of import_module().
  Result<Ref<Module>> module(std::string_view name);

  // Gives the module of that id if module() has read it, and null otherwise.
  Ref<Module> find_read(std::string_view id) const;

  // The bytes of a record. NOT_FOUND if there is none. The other errors are those of
  // ZipReader::read().
  Result<std::string> read_text(std::string_view record) const;

  // The storages of the modules that were read, each with the name of its record after ".data/".
  ArchiveStorages::Keys storage_keys() const;

  // The modules and storages of the package that a record needs. A record that is no pickle needs
  // none.
  struct Mentions {
    bool is_known = true;               // false: the pickle cannot be read, and may need anything
    std::vector<std::string> modules;   // ids
    std::vector<std::string> storages;  // records
  };
  Mentions mentions_of(const archive::ZipRecord& record) const;

 private:
  PackageArchive(std::string label, Ref<archive::ZipReader> reader, const ImportOptions& options);
  ~PackageArchive() override = default;
  Status read_externs();
  void find_entries();
  Result<Ref<Module>> import(const std::string& id);

  const std::string label_;
  const Ref<archive::ZipReader> reader_;
  const ImportOptions options_;
  const Ref<memory::Arena> arena_;  // keeps the arena of options_ alive, which only points to it
  const bool foreign_endian_;
  int version_ = 0;
  std::vector<std::string> externs_;
  std::vector<Entry> entries_;
  mutable std::mutex mutex_;  // guards the members below
  ArchiveStorages storages_;
  std::map<std::string, Ref<Module>, std::less<>> modules_;  // by id
};

}  // namespace tenon::module
