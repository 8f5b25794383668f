// Writes a module as an archive, or as a flatbuffer, that torch.jit.load runs. The bytes are a
// function of the module and of the options; code and pickles that were not changed are written as
// they were read.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "archive/file_output.h"
#include "archive/sink.h"
#include "base/status.h"
#include "compile/emit.h"
#include "cuda/stream.h"
#include "module/module.h"

namespace tenon::module {

enum class Bytecode : uint8_t {
  kKeep,  // written if there is any that fits the module
  kDrop,
  kCompile,  // made from the code, whether the archive had any or not
};

enum class Form : uint8_t {
  kArchive,     // the zip file of torch.jit.save
  kFlatbuffer,  // one buffer, which always has bytecode
};

struct ExportOptions {
  Form form = Form::kArchive;
  std::vector<ExtraFile> extra_files;  // these win over the module's own, and both over the hook's
  // Called once, before anything is written. What it fails with ends the export.
  std::function<Status(const Module& module, std::vector<ExtraFile>* files)> hook;
  int file_version = 0;      // 0: by the rule; else that, if no code means something else then
  std::string archive_name;  // empty: the file's name without its extension, or "archive"
  // The archive says of tensors on a device which it was; else that they are the CPU's.
  bool keep_device = false;
  // What was given to it before the call is done before tensors on a device are read.
  cuda::Stream stream = nullptr;
  // Whether an imported archive's bytecode is written again. It is kept only while it fits: the
  // code, the version and the order of attributes are those of the archive. Values may be others.
  Bytecode bytecode = Bytecode::kKeep;
  // Of kCompile: the root's methods that get bytecode. Empty: all of them.
  std::vector<std::string> methods;
  // Of kCompile: the bytecode's version, from 4 to 8. 0: 8.
  int bytecode_version = 0;
  // Of kCompile: what its tables look like. A version below 8 sets some of these by itself.
  compile::EmitOptions emit;
  // Of kCompile: whether methods that are called through an interface get functions.
  bool interface_methods = true;
  bool forks_at_once = false;  // `fork` runs its function at once; without this it is refused
  // Whether debug tables are written. Of kCompile: new ones (debug_tables.h). Else all of
  // Package::debug_tables or none. Those have absolute paths of the person who saved the module.
  bool debug_tables = false;
  // The code that is new or changed; what was imported and is unchanged is never checked here.
  bool check = true;
};

struct ExportReport {
  uint64_t nbytes = 0;
  uint64_t records = 0;
  int version = 0;
  // That runs it, as far as operators and element types tell.
  std::string oldest_pytorch;
  std::vector<std::string> skipped_files;  // of the hook, because of others of their name
  bool has_bytecode = false;               // it was written
  uint64_t bytecode_functions = 0;         // in the bytecode that was written
  std::string why_no_bytecode;             // why bytecode that was to be kept was not; else empty
  uint64_t debug_tables = 0;               // records that were written
  std::string why_no_debug_tables;         // why debug tables that were asked for were not written
};

// `report` may be null. PERMISSION for any change of the module (or of what shares its code) while
// this runs.
Status export_module(const Module& module, archive::Sink* sink, const ExportOptions& options,
                     ExportReport* report);
// Whole or not at all: an old file of that name stays until the new one is complete.
Status export_module(const Module& module, const std::string& path, archive::Durability durability,
                     const ExportOptions& options, ExportReport* report);

// The folder inside an archive that is written to the path: the name that was given, or else the
// file's without its extension. INVALID_ARGUMENT if there is none.
Result<std::string> archive_name_for(const std::string& given, const std::string& path);

}  // namespace tenon::module
