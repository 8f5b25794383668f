#include "share/by_cuda.h"

#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "cuda/memory.h"
#include "os/open_file.h"
#include "os/process.h"
#include "share/cuda_export.h"
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
  Result<std::shared_ptr<const CudaExport>> lend_by(CudaTransport wanted, cuda::DevicePointer pointer, uint64_t nbytes) override {
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
  Result<std::shared_ptr<const CudaExport>> lend_by(CudaTransport wanted, cuda::DevicePointer /*pointer*/, uint64_t /*nbytes*/) override {
    const CudaTransport came_by = mapping_ ? mapping_->exported()->route.transport : CudaTransport::kIpc;
    if (came_by == CudaTransport::kIpc) {
      return Status(
          Code::kUnsupported,
          "memory that came from another process by a CUDA IPC handle cannot be lent on: only the process that made it can; copy it "
          "first");
    }
    if (wanted != CudaTransport::kNone && wanted != came_by) {
      return Status(Code::kUnsupported, format("memory that came from another process by %s can be lent on so, and not by %s",
                                               name_of(came_by), name_of(wanted)));
    }
    return mapping_->exported();
  }

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
  const bool read_only = mapping && mapping->is_read_only();
  auto memory = std::make_unique<ReceivedCuda>(device, std::move(mapping), handle);
  memory->use_in(stream);
  return Storage::on_device(std::move(memory), as_data(pointer), handle.nbytes, read_only);
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

// The fds of PyTorch's expandable segment are fetched from the process that it names.
Result<CudaRoute> route_of_segment(const CudaMemoryHandle& segment) {
  const os::Fd producer = os::open_pidfd(segment.pid);
  if (!producer.is_open()) {
    return Status(Code::kPeerGone, format("the process %d, which has the memory of a CUDA handle, cannot be found: it has ended, or is in "
                                          "another PID namespace, or the kernel is older than 5.3",
                                          segment.pid));
  }
  CudaRoute route;
  route.transport = CudaTransport::kFd;
  for (const int32_t number : segment.fds) {
    TENON_ASSIGN(os::Fd fd, os::fetch_fd(producer, number));
    route.add_fd(std::make_shared<const os::Fd>(std::move(fd)));
    route.sizes.push_back(segment.page_nbytes);
  }
  // What names it here. Whether another one of that name is the same is seen by the files.
  const std::array<int32_t, 3> name{segment.pid, segment.fds.front(), segment.fds.back()};
  std::memcpy(route.nonce.data(), name.data(), sizeof name);
  return route;
}

Status add_fds(std::span<const int> fds, CudaRoute* route) {
  size_t expected = 0;
  if (route->transport == CudaTransport::kFd) expected = route->sizes.size();
  if (route->transport == CudaTransport::kPool) expected = 1;
  if (fds.size() != expected) {
    return Status(Code::kInvalidArgument, format("the CUDA handle came with %zu fds, and %zu belong to it", fds.size(), expected));
  }
  for (const int number : fds) {
    TENON_ASSIGN(os::Fd fd, os::duplicate(number));
    route->add_fd(std::make_shared<const os::Fd>(std::move(fd)));
  }
  return Status::ok();
}

// What the bytes of a handle say, before anything is asked of anybody: a route, to which fds may belong, or a segment, whose route begins
// at another process.
struct Way {
  CudaRoute route;
  std::optional<CudaMemoryHandle> segment;
};
Result<Way> decode_way(std::span<const std::byte> bytes) {
  Way way;
  if (is_cuda_route(bytes)) {
    TENON_ASSIGN(way.route, decode_cuda_route(bytes));
    return way;
  }
  TENON_ASSIGN(CudaMemoryHandle memory, decode_cuda_memory_handle(bytes));
  if (memory.type == CudaMemoryHandle::Type::kSegment) {
    way.segment = std::move(memory);
  } else {
    way.route.transport = CudaTransport::kIpc;
    way.route.data = memory.ipc;
  }
  return way;
}

Result<CudaRoute> route_of(Way way, const CudaHandle& handle, const CudaOpenOptions& options) {
  CudaRoute route = std::move(way.route);
  if (way.segment) {
    TENON_ASSIGN(route, route_of_segment(*way.segment));
  } else if (route.transport != CudaTransport::kIpc) {
    TENON_TRY(add_fds(handle.fds, &route));
  }
  if (!options.read_only) return route;
  if (route.transport == CudaTransport::kIpc || route.transport == CudaTransport::kPool) {
    return Status(Code::kUnsupported, format("device memory cannot be opened read-only by %s", name_of(route.transport)));
  }
  route.read_only = true;
  return route;
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
  if (storage->is_read_only() && !options.let_write) {
    return Status(Code::kPermission, "the storage is read-only, and whoever device memory is lent to can write it")
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
  TENON_ASSIGN(const std::shared_ptr<const CudaExport> exported, memory->lend_by(options.transport, pointer, handle.nbytes));
  const CudaRoute& route = exported->route;
  if (route.transport == CudaTransport::kIpc) {
    handle.memory = encode_cuda_memory_handle(route.data, options.form);
  } else {
    // A pool's memory is always written by whoever has it.
    const bool read_only = storage->is_read_only() && route.transport != CudaTransport::kPool;
    TENON_ASSIGN(handle.memory, encode_cuda_route(route, read_only));
    if (handle.memory.size() > kMostCudaRouteNbytes)
      return Status(Code::kUnsupported, "the storage lies in pieces of device memory of too many sizes");
  }
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
  TENON_ASSIGN(Way way, decode_way(handle.memory));
  if (const std::shared_ptr<CudaMessage> message = CudaMessage::find(handle.counter, handle.slot)) {
    return open_own(*message, handle, stream, device.ordinal);
  }
  TENON_ASSIGN(CudaRoute route, route_of(std::move(way), handle, options));
  TENON_ASSIGN(Ref<CudaMapping> mapping, map_cuda(std::move(route), device.ordinal));
  if (!range_inside(handle.offset, handle.nbytes, mapping->nbytes())) {
    return Status(Code::kInvalidArgument,
                  format("the CUDA handle's %llu bytes at %llu leave the allocation, which has %llu",
                         static_cast<unsigned long long>(handle.nbytes), static_cast<unsigned long long>(handle.offset),
                         static_cast<unsigned long long>(mapping->nbytes())))
        .with("field", std::string("offset"));
  }
  TENON_TRY(wait_for_sender(handle, stream, device.ordinal));
  if (options.keep_open) keep_cuda_warm(mapping);
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
