// Imports a module in PyTorch's flatbuffer form (docs/format/flatbuffer.md).
#pragma once

#include <memory>
#include <string>

#include "base/counted.h"
#include "base/status.h"
#include "modules/archive/zip_source.h"
#include "modules/module/deferred.h"
#include "modules/module/import.h"
#include "modules/module/module.h"

namespace tenon::module {

// `label` is what messages call the file. UNSUPPORTED for a file without code, which only the lite
// interpreter can use, and in a build without FlatBuffers. The other errors are those of
// import_module(). The module may be incomplete (ImportOptions::defers).
Result<Ref<Module>> import_flatbuffer(Ref<archive::ZipSource> source, const std::string& label,
                                      const ImportOptions& options);
// Checks the structure of the file, and reads its values and tensors. finish() reads the code and
// the bytecode, checks the values against the code, and makes the module. Until then the result
// keeps a copy of the file without the tensors.
Result<std::unique_ptr<const DeferredImport>> open_flatbuffer(Ref<archive::ZipSource> source,
                                                              const std::string& label,
                                                              const ImportOptions& options);

}  // namespace tenon::module
