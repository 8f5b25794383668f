// Device memory of another process, and what is given back for it at the end: a counter's step, or a lease.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/counted.h"
#include "share/cuda_mapping.h"
#include "share/cuda_memory.h"

namespace tenon::share {

template <typename Kept>
class CudaReceived : public CudaMemory {
 public:
  // Null mapping: it is this process's own, whose storage had gone when it came back.
  template <typename... Given>
  CudaReceived(int32_t device, Ref<CudaMapping> mapping, uint64_t offset, uint64_t nbytes, Given&&... given)
      : CudaMemory(device), kept_(std::forward<Given>(given)...), mapping_(std::move(mapping)), offset_(offset), nbytes_(nbytes) {}
  Result<std::shared_ptr<const CudaExport>> lend_by(CudaTransport wanted, cuda::DevicePointer pointer, uint64_t nbytes) override {
    if (mapping_) return lend_on(*mapping_, wanted);
    TENON_ASSIGN(const cuda::Allocation own, cuda::find_allocation(pointer));
    return export_cuda(own, pointer, nbytes, wanted);
  }

 protected:
  Kept kept_;  // goes last: then the sender may use the memory again

 private:
  void storage_gone() noexcept override {
    if (mapping_) mapping_->forget(offset_, nbytes_);
  }
  Ref<CudaMapping> mapping_;
  uint64_t offset_;
  uint64_t nbytes_;
};

}  // namespace tenon::share
