// Reads the header of a safetensors file (docs/format/safetensors.md): the names, types, shapes and
// places of its tensors. read_safetensors() makes weights of them. Also reads the index of files
// that together have the weights of a model.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "modules/archive/zip_source.h"
#include "tensor/scalar_type.h"

namespace tenon::weights {

// A dtype of the format. They lie in one array, in the order of the package safetensors: a file has
// the tensors of the last dtype first.
struct SafetensorsDtype {
  std::string_view name;
  uint32_t bits;                           // of one number
  std::optional<tensor::ScalarType> type;  // nothing: no element of PyTorch is one such number
};
// The dtype of a tensor's numbers. Null: the format has none. An element of kFloat4E2m1fnX2 is two
// numbers of its dtype. A build without JSON has no dtypes.
const SafetensorsDtype* safetensors_dtype_of(tensor::ScalarType type) noexcept;
// The dtype that files call so. Null: there is none.
const SafetensorsDtype* safetensors_dtype_named(std::string_view name) noexcept;

struct SafetensorsEntry {
  std::string name;
  std::string dtype;                       // as the file spells it
  std::optional<tensor::ScalarType> type;  // nothing: PyTorch has no such element type
  std::vector<int64_t> sizes;
  uint64_t offset = 0;  // of the first byte, in the file
  uint64_t nbytes = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of their bytes in the file
  std::map<std::string, std::string> metadata;
};

// The tensors fill the rest of the file without a gap, and none overlaps another. CORRUPT, with the
// detail "offset" of a fault in the JSON, for any other file. RESOURCE_EXHAUSTED for a header of
// more than `max_nbytes`. UNSUPPORTED in a build without JSON. A name may occur twice, which the
// caller checks. Time and memory are linear in the header.
Result<SafetensorsHeader> read_safetensors_header(const archive::ZipSource& source,
                                                  uint64_t max_nbytes);

// Reads an index of shards (*.index.json): the file of each weight, by the weight's name. CORRUPT
// if it is no JSON, if a name is there twice, or if weight_map has anything but texts. UNSUPPORTED
// if it has no weight_map. The other errors are those of read_safetensors_header(). The caller
// checks the names of the files.
Result<std::map<std::string, std::string>> read_shard_index(const archive::ZipSource& source,
                                                            uint64_t max_nbytes);

}  // namespace tenon::weights
