// Lays out an index of shards as one file, so that a name stands for a whole model in shards.
// load_file() calls it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "modules/shared_weights/load.h"
#include "modules/shared_weights/values.h"
#include "modules/weights/weights.h"

namespace tenon::shared_weights {

// Whether the file is an index of shards, or another object of JSON.
Result<bool> is_shard_index(const OpenedFile& file);
// Opens the shards that an index names, in the order of their names, and puts them into the index's
// identity (docs/format/shared_weights.md). The errors are those that weights::Weights::open() has
// for the index.
Status open_shards(OpenedFile* index);

// The merged file of safetensors shards: a header, and behind it the elements of the shards.
struct MergedFile {
  std::string head;
  std::vector<FilePiece> pieces;  // `to` is counted from the beginning of the merged file
  uint64_t nbytes = 0;
};
// Nothing: a shard has another form, and the weights are copied one by one (ShardValues). `index`
// is borrowed by the pieces. CORRUPT: a shard lacks a weight. The other errors are those of
// weights::Weights::open().
Result<std::optional<MergedFile>> merge_shards(const OpenedFile& index);

// The weights of shards of any form, as a safetensors file that has the same tensors.
struct ShardValues {
  Ref<weights::Weights> weights;
  std::vector<weights::SavedTensor> list;
  ValuesFile file;
};
// UNSUPPORTED, with the detail "name": a weight that cannot be read, or that a safetensors file
// cannot have. The other errors are those of weights::Weights::open().
Result<ShardValues> read_shard_values(const OpenedFile& index);

}  // namespace tenon::shared_weights
