// A sink takes the bytes of an archive in order, from the first to the last. ZipWriter writes to
// one. It never seeks, so the sink can be a pipe or a socket. file_output.h has the sink for files
// that appear whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace tenon::archive {

// One thread at a time may use a sink. A failed write may have written a part of the bytes.
class Sink {
 public:
  Sink() noexcept = default;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  virtual ~Sink() = default;
  // Takes all bytes or fails. The caller writes nothing more after a failure.
  virtual Status write(std::span<const std::byte> bytes) = 0;
  // Writes `head` and then `body`, in one system call where the sink can. A record's small header
  // goes out with its first bytes like this.
  virtual Status write_both(std::span<const std::byte> head, std::span<const std::byte> body);
};

// Writes to an fd that the caller keeps open: a file (from its position on), a pipe or a socket.
// Waits if a non-blocking fd has no room. PEER_GONE, without SIGPIPE, if nobody reads a pipe or a
// socket any more. RESOURCE_EXHAUSTED, with the name of the limit, if there is no room.
class FdSink : public Sink {
 public:
  explicit FdSink(int fd) noexcept : fd_(fd) {}
  Status write(std::span<const std::byte> bytes) override;
  Status write_both(std::span<const std::byte> head, std::span<const std::byte> body) override;

 private:
  int fd_;
};

// Calls a function of the user's, on the thread that writes. The function must take all bytes and
// return their number. A negative errno fails with the code of that errno, and any other number
// with IO. The function never gets more than kMostNbytes at once.
class CallbackSink : public Sink {
 public:
  using Function = int64_t (*)(void* context, const void* data, size_t nbytes);
  static constexpr uint64_t kMostNbytes = uint64_t{1} << 30;
  CallbackSink(Function function, void* context) noexcept
      : function_(function), context_(context) {}
  Status write(std::span<const std::byte> bytes) override;

 private:
  Function function_;
  void* context_;
};

// Keeps the bytes in memory. Throws std::bad_alloc.
class MemorySink : public Sink {
 public:
  Status write(std::span<const std::byte> bytes) override;
  const std::vector<std::byte>& bytes() const noexcept { return bytes_; }
  std::vector<std::byte> take() noexcept { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace tenon::archive
