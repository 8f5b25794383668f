// What send and receive of a Connection share (connection_send.cc, connection_recv.cc): the wait
// for the turn, and the collection of device memory that came back.
#pragma once

#include <atomic>
#include <mutex>

#include "base/status.h"
#include "channel/connection.h"
#include "device/memory.h"
#include "os/wait.h"

namespace tenon::channel {

// Waits until no other call uses this direction of the connection. `lock` is for the direction's
// send_turn_ or recv_turn_, and does not hold it yet. After a success it does. The call's own
// timeout starts only when its turn comes, so neither a timeout nor a cancel nor a signal ends this
// wait. WOULD_BLOCK: the timeout is 0, and another call has the turn. Call check_process() before:
// in a forked child the lock may be held for ever.
inline Status take_turn(std::unique_lock<std::mutex>* lock, const os::Wait& wait) {
  if (wait.timeout_ns != 0) {
    lock->lock();
  } else if (!lock->try_lock()) {
    return Status(Code::kWouldBlock, "another thread is using this direction of the connection");
  }
  return Status::ok();
}

// Calls device::collect_some_cuda(), which takes back device memory whose leases have ended, while
// this call does not have the connection's turn. The collection runs release functions of the
// memory's owners, and these may use the connection. It runs before the turn if device memory has
// crossed the connection earlier, and after the turn in which device memory crosses for the first
// time, also if the call fails. It gives no errors. Make the object before the call takes any lock,
// so that its destructor runs when the locks are free. The connection outlives it.
class Connection::Collecting {
 public:
  explicit Collecting(const Connection& connection) noexcept
      : on_devices_(connection.on_devices_), known_(on_devices_.load(std::memory_order_relaxed)) {
    if (known_) device::collect_some_cuda();
  }
  Collecting(const Collecting&) = delete;
  Collecting& operator=(const Collecting&) = delete;
  ~Collecting() {
    if (!known_ && on_devices_.load(std::memory_order_relaxed)) device::collect_some_cuda();
  }

 private:
  const std::atomic<bool>& on_devices_;
  const bool known_;
};

}  // namespace tenon::channel
