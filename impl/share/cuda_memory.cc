#include "share/cuda_memory.h"

#include <algorithm>
#include <list>
#include <utility>

#include "base/fork.h"
#include "base/immortal.h"
#include "share/cuda_lent.h"

namespace tenon::share {
namespace {

constexpr int kSome = 4;

}  // namespace

// What waits, in a row: the first is looked at, and goes to the end if it has to wait on.
class CudaLimbo {
 public:
  void add(std::unique_ptr<CudaMemory> memory) {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_.push_back(std::move(memory));
  }
  uint64_t size() noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    return waiting_.size();
  }
  // Without the lock while the driver is asked and the memory's owner is told. False: there is none.
  bool look_at_one() noexcept {
    std::unique_ptr<CudaMemory> one;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (waiting_.empty()) return false;
      one = std::move(waiting_.front());
      waiting_.pop_front();
    }
    if (!one->is_unused()) add(std::move(one));
    return true;
  }
  void lock() noexcept { mutex_.lock(); }
  void unlock() noexcept { mutex_.unlock(); }
  // A child of fork: the memory is its parent's, and so is what has to be done for it. Its owners are not told, so nothing is freed here.
  void abandon() noexcept { abandoned_.splice(abandoned_.end(), waiting_); }
  void add_abandoned(std::unique_ptr<CudaMemory> memory) {
    const std::lock_guard<std::mutex> lock(mutex_);
    abandoned_.push_back(std::move(memory));
  }

 private:
  std::mutex mutex_;
  std::list<std::unique_ptr<CudaMemory>> waiting_;
  std::list<std::unique_ptr<CudaMemory>> abandoned_;
};

namespace {

CudaLimbo& limbo() noexcept { return immortal<CudaLimbo>(); }

const bool g_fork_hooks = [] {
  (void)limbo();
  register_fork_hooks(1, {[]() noexcept { limbo().lock(); }, []() noexcept { limbo().unlock(); },
                          []() noexcept {
                            limbo().abandon();
                            abandon_lent_cuda();
                            limbo().unlock();
                          }});
  return true;
}();

}  // namespace

CudaMemory::CudaMemory(int32_t device) : DeviceMemory({storage::kCuda, device}), generation_(fork_generation()) {}

void CudaMemory::use_in(cuda::Stream stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (std::find(streams_.begin(), streams_.end(), stream) == streams_.end()) streams_.push_back(stream);
}

void CudaMemory::keep(const std::shared_ptr<const CudaExport>& exported) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (std::find(exported_.begin(), exported_.end(), exported) == exported_.end()) exported_.push_back(exported);
}

void CudaMemory::add(std::shared_ptr<CudaMessage> message) {
  const std::lock_guard<std::mutex> lock(mutex_);
  sent_.push_back(std::move(message));
}

void CudaMemory::forget_released() {
  const std::lock_guard<std::mutex> lock(mutex_);
  drop_released();
}

// From both ends: of many that a storage was sent in, the first come back first, and in its limbo they come in any order.
void CudaMemory::drop_released() noexcept {
  while (!sent_.empty() && sent_.front()->counter().is_released()) sent_.pop_front();
  while (!sent_.empty() && sent_.back()->counter().is_released()) sent_.pop_back();
}

void CudaMemory::mark_streams() noexcept {
  for (cuda::Stream stream : std::exchange(streams_, {})) {
    // A stream that cannot be marked is of a device or a context that is lost, where no work goes on.
    Result<void*> context = cuda::find_context(stream, device().id);
    if (!context.is_ok()) continue;
    Result<cuda::Event> event = cuda::Event::create(context.value(), cuda::Event::Reach::kThisProcess, nullptr);
    if (event.is_ok() && event.value().record(stream).is_ok()) passing_.push_back(std::move(event).value());
  }
}

bool CudaMemory::is_unused() noexcept {
  drop_released();
  if (!sent_.empty()) return false;
  while (!passing_.empty()) {
    Result<bool> complete = passing_.back().is_complete();
    if (complete.is_ok() && !complete.value()) return false;
    passing_.pop_back();
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
  memory->mark_streams();
  if (!memory->is_unused()) limbo().add(std::move(memory));
  memory = nullptr;
  collect_some_cuda();
}

CudaMemory* cuda_memory(const storage::Storage& storage) noexcept {
  return storage.device().type == storage::kCuda ? static_cast<CudaMemory*>(storage.device_memory()) : nullptr;
}

namespace {

class NoCuda final : public CudaMemory {
 public:
  explicit NoCuda(int32_t device) : CudaMemory(device) {}
  Result<std::shared_ptr<const CudaExport>> lend_by(CudaTransport /*wanted*/, cuda::DevicePointer /*pointer*/,
                                                    uint64_t /*nbytes*/) override {
    return Status(Code::kInternal, "an empty storage's memory is lent");
  }
};

}  // namespace

Ref<storage::Storage> empty_cuda(int32_t device) {
  return storage::Storage::on_device(std::make_unique<NoCuda>(device), nullptr, 0, false);
}

void collect_some_cuda() noexcept {
  end_lent_cuda(false);
  for (int i = 0; i < kSome && limbo().look_at_one(); ++i) {
  }
}

uint64_t collect_cuda() noexcept {
  end_lent_cuda(true);
  for (uint64_t left = limbo().size(); left > 0 && limbo().look_at_one(); --left) {
  }
  return limbo().size();
}

}  // namespace tenon::share
