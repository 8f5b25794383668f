// Device memory of other processes: each route opened once, closed when its last user has gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/status.h"
#include "share/cuda_export.h"
#include "share/cuda_opened.h"
#include "storage/storage.h"

namespace tenon::share {

class CudaMapping final : public Counted {
 public:
  cuda::DevicePointer base() const noexcept { return exported_->base; }
  uint64_t nbytes() const noexcept { return opened_.nbytes(); }
  bool is_read_only() const noexcept { return exported_->route.read_only; }
  // By which it came, and by which it can be lent on, unless by an IPC handle: only the process
  // that made the memory may give that.
  const std::shared_ptr<const CudaExport>& exported() const noexcept { return exported_; }

  // One range of it is one storage. The storage that was put in before wins, if it is still there;
  // else `settle` is called before anybody can find this one, and nothing fails after it.
  Ref<storage::Storage> find(uint64_t offset, uint64_t nbytes);
  template <typename Settle>
  Ref<storage::Storage> intern(uint64_t offset, const Ref<storage::Storage>& storage,
                               const Settle& settle) {
    static_assert(noexcept(settle()));
    const std::lock_guard<std::mutex> lock(mutex_);
    Weak<storage::Storage>& place = storages_[{offset, storage->nbytes()}];
    if (Ref<storage::Storage> before = place.lock()) return before;
    place = Weak<storage::Storage>(storage.get());
    settle();
    return storage;
  }
  // To be called when the storage of that range has gone.
  void forget(uint64_t offset, uint64_t nbytes) noexcept;
  // The storage of that range, which is still there, does not lead to this memory any more: the
  // next to ask for the range makes a new one.
  void disown(uint64_t offset, uint64_t nbytes) noexcept;

  // Of a device, by what names the memory behind a route. Files are compared beside it.
  using Key = std::pair<int32_t, std::vector<std::byte>>;

 private:
  friend Result<Ref<CudaMapping>> map_cuda(CudaRoute route, int32_t device);
  using Range = std::pair<uint64_t, uint64_t>;
  CudaMapping(Key key, CudaOpened opened, CudaRoute route);
  void dispose() noexcept override;

  Key key_;
  CudaOpened opened_;
  std::shared_ptr<const CudaExport> exported_;
  std::mutex mutex_;
  std::map<Range, Weak<storage::Storage>> storages_;
};

Result<Ref<CudaMapping>> map_cuda(CudaRoute route, int32_t device);

// What leads yet another process to memory that came from elsewhere: the way by which it came,
// unless that was an IPC handle. `wanted` as in export_cuda(). UNSUPPORTED, also of a segment of
// PyTorch's with more fds than a message carries.
Result<std::shared_ptr<const CudaExport>> lend_on(const CudaMapping& mapping, CudaTransport wanted);

// It stays open when its last user has gone, for who opens it again: the 64 that were asked for
// last, until close_warm_cuda(). Not a pool's: an allocation that is open may not be opened once
// more, and its sender's next way there may have another name.
void keep_cuda_warm(const Ref<CudaMapping>& mapping);
void close_warm_cuda() noexcept;
// Stops keeping `mapping` open, because its lender is gone.
void forget_warm_cuda(const CudaMapping* mapping) noexcept;

}  // namespace tenon::share
