// Writes the container of an archive: a zip file as PyTorch writes it, with every record's bytes at
// a multiple of 64 in the file (docs/format/archive.md). The bytes are a function of what is added,
// in that order, and of the version of libdeflate.
//
// Memory beside what is added: the directory (some 100 bytes and the name, for each record), half a
// MiB, and for a compressed record its compressed bytes and libdeflate's tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "archive/sink.h"
#include "base/keyed_hash.h"
#include "base/status.h"

namespace tenon::archive {

struct ZipWriterOptions {
  std::string prefix = "archive";  // the directory that all records are in
  // Of each record's bytes in the file: a power of two, at most 32768.
  uint64_t alignment = 64;
};

// The prefix that PyTorch gives to an archive at `path`: the file's name without its last
// extension. "archive", as PyTorch has it where there is no path, if that is no name for a
// directory in an archive.
std::string archive_name_of(std::string_view path);

enum class Compression {
  kStored,
  kDeflated,  // if there are more than kStoredUpTo bytes, and it makes them fewer
};
inline constexpr uint64_t kStoredUpTo = 200;

// How the bytes that are added can be reached.
enum class Reach {
  kMemory,
  kMappedFile,  // a mapping of a file that others can cut short: read by calls that fail where a
                // load would raise SIGBUS
};

class ZipWriter {
 public:
  // The sink is the caller's, and stays until the last call. INVALID_ARGUMENT for a bad option.
  static Result<ZipWriter> create(Sink* sink, ZipWriterOptions options = {});

  // What is added does not change while it is. INVALID_ARGUMENT if there is a record of that name,
  // or if the name is none for a record (zip_names.h). After such a refusal more can be added;
  // after any other failure every call fails as that one did.
  Status add(std::string_view name, std::span<const std::byte> bytes,
             Compression compression = Compression::kStored, Reach reach = Reach::kMemory);
  Status add_text(std::string_view name, std::string_view text,
                  Compression compression = Compression::kStored);

  // A stored record in pieces, which together have `nbytes` bytes.
  Status begin(std::string_view name, uint64_t nbytes);
  Status append(std::span<const std::byte> bytes, Reach reach = Reach::kMemory);
  Status end();

  // The directory, and everything that is still held back. Once, at the end; the sink's own end
  // (FileOutput::commit) is the caller's.
  Status finish();

  bool has(std::string_view name) const;
  size_t record_count() const noexcept { return entries_.size(); }
  uint64_t nbytes() const noexcept { return position_; }  // of the archive so far

  // A record of up to so many bytes has its checksum in its header, a longer one in a data
  // descriptor behind its bytes.
  static constexpr uint64_t kCrcAheadUpTo = uint64_t{64} << 10;
  // So much is written at once, and its checksum made right after, from the cache, where the
  // kernel's copying has left it. (The other way round the time to load it from memory is added to
  // the kernel's; this way it is hidden in it.)
  static constexpr uint64_t kChunkNbytes = uint64_t{256} << 10;

 private:
  struct Entry {
    uint64_t header_offset = 0;
    uint64_t nbytes = 0;
    uint64_t stored_nbytes = 0;
    uint32_t crc = 0;
    uint16_t flags = 0;
    uint16_t method = 0;
    std::string name;  // with the prefix
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
  std::vector<std::byte> held_back_;  // put, and not yet with the sink
  std::vector<std::byte> copied_;     // one chunk of a mapped file
  uint64_t position_ = 0;             // with what is held back
  uint64_t missing_ = 0;              // of the record that was begun
  bool in_record_ = false;
  bool finished_ = false;
  Status failure_;
};

}  // namespace tenon::archive
