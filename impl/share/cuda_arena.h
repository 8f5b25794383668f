// An arena of device memory: one allocation in which many storages lie, and so one handle and one
// open for all of them.
//
// A block is free again when its storage has gone, every stream in which it was used has passed,
// and every receiver has let go: what comes back to a storage's owner comes back to its arena.
// Nobody tells when (cuda_memory.h); who asks for room looks.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "base/fork.h"
#include "base/status.h"
#include "cuda/memory.h"
#include "cuda/vmm.h"
#include "memory/space.h"
#include "os/wait.h"
#include "share/cuda_export.h"
#include "share/cuda_memory.h"
#include "storage/storage.h"

namespace tenon::share {

// As the driver's own allocations are, and PyTorch's.
inline constexpr uint64_t kCudaBlockAlignment = 256;

struct CudaArenaOptions {
  int32_t device = 0;
  // kNone: an IPC handle where the device has such, for PyTorch opens those, else fds.
  CudaTransport transport = CudaTransport::kNone;
  uint64_t capacity_nbytes = 0;
};

struct CudaArenaStats {
  int32_t device = 0;
  CudaTransport transport = CudaTransport::kNone;
  uint64_t capacity_nbytes = 0;
  uint64_t used_nbytes = 0;  // in storages, lent, or waiting for a stream
  uint64_t free_nbytes = 0;
  uint64_t largest_free_nbytes = 0;
  uint64_t peak_nbytes = 0;
  uint64_t used_blocks = 0;
};

class CudaArena final : public CudaEnding {
 public:
  // All of the memory at once.
  static Result<Ref<CudaArena>> create(const CudaArenaOptions& options);
  // Bytes as they happen to be. RESOURCE_EXHAUSTED with limit "arena" if it is full, after the
  // wait's end whatever that came to.
  Result<Ref<storage::Storage>> allocate(uint64_t nbytes, const os::Wait& wait);
  // In a child of fork as of the fork, or everything counts as used where a thread was changing it
  // at that moment.
  CudaArenaStats stats() const;

 private:
  friend class CudaBlock;
  struct Place {
    uint64_t offset = 0;
    uint64_t nbytes = 0;
  };
  explicit CudaArena(const CudaArenaOptions& options) noexcept;
  static Result<Ref<CudaArena>> try_create(const CudaArenaOptions& options);
  Status check_process() const;
  void end() noexcept override;
  Status take_memory(CudaTransport transport);
  bool take(uint64_t nbytes, Place* out);
  Result<Ref<storage::Storage>> make(uint64_t nbytes, const Place& place);
  void give_back(const Place& place) noexcept;
  Result<std::shared_ptr<const CudaExport>> exported(CudaTransport wanted);
  Status full(uint64_t nbytes) const;

  CudaArenaOptions options_;
  uint64_t generation_ = fork_generation();
  cuda::DevicePointer allocated_ = 0;  // by cuMemAlloc, or else mapped
  cuda::PieceMapping mapped_;
  cuda::Allocation memory_;  // either

  mutable std::mutex mutex_;
  memory::Space space_;
  std::shared_ptr<const CudaExport> exported_;
  uint64_t used_nbytes_ = 0;
  uint64_t used_blocks_ = 0;
  uint64_t peak_nbytes_ = 0;
};

}  // namespace tenon::share
