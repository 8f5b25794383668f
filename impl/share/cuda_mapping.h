// Device memory of other processes. Each route is opened once in this process, and closed when the
// last storage in it has gone.
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
  // The route by which the memory came. This process can lend the memory on by the same route, but
  // not by an IPC handle: CUDA lets only the process that made the memory give such a handle.
  const std::shared_ptr<const CudaExport>& exported() const noexcept { return exported_; }

  // One range is one storage. intern() returns the storage that the range already has, if that
  // still lives. Otherwise it calls `settle` before any other thread can find the new storage, and
  // nothing fails afterwards.
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
  // The storage of the range calls this when it has gone.
  void forget(uint64_t offset, uint64_t nbytes) noexcept;
  // The storage of the range still lives, but does not lead to this memory any more. The next
  // caller that asks for the range makes a new storage.
  void disown(uint64_t offset, uint64_t nbytes) noexcept;

  // The device, and the bytes that name the memory behind a route. The files behind the fds are
  // compared too.
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

// Opens the memory behind a route, or finds it if this process has it open.
Result<Ref<CudaMapping>> map_cuda(CudaRoute route, int32_t device);

// How a third process can reach memory that came from another process: the route by which the
// memory came. `wanted` is as in export_cuda(). UNSUPPORTED if that route is an IPC handle, or a
// segment of PyTorch's with more fds than a message carries.
Result<std::shared_ptr<const CudaExport>> lend_on(const CudaMapping& mapping, CudaTransport wanted);

// Keeps a mapping open for reuse after its last storage has gone. The 64 most recently used
// mappings stay open until close_warm_cuda(). Pool allocations are excluded: CUDA does not open an
// allocation twice, and the sender's next route to it may have another name.
void keep_cuda_warm(const Ref<CudaMapping>& mapping);
void close_warm_cuda() noexcept;
// Stops keeping `mapping` open, because its lender is gone.
void forget_warm_cuda(const CudaMapping* mapping) noexcept;

}  // namespace tenon::share
