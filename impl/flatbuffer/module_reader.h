// Reads a module in PyTorch's flatbuffer form, whoever wrote it. Nothing in it is executed.
//
// Opening copies all of the file but the bytes of its storages, and looks at the copy only: another
// process may change the file meanwhile. FlatBuffers' verifier checks the copy. Memory is bounded
// by the bytes that are copied.
//
// Source of the format: docs/format/flatbuffer.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "archive/pickle_reader.h"
#include "archive/zip_reader.h"
#include "archive/zip_source.h"
#include "base/status.h"
#include "bytecode/program.h"
#include "value/value.h"

namespace tenon::flatbuffer {

// A storage of the file. All of them lie in the file, and none over another one.
using StorageRange = archive::ZipReader::Range;

struct NamedFile {
  std::string name;
  std::string content;
};

// Gives a storage of the file as elements of a type.
using FindStorage =
    std::function<Result<value::StorageValueRef>(uint32_t index, value::ScalarType type)>;
// Fails if the module's code does not have that class. It is called for objects and enums.
using CheckClass = std::function<Status(const std::string& class_name)>;

class ModuleReader {
 public:
  // CORRUPT for a file that FlatBuffers' verifier refuses. RESOURCE_EXHAUSTED if it has more bytes
  // besides its storages than limits.max_nbytes. UNSUPPORTED in a build without FlatBuffers. The
  // source is used here only.
  static Result<ModuleReader> open(const archive::ZipSource& source,
                                   const archive::PickleLimits& limits);
  ModuleReader(ModuleReader&&) noexcept;
  ~ModuleReader();

  uint32_t bytecode_version() const noexcept;
  uint32_t operator_version() const noexcept;
  // The storages in the order of the file. FindStorage gets their places in this list.
  const std::vector<StorageRange>& storages() const noexcept;
  // The names of sources are qualifiers, such as "__torch__". CORRUPT beyond the bound of memory.
  Result<std::vector<NamedFile>> sources() const;
  Result<std::vector<NamedFile>> extra_files() const;
  // How many bytes the file has besides its storages.
  uint64_t nbytes() const noexcept;

  // Reads all values. Call it once, before root(), constants() and program(). CORRUPT for a value
  // that names a value behind it, a storage that is not there, or a tensor beyond its storage. The
  // message names the value.
  Status read_values(const FindStorage& find_storage, const CheckClass& check_class);
  // The value that the file says is its module. The caller checks that it is an object of a module.
  Result<value::ValueRef> root() const;
  // The constants of the code, CONSTANTS.c0 and on.
  Result<std::vector<value::ValueRef>> constants() const;
  // The functions, whose tables are checked for their shape only: bytecode/verify.h checks what
  // they do. Its version is Program::kVersion.
  Result<bytecode::Program> program() const;

 private:
  class Copy;
  explicit ModuleReader(std::unique_ptr<Copy> copy) noexcept;

  std::unique_ptr<Copy> copy_;
};

}  // namespace tenon::flatbuffer
