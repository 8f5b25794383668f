// From the bytes of a pickle to its nodes. Time and memory are linear in the bytes, and bounded by
// the limits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "archive/pickle_nodes.h"
#include "base/status.h"

namespace tenon::archive {

enum class PickleDialect : uint8_t {
  // What a module archive has: protocol 2, with the opcodes that PyTorch's C++ reads in any of its
  // versions. LONG1 has 8 bytes there.
  kModule,
  // What torch.save writes with Python's pickler: protocols 2 to 5, but no opcode of protocols 0
  // and 1 that no pickler writes since.
  kGeneral,
};

struct PickleLimits {
  uint64_t max_nbytes = uint64_t{256} << 20;
  uint32_t max_nodes = uint32_t{8} << 20;
  uint32_t max_memo = uint32_t{8} << 20;
  // Of values within values. Enforced when nodes become values: reading itself does not recurse.
  uint32_t max_depth = 512;
  uint32_t max_text_nbytes = uint32_t{128} << 20;  // of one str, bytes or integer
  uint32_t max_name_nbytes = 4096;                 // of a global's module or name, of an attribute
  // Of the names of all objects, enums and attributes together, which every one of them has for
  // itself, and of the texts among the keys of dicts, which every dict puts into order.
  uint64_t max_names_nbytes = uint64_t{256} << 20;
};

struct PickleReadOptions {
  PickleDialect dialect = PickleDialect::kModule;
  PickleLimits limits;
  std::string record = "data.pkl";  // what messages call it
};

// CORRUPT for what is no pickle, UNSUPPORTED for an opcode or protocol that the dialect does not
// have, RESOURCE_EXHAUSTED beyond a limit; all with the details record, offset and, once one was
// read, opcode. `bytes` must outlive the tree.
Result<PickleTree> read_pickle(std::span<const std::byte> bytes, const PickleReadOptions& options);

}  // namespace tenon::archive
