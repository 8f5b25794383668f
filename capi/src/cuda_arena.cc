// tenon/cuda_arena.h: arenas of device memory (impl/device/arena.h).
#include <tenon/cuda_arena.h>

#include "boundary.h"
#include "device/arena.h"
#include "device/memory.h"
#include "handles.h"
#include "wait.h"

using namespace tenon::capi;
using tenon::Ref;
using tenon::Status;
using tenon::device::CudaArena;
using tenon::device::CudaArenaOptions;
using tenon::device::CudaArenaStats;
using tenon::device::CudaTransport;

extern "C" {

tenon_status tenon_cuda_arena_new(const tenon_cuda_arena_options* options, tenon_cuda_arena** out,
                                  tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_TRY(check_argument(options != nullptr, "options is NULL"));
    tenon_cuda_arena_options given{};
    TENON_TRY(read_struct(options, "tenon_cuda_arena_options", &given));
    TENON_TRY(check_argument(given.device >= 0, "the device is negative"));
    TENON_TRY(check_argument(given.transport <= TENON_CUDA_POOL,
                             "the transport is none of TENON_CUDA_*"));
    CudaArenaOptions wanted;
    wanted.device = given.device;
    wanted.transport = static_cast<CudaTransport>(given.transport);
    wanted.capacity_nbytes = given.capacity_nbytes;
    TENON_ASSIGN(Ref<CudaArena> arena, CudaArena::create(wanted));
    *out = handle<tenon_cuda_arena>(arena.detach());
    return Status::ok();
  });
}

tenon_cuda_arena* tenon_cuda_arena_retain(tenon_cuda_arena* arena) noexcept {
  if (arena != nullptr) object(arena)->retain();
  return arena;
}

void tenon_cuda_arena_release(tenon_cuda_arena* arena) noexcept {
  if (arena != nullptr) object(arena)->release();
}

tenon_status tenon_cuda_arena_allocate(tenon_cuda_arena* arena, uint64_t nbytes,
                                       const tenon_wait* wait, tenon_storage** out,
                                       tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(arena != nullptr, "arena is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    tenon::os::Wait how{.timeout_ns = 0};
    if (wait != nullptr) {
      TENON_ASSIGN(how, read_wait(wait));
    }
    TENON_ASSIGN(auto storage, object(arena)->allocate(nbytes, how));
    *out = handle<tenon_storage>(storage.detach());
    return Status::ok();
  });
}

tenon_status tenon_cuda_arena_stats_get(const tenon_cuda_arena* arena, tenon_cuda_arena_stats* out,
                                        tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(arena != nullptr, "arena is NULL"));
    TENON_TRY(check_output(out, "tenon_cuda_arena_stats"));
    tenon::device::collect_cuda_without_waiting();
    const CudaArenaStats stats = object(arena)->stats();
    tenon_cuda_arena_stats value{};
    value.device = stats.device;
    value.transport = static_cast<tenon_cuda_transport>(stats.transport);
    value.bytes_capacity = stats.capacity_nbytes;
    value.bytes_used = stats.used_nbytes;
    value.bytes_free = stats.free_nbytes;
    value.bytes_largest_free = stats.largest_free_nbytes;
    value.bytes_peak = stats.peak_nbytes;
    value.blocks_used = stats.used_blocks;
    write_struct(out, value);
    return Status::ok();
  });
}
}
