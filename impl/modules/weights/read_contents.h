// Reads a file of weights of any known form (docs/format/exported_program.md). Weights::open() and
// `tenon inspect` call it.
#pragma once

#include <string>

#include "base/status.h"
#include "modules/archive/zip_source.h"
#include "modules/module/import.h"
#include "modules/weights/weights.h"

namespace tenon::weights {

// Where the bytes come from. Only a path can lead from an index of shards to the shards.
enum class Source : uint8_t {
  kPath,
  kShard,  // a file that an index names
  kMemory,
};

// `label` is the file's name in messages. UNSUPPORTED for another kind of file, which the message
// names. The other errors are those of tenon_open_weights (tenon/weights.h).
Result<Contents> read_contents(Ref<archive::ZipSource> source, const std::string& label,
                               const module::ImportOptions& options, Source from);

}  // namespace tenon::weights
