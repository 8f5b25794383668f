#include "share/cuda_mapping.h"

#include <compare>

#include "base/immortal.h"

namespace tenon::share {
namespace {

using storage::Storage;

struct Key {
  int32_t device;
  cuda::IpcHandle handle;
  auto operator<=>(const Key&) const noexcept = default;
};

// A child of fork cannot use what is in here: it never gets past the driver. Nor does it come by this lock.
struct Table {
  std::mutex mutex;
  std::map<Key, CudaMapping*> mappings;
};
Table& table() noexcept { return immortal<Table>(); }

}  // namespace

Ref<Storage> CudaMapping::find(uint64_t offset, uint64_t nbytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = storages_.find({offset, nbytes});
  return found == storages_.end() ? Ref<Storage>() : found->second.lock();
}

Ref<Storage> CudaMapping::intern(uint64_t offset, Ref<Storage> storage) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Weak<Storage>& place = storages_[{offset, storage->nbytes()}];
  if (Ref<Storage> before = place.lock()) return before;
  place = Weak<Storage>(storage.get());
  return storage;
}

void CudaMapping::forget(uint64_t offset, uint64_t nbytes) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = storages_.find({offset, nbytes});
  if (found != storages_.end() && found->second.expired()) storages_.erase(found);
}

void CudaMapping::dispose() noexcept {
  {
    Table& all = table();
    const std::lock_guard<std::mutex> lock(all.mutex);
    const auto found = all.mappings.find({device_, handle_});
    if (found != all.mappings.end() && found->second == this) all.mappings.erase(found);
  }
  // Somebody may have opened it again by now: the driver counts.
  cuda::close_ipc(base_, device_);
}

Result<Ref<CudaMapping>> map_cuda(const cuda::IpcHandle& handle, int32_t device) {
  Table& all = table();
  // Held while the driver opens it, for two that open it together are to open it once.
  const std::lock_guard<std::mutex> lock(all.mutex);
  CudaMapping*& place = all.mappings[{device, handle}];
  if (place != nullptr && place->try_retain()) return Ref<CudaMapping>::adopt(place);
  const auto fail = [&](Status status) {
    all.mappings.erase({device, handle});
    return status;
  };
  Result<cuda::DevicePointer> opened = cuda::open_ipc(handle, device);
  if (!opened.is_ok()) return fail(std::move(opened).status());
  const cuda::DevicePointer base = opened.value();
  Result<cuda::Allocation> found = cuda::find_allocation(base);
  if (!found.is_ok()) {
    cuda::close_ipc(base, device);
    return fail(found.status());
  }
  auto mapping = Ref<CudaMapping>::adopt(new CudaMapping(handle, device, base));
  mapping->nbytes_ = found.value().nbytes;
  place = mapping.get();
  return mapping;
}

}  // namespace tenon::share
