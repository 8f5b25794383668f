#include <tenon/arena.h>

#include "base/checked.h"
#include "boundary.h"
#include "handles.h"
#include "memory/arena.h"

using namespace tenon::capi;
using tenon::Ref;
using tenon::Status;
using tenon::memory::Arena;
using tenon::memory::ArenaOptions;
using tenon::memory::ArenaStats;
using tenon::memory::Mode;

extern "C" {

tenon_status tenon_arena_new(const tenon_arena_options* options, tenon_arena** out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(const tenon_arena_options given, read_struct(options, "tenon_arena_options"));
    TENON_TRY(check_flags(given.flags, TENON_ARENA_LOCKED | TENON_ARENA_EXACT, "tenon_arena_options"));
    TENON_TRY(check_argument(given.mode <= TENON_MODE_FROZEN, "the mode is none of SHARED and LENDER_WRITES"));
    if (given.mode == TENON_MODE_FROZEN) {
      return Status(tenon::Code::kUnsupported, "an arena cannot be FROZEN: a frozen storage has a segment of its own")
          .with("field", std::string("mode"));
    }
    const uint64_t alignment = given.alignment == 0 ? tenon::memory::kBlockAlignment : given.alignment;
    TENON_TRY(check_argument(tenon::is_power_of_two(alignment) && alignment >= tenon::memory::kBlockAlignment && alignment <= 4096,
                             "the alignment is no power of two from 64 to 4096"));
    ArenaOptions wanted;
    wanted.mode = static_cast<Mode>(given.mode);
    wanted.capacity_nbytes = given.capacity_nbytes;
    wanted.alignment = alignment;
    TENON_ASSIGN(Ref<Arena> arena, Arena::create(wanted));
    *out = handle<tenon_arena>(arena.detach());
    return Status::ok();
  });
}

tenon_arena* tenon_arena_retain(tenon_arena* arena) noexcept {
  if (arena != nullptr) object(arena)->retain();
  return arena;
}

void tenon_arena_release(tenon_arena* arena) noexcept {
  if (arena != nullptr) object(arena)->release();
}

tenon_status tenon_arena_stats_get(const tenon_arena* arena, tenon_arena_stats* out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(arena != nullptr, "arena is NULL"));
    TENON_TRY(check_output(out, "tenon_arena_stats"));
    const ArenaStats now = object(arena)->stats();
    tenon_arena_stats stats{};
    stats.bytes_capacity = now.capacity_nbytes;
    stats.bytes_reserved = now.reserved_nbytes;
    stats.bytes_live = now.live_nbytes;
    stats.bytes_lent = now.lent_nbytes;
    stats.bytes_free = now.free_nbytes;
    stats.bytes_largest_free = now.largest_free_nbytes;
    stats.bytes_retired = now.retired_nbytes;
    stats.bytes_peak = now.peak_nbytes;
    stats.blocks_live = now.live_blocks;
    stats.blocks_lent = now.lent_blocks;
    // At most 2^40 bytes by default and 2^63 by choice: a double is exact enough for thousandths.
    if (now.free_nbytes > 0) {
      const double share = static_cast<double>(now.largest_free_nbytes) / static_cast<double>(now.free_nbytes);
      stats.fragmentation = static_cast<uint32_t>((1.0 - share) * 1000.0);
    }
    stats.numa_node = -1;
    write_struct(out, stats);
    return Status::ok();
  });
}

tenon_status tenon_arena_reserve(tenon_arena* arena, uint64_t nbytes, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(arena != nullptr, "arena is NULL"));
    return object(arena)->reserve(nbytes);
  });
}
}
