// Writes a module as an archive or as a flatbuffer that torch.jit.load runs. The bytes depend only
// on the module and the options. Code and pickles that were not changed are written as they were
// read.
//
// The errors are those of tenon_export_module (tenon/archive.h). A child of fork gets UNSUPPORTED
// for tensors on a device. After a failure the sink may have a part of the bytes, and the report is
// as it was.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cuda/stream.h"
#include "modules/archive/file_output.h"
#include "modules/archive/sink.h"
#include "modules/compile/emit.h"
#include "modules/module/module.h"

namespace tenon::module {

enum class Bytecode : uint8_t {
  kKeep,  // write the imported bytecode if it still fits the module
  kDrop,
  kCompile,  // compile the code, whether or not the archive had bytecode
};

enum class Form : uint8_t {
  kArchive,     // the zip file of torch.jit.save
  kFlatbuffer,  // one buffer, which always has bytecode
};

struct ExportOptions {
  Form form = Form::kArchive;
  std::vector<ExtraFile> extra_files;  // precede the module's own, and both precede the hook's
  // Called once, before anything is written. If it fails, the export fails with its error. It may
  // read the module. A change of the module is refused with PERMISSION.
  std::function<Status(const Module& module, std::vector<ExtraFile>* files)> hook;
  // 0: by the rule (version.h). Otherwise the version, if all code means the same in it.
  int file_version = 0;
  std::string archive_name;  // empty: the file's name without its extension, or "archive"
  // Whether the archive names the device of each tensor that is on a device. Otherwise it names the
  // CPU.
  bool keep_device = false;
  // Tensors on a device are read after the work that was given to this stream before the call.
  cuda::Stream stream = nullptr;
  // Whether the bytecode of an imported archive is written again. It is kept only while it fits:
  // the code, the version and the order of attributes are those of the archive. The values may
  // differ.
  Bytecode bytecode = Bytecode::kKeep;
  // For kCompile: the root's methods that get bytecode. Empty: all of them.
  std::vector<std::string> methods;
  // For kCompile: the version of the bytecode, from 4 to 8. 0: version 8.
  int bytecode_version = 0;
  // For kCompile: the form of the bytecode's tables. A version below 8 sets some of these by
  // itself.
  compile::EmitOptions emit;
  // For kCompile: whether methods that are called through an interface get functions.
  bool interface_methods = true;
  bool forks_at_once = false;  // whether `fork` runs its function at once; if not, it is refused
  // Whether debug tables are written. For kCompile, new ones are made (debug_tables.h). Otherwise
  // all of Package::debug_tables are written, or none. Those contain absolute paths of the person
  // who saved the module.
  bool debug_tables = false;
  // Whether changed code is checked. If all code is as it was read, it is never checked here.
  bool check = true;
};

struct ExportReport {
  uint64_t nbytes = 0;
  uint64_t records = 0;
  int version = 0;
  // The oldest PyTorch that runs the file, as far as operators and element types tell.
  std::string oldest_pytorch;
  std::vector<std::string> skipped_files;  // the hook's files whose names were taken
  bool has_bytecode = false;               // whether bytecode was written
  uint64_t bytecode_functions = 0;         // in the bytecode that was written
  std::string why_no_bytecode;  // why bytecode was not kept although kKeep asked for it; else empty
  uint64_t debug_tables = 0;    // the number of records that were written
  std::string why_no_debug_tables;  // why requested debug tables were not written; else empty
};

// `report` may be null. While this runs, any change of the module, or of a module that shares its
// code, is refused with PERMISSION. The caller keeps `sink` until the call returns. The function
// holds the lock of trees (modules/value/tree_lock.h), and gives it back while the hook or the sink
// runs.
Status export_module(const Module& module, archive::Sink* sink, const ExportOptions& options,
                     ExportReport* report);
// Writes the file whole or not at all: an old file of that name stays until the new one is
// complete.
Status export_module(const Module& module, const std::string& path, archive::Durability durability,
                     const ExportOptions& options, ExportReport* report);

// Gives the name of the folder inside an archive that is written to `path`: `given`, or else the
// file's name without its extension, or "archive" if that cannot be the name of a folder
// (archive_name_of() in archive/zip_writer.h).
Result<std::string> archive_name_for(const std::string& given, const std::string& path);

}  // namespace tenon::module
