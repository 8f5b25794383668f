// Which of the kinds of archive that PyTorch writes a zip file is, and for which operators its code
// is.
#pragma once

#include <string>

#include "archive/zip_reader.h"
#include "base/status.h"
#include "module/import.h"

namespace tenon::module {

// Opens a zip file. UNSUPPORTED for a file of another kind.
Result<Ref<archive::ZipReader>> open_archive(Ref<archive::ZipSource> source,
                                             const ImportOptions& options);

// UNSUPPORTED, by name, for what is another kind than a module archive with data.pkl. `label` is
// what the message calls the file.
Status check_is_module(const archive::ZipReader& reader, const std::string& label);

// Whether the records are those of an archive of torch.package, and of torch.export's.
bool is_package(const archive::ZipReader& reader);
bool is_exported_program(const archive::ZipReader& reader);

// The number in the record `version`. CORRUPT or UNSUPPORTED names the record.
Result<int> read_version(const archive::ZipReader& reader);

// Whether the numbers in the archive's tensors are big-endian. PyTorch takes every other word in
// the record `byteorder`, and none, for little-endian.
bool is_foreign_endian(const archive::ZipReader& reader);

}  // namespace tenon::module
