// tenon/archive.h: the functions that write modules.
#include <tenon/archive.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "archive_options.h"
#include "boundary.h"
#include "handles.h"
#include "module_lists.h"
#include "modules/archive/file_output.h"
#include "modules/archive/sink.h"
#include "modules/module/export.h"
#include "modules/module/method_names.h"
#include "text.h"
#include "tree_boundary.h"

using namespace tenon::capi;
using tenon::Code;
using tenon::Result;
using tenon::Status;
using tenon::archive::CallbackSink;
using tenon::archive::Durability;
using tenon::archive::FdSink;
using tenon::archive::Sink;
using tenon::module::Bytecode;
using tenon::module::ExportOptions;
using tenon::module::ExportReport;
using tenon::module::ExtraFile;
using tenon::module::Form;
using tenon::module::Module;

static_assert(static_cast<int>(Durability::kNone) == TENON_DURABILITY_NONE &&
              static_cast<int>(Durability::kFile) == TENON_DURABILITY_FILE &&
              static_cast<int>(Durability::kFileAndDirectory) ==
                  TENON_DURABILITY_FILE_AND_DIRECTORY);

static_assert(static_cast<int>(Bytecode::kKeep) == TENON_BYTECODE_KEEP &&
              static_cast<int>(Bytecode::kDrop) == TENON_BYTECODE_DROP &&
              static_cast<int>(Bytecode::kCompile) == TENON_BYTECODE_COMPILE);

namespace {

Status read_methods(const char* text, std::vector<std::string>* out) {
  if (text == nullptr) return Status::ok();
  TENON_ASSIGN(const std::string_view list, read_text(text, "methods"));
  TENON_ASSIGN(*out, tenon::module::split_method_names(list));
  return Status::ok();
}

Status read_files(const tenon_file* files, size_t n, const char* name,
                  std::vector<ExtraFile>* out) {
  if (files == nullptr && n > 0) return {Code::kInvalidArgument, tenon::format("%s is NULL", name)};
  for (size_t i = 0; i < n; ++i) {
    TENON_ASSIGN(const std::string_view file_name,
                 read_text(files[i].name, "the name of an extra file"));
    if (files[i].data == nullptr && files[i].nbytes > 0) {
      return {Code::kInvalidArgument,
              tenon::format("the extra file \"%.200s\" has no data", files[i].name)};
    }
    out->push_back({std::string(file_name),
                    std::string(static_cast<const char*>(files[i].data), files[i].nbytes)});
  }
  return Status::ok();
}

Status ask_hook(const tenon_export_options& given, const tenon_module* module,
                std::vector<ExtraFile>* files) {
  const tenon_file* found = nullptr;
  size_t n = 0;
  const tenon_status status = given.hook(given.hook_context, module, &found, &n);
  if (status == TENON_OK) return read_files(found, n, "what the hook for extra files gave", files);
  if (status < TENON_OK || status > TENON_INTERNAL) {
    return {Code::kInvalidArgument,
            tenon::format("the hook for extra files returned %d, which is no code",
                          static_cast<int>(status))};
  }
  return {static_cast<Code>(status), "the hook for extra files failed"};
}

Status read_emission(const tenon_export_options& given, ExportOptions* out) {
  constexpr uint32_t kKnown = TENON_EMIT_DEFAULT_INPUTS | TENON_EMIT_DEFAULTS_BEFORE_OUT |
                              TENON_EMIT_PLAIN_OPERATORS | TENON_EMIT_NO_INTERFACE_METHODS |
                              TENON_EMIT_FORKS_AT_ONCE;
  TENON_TRY(check_argument((given.bytecode_version == 0 && given.emit_flags == 0) ||
                               given.bytecode == TENON_BYTECODE_COMPILE,
                           "bytecode_version and emit_flags are for an export that compiles its "
                           "bytecode: ask for it, or leave "
                           "them 0"));
  TENON_TRY(check_flags(given.emit_flags, kKnown, "emit_flags"));
  out->bytecode_version = given.bytecode_version;
  out->emit.default_inputs = (given.emit_flags & TENON_EMIT_DEFAULT_INPUTS) != 0;
  out->emit.defaults_before_out = (given.emit_flags & TENON_EMIT_DEFAULTS_BEFORE_OUT) == 0;
  out->emit.promoted_operators = (given.emit_flags & TENON_EMIT_PLAIN_OPERATORS) == 0;
  out->interface_methods = (given.emit_flags & TENON_EMIT_NO_INTERFACE_METHODS) == 0;
  out->forks_at_once = (given.emit_flags & TENON_EMIT_FORKS_AT_ONCE) != 0;
  return Status::ok();
}

struct Request {
  ExportOptions options;
  Durability durability = Durability::kNone;
};

// Gives the module, complete.
Result<Module*> read_request(const tenon_module* module, const tenon_export_options* options,
                             const tenon_export_report* report, Request* out) {
  TENON_TRY(check_argument(module != nullptr, "module is NULL"));
  if (report != nullptr) TENON_TRY(check_output(report, "tenon_export_report"));
  tenon_export_options given{};
  TENON_TRY(read_struct(options, "tenon_export_options", &given));
  TENON_TRY(check_flags(given.flags,
                        TENON_EXPORT_UNCHECKED | TENON_EXPORT_KEEP_DEVICE |
                            TENON_EXPORT_DEBUG_TABLES | TENON_EXPORT_FLATBUFFER,
                        "tenon_export_options"));
  TENON_TRY(read_durability(given.durability, &out->durability));
  TENON_TRY(check_argument(
      given.bytecode >= TENON_BYTECODE_KEEP && given.bytecode <= TENON_BYTECODE_COMPILE,
      "bytecode is none of KEEP, DROP and COMPILE"));
  TENON_TRY(check_argument(
      given.methods == nullptr || given.bytecode == TENON_BYTECODE_COMPILE,
      "methods is for an export that compiles its bytecode: ask for it, or leave methods out"));
  out->options.bytecode = static_cast<Bytecode>(given.bytecode);
  TENON_TRY(read_emission(given, &out->options));
  TENON_TRY(read_methods(given.methods, &out->options.methods));
  if ((given.flags & TENON_EXPORT_FLATBUFFER) != 0) out->options.form = Form::kFlatbuffer;
  out->options.debug_tables = (given.flags & TENON_EXPORT_DEBUG_TABLES) != 0;
  TENON_TRY(
      read_files(given.extra_files, given.n_extra_files, "extra_files", &out->options.extra_files));
  if (given.archive_name != nullptr) {
    TENON_ASSIGN(out->options.archive_name, read_text(given.archive_name, "archive_name"));
    TENON_TRY(check_argument(!out->options.archive_name.empty(), "archive_name is empty"));
    TENON_TRY(check_argument(out->options.form == Form::kArchive,
                             "archive_name is not for the flatbuffer form, which has none"));
  }
  out->options.file_version = given.file_version;
  out->options.check = (given.flags & TENON_EXPORT_UNCHECKED) == 0;
  out->options.keep_device = (given.flags & TENON_EXPORT_KEEP_DEVICE) != 0;
  out->options.stream = given.stream;
  if (given.hook != nullptr) {
    out->options.hook = [given, module](const Module&, std::vector<ExtraFile>* files) {
      return ask_hook(given, module, files);
    };
  }
  return complete_module(module, "module");
}

}  // namespace

Status tenon::capi::read_durability(int32_t given, Durability* out) {
  TENON_TRY(
      check_argument(given >= TENON_DURABILITY_NONE && given <= TENON_DURABILITY_FILE_AND_DIRECTORY,
                     "the durability is none of NONE, FILE and FILE_AND_DIRECTORY"));
  *out = static_cast<Durability>(given);
  return Status::ok();
}

void tenon::capi::write_export_report(const ExportReport& found,
                                      tenon_export_report* out) noexcept {
  if (out == nullptr) return;
  tenon_export_report report{};
  report.nbytes = found.nbytes;
  report.records = found.records;
  report.version = found.version;
  report.skipped_files = static_cast<uint32_t>(
      std::min<size_t>(found.skipped_files.size(), std::numeric_limits<uint32_t>::max()));
  std::snprintf(report.oldest_pytorch, sizeof(report.oldest_pytorch), "%s",
                found.oldest_pytorch.c_str());
  report.bytecode_functions = static_cast<uint32_t>(
      std::min<uint64_t>(found.bytecode_functions, std::numeric_limits<uint32_t>::max()));
  report.debug_tables = static_cast<uint32_t>(
      std::min<uint64_t>(found.debug_tables, std::numeric_limits<uint32_t>::max()));
  write_struct(out, report);
}

namespace {

Status export_to(const tenon_module* module, Sink* sink, const tenon_export_options* options,
                 tenon_export_report* report) {
  Request request;
  TENON_ASSIGN(const Module* const own, read_request(module, options, report, &request));
  TENON_TRY(check_argument(request.durability == Durability::kNone,
                           "durability is for exports to a path"));
  ExportReport found;
  TENON_TRY(tenon::module::export_module(*own, sink, request.options, &found));
  write_export_report(found, report);
  return Status::ok();
}

}  // namespace

extern "C" {

tenon_status tenon_export_module(const tenon_module* module, const char* path,
                                 const tenon_export_options* options, tenon_export_report* report,
                                 tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    if (path == nullptr) return {Code::kInvalidArgument, "path is NULL"};
    Request request;
    TENON_ASSIGN(const Module* const own, read_request(module, options, report, &request));
    ExportReport found;
    TENON_TRY(
        tenon::module::export_module(*own, path, request.durability, request.options, &found));
    write_export_report(found, report);
    return Status::ok();
  });
}

tenon_status tenon_export_module_fd(const tenon_module* module, int fd,
                                    const tenon_export_options* options,
                                    tenon_export_report* report, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(fd >= 0, "fd is negative"));
    FdSink sink(fd);
    return export_to(module, &sink, options, report);
  });
}

tenon_status tenon_export_module_to(const tenon_module* module, tenon_write_function write,
                                    void* context, const tenon_export_options* options,
                                    tenon_export_report* report, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(write != nullptr, "write is NULL"));
    CallbackSink sink(write, context);
    return export_to(module, &sink, options, report);
  });
}

tenon_status tenon_export_opnames(const tenon_module* module, const char* methods,
                                  tenon_name_list** out, tenon_error** err) noexcept {
  return reading_boundary(module, err, [&](const Module& own) -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    std::vector<std::string> names;
    TENON_TRY(read_methods(methods, &names));
    auto list = std::make_unique<NameList>();
    TENON_ASSIGN(list->names, own.operator_names(names));
    *out = handle<tenon_name_list>(list.release());
    return Status::ok();
  });
}
}
