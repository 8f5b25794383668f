// DeviceCopies copies storages from CUDA devices to the host, for an export.
#pragma once

#include <cstdint>
#include <map>

#include "base/status.h"
#include "cuda/host_copy.h"
#include "cuda/stream.h"
#include "modules/value/tensor_value.h"

namespace tenon::module {

// The address at which a storage on a device begins.
inline cuda::DevicePointer pointer_of(const value::StorageValue& storage) noexcept {
  return reinterpret_cast<uintptr_t>(storage.bytes()->data()) + storage.byte_offset();
}

// Holds one copier (cuda::HostCopy) for each device. Each waits for the work that was given to the
// stream before. One thread uses the object. The copiers live as long as the DeviceCopies.
class DeviceCopies {
 public:
  explicit DeviceCopies(cuda::Stream stream) noexcept : stream_(stream) {}

  Result<cuda::HostCopy*> copy_from(int32_t device) {
    cuda::HostCopy& copy = copies_[device];
    if (!copy) {
      TENON_ASSIGN(copy, cuda::HostCopy::create(device));
      TENON_TRY(copy.wait_for(stream_));
    }
    return &copy;
  }

 private:
  cuda::Stream stream_;
  std::map<int32_t, cuda::HostCopy> copies_;  // by device
};

}  // namespace tenon::module
