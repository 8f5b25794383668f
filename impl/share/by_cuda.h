// Device memory lent to another process as PyTorch does it: by the driver's handle of the
// allocation, a counter in a file, and an event (docs/format/cuda.md).
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
#include "share/cuda_handle.h"
#include "share/cuda_route.h"
#include "storage/storage.h"

namespace tenon::share {

// The eight fields of PyTorch's tuple, and what it lacks.
struct CudaHandle {
  // Of one that is opened, the memory handle says it.
  CudaTransport transport = CudaTransport::kNone;
  int32_t device = 0;             // ordinal, in the sender's numbering
  std::vector<std::byte> memory;  // empty: the storage is
  // That go with it. Borrowed: of one that is shared, from the storage.
  std::span<const int> fds;
  uint64_t nbytes = 0;
  uint64_t offset = 0;  // from where the memory handle leads
  std::string counter;
  uint64_t slot = 0;
  cuda::IpcHandle event{};
  // The bytes are good once it has passed; else they were when the handle was made.
  bool has_event = false;
  cuda::Uuid uuid{};
  bool has_uuid = false;
};

// Memory of this process, whoever made it, as a storage: `release` is called once nobody uses it
// any more, in a stream or in another process. INVALID_ARGUMENT for what is no memory of that
// device.
Result<Ref<storage::Storage>> wrap_cuda(std::byte* data, uint64_t nbytes, int32_t device,
                                        storage::Storage::ReleaseFunction release, void* context,
                                        bool read_only);

struct CudaShareOptions {
  // kNone: as the memory can travel, PyTorch's way first.
  CudaTransport transport = CudaTransport::kNone;
  CudaForm form = CudaForm::kA;  // of an IPC handle
  // A read-only storage, too: nothing keeps its receiver from writing.
  bool let_write = false;
};
// What was given to the stream until now is done before the receiver's stream goes on. Each handle
// is for one receiver, who opens it once.
Result<CudaHandle> share_cuda(const Ref<storage::Storage>& storage, cuda::Stream stream,
                              const CudaShareOptions& options);

struct CudaOpenOptions {
  int32_t device = -1;  // in this process's numbering; -1: as the handle says
  // So that no work of this process can write it. Not by an IPC handle, nor by a pool.
  bool read_only = false;
  // Also when its last storage has gone, for the next handle of the same memory.
  bool keep_open = false;
  // Fetch the fds of PyTorch's segments from a process of another user, too.
  bool other_user = false;
};
// What is given to the stream from now on waits for the sender's. It counts as used in that stream
// until the storage goes.
Result<Ref<storage::Storage>> open_cuda(const CudaHandle& handle, cuda::Stream stream,
                                        const CudaOpenOptions& options);

// What is given to that stream from now on comes after what was given until now to the streams in
// which the storage is used.
Status order_stream(const storage::Storage& storage, cuda::Stream stream);

// The memory is not given back before what is given to that stream until the storage goes has
// passed.
Status record_stream(const storage::Storage& storage, cuda::Stream stream);

}  // namespace tenon::share
