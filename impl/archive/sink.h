// Where the bytes of an archive go, from its first to its last. An archive is written without
// seeking, so a pipe or a socket will do. Files that appear whole or not at all are in
// file_output.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace tenon::archive {

class Sink {
 public:
  Sink() noexcept = default;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  virtual ~Sink() = default;
  // Takes all of them or fails. After a failure nothing more is written to it.
  virtual Status write(std::span<const std::byte> bytes) = 0;
  // The one and then the other: a record's small header goes out with its first bytes.
  virtual Status write_both(std::span<const std::byte> head, std::span<const std::byte> body);
};

// An fd that the caller keeps open: a file (from its position on), a pipe, a socket. Waits where a
// non-blocking one has no room. PEER_GONE, and no signal, if nobody reads a pipe or a socket any
// more.
class FdSink : public Sink {
 public:
  explicit FdSink(int fd) noexcept : fd_(fd) {}
  Status write(std::span<const std::byte> bytes) override;
  Status write_both(std::span<const std::byte> head, std::span<const std::byte> body) override;

 private:
  int fd_;
};

// A function of the user's. It takes all bytes and returns their number; a negative errno, or any
// other number, is a failure. It never gets more than kMostNbytes at once.
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

class MemorySink : public Sink {
 public:
  Status write(std::span<const std::byte> bytes) override;
  const std::vector<std::byte>& bytes() const noexcept { return bytes_; }
  std::vector<std::byte> take() noexcept { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace tenon::archive
