// Finds the checksum of a record in a zip file, so that a changed record can be written in place.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "modules/archive/zip_directory.h"
#include "modules/archive/zip_source.h"

namespace tenon::archive {

// The offsets in the file of every copy of the record's checksum. One copy is in the record's entry
// of the directory. Another is in its local header, in its data descriptor, or in both. `record`
// belongs to a reader of `source`. The list is empty for a record without a checksum. CORRUPT if
// the entry no longer has the checksum, or if the file was cut short.
Result<std::vector<uint64_t>> find_crc_places(const ZipSource& source, const ZipRecord& record);

}  // namespace tenon::archive
