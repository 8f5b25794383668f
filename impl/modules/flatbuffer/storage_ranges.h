// Inspects a flatbuffer before FlatBuffers' verifier has checked it. ModuleReader::open() calls
// this. The reader must know where the storages are before it copies the other bytes for the
// verifier. It also needs a limit that the verifier does not have.
//
// Every number is copied before it is checked and used, because another process may change the
// file. For a broken file the answer is wrong but harmless, because the verifier refuses the file
// later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "modules/archive/zip_reader.h"
#include "modules/archive/zip_source.h"

namespace tenon::flatbuffer {

// Returns the ranges where the storages of the file seem to lie, in the order of their offsets.
// Ranges that touch or overlap are joined. Small storages are left out if there are few of them. At
// most `most_nbytes` bytes of the list of storages are read. The file may have that many bytes
// besides its storages.
std::vector<archive::ZipReader::Range> likely_storages(const archive::ZipSource& source,
                                                       uint64_t most_nbytes);

// Whether functions or classes share a list of texts. The verifier limits the number of tables that
// it looks at, but not the number of texts in their lists. So sharing would make its time
// quadratic. No writer shares such lists. Without sharing, the file has four bytes of its own for
// each text of a list. `own_nbytes` is the number of bytes of the file without its storages.
bool has_shared_texts(std::span<const std::byte> file, uint64_t own_nbytes);

}  // namespace tenon::flatbuffer
