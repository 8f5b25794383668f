#include "device/by_cuda.h"

#include <utility>

#include "base/checked.h"
#include "cuda/available.h"
#include "cuda/memory.h"
#include "cuda/vmm.h"
#include "device/export.h"
#include "device/import.h"
#include "device/memory.h"
#include "device/route.h"
#include "device/torch_message.h"

namespace tenon::device {
namespace {

using storage::Storage;

// Memory of this process that wrap_cuda() made a storage of.
class OwnCuda final : public CudaMemory {
 public:
  OwnCuda(const cuda::Allocation& allocation, int32_t device)
      : CudaMemory(device), allocation_(allocation) {}
  ~OwnCuda() override {
    if (release_ != nullptr) release_(context_);
  }
  Result<std::shared_ptr<const CudaExport>> lend_by(CudaTransport wanted,
                                                    cuda::DevicePointer pointer,
                                                    uint64_t nbytes) override {
    return export_cuda(allocation_, pointer, nbytes, wanted);
  }
  void own(Storage::ReleaseFunction release, void* context) noexcept {
    release_ = release;
    context_ = context;
  }

 private:
  cuda::Allocation allocation_;
  Storage::ReleaseFunction release_ = nullptr;
  void* context_ = nullptr;
};

Status no_cuda_storage() {
  return Status(Code::kInvalidArgument,
                "the storage is not on a CUDA device: lend it by fd, and pin it for one")
      .with("option", std::string("tenon_share_fd"));
}

Result<cuda::Device> device_of(const CudaHandle& handle, const CudaOpenOptions& options) {
  if (options.device >= 0) return cuda::find_device(options.device);
  if (handle.has_uuid) return cuda::find_device(handle.uuid);
  return cuda::find_device(handle.device);
}

// Makes the stream wait until the bytes are valid.
Status wait_for_sender(const CudaHandle& handle, cuda::Stream stream, int32_t device) {
  return handle.has_event ? cuda::wait_for_event(handle.event, stream, device) : Status::ok();
}

// Memory of another process, or memory of this process whose storage has ended. Until
// keep_message() the message stays valid and can be opened again.
class ReceivedCuda final : public CudaReceived<CudaCounterHold> {
 public:
  using CudaReceived::CudaReceived;
  void keep_message() noexcept { kept_.keep(); }
};

struct Received {
  Ref<Storage> storage;
  ReceivedCuda* memory;
};

Received make_received(int32_t device, Ref<CudaMapping> mapping, const CudaHandle& handle,
                       cuda::DevicePointer pointer, bool read_only, cuda::Stream stream) {
  auto memory = std::make_unique<ReceivedCuda>(device, std::move(mapping), handle.offset,
                                               handle.nbytes, handle.counter, handle.slot);
  ReceivedCuda* const kept = memory.get();
  memory->use_in(stream);
  return {Storage::on_device(std::move(memory), as_data(pointer), handle.nbytes, read_only), kept};
}

// Uses up the message for a storage that this process has already, and returns that storage. The
// storage need not keep the message.
Ref<Storage> found(const CudaHandle& handle, cuda::Stream stream, Ref<Storage> storage) {
  CudaCounterHold message(handle.counter, handle.slot);
  cuda_memory(*storage)->use_in(stream);
  message.keep();
  return storage;
}

// Opens a message that this process sent itself. The driver opens neither the memory nor the event
// in the process that made them.
Result<Ref<Storage>> open_own(const CudaMessage& message, const CudaHandle& handle,
                              cuda::Stream stream, int32_t device, bool read_only) {
  if (message.nbytes() != handle.nbytes)
    return Status(Code::kInvalidArgument,
                  "the CUDA handle is this process's own, but of another number of bytes")
        .with("field", std::string("nbytes"));
  if (read_only && !message.is_read_only()) {
    return Status(Code::kUnsupported,
                  "the CUDA handle is this process's own, and leads to the memory itself, which it "
                  "can write")
        .with("option", std::string("TENON_CUDA_READ_ONLY"));
  }
  // If the counter is released, only the storage keeps the memory, and the storage may be ending.
  if (message.counter().is_released())
    return Status(Code::kInvalidArgument,
                  "the CUDA handle was opened before: each is for one receiver, who opens it once");
  if (message.event()) TENON_TRY(message.event().wait_in(stream, device));
  if (Ref<Storage> storage = message.storage()) return found(handle, stream, std::move(storage));
  Received received =
      make_received(device, {}, handle, as_pointer(message.data()), message.is_read_only(), stream);
  received.memory->keep_message();
  return std::move(received.storage);
}

// Whether the range lies in memory of one kind. Memory that is mapped piece by piece can go on
// behind the piece that the driver tells for one address.
bool lies_in(const cuda::Allocation& allocation, cuda::DevicePointer pointer, uint64_t nbytes) {
  if (range_inside(pointer - allocation.base, nbytes, allocation.nbytes)) return true;
  const bool in_pieces =
      allocation.context == nullptr && allocation.pool == nullptr && !allocation.is_managed;
  uint64_t end = 0;
  return in_pieces && checked_add(pointer, nbytes, &end) &&
         cuda::find_pieces(pointer, nbytes, allocation.device).is_ok();
}

}  // namespace

Result<Ref<Storage>> wrap_cuda(std::byte* data, uint64_t nbytes, int32_t device,
                               Storage::ReleaseFunction release, void* context, bool read_only) {
  TENON_TRY(cuda::find_device(device).status());
  cuda::Allocation allocation;
  if (nbytes > 0) {
    TENON_ASSIGN(allocation, cuda::find_allocation(as_pointer(data)));
    if (allocation.device != device) {
      return Status(Code::kInvalidArgument, format("the memory is on CUDA device %d and not on %d",
                                                   allocation.device, device));
    }
    if (!lies_in(allocation, as_pointer(data), nbytes)) {
      return Status(
          Code::kInvalidArgument,
          format("%llu bytes leave their allocation, which has %llu and began %llu before",
                 static_cast<unsigned long long>(nbytes),
                 static_cast<unsigned long long>(allocation.nbytes),
                 static_cast<unsigned long long>(as_pointer(data) - allocation.base)));
    }
  }
  auto memory = std::make_unique<OwnCuda>(allocation, device);
  OwnCuda* const own = memory.get();
  Ref<Storage> storage = Storage::on_device(std::move(memory), data, nbytes, read_only);
  own->own(release, context);
  return storage;
}

Result<CudaHandle> share_cuda(const Ref<Storage>& storage, cuda::Stream stream,
                              const CudaShareOptions& options) {
  CudaMemory* const memory = cuda_memory(*storage);
  if (memory == nullptr) return no_cuda_storage();
  TENON_TRY(storage->check_lender());
  if (storage->is_read_only() && !options.let_write) {
    return Status(Code::kPermission,
                  "the storage is read-only, and whoever device memory is lent to can write it: "
                  "share it with LET_WRITE if that is right")
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
  const cuda::DevicePointer pointer = as_pointer(storage->data());
  TENON_ASSIGN(const std::shared_ptr<const CudaExport> exported,
               memory->lend_by(options.transport, pointer, handle.nbytes));
  const CudaRoute& route = exported->route;
  TENON_ASSIGN(handle.memory, encode_cuda_handle(route, storage->is_read_only(), options.form));
  handle.transport = route.transport;
  handle.fds = route.fd_numbers;
  handle.offset = pointer - exported->base;
  memory->keep(exported);
  memory->forget_released();
  TENON_ASSIGN(CudaEvent event, CudaEvent::record(stream, device.ordinal));
  handle.has_event = static_cast<bool>(event);
  if (handle.has_event) {
    handle.event = event.handle();
  } else {
    TENON_TRY(cuda::synchronize(stream, device.ordinal));
  }
  TENON_ASSIGN(std::shared_ptr<CudaMessage> message,
               CudaMessage::create(std::move(event), storage));
  handle.counter = message->counter().name();
  handle.slot = message->counter().slot();
  memory->add(std::move(message));
  return handle;
}

Result<Ref<Storage>> open_cuda(const CudaHandle& handle, cuda::Stream stream,
                               const CudaOpenOptions& options) {
  TENON_ASSIGN(const cuda::Device device, device_of(handle, options));
  collect_some_cuda();
  if (handle.nbytes == 0 || handle.memory.empty()) {
    if (handle.nbytes != 0)
      return Status(Code::kInvalidArgument, "the CUDA handle has bytes and no memory handle");
    return empty_cuda(device.ordinal);
  }
  TENON_ASSIGN(DecodedCudaHandle decoded, decode_cuda_handle(handle.memory));
  if (const std::shared_ptr<CudaMessage> message = CudaMessage::find(handle.counter, handle.slot)) {
    return open_own(*message, handle, stream, device.ordinal, options.read_only);
  }
  TENON_ASSIGN(CudaRoute route, complete_route(std::move(decoded), handle.fds,
                                               {options.read_only, options.other_user}));
  TENON_ASSIGN(Ref<CudaMapping> mapping, map_cuda(std::move(route), device.ordinal));
  if (!range_inside(handle.offset, handle.nbytes, mapping->nbytes())) {
    return Status(
               Code::kInvalidArgument,
               format("the CUDA handle's %llu bytes at %llu leave the allocation, which has %llu",
                      static_cast<unsigned long long>(handle.nbytes),
                      static_cast<unsigned long long>(handle.offset),
                      static_cast<unsigned long long>(mapping->nbytes())))
        .with("field", std::string("offset"));
  }
  TENON_TRY(wait_for_sender(handle, stream, device.ordinal));
  if (options.keep_open) keep_cuda_warm(mapping);
  if (Ref<Storage> storage = mapping->find(handle.offset, handle.nbytes))
    return found(handle, stream, std::move(storage));
  const cuda::DevicePointer pointer = mapping->base() + handle.offset;
  const Received received =
      make_received(device.ordinal, mapping, handle, pointer, mapping->is_read_only(), stream);
  const auto keep = [&]() noexcept { received.memory->keep_message(); };
  Ref<Storage> storage = mapping->intern(handle.offset, received.storage, keep);
  if (storage.get() != received.storage.get()) {  // another thread has interned one first
    cuda_memory(*storage)->use_in(stream);
    keep();
  }
  return storage;
}

Status order_stream(const Storage& storage, cuda::Stream stream) {
  CudaMemory* const memory = cuda_memory(storage);
  if (memory == nullptr) return no_cuda_storage();
  TENON_TRY(storage.check_lender());
  TENON_TRY(cuda::available());  // fails in a forked child; must come before any lock
  return memory->order(stream);
}

Status record_stream(const Storage& storage, cuda::Stream stream) {
  CudaMemory* const memory = cuda_memory(storage);
  if (memory == nullptr) return no_cuda_storage();
  TENON_TRY(storage.check_lender());
  memory->use_in(stream);
  return Status::ok();
}

}  // namespace tenon::device
