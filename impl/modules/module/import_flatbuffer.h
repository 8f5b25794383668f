// Imports a module in PyTorch's flatbuffer form (docs/format/flatbuffer.md).
#pragma once

#include <string>

#include "base/counted.h"
#include "base/status.h"
#include "modules/archive/zip_source.h"
#include "modules/module/import.h"
#include "modules/module/module.h"

namespace tenon::module {

// `label` is what messages call the file. UNSUPPORTED for a file without code, which only the lite
// interpreter can use, and in a build without FlatBuffers. The other errors are those of
// import_module().
Result<Ref<Module>> import_flatbuffer(Ref<archive::ZipSource> source, const std::string& label,
                                      const ImportOptions& options);

}  // namespace tenon::module
