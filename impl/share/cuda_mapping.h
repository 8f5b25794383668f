// Device memory of other processes: each handle opened once, closed when its last user has gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "base/counted.h"
#include "base/status.h"
#include "cuda/ipc.h"
#include "storage/storage.h"

namespace tenon::share {

class CudaMapping final : public Counted {
 public:
  cuda::DevicePointer base() const noexcept { return base_; }
  uint64_t nbytes() const noexcept { return nbytes_; }
  int32_t device() const noexcept { return device_; }

  // One range of it is one storage. The storage that was put in before wins, if it is still there.
  Ref<storage::Storage> find(uint64_t offset, uint64_t nbytes);
  Ref<storage::Storage> intern(uint64_t offset, Ref<storage::Storage> storage);
  // To be called when the storage of that range has gone.
  void forget(uint64_t offset, uint64_t nbytes) noexcept;

 private:
  friend Result<Ref<CudaMapping>> map_cuda(const cuda::IpcHandle& handle, int32_t device);
  using Range = std::pair<uint64_t, uint64_t>;
  CudaMapping(const cuda::IpcHandle& handle, int32_t device, cuda::DevicePointer base) noexcept
      : handle_(handle), device_(device), base_(base) {}
  void dispose() noexcept override;

  cuda::IpcHandle handle_;
  int32_t device_;
  cuda::DevicePointer base_;
  uint64_t nbytes_ = 0;
  std::mutex mutex_;
  std::map<Range, Weak<storage::Storage>> storages_;
};

Result<Ref<CudaMapping>> map_cuda(const cuda::IpcHandle& handle, int32_t device);

}  // namespace tenon::share
