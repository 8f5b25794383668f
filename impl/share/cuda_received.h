// Device memory that was received from another process. When it goes, it gives back what it keeps:
// a counter (by_cuda.cc) or a lease (cuda_lent.cc).
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "base/counted.h"
#include "share/cuda_mapping.h"
#include "share/cuda_memory.h"

namespace tenon::share {

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
  void storage_gone() noexcept override {
    if (mapping_) mapping_->forget(offset_, nbytes_);
  }
  std::mutex mutex_;  // guards `mapping_` and `is_closed_`
  Ref<CudaMapping> mapping_;
  bool is_closed_ = false;
  uint64_t offset_;
  uint64_t nbytes_;
};

}  // namespace tenon::share
