// Tells which kind of PyTorch's archives a zip file is, and to which version of the operators its
// code refers. The importers call this before they read anything else.
#pragma once

#include <string>

#include "base/status.h"
#include "modules/archive/zip_reader.h"
#include "modules/module/import.h"

namespace tenon::module {

// Opens a zip file. UNSUPPORTED for a file of another kind. The other errors are those of
// ZipReader::open().
Result<Ref<archive::ZipReader>> open_archive(Ref<archive::ZipSource> source,
                                             const ImportOptions& options);

// Checks that the file is a module archive with data.pkl. Otherwise UNSUPPORTED, and the message
// names the kind of the file. `label` is what the message calls the file.
Status check_is_module(const archive::ZipReader& reader, const std::string& label);

// Whether the file is an archive of torch.package, or of torch.export.
bool is_package(const archive::ZipReader& reader);
bool is_exported_program(const archive::ZipReader& reader);

// Reads the number in the record `version`. An error, CORRUPT or UNSUPPORTED, names the record.
Result<int> read_version(const archive::ZipReader& reader);

// Whether the numbers in the archive's tensors are big-endian. Like PyTorch, this function takes a
// missing record `byteorder`, and any other word in it, for little-endian.
bool is_foreign_endian(const archive::ZipReader& reader);

}  // namespace tenon::module
