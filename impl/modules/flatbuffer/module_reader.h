// Reads a module in PyTorch's flatbuffer form. impl/module calls this on import. The file may come
// from an untrusted writer. Nothing in it is executed.
//
// ModuleReader::copy() copies the whole file except for the bytes of its storages, and a reader
// reads the copy only, because another process may change the file meanwhile. FlatBuffers' verifier
// checks the copy. Several threads can each have a reader of one copy.
//
// The bound of memory: all values and files that a ModuleReader makes may take 1 MiB and 64 bytes
// for each copied byte. read_values(), sources(), extra_files(), constants() and program() each use
// up part of the bound, so call each once. Beyond the bound they are CORRUPT.
//
// Source of the format: docs/format/flatbuffer.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "modules/archive/zip_reader.h"
#include "modules/archive/zip_source.h"
#include "modules/bytecode/program.h"
#include "modules/value/value.h"
#include "pickle/reader.h"

namespace tenon::flatbuffer {

// The range of a storage in the file. All storages lie in the file and do not overlap.
using StorageRange = archive::ZipReader::Range;

struct NamedFile {
  std::string name;
  std::string content;
};

// Returns the storage number `index` of the file, as elements of type `type`.
using FindStorage =
    std::function<Result<value::StorageValueRef>(uint32_t index, tensor::ScalarType type)>;
// Fails if the module's code does not have the class. The reader calls this for objects and enums.
using CheckClass = std::function<Status(const std::string& class_name)>;

// One thread at a time may use a reader, for the const functions too: they use up the bound. What
// they return does not refer to the reader. After a failure the reader is of no use.
class ModuleReader {
 public:
  class Bytes;  // the copy; it never changes
  // CORRUPT for a file that FlatBuffers' verifier refuses, that is too short or has 2 GiB or more,
  // whose tables share texts, or whose storages overlap. RESOURCE_EXHAUSTED if the file has more
  // bytes besides its storages than limits.max_nbytes or too many storages (limit "storages"), or
  // if memory is lacking. UNSUPPORTED in a build without FlatBuffers. `source` is not used after
  // copy() returns.
  static Result<std::shared_ptr<const Bytes>> copy(const archive::ZipSource& source,
                                                   const pickle::PickleLimits& limits);
  // A new reader has a bound of its own, and no values.
  static ModuleReader of(std::shared_ptr<const Bytes> bytes);
  // copy() and of().
  static Result<ModuleReader> open(const archive::ZipSource& source,
                                   const pickle::PickleLimits& limits);
  ModuleReader(ModuleReader&&) noexcept;
  ~ModuleReader();

  uint32_t bytecode_version() const noexcept;
  uint32_t operator_version() const noexcept;
  // The storages in the order of the file. The index that FindStorage gets is one into this list.
  const std::vector<StorageRange>& storages() const noexcept;
  bool has_sources() const noexcept;
  // The source files. Their names are qualifiers, such as "__torch__". CORRUPT beyond the bound, as
  // extra_files().
  Result<std::vector<NamedFile>> sources() const;
  Result<std::vector<NamedFile>> extra_files() const;
  // The number of bytes of the file without its storages.
  uint64_t nbytes() const noexcept;

  // Reads all values. Call this once, before root(), constants() and program(). CORRUPT if a value
  // refers to a value behind it or to a storage that does not exist, or if a tensor is larger than
  // its storage. The message names the value. INVALID_ARGUMENT of find_storage or check_class
  // becomes CORRUPT. RESOURCE_EXHAUSTED (limit "max_depth") if values are nested too deep, or if
  // memory is lacking. Neither function is called later.
  Status read_values(const FindStorage& find_storage, const CheckClass& check_class);
  // The value that the file names as its module. The caller checks that it is an object of a
  // module.
  Result<value::ValueRef> root() const;
  // The constants of the code: CONSTANTS.c0, CONSTANTS.c1 and so on.
  Result<std::vector<value::ValueRef>> constants() const;
  // The functions. Only the shape of their tables is checked here, and bytecode/verify.h checks the
  // rest. The version of the result is Program::kVersion.
  Result<bytecode::Program> program() const;

 private:
  class Reading;
  explicit ModuleReader(std::unique_ptr<Reading> reading) noexcept;

  std::unique_ptr<Reading> reading_;
};

}  // namespace tenon::flatbuffer
