/// @file
/// Arenas on a CUDA device: one allocation, and so one handle, for many storages.
/// tenon/cuda_arena.h has the details.
#ifndef TENON_CPP_CUDA_ARENA_HPP
#define TENON_CPP_CUDA_ARENA_HPP

#include <tenon/cuda_arena.h>
#include <tenon/cpp/by_cuda.hpp>
#include <tenon/cpp/error.hpp>
#include <tenon/cpp/handle.hpp>
#include <tenon/cpp/storage.hpp>
#include <tenon/cpp/wait.hpp>

#include <cstdint>

TENON_CPP_BEGIN

/// How to make an arena on a device.
struct CudaArenaOptions {
  /// The device's ordinal in this process's numbering.
  std::int32_t device = 0;
  /// The transport of the memory: kIpc, kFd or kFabric. kNoMemory means kIpc if the device has it,
  /// otherwise kFd.
  CudaTransport transport = CudaTransport::kNoMemory;
  /// The size in bytes, rounded up to a size that the device can allocate. All of it is allocated
  /// at once.
  std::uint64_t capacity_nbytes = 0;
};

/// Figures about the contents of an arena on a device, at one moment. tenon/cuda_arena.h explains
/// each figure.
using CudaArenaStats = tenon_cuda_arena_stats;

/// An arena on a device: one allocation in which many storages lie. A receiver opens the allocation
/// once for all of them, whether they come over a connection, by share_cuda or through PyTorch. A
/// copy of the object is another reference. The memory is freed once the last reference and the
/// last storage are released and no receiver or stream keeps a block. A borrower of one byte of the
/// arena can read and write the whole arena.
class CudaArena : public detail::Counted<CudaArena, tenon_cuda_arena, tenon_cuda_arena_retain,
                                         tenon_cuda_arena_release> {
 public:
  /// Makes an arena.
  static Result<CudaArena> try_make(const CudaArenaOptions& options) {
    tenon_cuda_arena_options c{};
    c.struct_size = sizeof c;
    c.device = options.device;
    c.transport = static_cast<tenon_cuda_transport>(options.transport);
    c.capacity_nbytes = options.capacity_nbytes;
    return detail::make<CudaArena>([&](tenon_cuda_arena** out, tenon_error** err) {
      return tenon_cuda_arena_new(&c, out, err);
    });
  }

  /// Allocates a storage in the arena. Its bytes are unspecified. A full arena gives
  /// kResourceExhausted, and after a wait kTimeout. The detail "holders" then says which processes
  /// hold lent memory. A block is free once its storage is released, the work in the streams that
  /// used the storage is complete, and every receiver has released the storage. A receiver that is
  /// killed counts as having released a storage that came over a connection.
  Result<Storage> try_allocate(std::uint64_t nbytes, const Wait& wait = {}) {
    tenon_storage* out = nullptr;
    const Result<void> called =
        detail::waiting(wait, [&](const tenon_wait* waiting, tenon_error** err) {
          return tenon_cuda_arena_allocate(get(), nbytes, waiting, &out, err);
        });
    if (!called) return called.error();
    return Storage::adopt(out);
  }

  /// Gives the figures of this moment. Before that, the call checks for blocks that were given
  /// back.
  Result<CudaArenaStats> try_stats() const {
    return detail::fill<CudaArenaStats>([&](tenon_cuda_arena_stats* out, tenon_error** err) {
      return tenon_cuda_arena_stats_get(get(), out, err);
    });
  }

#ifndef TENON_NO_EXCEPTIONS
  // Each function throws the error that its try_ form returns.
  static CudaArena make(const CudaArenaOptions& options) { return try_make(options).value(); }
  Storage allocate(std::uint64_t nbytes, const Wait& wait = {}) {
    return try_allocate(nbytes, wait).value();
  }
  CudaArenaStats stats() const { return try_stats().value(); }
#endif
};

TENON_CPP_END

#endif
