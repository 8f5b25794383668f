// Writes the zip file of an archive as PyTorch does, with every record's bytes at a multiple of 64
// in the file by default (docs/format/archive.md). Exports call it. The result depends only on the
// prefix, the alignment, the records in their order, and the version of libdeflate.
//
// Memory beside the added bytes: about 100 bytes and the name for each record, half a MiB, and for
// a compressed record its uncompressed size less 1 byte and libdeflate's tables. A compressed
// record of a mapped file is also copied whole first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/keyed_hash.h"
#include "base/status.h"
#include "modules/archive/sink.h"

namespace tenon::archive {

struct ZipWriterOptions {
  std::string prefix = "archive";  // the directory that all records are in
  // The alignment of each record's bytes in the file, in bytes: a power of two, at most 32768.
  uint64_t alignment = 64;
  // false: the records are in no directory, and `prefix` is not read. The archive has the records
  // of zip64 only if it needs them, and always with a prefix, as PyTorch's archives do.
  bool has_prefix = true;
};

// The prefix that PyTorch gives to an archive at `path`: the file's name without its last
// extension. If that cannot be the name of a directory in an archive, it is "archive", as in
// PyTorch for an archive without a path.
std::string archive_name_of(std::string_view path);

enum class Compression {
  kStored,
  // Deflated if the record has more than kStoredUpTo bytes and compression makes it smaller.
  // Otherwise stored.
  kDeflated,
};
inline constexpr uint64_t kStoredUpTo = 200;

// How the added bytes can be read.
enum class SourceKind {
  kMemory,
  // A mapping of a file that other processes can cut short. It is read by calls that fail where a
  // load would raise SIGBUS. CORRUPT: the file was cut short.
  kMappedFile,
};

// A call out of order is INVALID_ARGUMENT, and later calls are not affected: add(), begin() or
// finish() inside a record, append() or end() outside one, and any of them after finish(). One
// thread at a time may use a writer. After std::bad_alloc it must not be used any more.
class ZipWriter {
 public:
  // The sink is borrowed until the last call. INVALID_ARGUMENT for a bad option.
  static Result<ZipWriter> create(Sink* sink, ZipWriterOptions options = {});

  // Adds a record. `name` is without the prefix. The bytes must not change during the call.
  // INVALID_ARGUMENT if the archive has a record of that name, or if the name is not allowed
  // (zip_names.h). After such a refusal more records can be added. After any other failure every
  // later call fails with the same error.
  Status add(std::string_view name, std::span<const std::byte> bytes,
             Compression compression = Compression::kStored,
             SourceKind reach = SourceKind::kMemory);
  Status add_text(std::string_view name, std::string_view text,
                  Compression compression = Compression::kStored);

  // Adds a stored record in pieces, which have `nbytes` bytes together. More or fewer bytes are
  // INVALID_ARGUMENT, and every later call fails with the same error.
  Status begin(std::string_view name, uint64_t nbytes);
  Status append(std::span<const std::byte> bytes, SourceKind reach = SourceKind::kMemory);
  Status end();

  // Writes the directory and all bytes that are still held back. Called once, at the end. The
  // caller then ends the sink itself (FileOutput::commit()). If finish() fails, the archive is
  // broken, and the caller must not commit it.
  Status finish();

  bool has(std::string_view name) const;
  size_t record_count() const noexcept { return entries_.size(); }
  uint64_t nbytes() const noexcept { return position_; }  // the size of the archive so far

  // A record that add() stores has its checksum in its header if it has at most this many bytes. A
  // longer one has it in a data descriptor behind its bytes, and so has every record of begin()
  // that is not empty.
  static constexpr uint64_t kCrcAheadUpTo = uint64_t{64} << 10;
  // Bytes are written in chunks of this size, and the checksum of each chunk is made right after
  // its write. The kernel's copy has then brought the chunk into the cache. In the other order, the
  // time to load it from memory would add to the kernel's time. In this order the kernel's copy
  // hides it.
  static constexpr uint64_t kChunkNbytes = uint64_t{256} << 10;

 private:
  struct Entry {
    uint64_t header_offset = 0;
    uint64_t nbytes = 0;
    uint64_t stored_nbytes = 0;
    uint32_t crc = 0;
    uint16_t flags = 0;
    uint16_t method = 0;
    std::string name;  // the prefix included
  };

  ZipWriter(Sink* sink, ZipWriterOptions options) noexcept
      : sink_(sink), options_(std::move(options)) {}
  Status check_name(std::string_view name) const;
  Status fail(Status status);
  Status start(std::string_view name, Entry entry);
  Status add_whole(std::string_view name, std::span<const std::byte> stored, const Entry& entry);
  Status add_deflated(std::string_view name, std::span<const std::byte> bytes, bool* smaller);
  Status put_descriptor(const Entry& entry);
  Status put_central(const Entry& entry);
  Status put_end(uint64_t directory_offset);
  Status put(std::span<const std::byte> bytes);
  Status put_held_back();

  Sink* sink_;
  ZipWriterOptions options_;
  std::vector<Entry> entries_;
  std::unordered_set<std::string, KeyedHash> names_;
  std::vector<std::byte> held_back_;  // accepted by put(), and not yet given to the sink
  std::vector<std::byte> copied_;     // a copy of one chunk of a mapped file
  uint64_t position_ = 0;             // the size of the archive so far, with the held-back bytes
  uint64_t missing_ = 0;              // bytes still missing of the record that was begun
  bool in_record_ = false;
  bool finished_ = false;
  Status failure_;
};

}  // namespace tenon::archive
