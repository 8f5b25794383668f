// What the calls of both directions of a connection have in common: the kinds of its frames, whose
// turn it is, and what is done beside it.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/status.h"
#include "channel/connection.h"
#include "os/wait.h"
#include "share/cuda_memory.h"

namespace tenon::channel {

inline constexpr uint16_t kMessage = 1;  // the payload is a descriptor
// The payload is its size, and the first fd a sealed memfd that holds it.
inline constexpr uint16_t kLargeMessage = 2;
inline constexpr uint16_t kLeased = 3;       // a lease block, then a descriptor
inline constexpr uint16_t kLargeLeased = 4;  // both in a memfd
// A lease block alone, without leases: tokens, and no message.
inline constexpr uint16_t kTokens = 5;
inline constexpr uint16_t kDevices = 6;       // a lease block, a device block, then a descriptor
inline constexpr uint16_t kLargeDevices = 7;  // all of it in a memfd

// A kind of message, in a memfd.
constexpr uint16_t large_kind(uint16_t kind) noexcept { return static_cast<uint16_t>(kind + 1); }
static_assert(large_kind(kMessage) == kLargeMessage && large_kind(kLeased) == kLargeLeased &&
              large_kind(kDevices) == kLargeDevices);

// Calls queue behind each other; the clock of a wait starts when its turn comes.
inline Status take_turn(std::unique_lock<std::mutex>* lock, const os::Wait& wait) {
  if (wait.timeout_ns != 0) {
    lock->lock();
  } else if (!lock->try_lock()) {
    return Status(Code::kWouldBlock, "another thread is using this direction of the connection");
  }
  return Status::ok();
}

// Looks for device memory that came back, without a turn of the connection: its owner's functions
// run then, and may use the connection. Before the turn of a connection that has had such memory,
// and after the one in which it first came.
class Connection::Collecting {
 public:
  explicit Collecting(const Connection& connection) noexcept
      : on_devices_(connection.on_devices_), known_(on_devices_.load(std::memory_order_relaxed)) {
    if (known_) share::collect_some_cuda();
  }
  Collecting(const Collecting&) = delete;
  Collecting& operator=(const Collecting&) = delete;
  ~Collecting() {
    if (!known_ && on_devices_.load(std::memory_order_relaxed)) share::collect_some_cuda();
  }

 private:
  const std::atomic<bool>& on_devices_;
  const bool known_;
};

}  // namespace tenon::channel
