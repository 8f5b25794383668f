// Looks at a flatbuffer that FlatBuffers' verifier has not seen. The reader needs to know where the
// storages are before it copies the other bytes for the verifier, and it needs a bound that the
// verifier does not have.
//
// Every number is copied before it is checked and used, because another process may change the
// file. A broken file gives an answer that is wrong but harmless: the verifier refuses the file
// later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "archive/zip_reader.h"
#include "archive/zip_source.h"

namespace tenon::flatbuffer {

// The ranges where the storages of the file seem to lie, in the order of their offsets. Ranges that
// touch or overlap are joined. At most `most_nbytes` of the list of storages are looked at.
std::vector<archive::ZipReader::Range> likely_storages(const archive::ZipSource& source,
                                                       uint64_t most_nbytes);

// Whether functions or classes share a list of texts. The verifier bounds the tables that it looks
// at and not the texts in their lists, so sharing would make its time quadratic. A file has four
// bytes of its own for each text of a list, unless tables share the list, which no writer does.
// `own_nbytes` is how many bytes the file has besides its storages.
bool has_shared_texts(std::span<const std::byte> file, uint64_t own_nbytes);

}  // namespace tenon::flatbuffer
