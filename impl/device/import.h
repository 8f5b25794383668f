// Device memory of other processes, for by_cuda.cc and lease.cc. Each route (route.h) is opened
// once in this process, and closed when the last storage in it has gone. Memory that was received
// gives back what it keeps when it goes: a counter (by_cuda.cc) or a lease (lease.cc).
//
// map_cuda() and the functions of CudaMapping take locks that have no rank. The end of a mapping
// calls the driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/status.h"
#include "cuda/pool.h"
#include "cuda/vmm.h"
#include "device/export.h"
#include "device/memory.h"
#include "device/route.h"
#include "storage/storage.h"

namespace tenon::device {

// The driver's opening of the memory behind one route. The destructor closes it. Each CudaMapping
// owns one.
class CudaOpened {
 public:
  CudaOpened() noexcept = default;
  // INVALID_ARGUMENT: the memory is on another device than `device`. The other errors are the
  // driver's.
  static Result<CudaOpened> open(const CudaRoute& route, int32_t device);
  CudaOpened(CudaOpened&& other) noexcept { swap(&other); }
  CudaOpened& operator=(CudaOpened&& other) noexcept {
    swap(&other);
    return *this;
  }
  CudaOpened(const CudaOpened&) = delete;
  CudaOpened& operator=(const CudaOpened&) = delete;
  ~CudaOpened();

  cuda::DevicePointer base() const noexcept { return base_; }
  uint64_t nbytes() const noexcept { return nbytes_; }

 private:
  void swap(CudaOpened* other) noexcept {
    std::swap(transport_, other->transport_);
    std::swap(device_, other->device_);
    std::swap(base_, other->base_);
    std::swap(nbytes_, other->nbytes_);
    std::swap(pieces_, other->pieces_);
    std::swap(pool_, other->pool_);
  }
  Status open_pieces(const CudaRoute& route);
  Status open_pool(const CudaRoute& route);
  // For IPC handles and pool allocations: takes the size from the driver, and not from the handle.
  // Checks the device.
  Status measure();
  // INVALID_ARGUMENT if the memory is on another device than the handle said.
  Status check_device(const cuda::Allocation& found) const;

  CudaTransport transport_ = CudaTransport::kNone;
  int32_t device_ = 0;
  cuda::DevicePointer base_ = 0;
  uint64_t nbytes_ = 0;
  cuda::PieceMapping pieces_;
  Ref<cuda::ImportedPool> pool_;
};

// Device memory of another process that is open in this one, with the storages in it. Each storage
// has a reference (CudaReceived), and keep_cuda_warm() may hold another one. The last reference
// closes the memory.
class CudaMapping final : public Counted {
 public:
  cuda::DevicePointer base() const noexcept { return exported_->base; }
  uint64_t nbytes() const noexcept { return opened_.nbytes(); }
  bool is_read_only() const noexcept { return exported_->route.read_only; }
  // The route by which the memory came. This process can lend the memory on by the same route, but
  // not by an IPC handle: CUDA lets only the process that made the memory give such a handle.
  const std::shared_ptr<const CudaExport>& exported() const noexcept { return exported_; }

  // One range is one storage. find() returns the storage that the range has, or null. intern()
  // returns that storage too, if it still lives. Otherwise intern() enters `storage` and calls
  // `settle` before any other thread can find it, and nothing fails afterwards.
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

// Opens the memory behind a route, or finds it if this process has it open. INVALID_ARGUMENT: the
// memory is on another device. The other errors are those of encode_cuda_route() and of the driver.
//
// The caller has asked the driver before (cuda::find_device()), which refuses a forked child: the
// locks here are not fork-safe. A child never drops a CudaMapping (CudaMemory::end() leaks it).
Result<Ref<CudaMapping>> map_cuda(CudaRoute route, int32_t device);

// How a third process can reach memory that came from another process: the route by which the
// memory came. `wanted` is as in export_cuda(). UNSUPPORTED if that route is an IPC handle, if
// `wanted` is another transport, or if it has more fds than a message carries.
Result<std::shared_ptr<const CudaExport>> lend_on(const CudaMapping& mapping, CudaTransport wanted);

// Keeps a mapping open for reuse after its last storage has gone. The 64 most recently used
// mappings stay open until close_warm_cuda(). Pool allocations are excluded: CUDA does not open an
// allocation twice, and the sender's next route to it may have another name. In a forked child
// close_warm_cuda() does nothing.
void keep_cuda_warm(const Ref<CudaMapping>& mapping);
void close_warm_cuda() noexcept;
// Stops keeping `mapping` open, because its lender is gone.
void forget_warm_cuda(const CudaMapping* mapping) noexcept;

// Memory whose lender is gone. It is closed when the streams that used it have passed.
class ClosingCuda final : public CudaMemory {
 public:
  explicit ClosingCuda(int32_t device) : CudaMemory(device) {}
  // Takes over `streams` and `mapping`. Allocates nothing.
  static void close(std::unique_ptr<ClosingCuda> self, std::vector<cuda::StreamMark> streams,
                    Ref<CudaMapping> mapping) noexcept {
    self->mapping_ = std::move(mapping);
    self->put_streams(std::move(streams));
    ClosingCuda* const closing = self.get();
    closing->end(std::move(self));
  }
  Result<std::shared_ptr<const CudaExport>> lend_by(CudaTransport /*wanted*/,
                                                    cuda::DevicePointer /*pointer*/,
                                                    uint64_t /*nbytes*/) override {
    return Status(Code::kInternal, "memory of a lender that is gone is lent");
  }

 private:
  Ref<CudaMapping> mapping_;
};

// Received memory that a storage uses. `Kept` is what the destructor gives back.
template <typename Kept>
class CudaReceived : public CudaMemory {
 public:
  // A null mapping means memory of this process itself. Its storage had gone when the handle came
  // back.
  template <typename... Given>
  CudaReceived(int32_t device, Ref<CudaMapping> mapping, uint64_t offset, uint64_t nbytes,
               Given&&... given)
      : CudaMemory(device),
        kept_(std::forward<Given>(given)...),
        mapping_(std::move(mapping)),
        offset_(offset),
        nbytes_(nbytes) {}
  Result<std::shared_ptr<const CudaExport>> lend_by(CudaTransport wanted,
                                                    cuda::DevicePointer pointer,
                                                    uint64_t nbytes) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (mapping_) return lend_on(*mapping_, wanted);
      if (is_closed_)
        return Status(Code::kPeerGone,
                      "the lender of this device memory is gone, and the memory was closed");
    }
    TENON_ASSIGN(const cuda::Allocation own, cuda::find_allocation(pointer));
    return export_cuda(own, pointer, nbytes, wanted);
  }
  // Closes the memory once its streams have passed, because its lender is gone. False: there was no
  // memory for that, or this process owns the memory.
  bool close_lent() noexcept override {
    auto closing = std::unique_ptr<ClosingCuda>(new (std::nothrow) ClosingCuda(device().id));
    if (closing == nullptr) return false;
    Ref<CudaMapping> mapping;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!mapping_) return is_closed_;
      mapping = std::exchange(mapping_, {});
      is_closed_ = true;
    }
    mapping->disown(offset_, nbytes_);
    forget_warm_cuda(mapping.get());
    ClosingCuda::close(std::move(closing), take_streams(), std::move(mapping));
    return true;
  }

 protected:
  Kept kept_;  // declared first, so destroyed last: the sender may use the memory from then on

 private:
  // No lock: close_lent() runs only under a strong reference to the storage, and there is none now.
  void storage_gone() noexcept override {
    if (mapping_) mapping_->forget(offset_, nbytes_);
  }
  std::mutex mutex_;  // guards `mapping_` and `is_closed_`
  Ref<CudaMapping> mapping_;
  bool is_closed_ = false;
  uint64_t offset_;
  uint64_t nbytes_;
};

}  // namespace tenon::device
