#include "modules/archive/sink.h"

#include <algorithm>

#include "os/file_stream.h"

namespace tenon::archive {

Status Sink::write_both(std::span<const std::byte> head, std::span<const std::byte> body) {
  TENON_TRY(write(head));
  return write(body);
}

Status FdSink::write(std::span<const std::byte> bytes) {
  return os::write_whole(fd_, {}, bytes, format("fd %d", fd_));
}

Status FdSink::write_both(std::span<const std::byte> head, std::span<const std::byte> body) {
  return os::write_whole(fd_, head, body, format("fd %d", fd_));
}

Status CallbackSink::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::span<const std::byte> piece =
        bytes.first(std::min<uint64_t>(bytes.size(), kMostNbytes));
    const int64_t taken = function_(context_, piece.data(), piece.size());
    if (taken < 0) {
      const bool is_errno = taken >= -4095;  // the range of the kernel's error numbers
      if (is_errno) return errno_status(static_cast<int>(-taken), "the writer function");
      return Status(Code::kIo,
                    format("the writer function failed with %lld", static_cast<long long>(taken)));
    }
    if (static_cast<uint64_t>(taken) != piece.size()) {
      return Status(Code::kIo, format("the writer function took %lld of %zu bytes",
                                      static_cast<long long>(taken), piece.size()));
    }
    bytes = bytes.subspan(piece.size());
  }
  return Status::ok();
}

Status MemorySink::write(std::span<const std::byte> bytes) {
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  return Status::ok();
}

}  // namespace tenon::archive
