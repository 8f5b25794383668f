// The 64 bytes at the head of a named file (docs/format/filename.md). By them by_fd.cc recognises
// an fd of a named file that Tenon made, which it opens although the file has no seals, if the
// caller allows that. impl/names counts the openings of the file there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace tenon::share {

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

}  // namespace tenon::share
