#include "share/by_cuda.h"

#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/checked.h"
#include "base/immortal.h"
#include "cuda/memory.h"
#include "share/cuda_mapping.h"
#include "share/cuda_memory.h"
#include "share/cuda_message.h"

namespace tenon::share {
namespace {

using storage::Storage;

// Of this process, as its owner gave it.
class OwnCuda final : public CudaMemory {
 public:
  OwnCuda(const cuda::Allocation& allocation, int32_t device) : CudaMemory(device), allocation_(allocation) {}
  ~OwnCuda() override {
    if (release_ != nullptr) release_(context_);
  }
  bool is_received() const noexcept override { return false; }
  const cuda::Allocation& allocation() const noexcept { return allocation_; }
  void own(Storage::ReleaseFunction release, void* context) noexcept {
    release_ = release;
    context_ = context;
  }

 private:
  cuda::Allocation allocation_;
  Storage::ReleaseFunction release_ = nullptr;
  void* context_ = nullptr;
};

// Another process's, or what this one sent to itself and has forgotten since, which has no mapping.
class ReceivedCuda final : public CudaMemory {
 public:
  ReceivedCuda(int32_t device, Ref<CudaMapping> mapping, const CudaHandle& handle)
      : CudaMemory(device),
        mapping_(std::move(mapping)),
        offset_(handle.offset),
        nbytes_(handle.nbytes),
        counter_(handle.counter),
        slot_(handle.slot) {}
  ~ReceivedCuda() override {
    mapping_ = nullptr;
    // Last: the sender may use the memory again.
    if (!counter_.empty()) (void)release_cuda_counter(counter_, slot_);
  }
  bool is_received() const noexcept override { return true; }

 private:
  void storage_gone() noexcept override {
    if (mapping_) mapping_->forget(offset_, nbytes_);
  }
  Ref<CudaMapping> mapping_;
  uint64_t offset_;
  uint64_t nbytes_;
  std::string counter_;
  uint64_t slot_;
};

CudaMemory* cuda_memory(const Storage& storage) noexcept {
  return storage.device().type == storage::kCuda ? static_cast<CudaMemory*>(storage.device_memory()) : nullptr;
}

Status no_cuda_storage() {
  return Status(Code::kInvalidArgument, "the storage is not on a CUDA device").with("option", std::string("tenon_share_fd"));
}

std::byte* as_data(cuda::DevicePointer pointer) noexcept { return reinterpret_cast<std::byte*>(static_cast<uintptr_t>(pointer)); }
cuda::DevicePointer as_pointer(const std::byte* data) noexcept { return reinterpret_cast<uintptr_t>(data); }

Result<cuda::Device> device_of(const CudaHandle& handle, const CudaOpenOptions& options) {
  if (options.device >= 0) return cuda::find_device(options.device);
  if (handle.has_uuid) return cuda::find_device(handle.uuid);
  return cuda::find_device(handle.device);
}

// What the message says of when the bytes are good.
Status wait_for_sender(const CudaHandle& handle, cuda::Stream stream, int32_t device) {
  return handle.has_event ? cuda::wait_for_event(handle.event, stream, device) : Status::ok();
}

Ref<Storage> make_received(int32_t device, Ref<CudaMapping> mapping, const CudaHandle& handle, cuda::DevicePointer pointer,
                           cuda::Stream stream) {
  auto memory = std::make_unique<ReceivedCuda>(device, std::move(mapping), handle);
  memory->use_in(stream);
  return Storage::on_device(std::move(memory), as_data(pointer), handle.nbytes, false);
}

// The storage is there already, and needs no message to be kept.
Ref<Storage> found(const CudaHandle& handle, cuda::Stream stream, Ref<Storage> storage) {
  cuda_memory(*storage)->use_in(stream);
  (void)release_cuda_counter(handle.counter, handle.slot);
  return storage;
}

// The driver opens neither memory nor event in the process that made them.
Result<Ref<Storage>> open_own(const CudaMessage& message, const CudaHandle& handle, cuda::Stream stream, int32_t device) {
  if (message.nbytes() != handle.nbytes)
    return Status(Code::kInvalidArgument, "the CUDA handle is this process's own, but of another number of bytes")
        .with("field", std::string("nbytes"));
  // Then nothing keeps the memory but the storage, which may be going.
  if (message.counter().is_released())
    return Status(Code::kInvalidArgument, "the CUDA handle was opened before: each is for one receiver, who opens it once");
  if (message.event()) TENON_TRY(message.event().wait_in(stream, device));
  if (Ref<Storage> storage = message.storage()) return found(handle, stream, std::move(storage));
  return make_received(device, {}, handle, as_pointer(message.data()), stream);
}

// Once for each allocation, in which there can be thousands of storages.
Result<cuda::IpcHandle> ipc_handle_of(const cuda::Allocation& allocation) {
  static constexpr size_t kKept = 4096;
  struct Known {
    std::mutex mutex;
    std::unordered_map<uint64_t, cuda::IpcHandle> handles;  // by the id, which no other allocation gets
  };
  Known& known = immortal<Known>();
  {
    const std::lock_guard<std::mutex> lock(known.mutex);
    if (const auto found = known.handles.find(allocation.id); found != known.handles.end()) return found->second;
  }
  TENON_ASSIGN(const cuda::IpcHandle handle, cuda::ipc_handle(allocation));
  const std::lock_guard<std::mutex> lock(known.mutex);
  if (known.handles.size() >= kKept) known.handles.clear();
  known.handles.emplace(allocation.id, handle);
  return handle;
}

}  // namespace

Result<Ref<Storage>> wrap_cuda(std::byte* data, uint64_t nbytes, int32_t device, Storage::ReleaseFunction release, void* context,
                               bool read_only) {
  TENON_TRY(cuda::find_device(device).status());
  cuda::Allocation allocation;
  if (nbytes > 0) {
    TENON_ASSIGN(allocation, cuda::find_allocation(as_pointer(data)));
    if (allocation.device != device) {
      return Status(Code::kInvalidArgument, format("the memory is on CUDA device %d and not on %d", allocation.device, device));
    }
    if (!range_inside(as_pointer(data) - allocation.base, nbytes, allocation.nbytes)) {
      return Status(
          Code::kInvalidArgument,
          format("%llu bytes leave their allocation, which has %llu and began %llu before", static_cast<unsigned long long>(nbytes),
                 static_cast<unsigned long long>(allocation.nbytes), static_cast<unsigned long long>(as_pointer(data) - allocation.base)));
    }
  }
  auto memory = std::make_unique<OwnCuda>(allocation, device);
  OwnCuda* const own = memory.get();
  Ref<Storage> storage = Storage::on_device(std::move(memory), data, nbytes, read_only);
  own->own(release, context);
  return storage;
}

Result<CudaHandle> share_cuda(const Ref<Storage>& storage, cuda::Stream stream, const CudaShareOptions& options) {
  CudaMemory* const memory = cuda_memory(*storage);
  if (memory == nullptr) return no_cuda_storage();
  if (memory->is_received()) {
    return Status(
        Code::kUnsupported,
        "memory that came from another process by a CUDA IPC handle cannot be lent on: only the process that made it can; copy it "
        "first");
  }
  if (storage->is_read_only() && !options.let_write) {
    return Status(Code::kPermission, "the storage is read-only, and who gets a CUDA IPC handle can write the memory")
        .with("option", std::string("TENON_CUDA_LET_WRITE"));
  }
  TENON_ASSIGN(const cuda::Device device, cuda::find_device(storage->device().id));
  collect_some_cuda();
  CudaHandle handle;
  handle.device = device.ordinal;
  handle.uuid = device.uuid;
  handle.has_uuid = true;
  handle.nbytes = storage->nbytes();
  if (handle.nbytes == 0) return handle;
  const cuda::Allocation& allocation = static_cast<OwnCuda*>(memory)->allocation();
  TENON_ASSIGN(const cuda::IpcHandle ipc, ipc_handle_of(allocation));
  handle.memory = encode_cuda_memory_handle(ipc, options.form);
  handle.offset = as_pointer(storage->data()) - allocation.base;
  memory->forget_released();
  TENON_ASSIGN(CudaEvent event, CudaEvent::record(stream, device.ordinal));
  handle.has_event = static_cast<bool>(event);
  if (handle.has_event) {
    handle.event = event.handle();
  } else {
    TENON_TRY(cuda::synchronize(stream, device.ordinal));
  }
  TENON_ASSIGN(std::shared_ptr<CudaMessage> message, CudaMessage::create(std::move(event), storage));
  handle.counter = message->counter().name();
  handle.slot = message->counter().slot();
  memory->add(std::move(message));
  return handle;
}

Result<Ref<Storage>> open_cuda(const CudaHandle& handle, cuda::Stream stream, const CudaOpenOptions& options) {
  TENON_ASSIGN(const cuda::Device device, device_of(handle, options));
  collect_some_cuda();
  if (handle.nbytes == 0 || handle.memory.empty()) {
    if (handle.nbytes != 0) return Status(Code::kInvalidArgument, "the CUDA handle has bytes and no memory handle");
    return Storage::on_device(std::make_unique<OwnCuda>(cuda::Allocation{}, device.ordinal), nullptr, 0, false);
  }
  TENON_ASSIGN(const CudaMemoryHandle memory, decode_cuda_memory_handle(handle.memory));
  if (memory.type != CudaMemoryHandle::Type::kIpc) {
    return Status(Code::kUnsupported, "the CUDA handle is of memory that its sender maps piece by piece (PyTorch's expandable segments)");
  }
  if (const std::shared_ptr<CudaMessage> message = CudaMessage::find(handle.counter, handle.slot)) {
    return open_own(*message, handle, stream, device.ordinal);
  }
  TENON_ASSIGN(Ref<CudaMapping> mapping, map_cuda(memory.ipc, device.ordinal));
  if (!range_inside(handle.offset, handle.nbytes, mapping->nbytes())) {
    return Status(Code::kInvalidArgument,
                  format("the CUDA handle's %llu bytes at %llu leave the allocation, which has %llu",
                         static_cast<unsigned long long>(handle.nbytes), static_cast<unsigned long long>(handle.offset),
                         static_cast<unsigned long long>(mapping->nbytes())))
        .with("field", std::string("offset"));
  }
  TENON_TRY(wait_for_sender(handle, stream, device.ordinal));
  if (Ref<Storage> storage = mapping->find(handle.offset, handle.nbytes)) return found(handle, stream, std::move(storage));
  const cuda::DevicePointer pointer = mapping->base() + handle.offset;
  Ref<Storage> storage = make_received(device.ordinal, mapping, handle, pointer, stream);
  return mapping->intern(handle.offset, std::move(storage));
}

Status record_stream(const Storage& storage, cuda::Stream stream) {
  CudaMemory* const memory = cuda_memory(storage);
  if (memory == nullptr) return no_cuda_storage();
  memory->use_in(stream);
  return Status::ok();
}

}  // namespace tenon::share
