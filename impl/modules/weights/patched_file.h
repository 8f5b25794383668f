// A file with some of its bytes replaced. Weights::rewrite() writes changed archives and
// safetensors files with it. Nothing else in the file changes, and all parts keep their places.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/status.h"
#include "modules/archive/sink.h"
#include "modules/archive/zip_source.h"
#include "storage/storage.h"

namespace tenon::weights {

// `source` must outlive the PatchedFile. The storages that replace ranges must not change between
// crc32() and write(), or the checksums are wrong.
class PatchedFile {
 public:
  explicit PatchedFile(const archive::ZipSource& source) noexcept : source_(source) {}

  // Replaces a range of the file. No other replaced range may begin or end in it. The new bytes are
  // those of the storage `bytes`, from offset `from` on.
  void replace(uint64_t offset, uint64_t nbytes, Ref<storage::Storage> bytes, uint64_t from);
  // Replaces four bytes.
  void replace(uint64_t offset, uint32_t number);

  // The checksum of a range, with the replacements so far.
  Result<uint32_t> crc32(uint64_t offset, uint64_t nbytes) const;
  // Writes the whole file. CORRUPT if the source was cut short. Other errors are those of the sink
  // and of Storage::read().
  Status write(archive::Sink* sink) const;

 private:
  struct Patch {
    uint64_t nbytes = 0;
    Ref<storage::Storage> bytes;  // null: `number`
    uint64_t from = 0;
    uint32_t number = 0;
  };

  Status read(uint64_t offset, std::span<std::byte> to) const;
  template <typename Take>
  Status for_each_piece(uint64_t offset, uint64_t nbytes, Take take) const;

  const archive::ZipSource& source_;
  std::map<uint64_t, Patch> patches_;  // by their offsets
};

}  // namespace tenon::weights
