/// @file
/// Packages: these functions read and write archives of torch.package, without PyTorch.
/// tenon/package.h has the details.
#ifndef TENON_CPP_PACKAGE_HPP
#define TENON_CPP_PACKAGE_HPP

#include <tenon/package.h>
#include <tenon/cpp/archive.hpp>
#include <tenon/cpp/error.hpp>
#include <tenon/cpp/handle.hpp>
#include <tenon/cpp/module.hpp>
#include <tenon/cpp/text.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

TENON_CPP_BEGIN

/// A package that was opened. Its parts are called records. A record such as "models/net.pkl" is
/// the resource "net.pkl" of the Python package "models". A script module has an id in the package,
/// such as "0". It also has the name of a resource, if there is a record that holds this module and
/// nothing else. Nothing in a package is executed.
///
/// The modules of a package stay usable after the last Package object is gone. A storage that
/// several modules share is in memory once.
class Package
    : public detail::Counted<Package, tenon_package, tenon_package_retain, tenon_package_release> {
 public:
  /// Opens a package. The options hold for all modules of the package; ImportOptions::debug_tables
  /// has no effect. The file must not be changed while views of it are in use, but it may be
  /// replaced by a rename. The error kUnsupported means that the file is no package.
  static Result<Package> try_open(const std::string& path, const ImportOptions& options = {}) {
    if (!detail::is_c_text(path)) return detail::has_nul("the path");
    const tenon_import_options c = detail::c_options(options);
    return detail::make<Package>([&](tenon_package** out, tenon_error** err) {
      return tenon_package_open(path.c_str(), &c, out, err);
    });
  }

  /// Gives the names of the script modules: the resource of each module, or its id if it has no
  /// resource.
  Result<std::vector<std::string>> try_modules() const {
    return detail::list_names(get(), tenon_package_modules);
  }

  /// Gives the script module of a resource or an id. Every call for the same module gives a Module
  /// over the same objects, with the changes that were made to it. The error kNotFound lists the
  /// names of the modules. A module that cannot be read does not affect other modules.
  Result<Module> try_module(const std::string& name) const {
    if (!detail::is_c_text(name)) return detail::has_nul("the name");
    return detail::make<Module>([&](tenon_module** out, tenon_error** err) {
      return tenon_package_module(get(), name.c_str(), out, err);
    });
  }

  /// Gives the names of all records in their order. The records that PyTorch keeps below ".data/"
  /// are among them.
  Result<std::vector<std::string>> try_records() const {
    return detail::list_names(get(), tenon_package_records);
  }

  /// Copies the bytes of a record: of a pickle, a Python source, a file, or a storage such as
  /// ".data/0.storage".
  Result<std::string> try_read(const std::string& record) const {
    if (!detail::is_c_text(record)) return detail::has_nul("the record's name");
    Result<std::vector<File>> files = detail::files([&](tenon_file_list** out, tenon_error** err) {
      return tenon_package_read(get(), record.c_str(), out, err);
    });
    if (!files) return files.error();
    if (files->empty())
      return Error(Code::kInternal, "the record '" + record + "' is not in the list that was read");
    return std::move(files->front().data);
  }

#ifndef TENON_NO_EXCEPTIONS
  // Each function throws the error that its try_ form returns.
  static Package open(const std::string& path, const ImportOptions& options = {}) {
    return try_open(path, options).value();
  }
  std::vector<std::string> modules() const { return try_modules().value(); }
  Module module(const std::string& name) const { return try_module(name).value(); }
  std::vector<std::string> records() const { return try_records().value(); }
  std::string read(const std::string& record) const { return try_read(record).value(); }
#endif
};

/// One resource of a package that is written: a module, or a file.
struct PackageEntry {
  /// The name of the record, such as "models/net.pkl".
  std::string name = {};
  /// The module, borrowed for the call. Null means a file.
  const Module* module = nullptr;
  /// The bytes of the file, borrowed for the call. A module has none.
  std::span<const std::byte> bytes = {};
};

/// How to write a package.
struct PackageOptions {
  /// A package, borrowed for the call. Everything in the base that no entry replaces is written
  /// again: its modules as they are now, and its other records byte for byte. A module of the base
  /// that no record of the new package needs is left out, and so is its storage. Null means no
  /// base.
  const Package* base = nullptr;
  /// Names of Python modules that the package's pickles need and the package does not contain, such
  /// as "numpy". The names of the base, and the name that script modules need, are written anyway.
  std::vector<std::string> externs = {};
  /// The folder inside the archive. Unset means the name of the file without its extension.
  std::optional<std::string> archive_name = std::nullopt;
  /// Write the code as it is, without Module::check.
  bool unchecked = false;
  /// Write tensors on a CUDA device as tensors of that device. Otherwise they are written as
  /// tensors of the CPU.
  bool keep_device = false;
  /// Whether the file is certainly on the disk when the call returns.
  Durability durability = Durability::kNone;
  /// The stream in which tensors on a CUDA device were written. Null means the default stream.
  void* stream = nullptr;
};

namespace detail {

// The result borrows the entries. An empty Module is refused, because it would be NULL for the C
// library, which means a file.
inline Result<std::vector<tenon_package_entry>> c_entries(std::span<const PackageEntry> entries) {
  std::vector<tenon_package_entry> c;
  c.reserve(entries.size());
  for (const PackageEntry& entry : entries) {
    if (!is_c_text(entry.name)) return has_nul("the name of an entry");
    if (entry.module != nullptr && !*entry.module)
      return wrong("the module of the entry '" + entry.name + "' is empty");
    tenon_package_entry& one = c.emplace_back();
    one.name = entry.name.c_str();
    one.module = entry.module == nullptr ? nullptr : entry.module->get();
    one.data = entry.bytes.data();
    one.nbytes = entry.bytes.size();
  }
  return c;
}

}  // namespace detail

/// Writes a package that torch.package.PackageImporter reads. The package contains each class, each
/// constant and each storage once, however many of its modules use it. Afterwards the path names
/// either the complete new file or the same file as before. The path may be the file of
/// PackageOptions::base. The error of bad code has the details "file", "line", "column" and
/// "excerpt".
inline Result<ExportReport> try_export_package(const std::string& path,
                                               const Items<PackageEntry>& entries,
                                               const PackageOptions& options = {}) {
  if (!detail::is_c_text(path)) return detail::has_nul("the path");
  if (!detail::is_c_text(options.archive_name)) return detail::has_nul("the archive's name");
  if (options.base != nullptr && !*options.base)
    return detail::wrong("the base of the package is empty");
  const Result<std::vector<tenon_package_entry>> given = detail::c_entries(entries.get());
  if (!given) return given.error();
  const Result<std::vector<const char*>> externs =
      detail::c_texts(options.externs, "the name of an extern module");
  if (!externs) return externs.error();
  tenon_package_options c{};
  c.struct_size = sizeof c;
  c.flags = (options.unchecked ? std::uint32_t{TENON_EXPORT_UNCHECKED} : 0U) |
            (options.keep_device ? std::uint32_t{TENON_EXPORT_KEEP_DEVICE} : 0U);
  c.durability = static_cast<std::int32_t>(options.durability);
  c.base = options.base == nullptr ? nullptr : options.base->get();
  c.externs = externs->data();
  c.n_externs = externs->size();
  c.archive_name = detail::c_text(options.archive_name);
  c.stream = options.stream;
  return detail::fill<ExportReport>([&](ExportReport* report, tenon_error** err) {
    return tenon_export_package(given->data(), given->size(), path.c_str(), &c, report, err);
  });
}

#ifndef TENON_NO_EXCEPTIONS
// The function throws the error that its try_ form returns.
inline ExportReport export_package(const std::string& path, const Items<PackageEntry>& entries,
                                   const PackageOptions& options = {}) {
  return try_export_package(path, entries, options).value();
}
#endif

TENON_CPP_END

#endif
