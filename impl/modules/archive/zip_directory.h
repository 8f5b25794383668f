// Reads and checks the structure of a zip file: its directory and the headers of its records,
// against each other and against the file. Two entries with one name, and records that overlap, are
// CORRUPT. ZipReader calls this, and finds records by name in the result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/keyed_hash.h"
#include "base/status.h"
#include "modules/archive/zip_source.h"

namespace tenon::archive {

// Limits of an archive. Beyond one, reading fails with RESOURCE_EXHAUSTED and the details "limit"
// and "limit_value". The last two are for later steps: read_zip_directory() checks the others.
struct ZipLimits {
  uint64_t max_records = 1'000'000;
  uint64_t max_directory_nbytes = uint64_t{256} << 20;
  uint64_t max_name_nbytes = 4096;
  uint64_t max_inflated_nbytes = uint64_t{1} << 30;  // all compressed records together
  // The most bytes that ZipReader::read() allocates for one record.
  uint64_t max_read_nbytes = uint64_t{4} << 30;
  // For the code and extra files that an import (modules/module/) keeps in memory.
  uint64_t max_kept_nbytes = uint64_t{1} << 30;
};

// Whether all records lie in one directory. torch.export of PyTorch 2.6 writes an archive without
// one. With kOptional, if the first entry is in no directory, every file is a record, and the
// prefix is empty. With kNone this is so wherever the first entry is, as in NumPy's .npz files.
enum class Prefix { kRequired, kOptional, kNone };

struct ZipRecord {
  std::string_view name;  // without the prefix
  // The offset of the record's entry in the directory. 0 for a range of a file that is no zip
  // archive (ZipReader::of_ranges()).
  uint64_t central_offset = 0;
  uint64_t header_offset = 0;
  uint64_t data_offset = 0;
  uint64_t nbytes = 0;
  uint64_t stored_nbytes = 0;  // the size in the file; differs from nbytes if the record is
                               // deflated
  uint32_t crc = 0;
  bool deflated = false;
  // False if the writer made no checksum: it is 0, and the record has bytes. Such a record is read
  // unchecked, and so is a record whose real checksum is 0.
  bool has_crc() const noexcept { return crc != 0 || nbytes == 0; }
};

// Oddities of an archive that are no errors. They are counted for reports.
struct ZipOddities {
  uint64_t without_crc = 0;      // records that have no checksum
  uint64_t outside_prefix = 0;   // files in other directories, which are ignored
  uint64_t folders = 0;          // entries that stand for a directory
  uint64_t trailing_nbytes = 0;  // bytes behind the end of the archive
  std::string first_without_crc;
  std::string first_outside_prefix;
};

// The prefix and the names are views into `bytes`. So a ZipDirectory is moved and never copied.
struct ZipDirectory {
  // An index of the records, sorted by the hash of the name and then by the name. So names that
  // were chosen to have equal hashes do not make it slow.
  struct Key {
    uint64_t hash = 0;
    uint32_t index = 0;  // an index of `records`
  };
  static uint64_t hash_of(std::string_view name) noexcept { return keyed_hash(name); }

  std::vector<std::byte> bytes;    // a copy of the directory, in which the names lie
  std::string_view prefix;         // the folder of the first entry
  std::vector<ZipRecord> records;  // the files in that folder, in the order of the zip file's
                                   // directory
  std::vector<Key> by_name;        // empty for ranges of a file (ZipReader::of_ranges())
  ZipOddities oddities;
};

// Reads no record's bytes. CORRUPT says what is wrong, with the details "offset" and, if a record
// is to blame, "record". UNSUPPORTED, with the same details, for encryption and for methods other
// than deflate. INCOMPATIBLE for another kind of file, which the message names (file_kind.h).
// RESOURCE_EXHAUSTED beyond a limit. Other errors are those of ZipSource::read(). The result does
// not refer to `source`.
Result<ZipDirectory> read_zip_directory(const ZipSource& source, const ZipLimits& limits,
                                        Prefix prefix = Prefix::kRequired);

}  // namespace tenon::archive
