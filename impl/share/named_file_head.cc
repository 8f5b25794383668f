#include "share/named_file_head.h"

#include <algorithm>
#include <cstring>

#include "os/memfd.h"

namespace tenon::share {
namespace {

template <typename T>
T member(const std::byte* bytes, size_t offset) noexcept {
  T value;
  std::memcpy(&value, bytes + offset, sizeof value);
  return value;
}

}  // namespace

FilenameHead parse_head(const std::byte (&bytes)[kFilenameHeaderNbytes]) noexcept {
  FilenameHead head;
  head.count = member<int32_t>(bytes, offsetof(FilenameHeader, count));
  head.magic = member<uint32_t>(bytes, offsetof(FilenameHeader, magic));
  head.in_flight = member<int32_t>(bytes, offsetof(FilenameHeader, in_flight));
  head.maker_pid = member<int32_t>(bytes, offsetof(FilenameHeader, maker_pid));
  head.nbytes = member<uint64_t>(bytes, offsetof(FilenameHeader, nbytes));
  head.made_ns = member<int64_t>(bytes, offsetof(FilenameHeader, made_ns));
  head.keep_until_ns = member<int64_t>(bytes, offsetof(FilenameHeader, keep_until_ns));
  head.maker_pid_namespace = member<uint64_t>(bytes, offsetof(FilenameHeader, maker_pid_namespace));
  head.rest_is_zero = std::all_of(bytes + sizeof head.count, bytes + sizeof bytes,
                                  [](std::byte byte) { return byte == std::byte{0}; });
  return head;
}

Result<FilenameHead> read_head(int fd) {
  std::byte bytes[kFilenameHeaderNbytes];
  TENON_TRY(os::read_file(fd, 0, bytes, sizeof bytes));
  return parse_head(bytes);
}

}  // namespace tenon::share
