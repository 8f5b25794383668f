// Reads an index of shards: which files together have the weights of a model, and which weights
// each of them has. read_shards.cc opens the shards, and modules/shared_weights/shards.cc merges
// them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "base/status.h"
#include "modules/archive/zip_source.h"

namespace tenon::weights {

struct ShardIndex {
  std::string folder;  // of the index, with its last slash; empty: the current one
  // The weights of each shard, by the shard's name in the folder.
  std::map<std::string, std::set<std::string, std::less<>>> shards;
};

// The name of `source` is the path of the index. CORRUPT: a shard's name leads out of the folder.
// Links are followed all the same, because caches of models consist of them. The other errors are
// those of read_shard_index() (safetensors_header.h).
Result<ShardIndex> open_shard_index(const archive::ZipSource& source, uint64_t max_nbytes);

// The error of a shard, with the word that says so.
Status shard_error(const Status& why);
// CORRUPT: the index gives a weight to a shard that does not have it.
Status shard_lacks(const std::string& file, const std::string& weight);

}  // namespace tenon::weights
