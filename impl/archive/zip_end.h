// The records at a zip file's end, which say where its directory is.
#pragma once

#include <cstdint>

#include "archive/zip_source.h"
#include "base/status.h"

namespace tenon::archive {

struct ZipEnd {
  uint64_t directory_offset = 0;
  uint64_t directory_nbytes = 0;
  uint64_t entries = 0;
  uint64_t trailing_nbytes = 0;  // behind the end record and its comment
};

// The directory that it tells of lies in the file, before the end records.
Result<ZipEnd> find_zip_end(const ZipSource& source);

// CORRUPT, of a place in the file that is in no record.
Status corrupt_at(const ZipSource& source, uint64_t offset, const char* what);

}  // namespace tenon::archive
