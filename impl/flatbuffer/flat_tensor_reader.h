// Reads the table of an ExecuTorch file of weights (.ptd, docs/format/exported_program.md). The
// table is copied, and FlatBuffers' verifier checks the copy. The weights themselves stay in the
// file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "archive/zip_reader.h"
#include "archive/zip_source.h"
#include "base/status.h"

namespace tenon::flatbuffer {

struct FlatTensorLayout {
  int32_t scalar_type = 0;  // c10's number, unchecked
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;  // of the order in which the file has the dimensions
};

struct FlatTensorEntry {
  std::string key;
  uint32_t segment = 0;                    // in FlatTensorFile::segments
  std::optional<FlatTensorLayout> layout;  // of a tensor; other data are bytes
};

struct FlatTensorFile {
  std::vector<archive::ZipReader::Range> segments;  // in the file, none over another
  std::vector<FlatTensorEntry> entries;             // no two of one key
};

// CORRUPT for a header, a table, a segment or a layout that is broken. UNSUPPORTED for a newer
// version, and in a build without FlatBuffers. RESOURCE_EXHAUSTED for a table of more than
// `max_nbytes`.
Result<FlatTensorFile> read_flat_tensor(const archive::ZipSource& source, uint64_t max_nbytes);

}  // namespace tenon::flatbuffer
