// tenon/archive.h: the functions that read modules.
#include <tenon/archive.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>

#include "archive_options.h"
#include "boundary.h"
#include "handles.h"
#include "modules/archive/zip_reader.h"
#include "modules/module/import.h"
#include "modules/module/warnings.h"
#include "tree_boundary.h"

using namespace tenon::capi;
using tenon::Ref;
using tenon::Result;
using tenon::Status;
using tenon::archive::Check;
using tenon::memory::Mode;
using tenon::module::ImportOptions;
using tenon::module::Module;
using tenon::module::Tensors;

static_assert(static_cast<int>(Tensors::kMap) == TENON_IMPORT_MAP &&
              static_cast<int>(Tensors::kMapPrivate) == TENON_IMPORT_MAP_PRIVATE &&
              static_cast<int>(Tensors::kFill) == TENON_IMPORT_FILL &&
              static_cast<int>(Tensors::kDevice) == TENON_IMPORT_DEVICE);
static_assert(static_cast<int>(Check::kStructure) == TENON_IMPORT_CHECK_STRUCTURE &&
              static_cast<int>(Check::kFill) == TENON_IMPORT_CHECK_FILL &&
              static_cast<int>(Check::kAll) == TENON_IMPORT_CHECK_ALL);

namespace {

// The greatest limit of depth, because the code that walks values is recursive.
constexpr uint64_t kMostDepth = 1000;

Status read_home(const tenon_import_options& given, ImportOptions* out) {
  TENON_TRY(check_argument(given.mode <= TENON_MODE_FROZEN,
                           "the mode is none of SHARED, LENDER_WRITES and FROZEN"));
  if (out->tensors != Tensors::kFill) {
    return check_argument(given.arena == nullptr && given.mode == 0,
                          "an arena or a mode is for TENON_IMPORT_FILL");
  }
  out->storage.mode = static_cast<Mode>(given.mode);
  if (given.arena == nullptr) return Status::ok();
  out->storage.arena = object(given.arena);
  const Mode mode = out->storage.arena->options().mode;
  TENON_TRY(check_argument(given.mode == 0 || out->storage.mode == mode,
                           "the mode is not that of the arena"));
  out->storage.mode = mode;
  return Status::ok();
}

}  // namespace

Status tenon::capi::read_import_options(const tenon_import_options* options, ImportOptions* out) {
  tenon_import_options given{};
  TENON_TRY(read_struct(options, "tenon_import_options", &given));
  TENON_TRY(
      check_argument(given.tensors >= TENON_IMPORT_MAP && given.tensors <= TENON_IMPORT_DEVICE,
                     "tensors is none of TENON_IMPORT_MAP, MAP_PRIVATE, FILL and DEVICE"));
  TENON_TRY(check_argument(given.device == 0 || given.tensors == TENON_IMPORT_DEVICE,
                           "a device is for TENON_IMPORT_DEVICE"));
  TENON_TRY(check_argument(
      given.check >= TENON_IMPORT_CHECK_STRUCTURE && given.check <= TENON_IMPORT_CHECK_ALL,
      "check is none of TENON_IMPORT_CHECK_STRUCTURE, FILL and ALL"));
  out->tensors = static_cast<Tensors>(given.tensors);
  out->check = static_cast<Check>(given.check);
  out->device = given.device;
  TENON_TRY(check_flags(given.flags, TENON_IMPORT_DEBUG_TABLES, "tenon_import_options"));
  out->debug_tables = (given.flags & TENON_IMPORT_DEBUG_TABLES) != 0;
  if (given.device_map != nullptr) {
    TENON_ASSIGN(out->device_map, tenon::module::DeviceMap::parse(given.device_map));
  }
  TENON_TRY(read_home(given, out));
  if (given.max_inflated_nbytes != 0)
    out->zip_limits.max_inflated_nbytes = given.max_inflated_nbytes;
  if (given.max_records != 0) out->zip_limits.max_records = given.max_records;
  if (given.max_depth == 0) return Status::ok();
  TENON_TRY(check_argument(given.max_depth <= kMostDepth, "max_depth is over 1000"));
  out->pickle_limits.max_depth = static_cast<uint32_t>(given.max_depth);
  return Status::ok();
}

namespace {

// Reads the options, and calls `import` with them.
template <typename Import>
tenon_status import_to(const tenon_import_options* options, tenon_module** out, tenon_error** err,
                       Import import) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    ImportOptions given;
    TENON_TRY(read_import_options(options, &given));
    given.defers = true;
    TENON_ASSIGN(Ref<Module> module, import(given));
    *out = handle<tenon_module>(module.detach());
    return Status::ok();
  });
}

}  // namespace

extern "C" {

tenon_status tenon_import_module(const char* path, const tenon_import_options* options,
                                 tenon_module** out, tenon_error** err) noexcept {
  return import_to(options, out, err, [&](const ImportOptions& given) -> Result<Ref<Module>> {
    TENON_TRY(check_argument(path != nullptr, "path is NULL"));
    return tenon::module::import_module(path, given);
  });
}

tenon_status tenon_import_module_fd(int fd, const tenon_import_options* options, tenon_module** out,
                                    tenon_error** err) noexcept {
  return import_to(options, out, err, [&](const ImportOptions& given) -> Result<Ref<Module>> {
    TENON_TRY(check_argument(fd >= 0, "fd is negative"));
    return tenon::module::import_module(fd, given);
  });
}

tenon_status tenon_import_module_memory(const void* data, size_t nbytes,
                                        void (*release)(void* context), void* context,
                                        const tenon_import_options* options, tenon_module** out,
                                        tenon_error** err) noexcept {
  return import_to(options, out, err, [&](const ImportOptions& given) -> Result<Ref<Module>> {
    TENON_TRY(check_argument(data != nullptr || nbytes == 0, "data is NULL"));
    return tenon::module::import_module(std::span(static_cast<const std::byte*>(data), nbytes),
                                        release, context, given);
  });
}

tenon_status tenon_module_import_report(const tenon_module* module, tenon_import_report* out,
                                        tenon_error** err) noexcept {
  return reading_boundary(module, err, [&](const Module& own) -> Status {
    TENON_TRY(check_output(out, "tenon_import_report"));
    const tenon::module::ImportReport& found = own.package().report;
    tenon_import_report report{};
    report.version = found.version;
    report.records = static_cast<uint32_t>(
        std::min<uint64_t>(found.records, std::numeric_limits<uint32_t>::max()));
    report.mapped_storages = found.mapped_tensors;
    report.mapped_nbytes = found.mapped_nbytes;
    report.filled_storages = found.filled_tensors;
    report.filled_nbytes = found.filled_nbytes;
    report.misaligned = found.misaligned;
    report.compressed = found.compressed;
    report.foreign_endian = found.foreign_endian;
    report.without_crc = found.without_crc;
    write_struct(out, report);
    return Status::ok();
  });
}

tenon_status tenon_module_warnings(const tenon_module* module, tenon_name_list** out,
                                   tenon_error** err) noexcept {
  return reading_boundary(module, err, [&](const Module& own) -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    auto list = std::make_unique<NameList>();
    list->names = tenon::module::module_warnings(own);
    *out = handle<tenon_name_list>(list.release());
    return Status::ok();
  });
}
}
