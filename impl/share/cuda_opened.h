// Opens the memory behind a route with the driver, and closes it in the destructor. CudaMapping
// (cuda_mapping.h) holds one such object for each route.
#pragma once

#include <cstdint>
#include <utility>

#include "base/counted.h"
#include "base/status.h"
#include "cuda/pool.h"
#include "cuda/vmm.h"
#include "share/cuda_route.h"

namespace tenon::share {

class CudaOpened {
 public:
  CudaOpened() noexcept = default;
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
  // Takes the size from the driver, and not from the handle. Checks the device.
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

}  // namespace tenon::share
