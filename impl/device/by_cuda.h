// Lends device memory to another process, and opens memory that another process lent, by PyTorch's
// protocol. The C API, DLPack and the import of modules call these functions. A handle holds the
// driver's handle of the allocation, a counter in a shared file (torch_counter.h), and an event
// (docs/format/cuda.md). Memory that is lent over a connection takes another path (lease.h).
//
// share_cuda() and open_cuda() collect (memory.h), so owners' release functions may run in them,
// and their caller holds no lock. In a forked child of a process that used CUDA record_stream()
// does nothing, all other functions return UNSUPPORTED, and a storage that ends there frees nothing
// and tells no owner.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/counted.h"
#include "base/status.h"
#include "cuda/device.h"
#include "cuda/event.h"
#include "device/route.h"
#include "device/torch_handle.h"
#include "storage/storage.h"

namespace tenon::device {

// The eight fields of PyTorch's tuple, and three more that Tenon needs: the transport, the fds and
// the UUID of the device.
struct CudaHandle {
  // Set by share_cuda(). open_cuda() ignores this field, because the bytes of `memory` say the
  // transport.
  CudaTransport transport = CudaTransport::kNone;
  int32_t device = 0;             // the device's ordinal, as the sender counts devices
  std::vector<std::byte> memory;  // empty for an empty storage
  // The fds that belong to `memory`. They are borrowed. After share_cuda() the storage owns them.
  std::span<const int> fds;
  uint64_t nbytes = 0;
  uint64_t offset = 0;  // in bytes, from the address to which `memory` leads
  // The name of the counter file, and the number of the counter in it.
  std::string counter;
  uint64_t slot = 0;
  cuda::IpcHandle event{};
  // True: the bytes are valid once `event` has passed. False: they were valid when the handle was
  // made.
  bool has_event = false;
  cuda::Uuid uuid{};
  bool has_uuid = false;
};

// Makes a storage of memory of this process, whichever library allocated it. `release` (null: none)
// is called with `context` once no stream and no other process uses the memory any more, on the
// thread that finds that out in a collection (memory.h). INVALID_ARGUMENT if the range is not
// memory of that device. UNSUPPORTED without a driver. After a failure or std::bad_alloc `release`
// is not called.
Result<Ref<storage::Storage>> wrap_cuda(std::byte* data, uint64_t nbytes, int32_t device,
                                        storage::Storage::ReleaseFunction release, void* context,
                                        bool read_only);

struct CudaShareOptions {
  // kNone: the first transport, in the order of CudaTransport, by which the memory can travel.
  // PyTorch's own, the IPC handle, comes first.
  CudaTransport transport = CudaTransport::kNone;
  CudaForm form = CudaForm::kA;  // the form of an IPC handle
  // Allows sharing a read-only storage, although nothing keeps its receiver from writing.
  bool let_write = false;
};
// Makes a handle. The receiver's stream waits for the work that was queued in `stream` before this
// call. Each handle is for one receiver, which opens it once. PERMISSION for a read-only storage
// without `let_write`. UNSUPPORTED: the memory cannot travel (export_cuda()). PEER_GONE: the
// storage's lender is gone. INVALID_ARGUMENT: the storage is on no CUDA device. Also the errors of
// CudaCounter::create() and of the driver. For an empty storage the handle has no `memory` and no
// counter, and can be opened any number of times.
Result<CudaHandle> share_cuda(const Ref<storage::Storage>& storage, cuda::Stream stream,
                              const CudaShareOptions& options);

struct CudaOpenOptions {
  // As this process counts devices. -1: the device that the handle names, by its UUID if it has
  // one, and otherwise by its ordinal.
  int32_t device = -1;
  // Maps the memory so that no work of this process can write it. UNSUPPORTED for an IPC handle,
  // for memory of a pool, and for this process's own memory if that is writable.
  bool read_only = false;
  // Keeps the memory open after its last storage has gone, for the next handle of the same memory
  // (keep_cuda_warm()).
  bool keep_open = false;
  // Allows fetching the fds of PyTorch's expandable segments from a process of another user.
  bool other_user = false;
};
// Opens a handle. Work that is queued in `stream` after this call waits for the sender's event. The
// memory counts as used in that stream until the storage goes. INVALID_ARGUMENT: the handle was
// opened before (if this process sent it), or does not fit the memory. NOT_FOUND or
// INVALID_ARGUMENT: this process does not see the device, by its UUID or by its ordinal. The other
// errors are those of decode_cuda_handle(), complete_route(), map_cuda() and the wait for the
// sender's event. After a failure or std::bad_alloc the message is as valid as before, and the
// handle can be opened again. The call can block for about 1 s (CudaCounterHold).
Result<Ref<storage::Storage>> open_cuda(const CudaHandle& handle, cuda::Stream stream,
                                        const CudaOpenOptions& options);

// Makes work that is queued in `stream` after this call wait for the work that is queued now in the
// streams in which the storage is used. As for record_stream(), INVALID_ARGUMENT: the storage is on
// no CUDA device. PEER_GONE: its lender is gone.
Status order_stream(const storage::Storage& storage, cuda::Stream stream);

// Says that `stream` uses the memory. The memory is not given back until the work has passed that
// is queued in `stream` before the storage goes.
Status record_stream(const storage::Storage& storage, cuda::Stream stream);

}  // namespace tenon::device
