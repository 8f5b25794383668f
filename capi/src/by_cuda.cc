// tenon/by_cuda.h: lends device memory by PyTorch's protocol and opens it (impl/device/by_cuda.h).
#include <tenon/by_cuda.h>

#include <algorithm>
#include <cstring>

#include "boundary.h"
#include "cuda/available.h"
#include "device/by_cuda.h"
#include "device/import.h"
#include "device/memory.h"
#include "device/torch_counter.h"
#include "handles.h"

namespace tenon::capi {
namespace {

using device::CudaHandle;

constexpr size_t kMemoryRoom = sizeof(tenon_cuda_handle::memory);
constexpr size_t kCounterRoom = sizeof(tenon_cuda_handle::counter);
constexpr size_t kMostMemoryNbytes = size_t{1} << 20;  // a segment of 5 TB in pieces of 20 MiB
static_assert(sizeof(tenon_cuda_handle::uuid) == sizeof(cuda::Uuid) &&
              sizeof(tenon_cuda_handle::event) == sizeof(cuda::IpcHandle));

Result<tenon_cuda_options> read_cuda_options(const tenon_cuda_options* options, uint32_t flags) {
  tenon_cuda_options given{};
  TENON_TRY(read_struct(options, "tenon_cuda_options", &given));
  TENON_TRY(check_flags(given.flags,
                        TENON_CUDA_ON_DEVICE | TENON_CUDA_LET_WRITE | TENON_CUDA_READ_ONLY |
                            TENON_CUDA_KEEP_OPEN | TENON_CUDA_OTHER_USER,
                        "tenon_cuda_options"));
  TENON_TRY(check_argument((given.flags & ~flags) == 0,
                           "a flag of tenon_cuda_options is for the other of share and open"));
  TENON_TRY(
      check_argument(given.transport <= TENON_CUDA_POOL, "transport is none of TENON_CUDA_*"));
  TENON_TRY(check_argument(given.form <= TENON_CUDA_FORM_E, "form is none of TENON_CUDA_FORM_*"));
  const bool on_device = (given.flags & TENON_CUDA_ON_DEVICE) != 0;
  TENON_TRY(check_argument(on_device || given.device == 0,
                           "a device is given, but not the flag ON_DEVICE"));
  TENON_TRY(check_argument(given.device >= 0, "the device is negative"));
  return given;
}

constexpr bool is_same(uint32_t number, device::CudaTransport transport) {
  return number == static_cast<uint32_t>(transport);
}
static_assert(is_same(TENON_CUDA_NO_MEMORY, device::CudaTransport::kNone) &&
              is_same(TENON_CUDA_IPC, device::CudaTransport::kIpc));
static_assert(is_same(TENON_CUDA_FD, device::CudaTransport::kFd) &&
              is_same(TENON_CUDA_FABRIC, device::CudaTransport::kFabric));
static_assert(is_same(TENON_CUDA_POOL, device::CudaTransport::kPool) &&
              kMemoryRoom == device::kMostCudaRouteNbytes);

// Reads a handle. It comes from another process, so it is checked.
Result<CudaHandle> read_cuda_handle(const tenon_cuda_handle* handle) {
  TENON_TRY(check_argument(handle != nullptr, "handle is NULL"));
  tenon_cuda_handle given{};
  TENON_TRY(read_struct(handle, "tenon_cuda_handle", &given));
  TENON_TRY(check_argument(std::memchr(given.counter, '\0', kCounterRoom) != nullptr,
                           "the handle's counter does not end with NUL"));
  const size_t most = given.long_memory != nullptr ? kMostMemoryNbytes : kMemoryRoom;
  TENON_TRY(
      check_argument(given.memory_nbytes <= most, "the memory handle is longer than its room"));
  TENON_TRY(check_argument(given.n_fds <= device::kMostCudaFds,
                           "the handle has more fds than a message can carry"));
  TENON_TRY(check_argument(given.n_fds == 0 || given.fds != nullptr,
                           "the handle has fds, and they are NULL"));
  CudaHandle result;
  result.device = given.device;
  result.fds = {given.fds, given.n_fds};
  const auto* memory = reinterpret_cast<const std::byte*>(
      given.long_memory != nullptr ? given.long_memory : given.memory);
  result.memory.assign(memory, memory + given.memory_nbytes);
  result.nbytes = given.nbytes;
  result.offset = given.offset;
  result.counter = given.counter;
  result.slot = given.slot;
  result.has_event = given.event_required != 0;
  std::memcpy(result.event.data(), given.event, sizeof given.event);
  std::memcpy(result.uuid.data(), given.uuid, sizeof given.uuid);
  result.has_uuid = std::any_of(std::begin(given.uuid), std::end(given.uuid),
                                [](uint8_t byte) { return byte != 0; });
  return result;
}

Status write_cuda_handle(const CudaHandle& handle, tenon_cuda_handle* out) {
  tenon_cuda_handle result{};
  if (handle.memory.size() > kMemoryRoom || handle.counter.size() >= kCounterRoom)
    return Status(Code::kInternal, "a memory handle or a counter's name has outgrown its place");
  result.transport = static_cast<tenon_cuda_transport>(handle.transport);
  result.fds = handle.fds.empty() ? nullptr : handle.fds.data();
  result.n_fds = static_cast<uint32_t>(handle.fds.size());
  result.device = handle.device;
  std::memcpy(result.uuid, handle.uuid.data(), sizeof result.uuid);
  result.nbytes = handle.nbytes;
  result.offset = handle.offset;
  result.slot = handle.slot;
  result.event_required = handle.has_event ? 1 : 0;
  result.memory_nbytes = static_cast<uint32_t>(handle.memory.size());
  std::copy(handle.memory.begin(), handle.memory.end(),
            reinterpret_cast<std::byte*>(result.memory));
  std::memcpy(result.event, handle.event.data(), sizeof result.event);
  std::memcpy(result.counter, handle.counter.c_str(), handle.counter.size());
  write_struct(out, result);
  return Status::ok();
}

}  // namespace
}  // namespace tenon::capi

using namespace tenon::capi;
using tenon::Ref;
using tenon::Status;
using tenon::storage::Storage;
namespace device = tenon::device;

extern "C" {

tenon_status tenon_cuda_available(tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status { return tenon::cuda::available(); });
}

tenon_status tenon_share_cuda(tenon_storage* storage, void* stream,
                              const tenon_cuda_options* options, tenon_cuda_handle* out,
                              tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(storage != nullptr, "storage is NULL"));
    TENON_TRY(check_output(out, "tenon_cuda_handle"));
    TENON_ASSIGN(const tenon_cuda_options wanted, read_cuda_options(options, TENON_CUDA_LET_WRITE));
    device::CudaShareOptions how;
    how.transport = static_cast<device::CudaTransport>(wanted.transport);
    how.form = static_cast<device::CudaForm>(wanted.form);
    how.let_write = (wanted.flags & TENON_CUDA_LET_WRITE) != 0;
    TENON_ASSIGN(const device::CudaHandle lent,
                 device::share_cuda(Ref<Storage>::share(object(storage)), stream, how));
    return write_cuda_handle(lent, out);
  });
}

tenon_status tenon_open_cuda(const tenon_cuda_handle* handle_in, void* stream,
                             const tenon_cuda_options* options, tenon_storage** out,
                             tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(const device::CudaHandle given, read_cuda_handle(handle_in));
    TENON_ASSIGN(const tenon_cuda_options wanted,
                 read_cuda_options(options, TENON_CUDA_ON_DEVICE | TENON_CUDA_READ_ONLY |
                                                TENON_CUDA_KEEP_OPEN | TENON_CUDA_OTHER_USER));
    device::CudaOpenOptions how;
    if ((wanted.flags & TENON_CUDA_ON_DEVICE) != 0) how.device = wanted.device;
    how.keep_open = (wanted.flags & TENON_CUDA_KEEP_OPEN) != 0;
    how.read_only = (wanted.flags & TENON_CUDA_READ_ONLY) != 0;
    how.other_user = (wanted.flags & TENON_CUDA_OTHER_USER) != 0;
    TENON_ASSIGN(Ref<Storage> storage, device::open_cuda(given, stream, how));
    *out = handle<tenon_storage>(storage.detach());
    return Status::ok();
  });
}

tenon_status tenon_release_cuda_counter(const char* counter, uint64_t slot,
                                        tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(counter != nullptr, "counter is NULL"));
    return device::release_cuda_counter(counter, slot);
  });
}

tenon_status tenon_storage_record_stream(tenon_storage* storage, void* stream,
                                         tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(storage != nullptr, "storage is NULL"));
    return device::record_stream(*object(storage), stream);
  });
}

tenon_status tenon_storage_order_stream(tenon_storage* storage, void* stream,
                                        tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(storage != nullptr, "storage is NULL"));
    return device::order_stream(*object(storage), stream);
  });
}

uint64_t tenon_cuda_collect() noexcept {
  const uint64_t waiting = device::collect_cuda();
  device::close_warm_cuda();
  return waiting;
}
}
