// Reads the records of an archive's zip file (docs/format/archive.md). Opening checks the directory
// and every record's header. It reads no record's bytes, unless Check::kAll asks for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/counted.h"
#include "base/status.h"
#include "modules/archive/zip_directory.h"
#include "modules/archive/zip_source.h"

namespace tenon::archive {

// How much of an archive is checked.
enum class Check {
  // Checks the directory, headers, bounds, overlaps and names, and later the checksum of each
  // record that is read as a whole.
  kStructure,
  // For callers that open modules: they read tensors by read_into(), which checks the checksum
  // while it copies. ZipReader treats kFill like kStructure.
  kFill,
  // Also checks the checksum of every record when the archive is opened.
  kAll,
};

// A reader never changes, and any number of threads may use it. Records, names and views are valid
// as long as it lives. The bytes of a file can change after open(), so a function that reads them
// may fail with CORRUPT at any time.
class ZipReader : public Counted {
 public:
  // The reader keeps a reference to the source. The errors are those of read_zip_directory(), and
  // with Check::kAll those of verify().
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

  // The folder of the first entry. Only the files in it are records of the archive.
  std::string_view prefix() const noexcept { return directory_.prefix; }
  // The records have the order of the zip file's directory.
  std::span<const ZipRecord> records() const noexcept { return directory_.records; }
  // Returns null if no record has that name.
  const ZipRecord* find(std::string_view name) const noexcept;
  bool has(std::string_view name) const noexcept { return find(name) != nullptr; }

  // Reads all bytes of a record, inflated, and checks the checksum if there is one. CORRUPT, with
  // the details "record" and "offset", for wrong bytes. RESOURCE_EXHAUSTED if the record is over
  // max_read_nbytes or over the memory that this process can have.
  Result<std::vector<std::byte>> read(const ZipRecord& record) const;
  Result<std::string> read_text(const ZipRecord& record) const;
  // Does as read(), but stores the record.nbytes bytes at `to`. After a failure these bytes are of
  // no use. The size is not checked against a limit.
  Status read_into(const ZipRecord& record, void* to) const;
  // Reads the bytes of a record that is not deflated piece by piece, in order. The caller sets *crc
  // to 0 before the first piece, and passes it to check_crc() after the last. CORRUPT if a file was
  // cut short. The bytes may not be trusted before check_crc().
  Status read_piece(const ZipRecord& record, uint64_t offset, std::span<std::byte> to,
                    uint32_t* crc) const;
  Status check_crc(const ZipRecord& record, uint32_t crc) const;
  // Checks a record as read_into() does, but does not keep the bytes. A deflated record is inflated
  // in memory first, within the limits of read().
  Status verify(const ZipRecord& record) const;
  Status verify_all() const;
  // Returns a view of the record's unchecked bytes in the source. The view of a deflated record is
  // empty. A view is valid as long as the source. A load from a view raises SIGBUS if the file was
  // cut short.
  std::span<const std::byte> view(const ZipRecord& record) const noexcept;

  const Ref<ZipSource>& source() const noexcept { return source_; }
  const ZipOddities& oddities() const noexcept { return directory_.oddities; }

 private:
  ZipReader(Ref<ZipSource> source, ZipDirectory directory, uint64_t max_read_nbytes) noexcept
      : source_(std::move(source)),
        directory_(std::move(directory)),
        max_read_nbytes_(max_read_nbytes) {}
  // Finds a record that of_ranges() made: its index is the number at the end of its name.
  const ZipRecord* find_range(std::string_view name) const noexcept;
  Status inflate_into(const ZipRecord& record, void* to) const;
  Status check_readable(const ZipRecord& record) const;
  Status wrong(const ZipRecord& record, Code code, const std::string& what) const;

  Ref<ZipSource> source_;
  ZipDirectory directory_;
  uint64_t max_read_nbytes_;
};

}  // namespace tenon::archive
