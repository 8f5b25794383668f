// Reads the table of an ExecuTorch file of weights (.ptd, docs/format/exported_program.md).
// impl/weights calls this. The table is copied, and FlatBuffers' verifier checks the copy. The
// weights themselves stay in the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "modules/archive/zip_reader.h"
#include "modules/archive/zip_source.h"

namespace tenon::flatbuffer {

struct FlatTensorLayout {
  int32_t scalar_type = 0;  // the number of c10's enum ScalarType, not checked
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;  // in elements, from the file's order of the dimensions
};

struct FlatTensorEntry {
  std::string key;
  uint32_t segment = 0;                    // an index into FlatTensorFile::segments
  std::optional<FlatTensorLayout> layout;  // only a tensor has one; other data are plain bytes
};

struct FlatTensorFile {
  std::vector<archive::ZipReader::Range> segments;  // ranges of the file that do not overlap
  std::vector<FlatTensorEntry> entries;             // every key occurs once
};

// CORRUPT for a header, a table, a segment or a layout that is broken. UNSUPPORTED for a newer
// version, and in a build without FlatBuffers. RESOURCE_EXHAUSTED for a table of more than
// `max_nbytes`. The result does not refer to `source`.
Result<FlatTensorFile> read_flat_tensor(const archive::ZipSource& source, uint64_t max_nbytes);

}  // namespace tenon::flatbuffer
