// Arenas of device memory: one allocation, and so one handle, for many storages.
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

/// How an arena on a device is made.
struct CudaArenaOptions {
  std::int32_t device = 0;  ///< ordinal in this process's numbering
  CudaTransport transport =
      CudaTransport::kNoMemory;       ///< how it is to be lent: kIpc, kFd, kFabric; kNoMemory: kIpc where it can be, else kFd
  std::uint64_t capacity_nbytes = 0;  ///< bytes, all of which are taken at once; rounded up to what the device gives
};

/// What an arena on a device holds, of one moment; tenon/cuda_arena.h says what each is.
using CudaArenaStats = tenon_cuda_arena_stats;

/// One allocation on a device, which whoever receives its storages opens once, be it over a connection, by share_cuda or in PyTorch. A copy
/// of the object is one more reference; the memory goes with the last one, the last storage in it and the last who keeps it. Who is lent
/// one byte of it can read and write all of it.
class CudaArena : public detail::Counted<CudaArena, tenon_cuda_arena, tenon_cuda_arena_retain, tenon_cuda_arena_release> {
 public:
  /// Make an arena.
  static Result<CudaArena> try_make(const CudaArenaOptions& options) {
    tenon_cuda_arena_options c{};
    c.struct_size = sizeof c;
    c.device = options.device;
    c.transport = static_cast<tenon_cuda_transport>(options.transport);
    c.capacity_nbytes = options.capacity_nbytes;
    return detail::make<CudaArena>([&](tenon_cuda_arena** out, tenon_error** err) { return tenon_cuda_arena_new(&c, out, err); });
  }

  /// A storage in it, whose bytes are what they happen to be. A full arena is kResourceExhausted, whose detail "holders" says who holds
  /// what was lent; after a wait it is kTimeout. A block is free when its storage has gone, the streams in which it was used have passed,
  /// and every receiver has let go or was killed.
  Result<Storage> try_allocate(std::uint64_t nbytes, const Wait& wait = {}) {
    tenon_storage* out = nullptr;
    const Result<void> called = detail::waiting(
        wait, [&](const tenon_wait* waiting, tenon_error** err) { return tenon_cuda_arena_allocate(get(), nbytes, waiting, &out, err); });
    if (!called) return called.error();
    return Storage::adopt(out);
  }

  /// What it holds, now. Looks for what was given back first.
  Result<CudaArenaStats> try_stats() const {
    return detail::fill<CudaArenaStats>(
        [&](tenon_cuda_arena_stats* out, tenon_error** err) { return tenon_cuda_arena_stats_get(get(), out, err); });
  }

#ifndef TENON_NO_EXCEPTIONS
  // Each throws what its try_ form returns.
  static CudaArena make(const CudaArenaOptions& options) { return try_make(options).value(); }
  Storage allocate(std::uint64_t nbytes, const Wait& wait = {}) { return try_allocate(nbytes, wait).value(); }
  CudaArenaStats stats() const { return try_stats().value(); }
#endif
};

TENON_CPP_END

#endif
