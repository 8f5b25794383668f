// An arena of device memory: one allocation in which many storages lie, so that one handle and one
// opening serve all of them. The C API calls this.
//
// A block is free again when its storage has gone, every stream that used it has done the work that
// was queued by then, and every receiver has let go. Nothing tells the arena when that happens, so
// allocate() checks the memory that waits (collect_cuda_without_waiting() in memory.h) whenever it
// needs room.
//
// The caller of create() and allocate() holds no lock that has a rank (base/lock_rank.h), because
// that check may run owners' release functions. In a forked child create() and allocate() return
// UNSUPPORTED, and the end of an arena or a storage frees nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "base/fork.h"
#include "base/status.h"
#include "cuda/memory.h"
#include "cuda/vmm.h"
#include "device/export.h"
#include "device/memory.h"
#include "memory/free_space.h"
#include "os/wait.h"
#include "storage/storage.h"

namespace tenon::device {

// In bytes. The driver and PyTorch align their allocations to at least this.
inline constexpr uint64_t kCudaBlockAlignment = 256;

struct CudaArenaOptions {
  int32_t device = 0;
  // kNone: an IPC handle where the device has one, because PyTorch opens IPC handles, and otherwise
  // fds.
  CudaTransport transport = CudaTransport::kNone;
  uint64_t capacity_nbytes = 0;  // create() rounds it up to what the driver allocates
};

struct CudaArenaStats {
  int32_t device = 0;
  CudaTransport transport = CudaTransport::kNone;
  uint64_t capacity_nbytes = 0;
  uint64_t used_nbytes = 0;  // in use by a storage, lent, or waiting for a stream
  uint64_t free_nbytes = 0;
  uint64_t largest_free_nbytes = 0;
  uint64_t peak_nbytes = 0;
  uint64_t used_blocks = 0;
};

// The block of each storage (CudaBlock in arena.cc) has a reference to the arena. So the device
// memory goes when the last reference and the last block have gone. Freeing it may wait for the
// device, so a collection that must not wait puts it off (CudaEnding).
class CudaArena final : public CudaEnding {
 public:
  // Allocates the whole capacity at once. INVALID_ARGUMENT: there is no such device, the capacity
  // is 0 or cannot be rounded up, or the transport is kPool. UNSUPPORTED: no driver, or the memory
  // cannot be lent by the transport. RESOURCE_EXHAUSTED: the device has too little memory.
  static Result<Ref<CudaArena>> create(const CudaArenaOptions& options);
  // The bytes of the storage are not initialised. If the arena is full, the call checks for room
  // again and again, with pauses of at most 1 ms. RESOURCE_EXHAUSTED with detail limit "arena": the
  // timeout is 0, or the storage is larger than the arena. Otherwise the status with which the wait
  // ended (such as TIMEOUT), with the same details.
  Result<Ref<storage::Storage>> allocate(uint64_t nbytes, const os::Wait& wait);
  // In a forked child these are the figures at the fork. If another thread was changing them at
  // that moment, all of the capacity counts as used.
  CudaArenaStats stats() const;

 private:
  friend class CudaBlock;
  struct Range {
    uint64_t offset = 0;
    uint64_t nbytes = 0;
  };
  explicit CudaArena(const CudaArenaOptions& options) noexcept;
  static Result<Ref<CudaArena>> try_create(const CudaArenaOptions& options);
  Status check_process() const;
  void end() noexcept override;
  Status take_memory(CudaTransport transport);
  bool take(uint64_t nbytes, Range* out);
  Result<Ref<storage::Storage>> make(uint64_t nbytes, const Range& place);
  void give_back(const Range& place) noexcept;
  Result<std::shared_ptr<const CudaExport>> exported(CudaTransport wanted);
  Status full(uint64_t nbytes) const;

  CudaArenaOptions options_;
  uint64_t generation_ = fork_generation();
  cuda::DevicePointer allocated_ = 0;  // from cuMemAlloc; 0: the memory is in `mapped_`
  cuda::PieceMapping mapped_;
  cuda::Allocation memory_;  // what the driver says about the memory, allocated or mapped

  mutable std::mutex mutex_;
  memory::FreeSpace space_;
  std::shared_ptr<const CudaExport> exported_;
  uint64_t used_nbytes_ = 0;
  uint64_t used_blocks_ = 0;
  uint64_t peak_nbytes_ = 0;
};

}  // namespace tenon::device
