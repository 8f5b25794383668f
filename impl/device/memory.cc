#include "device/memory.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/fork.h"
#include "base/process_state.h"
#include "device/lease.h"

namespace tenon::device {
namespace {

// How many storages a call checks, and how many messages that are still open, if it does not check
// all.
constexpr int kSome = 4;

}  // namespace

// The queue of device memory whose release waits. A call checks the first entry, and puts it at the
// end if it must wait on. The queue is linked through the objects themselves, because a release
// must be able to add one without allocating.
class CudaLimbo : public ProcessState<LockRank::kCudaMemory> {
 public:
  void add(std::unique_ptr<CudaMemory> memory) noexcept {
    const std::lock_guard<std::mutex> lock(mutex);
    *end_ = memory.release();
    end_ = &(*end_)->next_;
    ++size_;
  }
  uint64_t size() noexcept {
    const std::lock_guard<std::mutex> lock(mutex);
    return size_;
  }
  // Checks the first entry, and ends it if nothing uses it. The lock is not held while the driver
  // is asked and the owner's release function runs. False: the queue is empty.
  bool look_at_one() noexcept {
    std::unique_ptr<CudaMemory> one;
    {
      const std::lock_guard<std::mutex> lock(mutex);
      if (first_ == nullptr) return false;
      one.reset(first_);
      first_ = std::exchange(one->next_, nullptr);
      if (first_ == nullptr) end_ = &first_;
      --size_;
    }
    if (!one->is_unused()) add(std::move(one));
    return true;
  }
  // The memory and what remains to be done for it belong to the parent. Its owners' release
  // functions are not called, so a forked child frees nothing.
  void in_child() noexcept;
  void add_abandoned(std::unique_ptr<CudaMemory> memory) noexcept {
    const std::lock_guard<std::mutex> lock(mutex);
    memory->next_ = abandoned_;
    abandoned_ = memory.release();
  }

 private:
  CudaMemory* first_ = nullptr;
  CudaMemory** end_ = &first_;  // where the next entry is linked
  uint64_t size_ = 0;
  CudaMemory* abandoned_ = nullptr;
};

namespace {

CudaLimbo& limbo() noexcept { return process_state<CudaLimbo>(); }

// The objects whose end was put off. The next two variables say, for this thread, how many
// CudaCollectLater objects exist and whether a MustNotWait exists.
std::atomic<CudaEnding*> g_put_off{nullptr};
thread_local int t_later = 0;
thread_local bool t_must_not_wait = false;
// How deep collections of everything may nest, each in a release function that another one calls.
constexpr int kMostNested = 8;

}  // namespace

void CudaLimbo::in_child() noexcept {
  *end_ = abandoned_;
  abandoned_ = std::exchange(first_, nullptr);
  end_ = &first_;
  size_ = 0;
  abandon_lent_cuda();
  // The parent frees the objects whose end was put off.
  g_put_off.store(nullptr, std::memory_order_relaxed);
}

void CudaEnding::dispose() noexcept {
  if (!t_must_not_wait) {
    end();
    return;
  }
  weak_retain();
  next_ = g_put_off.load(std::memory_order_relaxed);
  while (!g_put_off.compare_exchange_weak(next_, this, std::memory_order_release,
                                          std::memory_order_relaxed)) {
  }
}

void CudaEnding::end_put_off() noexcept {
  for (CudaEnding* each = g_put_off.exchange(nullptr, std::memory_order_acquire);
       each != nullptr;) {
    CudaEnding* const next = each->next_;
    each->end();
    each->weak_release();
    each = next;
  }
}

CudaMemory::CudaMemory(int32_t device)
    : DeviceMemory({storage::kCuda, device}), generation_(fork_generation()) {}

void CudaMemory::use_in(cuda::Stream stream) {
  // In a forked child nothing uses the memory, and another thread of the parent may have held the
  // lock at the fork.
  if (generation_ != fork_generation()) return;
  cuda::StreamMark mark(stream, device().id);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto same = [&](const cuda::StreamMark& each) { return each.is_of(mark); };
  if (std::none_of(streams_.begin(), streams_.end(), same)) streams_.push_back(std::move(mark));
}

Status CudaMemory::order(cuda::Stream stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const cuda::StreamMark& each : streams_) TENON_TRY(each.let_wait(stream, device().id));
  return Status::ok();
}

std::vector<cuda::StreamMark> CudaMemory::take_streams() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(streams_, {});
}

void CudaMemory::put_streams(std::vector<cuda::StreamMark> streams) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  streams_ = std::move(streams);
}

void CudaMemory::keep(const std::shared_ptr<const CudaExport>& exported) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (std::find(exported_.begin(), exported_.end(), exported) == exported_.end())
    exported_.push_back(exported);
}

void CudaMemory::add(std::shared_ptr<CudaMessage> message) {
  const std::lock_guard<std::mutex> lock(mutex_);
  sent_.push_back(std::move(message));
}

void CudaMemory::forget_released() {
  const std::lock_guard<std::mutex> lock(mutex_);
  drop_released();
}

// Checks the messages in turn, until a few were found that are still open. Some receivers keep
// their messages for long, and must not hold up the events and counters of the others.
void CudaMemory::drop_released() noexcept {
  for (int stands = 0; stands < kSome && !sent_.empty();) {
    if (next_sent_ >= sent_.size()) next_sent_ = 0;
    std::shared_ptr<CudaMessage>& one = sent_[next_sent_];
    if (one->counter().is_released()) {
      std::swap(one, sent_.back());
      sent_.pop_back();
    } else {
      ++next_sent_;
      ++stands;
    }
  }
}

bool CudaMemory::is_unused() noexcept {
  drop_released();
  if (!sent_.empty()) return false;
  while (!streams_.empty()) {
    if (!streams_.back().has_passed()) return false;
    streams_.pop_back();
  }
  return true;
}

void CudaMemory::end(std::unique_ptr<storage::DeviceMemory> self) noexcept {
  std::unique_ptr<CudaMemory> memory(static_cast<CudaMemory*>(self.release()));
  if (generation_ != fork_generation()) {
    limbo().add_abandoned(std::move(memory));
    return;
  }
  memory->storage_gone();
  for (cuda::StreamMark& each : memory->streams_) each.set();
  if (!memory->is_unused()) limbo().add(std::move(memory));
  memory = nullptr;
  collect_some_cuda();
  if (t_later == 0) CudaEnding::end_put_off();
}

CudaMemory* cuda_memory(const storage::Storage& storage) noexcept {
  return storage.device().type == storage::kCuda ? static_cast<CudaMemory*>(storage.device_memory())
                                                 : nullptr;
}

namespace {

class NoCuda final : public CudaMemory {
 public:
  explicit NoCuda(int32_t device) : CudaMemory(device) {}
  Result<std::shared_ptr<const CudaExport>> lend_by(CudaTransport /*wanted*/,
                                                    cuda::DevicePointer /*pointer*/,
                                                    uint64_t /*nbytes*/) override {
    return Status(Code::kInternal, "an empty storage's memory is lent");
  }
};

}  // namespace

Ref<storage::Storage> empty_cuda(int32_t device) {
  return storage::Storage::on_device(std::make_unique<NoCuda>(device), nullptr, 0, false);
}

CudaCollectLater::CudaCollectLater() noexcept { ++t_later; }
CudaCollectLater::~CudaCollectLater() { --t_later; }

namespace {

// CudaEnding::dispose() puts ends off on this thread while a MustNotWait exists.
class MustNotWait {
 public:
  MustNotWait() noexcept : before_(std::exchange(t_must_not_wait, true)) {}
  MustNotWait(const MustNotWait&) = delete;
  MustNotWait& operator=(const MustNotWait&) = delete;
  ~MustNotWait() { t_must_not_wait = before_; }

 private:
  bool before_;
};

void look_at(uint64_t count) noexcept {
  for (uint64_t left = std::min(count, limbo().size()); left > 0 && limbo().look_at_one(); --left) {
  }
}

void look_at_all() noexcept {
  if (t_later >= kMostNested) return;
  const CudaCollectLater later;
  end_lent_cuda(true);
  look_at(UINT64_MAX);
}

}  // namespace

void collect_some_cuda() noexcept {
  if (t_later != 0) return;
  const CudaCollectLater later;
  const MustNotWait here;
  end_lent_cuda(false);
  look_at(kSome);
}

void collect_cuda_without_waiting() noexcept {
  const MustNotWait here;
  look_at_all();
}

uint64_t collect_cuda() noexcept {
  look_at_all();
  if (!t_must_not_wait) CudaEnding::end_put_off();
  return limbo().size();
}

void collect_spare_cuda() noexcept {
  if (t_later == 0) (void)collect_cuda();
}

}  // namespace tenon::device
