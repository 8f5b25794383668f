// Names of named files and sockets (docs/format/filename.md): checks them, turns them into paths,
// and reads the 64 bytes at the head of a named file.
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
// The prefix of a lender's bell, an empty file. Watchers of its directory are told when the lender
// ends.
inline constexpr std::string_view kBellPrefix = ".tenon-bell-";
// The prefix of a file that is still being made.
inline constexpr std::string_view kMakingPrefix = ".tenon-new-";
// The size of tenon_filename_handle.name, with its NUL.
inline constexpr size_t kNameNbytes = 256;

struct Filename {
  std::string directory;  // absolute, without a slash at its end
  std::string leaf;
  // The text in a handle: "/leaf" for a name in /dev/shm, and otherwise the path.
  std::string text() const;
  std::string path() const { return directory + "/" + leaf; }
};

// Parses the text in a handle. INVALID_ARGUMENT (detail path) for a text that is empty, relative or
// too long, or that ends in "", "." or "..".
Result<Filename> parse_filename(std::string_view text);
// Checks the path of a directory: it must be absolute and not the root. The result has no slash at
// its end.
Result<std::string> check_directory(std::string_view directory);
// Makes an error about `path` from `cause`, with the same code and details. It leaves out the
// detail fd, because the caller never saw that fd.
Status name_error(const std::string& path, const Status& cause);
// Makes an error whose message is the path and `why`.
Status refuse_name(const std::string& path, Code code, const std::string& why);
// Chooses the name of a new file or socket: `leaf`, or, if `leaf` is empty, `prefix` and 128 random
// bits.
Result<Filename> choose_filename(std::string_view directory, std::string_view prefix,
                                 std::string_view leaf);

// The head of a named file. PyTorch knows only the count and leaves the other bytes alone. They are
// zero in its own files. Any holder can write the head, so no field is believed where a lie could
// hurt another process.
struct FilenameHeader {
  std::atomic<int32_t> count;  // the number of openings and of messages in flight
  uint32_t magic;              // kFilenameMagic if Tenon made the file
  // The number of messages in flight that Tenon's senders and receivers count. It is part of
  // `count`.
  std::atomic<int32_t> in_flight;
  int32_t maker_pid;
  uint64_t nbytes;  // the size of the payload in bytes
  int64_t made_ns;  // CLOCK_REALTIME
  // CLOCK_REALTIME. After the sender's orderly exit a message may be on its way until then.
  std::atomic<int64_t> keep_until_ns;
  uint64_t maker_pid_namespace;
  uint8_t zero[16];
};
inline constexpr uint64_t kFilenameHeaderNbytes = 64;
inline constexpr uint32_t kFilenameMagic = 0x314e6e54;  // "TnN1", little-endian
// How long a message is kept after its sender's orderly exit.
inline constexpr int64_t kKeepNs = 60'000'000'000;
static_assert(sizeof(FilenameHeader) == kFilenameHeaderNbytes);
static_assert(std::atomic<int32_t>::is_always_lock_free &&
              std::atomic<int64_t>::is_always_lock_free);

// The fields of a file's head, as they were at one moment. The file may be any file.
struct FilenameHead {
  int32_t count = 0;
  uint32_t magic = 0;
  int32_t in_flight = 0;
  int32_t maker_pid = 0;
  uint64_t nbytes = 0;
  int64_t made_ns = 0;
  int64_t keep_until_ns = 0;
  uint64_t maker_pid_namespace = 0;
  // All bytes behind the count are zero, as in PyTorch's files.
  bool rest_is_zero = false;
};
FilenameHead parse_head(const std::byte (&bytes)[kFilenameHeaderNbytes]) noexcept;
// Reads the head of any file. CORRUPT if the file is shorter than a head.
Result<FilenameHead> read_head(int fd);

// Gives the pid in a name that PyTorch chose: torch_PID_RANDOM_COUNTER, or torch_PID_RANDOM of an
// older version. 0 for any other name.
int32_t maker_of_torch_name(std::string_view leaf) noexcept;

}  // namespace tenon::share
