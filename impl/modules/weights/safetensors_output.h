// Writes a safetensors file (docs/format/safetensors.md), with the tensors in the order in which
// the package safetensors writes them. save_weights() calls it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "modules/archive/sink.h"
#include "modules/weights/safetensors_header.h"
#include "modules/weights/save_weights.h"

namespace tenon::weights {

// UNSUPPORTED: the format has no such element type. INVALID_ARGUMENT: the name. Both have the
// detail "name".
Status check_safetensors(const SavedTensor& tensor);

// Returns the length and the header of a file whose tensors lie behind them, in this order and
// without gaps. The first tensor begins at a multiple of `alignment` in the file, a power of two of
// 8 or more. The offsets of the entries are not read. UNSUPPORTED: names and metadata beyond the
// limit of the format.
Result<std::string> safetensors_head(std::span<const SafetensorsEntry> entries,
                                     const std::map<std::string, std::string>& metadata,
                                     uint64_t alignment);

// A file before it is written. The tensors lie behind `head`, without gaps.
struct SafetensorsLayout {
  std::string head;
  std::vector<const SavedTensor*> tensors;  // in the order of their bytes
  uint64_t nbytes = 0;                      // of all tensors
};
// The tensors were checked by check_saved(). The other rules are those of safetensors_head().
Result<SafetensorsLayout> lay_out_safetensors(std::span<const SavedTensor> tensors,
                                              const std::map<std::string, std::string>& metadata,
                                              uint64_t alignment);

// The tensors were checked by check_saved(). The errors are those of save_weights().
Status write_safetensors(std::span<const SavedTensor> tensors, const SaveOptions& options,
                         SaveProgress* progress, archive::Sink* sink);

}  // namespace tenon::weights
