// Tells when the other end of a connection is gone, and then drops the memory that came over the
// connection if the borrower asked for that (Storage::drop()). Connection makes a watch for
// gone_fd() and for `drop_when_gone`.
//
// The lender is gone when nobody holds its end of the socket any more: its process ended, or
// everybody who had that end closed it. The kernel reports this as a hang-up, and the library's
// thread hears it. First is_gone() turns true, then the storages are dropped, then `forget` runs,
// and then fd() becomes readable.
//
// create(), add() and end() take LockRank::kLenderWatch. create() and end() also take
// LockRank::kService.
//
// A forked child hears no hang-up: is_gone() keeps the value that it had at the fork, and end()
// returns at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_set>

#include "base/counted.h"
#include "base/status.h"
#include "os/fd.h"
#include "storage/storage.h"

namespace tenon::channel {

class LenderWatch : public std::enable_shared_from_this<LenderWatch> {
 public:
  // Lets go of the segments that only the connection holds. Returns false if another thread is in
  // the connection: that thread then calls is_gone() before it leaves, and lets go of them itself.
  // The library's thread calls this function up to kForgetTries times, kForgetPause apart, until it
  // returns true.
  using Forget = bool (*)(void* context) noexcept;

  // Watches `socket`, which the caller keeps open until end(). `forget` may be null.
  // INVALID_ARGUMENT (detail "fd") if another watch has this socket. Otherwise the errors of making
  // an eventfd and of os::serve_hang_up(). end() must be called once for each watch: until then the
  // registry keeps the watch, and refuses another one with the same socket number.
  static Result<std::shared_ptr<LenderWatch>> create(int socket, Forget forget, void* context);
  // Afterwards `forget` is not called, and no call is under way. Received storages stay as they
  // are. The call waits for a `forget` that is under way, so the caller holds no lock for which
  // `forget` waits.
  void end() noexcept;

  // These storages came over the connection. They are dropped when the lender is gone, or at once
  // if it is gone already, unless another lender that is watched with this class lent them too.
  // Memory that came home stays, as does private memory. Throws std::bad_alloc. The caller holds no
  // lock that has a rank: a dropped device storage closes memory.
  void add(std::span<const Ref<storage::Storage>> storages);
  bool is_gone() const noexcept { return gone_.load(std::memory_order_acquire); }
  // An fd, borrowed, that becomes readable when the lender is gone and its memory is dropped.
  int fd() const noexcept { return event_.get(); }

 private:
  LenderWatch(int socket, os::Fd event, Forget forget, void* context) noexcept;
  static void hung_up(int socket, bool readable, bool hung_up) noexcept;
  void lender_gone() noexcept;
  void forget_segments() noexcept;
  void prune() noexcept;

  int socket_;
  os::Fd event_;
  uint64_t generation_;
  std::atomic<bool> gone_{false};
  // Guarded by the lock that all watches share.
  std::unordered_set<const storage::Storage*> storages_;
  size_t crowded_ = 64;  // above this size, storages that have ended are removed
  // Held while `forget` runs.
  std::mutex mutex_;
  Forget forget_;
  void* context_;
};

}  // namespace tenon::channel
