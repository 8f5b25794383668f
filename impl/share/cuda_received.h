// Device memory of another process, and what is given back for it at the end: a counter's step, or
// a lease.
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

// Memory whose lender is gone: closed when the streams that used it have passed.
class ClosingCuda final : public CudaMemory {
 public:
  explicit ClosingCuda(int32_t device) : CudaMemory(device) {}
  // Takes both over, and needs no memory.
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

template <typename Kept>
class CudaReceived : public CudaMemory {
 public:
  // Null mapping: it is this process's own, whose storage had gone when it came back.
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
  Kept kept_;  // goes last: then the sender may use the memory again

 private:
  void storage_gone() noexcept override {
    if (mapping_) mapping_->forget(offset_, nbytes_);
  }
  std::mutex mutex_;  // of the two behind it
  Ref<CudaMapping> mapping_;
  bool is_closed_ = false;
  uint64_t offset_;
  uint64_t nbytes_;
};

}  // namespace tenon::share
