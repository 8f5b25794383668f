// Reads the container of an archive (docs/format/archive.md). Opening looks at the directory and at
// every record's header, and at no record's bytes unless told to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "archive/zip_directory.h"
#include "archive/zip_source.h"
#include "base/counted.h"
#include "base/status.h"

namespace tenon::archive {

// How much of an archive is checked.
enum class Check {
  kStructure,  // directory, headers, bounds, overlaps, names; the checksum of what read() gives
  kFill,  // for who opens modules: tensors are taken by read_into(), which checks as it copies.
          // Here the same as kStructure
  kAll,   // and the checksum of every record, when the archive is opened
};

class ZipReader : public Counted {
 public:
  // The source stays as long as the reader.
  static Result<Ref<ZipReader>> open(Ref<ZipSource> source, Check check = Check::kStructure,
                                     const ZipLimits& limits = {},
                                     Prefix prefix = Prefix::kRequired);

  // Reads ranges of a file that is no zip archive as if each were a record without a checksum.
  // Range i has the name `name_prefix` + "i". The caller has checked that the ranges lie in the
  // source.
  struct Range {
    uint64_t offset = 0;
    uint64_t nbytes = 0;
  };
  static Ref<ZipReader> of_ranges(Ref<ZipSource> source, std::span<const Range> ranges,
                                  std::string_view name_prefix);

  // The directory that the first entry is in. Only what is in it is a record of the archive.
  std::string_view prefix() const noexcept { return directory_.prefix; }
  // In the order of the zip file's directory.
  std::span<const ZipRecord> records() const noexcept { return directory_.records; }
  // Null if there is none of that name.
  const ZipRecord* find(std::string_view name) const noexcept;
  bool has(std::string_view name) const noexcept { return find(name) != nullptr; }

  // All bytes of a record, inflated, its checksum checked: CORRUPT with the details "record" and
  // "offset".
  Result<std::vector<std::byte>> read(const ZipRecord& record) const;
  Result<std::string> read_text(const ZipRecord& record) const;
  // Into record.nbytes bytes at `to`. After a failure they are of no use.
  Status read_into(const ZipRecord& record, void* to) const;
  // The same piece by piece, in order, of a record that is not deflated: `crc` is 0 before the
  // first, and what check_crc() gets at the end.
  Status read_piece(const ZipRecord& record, uint64_t offset, std::span<std::byte> to,
                    uint32_t* crc) const;
  Status check_crc(const ZipRecord& record, uint32_t crc) const;
  // As read_into() without keeping them.
  Status verify(const ZipRecord& record) const;
  Status verify_all() const;
  // The bytes where they lie, unchecked; empty for a deflated record. Valid as long as the source.
  std::span<const std::byte> view(const ZipRecord& record) const noexcept;

  const Ref<ZipSource>& source() const noexcept { return source_; }
  const ZipOddities& oddities() const noexcept { return directory_.oddities; }

 private:
  ZipReader(Ref<ZipSource> source, ZipDirectory directory, uint64_t max_read_nbytes) noexcept
      : source_(std::move(source)),
        directory_(std::move(directory)),
        max_read_nbytes_(max_read_nbytes) {}
  Status inflate_into(const ZipRecord& record, void* to) const;
  Status check_readable(const ZipRecord& record) const;
  Status wrong(const ZipRecord& record, Code code, const std::string& what) const;

  Ref<ZipSource> source_;
  ZipDirectory directory_;
  uint64_t max_read_nbytes_;
};

}  // namespace tenon::archive
