// Reads what a file of weights has, in whichever form it is (docs/format/exported_program.md).
#pragma once

#include <string>

#include "archive/zip_source.h"
#include "base/status.h"
#include "module/import.h"
#include "weights/weights.h"

namespace tenon::weights {

// `label` is what messages call the file. UNSUPPORTED, by name, for another kind of file.
Result<Contents> read_contents(Ref<archive::ZipSource> source, const std::string& label,
                               const module::ImportOptions& options);

}  // namespace tenon::weights
