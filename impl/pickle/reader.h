// Reads the bytes of a pickle into a tree of nodes (nodes.h). Time and memory are linear in the
// bytes and bounded by the limits. The imports of modules, packages and weights,
// object_from_pickle() and `tenon inspect` call it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "pickle/nodes.h"

namespace tenon::pickle {

enum class PickleDialect : uint8_t {
  // The dialect of module archives: protocol 2, with the opcodes that some version of PyTorch's C++
  // unpickler reads. LONG1 always has 8 bytes there.
  kModule,
  // The dialect of torch.save, which uses Python's pickler: protocols 2 to 5, without those opcodes
  // of protocols 0 and 1 that no later pickler writes.
  kGeneral,
};

struct PickleLimits {
  uint64_t max_nbytes = uint64_t{256} << 20;
  uint32_t max_nodes = uint32_t{8} << 20;
  uint32_t max_memo = uint32_t{8} << 20;
  // The nesting of values. It is checked when nodes become values, because reading the nodes does
  // not recurse.
  uint32_t max_depth = 512;
  uint32_t max_text_nbytes = uint32_t{128} << 20;  // for one str, bytes or integer
  uint32_t max_name_nbytes = 4096;                 // for a global's module or name, and for an
                                                   // attribute's name
  // A sum over all values. It counts the class and attribute names of objects and enums, because
  // each value has its own copy of them. It also counts the texts among the keys of dicts, because
  // each dict sorts its keys.
  uint64_t max_names_nbytes = uint64_t{256} << 20;
};

struct PickleReadOptions {
  PickleDialect dialect = PickleDialect::kModule;
  PickleLimits limits;
  std::string record = "data.pkl";  // the record's name in messages
  // Set to true if the pickle goes on behind the bytes. Null: nobody asks. A caller that does not
  // know how long the pickle is gives more bytes then.
  bool* is_cut_short = nullptr;
};

// CORRUPT if the bytes are no pickle, UNSUPPORTED for an opcode or protocol that the dialect does
// not have, RESOURCE_EXHAUSTED beyond a limit. All have the details record, offset and, once an
// opcode was read, opcode. RESOURCE_EXHAUSTED without these details: the machine has no memory for
// the nodes (os::ask_headroom()). `bytes` must outlive the tree.
Result<PickleTree> read_pickle(std::span<const std::byte> bytes, const PickleReadOptions& options);

}  // namespace tenon::pickle
