// tenon/package.h: reads and writes packages of torch.package (impl/modules/module).
#include <tenon/package.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "archive_options.h"
#include "boundary.h"
#include "handles.h"
#include "module_lists.h"
#include "modules/module/export_package.h"
#include "modules/module/package_archive.h"
#include "text.h"
#include "tree_boundary.h"

using namespace tenon::capi;
using tenon::Code;
using tenon::Ref;
using tenon::Status;
using tenon::archive::Durability;
using tenon::module::PackageArchive;
using tenon::module::PackageEntry;
using tenon::module::PackageOptions;

namespace {

// Reads the entries of a new package. Each result shares the caller's module and borrows the
// caller's bytes, so it must not outlive the call.
Status read_entries(const tenon_package_entry* entries, size_t n, std::vector<PackageEntry>* out) {
  TENON_TRY(check_argument(entries != nullptr || n == 0, "entries is NULL"));
  for (size_t i = 0; i < n; ++i) {
    const tenon_package_entry& given = entries[i];
    PackageEntry entry;
    TENON_ASSIGN(entry.name, read_text(given.name, "the name of an entry"));
    if (given.reserved != 0)
      return {Code::kUnsupported,
              tenon::format("reserved of the entry \"%.200s\" is not 0", given.name)};
    if (given.module != nullptr) {
      if (given.data != nullptr || given.nbytes != 0)
        return {
            Code::kInvalidArgument,
            tenon::format("the entry \"%.200s\" has a module and bytes, and can have one of them",
                          given.name)};
      TENON_ASSIGN(tenon::module::Module* const module, complete_module(given.module, "module"));
      entry.module = Ref<tenon::module::Module>::share(module);
    }
    if (given.data == nullptr && given.nbytes != 0)
      return {Code::kInvalidArgument,
              tenon::format("the entry \"%.200s\" has no data", given.name)};
    entry.bytes = {static_cast<const std::byte*>(given.data), given.nbytes};
    out->push_back(std::move(entry));
  }
  return Status::ok();
}

// The content of a tenon_package_options. export_package() takes `durability` as an argument of its
// own.
struct PackageRequest {
  PackageOptions options;
  Durability durability = Durability::kNone;
};

Status read_package_options(const tenon_package_options* options, PackageRequest* out) {
  tenon_package_options given{};
  TENON_TRY(read_struct(options, "tenon_package_options", &given));
  TENON_TRY(check_flags(given.flags, TENON_EXPORT_UNCHECKED | TENON_EXPORT_KEEP_DEVICE,
                        "tenon_package_options"));
  TENON_TRY(read_durability(given.durability, &out->durability));
  out->options.check = (given.flags & TENON_EXPORT_UNCHECKED) == 0;
  out->options.keep_device = (given.flags & TENON_EXPORT_KEEP_DEVICE) != 0;
  out->options.stream = given.stream;
  if (given.base != nullptr) out->options.base = Ref<PackageArchive>::share(object(given.base));
  TENON_TRY(check_argument(given.externs != nullptr || given.n_externs == 0, "externs is NULL"));
  for (size_t i = 0; i < given.n_externs; ++i) {
    TENON_ASSIGN(const std::string_view name,
                 read_text(given.externs[i], "the name of an extern module"));
    out->options.externs.emplace_back(name);
  }
  if (given.archive_name == nullptr) return Status::ok();
  TENON_ASSIGN(out->options.archive_name, read_text(given.archive_name, "archive_name"));
  return check_argument(!out->options.archive_name.empty(), "archive_name is empty");
}

// Makes the tenon_name_list `*out`. The function `list` gets the package and a vector, to which it
// adds the names.
template <typename List>
tenon_status list_names(const tenon_package* package, tenon_name_list** out, tenon_error** err,
                        List list) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(package != nullptr, "package is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    auto found = std::make_unique<NameList>();
    list(*object(package), &found->names);
    *out = handle<tenon_name_list>(found.release());
    return Status::ok();
  });
}

}  // namespace

extern "C" {

tenon_status tenon_package_open(const char* path, const tenon_import_options* options,
                                tenon_package** out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(path != nullptr, "path is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    tenon::module::ImportOptions given;
    TENON_TRY(read_import_options(options, &given));
    TENON_ASSIGN(Ref<PackageArchive> package, PackageArchive::open(path, given));
    *out = handle<tenon_package>(package.detach());
    return Status::ok();
  });
}

tenon_package* tenon_package_retain(tenon_package* package) noexcept {
  if (package != nullptr) object(package)->retain();
  return package;
}

void tenon_package_release(tenon_package* package) noexcept {
  if (package != nullptr) object(package)->release();
}

tenon_status tenon_package_modules(const tenon_package* package, tenon_name_list** out,
                                   tenon_error** err) noexcept {
  return list_names(package, out, err,
                    [](const PackageArchive& from, std::vector<std::string>* names) {
                      for (const PackageArchive::Entry& entry : from.entries())
                        names->push_back(entry.name());
                    });
}

tenon_status tenon_package_module(tenon_package* package, const char* name, tenon_module** out,
                                  tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(package != nullptr, "package is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(const std::string_view text, read_text(name, "name"));
    TENON_ASSIGN(Ref<tenon::module::Module> module, object(package)->module(text));
    *out = handle<tenon_module>(module.detach());
    return Status::ok();
  });
}

tenon_status tenon_package_records(const tenon_package* package, tenon_name_list** out,
                                   tenon_error** err) noexcept {
  return list_names(package, out, err,
                    [](const PackageArchive& from, std::vector<std::string>* names) {
                      for (const tenon::archive::ZipRecord& record : from.reader().records())
                        names->emplace_back(record.name);
                    });
}

tenon_status tenon_package_read(const tenon_package* package, const char* name,
                                tenon_file_list** out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(package != nullptr, "package is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(const std::string_view text, read_text(name, "name"));
    auto list = std::make_unique<FileList>();
    TENON_ASSIGN(std::string content, object(package)->read_text(text));
    list->files.push_back({std::string(text), std::move(content)});
    *out = handle<tenon_file_list>(list.release());
    return Status::ok();
  });
}

tenon_status tenon_export_package(const tenon_package_entry* entries, size_t n, const char* path,
                                  const tenon_package_options* options, tenon_export_report* report,
                                  tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(path != nullptr, "path is NULL"));
    if (report != nullptr) TENON_TRY(check_output(report, "tenon_export_report"));
    std::vector<PackageEntry> given;
    TENON_TRY(read_entries(entries, n, &given));
    PackageRequest request;
    TENON_TRY(read_package_options(options, &request));
    tenon::module::ExportReport found;
    TENON_TRY(
        tenon::module::export_package(given, path, request.durability, request.options, &found));
    write_export_report(found, report);
    return Status::ok();
  });
}
}
