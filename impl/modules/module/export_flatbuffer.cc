#include "modules/module/export_flatbuffer.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "modules/flatbuffer/module_writer.h"
#include "modules/module/code_check.h"
#include "modules/module/device_copies.h"
#include "modules/module/export_bytecode.h"
#include "modules/module/kept_bytecode.h"
#include "os/named_file.h"

namespace tenon::module {
namespace {

Status check_flatbuffer_options(const ExportOptions& options) {
  const char* wrong = nullptr;
  if (options.bytecode == Bytecode::kDrop)
    wrong = "always has bytecode: leave out the option that drops it";
  if (options.bytecode_version != 0 && options.bytecode_version != bytecode::Program::kVersion)
    wrong = "has bytecode of version 8: leave out bytecode_version";
  if (options.keep_device)
    wrong = "does not say of tensors on which device they were: leave out keep_device";
  return wrong == nullptr
             ? Status::ok()
             : Status(Code::kInvalidArgument, std::string("the flatbuffer form ") + wrong);
}

// Gives the host the bytes of storages in host memory and on devices.
class StorageReader {
 public:
  // `resolved` is borrowed.
  StorageReader(const Resolved& resolved, cuda::Stream stream)
      : resolved_(resolved), copies_(stream) {}

  Status read(const value::StorageValue& storage, std::span<std::byte> into) {
    TENON_TRY(storage.bytes()->check_lender());
    if (!storage.is_on_device()) {
      if (resolved_.is_mapped(storage.data()))
        return os::copy_from_mapping(storage.data(), into.data(), into.size());
      std::copy_n(storage.data(), into.size(), into.data());
      return Status::ok();
    }
    TENON_ASSIGN(cuda::HostCopy* const copy, copies_.copy_from(storage.bytes()->device().id));
    return copy->to_host(pointer_of(storage), into.size(),
                         [&into](std::span<const std::byte> piece) {
                           std::copy(piece.begin(), piece.end(), into.begin());
                           into = into.subspan(piece.size());
                           return Status::ok();
                         });
  }

 private:
  const Resolved& resolved_;
  DeviceCopies copies_;
};

bool has_named_tuple(const bytecode::Program& program) {
  return std::any_of(
      program.functions.begin(), program.functions.end(), [](const bytecode::Function& function) {
        return std::any_of(
            function.types.begin(), function.types.end(),
            [](const std::string& type) { return type.find("[NamedTuple,") != std::string::npos; });
      });
}

// Gives the imported bytecode while it fits, and else compiles new bytecode.
Result<bytecode::Program> flatbuffer_program(const Module& module, const Resolved& resolved,
                                             Result<script::Declarations>& code,
                                             const ExportOptions& options, ExportReport* report) {
  const KeptBytecode* const kept =
      options.bytecode == Bytecode::kKeep ? module.package().bytecode() : nullptr;
  const bool keeps = kept != nullptr && kept->facts().version == bytecode::Program::kVersion;
  if (keeps && kept->check_fits(resolved, module.package().report.version).is_ok()) {
    TENON_ASSIGN(bytecode::Program program, kept->program());
    report->bytecode_functions = program.functions.size();
    if (!has_named_tuple(program)) return program;
  }
  ExportOptions compiling = options;
  compiling.debug_tables = false;
  TENON_ASSIGN(MadeBytecode made,
               make_bytecode(module.package(), resolved, code, compiling, report));
  return std::move(made.program);
}

}  // namespace

Status write_flatbuffer(const Module& module, archive::Sink* sink, const Resolved& resolved,
                        Result<script::Declarations>& code,
                        const std::vector<ExtraFile>& extra_files, const ExportOptions& options,
                        ExportReport* report) {
  TENON_TRY(check_flatbuffer_options(options));
  TENON_ASSIGN(const bytecode::Program program,
               flatbuffer_program(module, resolved, code, options, report));
  report->has_bytecode = true;
  if (!report->oldest_pytorch.empty()) at_least("1.13", &report->oldest_pytorch);
  if (options.debug_tables) report->why_no_debug_tables = "the flatbuffer form has none";
  flatbuffer::ModuleContents contents;
  contents.program = &program;
  contents.root = resolved.root;
  for (const ResolvedFile& file : resolved.files)
    contents.sources.push_back({file.qualifier, file.text});
  contents.constants = resolved.constants;
  for (const ExtraFile& file : extra_files)
    contents.extra_files.push_back({file.name, file.content});
  contents.version = resolved.version;
  StorageReader reader(resolved, options.stream);
  const auto read = [&reader](const value::StorageValue& storage, std::span<std::byte> into) {
    return reader.read(storage, into);
  };
  return flatbuffer::write_module(contents, read, sink, &report->nbytes);
}

}  // namespace tenon::module
