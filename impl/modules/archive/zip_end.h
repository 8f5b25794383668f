// Finds the records at the end of a zip file, which say where its directory is.
// read_zip_directory() calls it.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "modules/archive/zip_source.h"

namespace tenon::archive {

struct ZipEnd {
  uint64_t directory_offset = 0;
  uint64_t directory_nbytes = 0;
  uint64_t entries = 0;
  uint64_t trailing_nbytes = 0;  // bytes behind the end record and its comment
};

// The directory that the result names lies in the file, before the end records. INCOMPATIBLE for
// another kind of file (file_kind.h). CORRUPT for end records that are wrong.
Result<ZipEnd> find_zip_end(const ZipSource& source);

// Makes a CORRUPT error for a place in the file that belongs to no record. `what` follows the
// file's name in the message.
Status corrupt_at(const ZipSource& source, uint64_t offset, const char* what);

}  // namespace tenon::archive
