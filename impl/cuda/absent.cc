// Replaces all of this folder in a build that found no headers of CUDA's driver. Every function
// that can fail returns UNSUPPORTED. So the other functions are never called for an object that
// exists, and do nothing.
#include "cuda/available.h"
#include "cuda/device.h"
#include "cuda/event.h"
#include "cuda/host_copy.h"
#include "cuda/host_register.h"
#include "cuda/ipc.h"
#include "cuda/memory.h"
#include "cuda/pool.h"
#include "cuda/stream_mark.h"
#include "cuda/vmm.h"

namespace tenon::cuda {

Status available() {
  return Status(Code::kUnsupported,
                "this build of Tenon has no CUDA: cuda.h and cudaTypedefs.h of CUDA 12.5 or newer "
                "were not there when it was "
                "built; build it again with them");
}

Result<Device> find_device(int32_t /*ordinal*/) { return available(); }
Result<Device> find_device(const Uuid& /*uuid*/) { return available(); }
Result<Allocation> find_allocation(DevicePointer /*pointer*/) { return available(); }
Result<DevicePointer> allocate(int32_t /*device*/, uint64_t /*nbytes*/) { return available(); }
Result<DeviceRoom> device_room(int32_t /*device*/) { return available(); }
void free_memory(DevicePointer /*pointer*/, int32_t /*device*/) noexcept {}
Result<IpcHandle> ipc_handle(const Allocation& /*allocation*/) { return available(); }
Result<DevicePointer> open_ipc(const IpcHandle& /*handle*/, int32_t /*device*/) {
  return available();
}
void close_ipc(DevicePointer /*pointer*/, int32_t /*device*/) noexcept {}
Result<Pieces> find_pieces(DevicePointer /*pointer*/, uint64_t /*nbytes*/, int32_t /*device*/) {
  return available();
}
Result<std::vector<os::Fd>> export_pieces(const Pieces& /*pieces*/) { return available(); }
Result<FabricHandle> export_fabric(DevicePointer /*piece*/) { return available(); }
Result<PieceMapping> PieceMapping::map(std::span<const PieceHandle> /*pieces*/, int32_t /*device*/,
                                       bool /*read_only*/) {
  return available();
}
Result<PieceMapping> PieceMapping::create(uint64_t /*nbytes*/, int32_t /*device*/,
                                          Handles /*handles*/) {
  return available();
}
Result<PieceMapping> PieceMapping::reserve(uint64_t /*nbytes*/) { return available(); }
Status PieceMapping::give_access(int32_t /*device*/, bool /*read_only*/) {
  nbytes_ = 0;  // here there never is anything
  return available();
}
PieceMapping::~PieceMapping() { mapped_ = 0; }  // here there never is anything
Result<os::Fd> export_pool(const Allocation& /*allocation*/) { return available(); }
Result<PoolPointer> export_pool_pointer(const Allocation& /*allocation*/) { return available(); }
Result<Ref<ImportedPool>> ImportedPool::import(int /*fd*/, int32_t /*device*/) {
  return available();
}
Result<DevicePointer> ImportedPool::open(PoolPointer /*pointer*/) { return available(); }
void ImportedPool::close(DevicePointer /*pointer*/) noexcept {}
void ImportedPool::dispose() noexcept {}
Result<Event> Event::create(void* /*context*/, Origin /*reach*/, IpcHandle* /*handle*/) {
  return available();
}
Result<Event> Event::create_on(int32_t /*device*/, Origin /*reach*/) { return available(); }
Result<Event> Event::open(const IpcHandle& /*handle*/, int32_t /*device*/) { return available(); }
Status Event::record(Stream /*stream*/) { return available(); }
Status Event::record_in(Stream /*stream*/, int32_t /*device*/) { return available(); }
Status Event::wait_in(Stream /*stream*/, int32_t /*device*/) const { return available(); }
Result<bool> Event::is_complete() const { return available(); }
Status Event::synchronize(const os::Wait& /*wait*/) const { return available(); }
Result<IpcHandle> Event::ipc_handle() const { return available(); }
void Event::reset() noexcept {}
Status wait_for_event(const IpcHandle& /*handle*/, Stream /*stream*/, int32_t /*device*/) {
  return available();
}
Result<void*> find_context(Stream /*stream*/, int32_t /*device*/) { return available(); }
StreamMark::StreamMark(Stream stream, int32_t device) noexcept : stream_(stream), device_(device) {}
void StreamMark::set() noexcept {}
bool StreamMark::has_passed() noexcept { return true; }
Status StreamMark::let_wait(Stream /*stream*/, int32_t /*device*/) const { return available(); }
Status synchronize(Stream /*stream*/, int32_t /*device*/) { return available(); }
Result<HostCopy> HostCopy::create(int32_t /*device*/) { return available(); }
HostCopy::~HostCopy() = default;
void HostCopy::swap(HostCopy* /*other*/) noexcept {}
Status HostCopy::wait_for(Stream /*stream*/) { return available(); }
Status HostCopy::to_host(DevicePointer /*from*/, uint64_t /*nbytes*/, const Take& /*take*/) {
  return available();
}
Status HostCopy::gather(std::span<const Range> /*ranges*/, const TakeRange& /*take*/) {
  return available();
}
Status HostCopy::to_device(DevicePointer /*to*/, uint64_t /*nbytes*/, const Give& /*give*/) {
  return available();
}
Status HostCopy::finish() { return available(); }
Status register_host(std::byte* /*base*/, uint64_t /*nbytes*/, int32_t /*device*/,
                     bool /*read_only*/) {
  return available();
}
void unregister_host(std::byte* /*base*/, int32_t /*device*/) noexcept {}
Result<DevicePointer> device_pointer(std::byte* /*base*/, int32_t /*device*/, bool /*read_only*/) {
  return available();
}

}  // namespace tenon::cuda
