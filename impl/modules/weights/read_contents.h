// Reads a file of weights of any known form (docs/format/exported_program.md). Weights::open() and
// `tenon inspect` call it.
#pragma once

#include <string>

#include "base/status.h"
#include "modules/archive/zip_source.h"
#include "modules/module/import.h"
#include "modules/weights/weights.h"

namespace tenon::weights {

// `label` is the file's name in messages. UNSUPPORTED for another kind of file, which the message
// names. The other errors are those of tenon_open_weights (tenon/weights.h).
// `may_be_index`: the file may be an index of shards, whose files are read too.
Result<Contents> read_contents(Ref<archive::ZipSource> source, const std::string& label,
                               const module::ImportOptions& options, bool may_be_index);

}  // namespace tenon::weights
