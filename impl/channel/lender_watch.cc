#include "channel/lender_watch.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/fork.h"
#include "base/process_state.h"
#include "device/memory.h"
#include "os/limits.h"
#include "os/service.h"
#include "os/socket.h"

namespace tenon::channel {
namespace {

using storage::Storage;

// A thread that uses the connection when the lender dies is woken by the hang-up and leaves, so a
// few tries suffice.
constexpr int kForgetTries = 20;
constexpr auto kForgetPause = std::chrono::microseconds(50);

// A storage that came from a lender that is watched.
struct WatchedStorage {
  Weak<Storage> storage;
  uint32_t lenders = 0;  // the lenders that are watched and not gone
};

struct LenderWatchState : ProcessState<LockRank::kLenderWatch> {
  std::unordered_map<int, std::shared_ptr<LenderWatch>> watches;  // by socket
  std::unordered_map<const Storage*, WatchedStorage> lent;

  // Returns the storage if this was its last lender.
  Weak<Storage> remove_lender(const Storage* storage) noexcept {
    const auto found = lent.find(storage);
    if (found == lent.end() || --found->second.lenders > 0) return {};
    Weak<Storage> last = std::move(found->second.storage);
    lent.erase(found);
    return last;
  }

  // A forked child has no thread that notices a hang-up, and the connections are its parent's.
  // Received storages stay as they are.
  void in_child() noexcept {
    watches.clear();
    lent.clear();
  }
};
LenderWatchState& lender_watch_state() noexcept { return process_state<LenderWatchState>(); }

bool is_lent(const Storage& storage) noexcept {
  return storage.device_memory() != nullptr ? storage.nbytes() > 0 : !storage.is_own();
}

}  // namespace

LenderWatch::LenderWatch(int socket, os::Fd event, Forget forget, void* context) noexcept
    : socket_(socket),
      event_(std::move(event)),
      generation_(fork_generation()),
      forget_(forget),
      context_(context) {}

Result<std::shared_ptr<LenderWatch>> LenderWatch::create(int socket, Forget forget, void* context) {
  os::Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.is_open())
    return os::with_fd_limit(errno_status(errno, "watching a lender needs an eventfd"));
  const std::shared_ptr<LenderWatch> watch(
      new LenderWatch(socket, std::move(event), forget, context));
  LenderWatchState& all = lender_watch_state();
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (!all.watches.try_emplace(socket, watch).second) {
      return Status(Code::kInvalidArgument, format("another connection on socket %d watches its "
                                                   "lender: give each a socket of its own",
                                                   socket))
          .with("fd", socket);
    }
  }
  // The watch must not stay registered if it is not served, for want of memory for example.
  struct Undo {
    LenderWatch* watch;
    ~Undo() {
      if (watch != nullptr) watch->end();
    }
  } undo{watch.get()};
  TENON_TRY(os::serve_hang_up(socket, &LenderWatch::hung_up));
  undo.watch = nullptr;
  return watch;
}

void LenderWatch::end() noexcept {
  if (generation_ != fork_generation()) return;
  os::stop_serving_fd(socket_);
  {
    LenderWatchState& all = lender_watch_state();
    std::shared_ptr<LenderWatch> self = shared_from_this();
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (const auto found = all.watches.find(socket_);
        found != all.watches.end() && found->second == self)
      all.watches.erase(found);
    for (const Storage* const each : storages_) (void)all.remove_lender(each);
    storages_.clear();
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  forget_ = nullptr;
}

void LenderWatch::add(std::span<const Ref<Storage>> storages) {
  LenderWatchState& all = lender_watch_state();
  std::unique_lock<std::mutex> lock(all.mutex);
  if (is_gone()) {
    // The caller holds its connection's locks, and an owner's release function may use the
    // connection.
    const device::CudaCollectLater later;
    for (const Ref<Storage>& each : storages) {
      const auto found = all.lent.find(each.get());
      const bool has_lender = found != all.lent.end() && found->second.lenders > 0;
      if (has_lender || !is_lent(*each)) continue;
      lock.unlock();
      each->drop();
      lock.lock();
    }
    return;
  }
  if (storages_.size() + storages.size() > crowded_) prune();
  for (const Ref<Storage>& each : storages) {
    if (!is_lent(*each)) continue;
    WatchedStorage& lent = all.lent[each.get()];
    if (!storages_.insert(each.get()).second) continue;
    if (!lent.storage) lent.storage = Weak<Storage>(each.get());
    ++lent.lenders;
  }
}

// Removes the entries of storages that have ended. The caller holds the lock.
void LenderWatch::prune() noexcept {
  LenderWatchState& all = lender_watch_state();
  std::erase_if(storages_, [&](const Storage* each) {
    const auto found = all.lent.find(each);
    if (found == all.lent.end() || !found->second.storage.expired()) return false;
    (void)all.remove_lender(each);
    return true;
  });
  crowded_ = std::max<size_t>(64, 2 * storages_.size());
}

void LenderWatch::hung_up(int socket, bool /*readable*/, bool /*hung_up*/) noexcept {
  std::shared_ptr<LenderWatch> watch;
  {
    LenderWatchState& all = lender_watch_state();
    const std::lock_guard<std::mutex> lock(all.mutex);
    const auto found = all.watches.find(socket);
    // The event may belong to another socket that had this number before.
    if (found == all.watches.end() || !os::peer_hung_up(socket)) return;
    watch = found->second;
    os::stop_serving_fd(socket);
    if (watch->gone_.exchange(true, std::memory_order_acq_rel)) return;
  }
  watch->lender_gone();
}

// Drops the storages one after the other, which needs no memory.
void LenderWatch::lender_gone() noexcept {
  LenderWatchState& all = lender_watch_state();
  // No memory of this process may end here, because its owner's release function would run on the
  // library's thread.
  const device::CudaCollectLater later;
  for (;;) {
    Weak<Storage> last;
    {
      const std::lock_guard<std::mutex> lock(all.mutex);
      const auto first = storages_.begin();
      if (first == storages_.end()) break;
      last = all.remove_lender(*first);
      storages_.erase(first);
    }
    if (const Ref<Storage> storage = last.lock()) storage->drop();
  }
  forget_segments();
  const uint64_t one = 1;
  while (::write(event_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void LenderWatch::forget_segments() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (forget_ == nullptr) return;
  for (int i = 0; i < kForgetTries && !forget_(context_); ++i)
    std::this_thread::sleep_for(kForgetPause);
}

}  // namespace tenon::channel
