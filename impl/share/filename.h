// Names: what is a good one, where it leads, and the 64 bytes at the head of a named file.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tenon::share {

inline constexpr std::string_view kSharedMemory = "/dev/shm";
inline constexpr std::string_view kDefaultPrefix = "tenon-";
// Of a lender's empty file, which tells watchers of its end.
inline constexpr std::string_view kBellPrefix = ".tenon-bell-";
inline constexpr std::string_view kMakingPrefix = ".tenon-new-";  // of a file until it is whole
// Of tenon_filename_handle.name, with its NUL.
inline constexpr size_t kNameNbytes = 256;

struct Filename {
  std::string directory;  // absolute, without a slash at its end
  std::string leaf;
  // As it stands in a handle: "/leaf" in /dev/shm, else the path.
  std::string text() const;
  std::string path() const { return directory + "/" + leaf; }
};

// A handle's text. INVALID_ARGUMENT (detail path) for what is empty, relative, too long, or ends in
// "", "." or "..".
Result<Filename> parse_filename(std::string_view text);
// Absolute, not the root, without a slash at its end.
Result<std::string> check_directory(std::string_view directory);
// What went wrong with the thing at `path`: the same code and details, but for the fd through which
// the library met it.
Status name_error(const std::string& path, const Status& cause);
Status refuse_name(const std::string& path, Code code, const std::string& why);
// A name to be made: `leaf` as chosen, or, if it is empty, `prefix` and 128 random bits.
Result<Filename> choose_filename(std::string_view directory, std::string_view prefix,
                                 std::string_view leaf);

// The head of a named file. PyTorch knows the count only and leaves the rest alone; its own files
// have zeros there. Any holder can write all of it, so nothing here is believed where a mistake
// could hurt.
struct FilenameHeader {
  std::atomic<int32_t> count;  // of openings and messages in flight
  uint32_t magic;              // kFilenameMagic: Tenon made it
  // Of messages, as Tenon's senders and receivers count them; part of `count`.
  std::atomic<int32_t> in_flight;
  int32_t maker_pid;
  uint64_t nbytes;  // payload
  int64_t made_ns;  // CLOCK_REALTIME
  // likewise: after its sender's orderly exit a message may still be on its way.
  std::atomic<int64_t> keep_until_ns;
  uint64_t maker_pid_namespace;
  uint8_t zero[16];
};
inline constexpr uint64_t kFilenameHeaderNbytes = 64;
inline constexpr uint32_t kFilenameMagic = 0x314e6e54;  // "TnN1", little-endian
inline constexpr int64_t kKeepNs = 60'000'000'000;
static_assert(sizeof(FilenameHeader) == kFilenameHeaderNbytes);
static_assert(std::atomic<int32_t>::is_always_lock_free &&
              std::atomic<int64_t>::is_always_lock_free);

// The head as it stood at one moment, of whatever file.
struct FilenameHead {
  int32_t count = 0;
  uint32_t magic = 0;
  int32_t in_flight = 0;
  int32_t maker_pid = 0;
  uint64_t nbytes = 0;
  int64_t made_ns = 0;
  int64_t keep_until_ns = 0;
  uint64_t maker_pid_namespace = 0;
  bool rest_is_zero = false;  // all but the count: as PyTorch leaves it
};
FilenameHead parse_head(const std::byte (&bytes)[kFilenameHeaderNbytes]) noexcept;
// Any file. CORRUPT if it is shorter than a head.
Result<FilenameHead> read_head(int fd);

// torch_PID_RANDOM_COUNTER, or an older PyTorch's torch_PID_RANDOM. The pid; 0: the name is no such
// name.
int32_t maker_of_torch_name(std::string_view leaf) noexcept;

}  // namespace tenon::share
