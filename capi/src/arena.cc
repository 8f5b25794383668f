// tenon/arena.h: arenas that a program makes (impl/memory/arena.h).
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
using tenon::memory::Backing;
using tenon::memory::Mode;
using tenon::memory::Pages;

static_assert(static_cast<uint32_t>(Pages::kSmall) == TENON_PAGES_SMALL &&
              static_cast<uint32_t>(Pages::kThp) == TENON_PAGES_THP &&
              static_cast<uint32_t>(Pages::kHugetlb) == TENON_PAGES_HUGETLB);

extern "C" {

tenon_status tenon_arena_new(const tenon_arena_options* options, tenon_arena** out,
                             tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    tenon_arena_options given{};
    TENON_TRY(read_struct(options, "tenon_arena_options", &given));
    TENON_TRY(
        check_flags(given.flags, TENON_ARENA_LOCKED | TENON_ARENA_EXACT, "tenon_arena_options"));
    TENON_TRY(check_argument(given.mode <= TENON_MODE_FROZEN,
                             "the mode is none of SHARED and LENDER_WRITES"));
    if (given.mode == TENON_MODE_FROZEN) {
      return Status(tenon::Code::kUnsupported,
                    "an arena cannot be FROZEN: a frozen storage has a segment of its own")
          .with("field", std::string("mode"));
    }
    const uint64_t alignment =
        given.alignment == 0 ? tenon::memory::kBlockAlignment : given.alignment;
    TENON_TRY(check_argument(tenon::is_power_of_two(alignment) &&
                                 alignment >= tenon::memory::kBlockAlignment && alignment <= 4096,
                             "the alignment is no power of two from 64 to 4096"));
    ArenaOptions wanted;
    wanted.mode = static_cast<Mode>(given.mode);
    wanted.capacity_nbytes = given.capacity_nbytes;
    wanted.alignment = alignment;
    TENON_TRY(check_argument(given.pages <= TENON_PAGES_HUGETLB,
                             "the pages are none of AUTO, SMALL, THP and HUGETLB"));
    TENON_TRY(check_argument(given.numa_node_plus_1 >= 0, "the node is negative"));
    wanted.backing.pages = static_cast<Pages>(given.pages);
    wanted.backing.huge_page_nbytes = given.huge_page_nbytes;
    wanted.backing.numa_node = given.numa_node_plus_1 - 1;
    wanted.backing.lock = (given.flags & TENON_ARENA_LOCKED) != 0;
    wanted.backing.exact = (given.flags & TENON_ARENA_EXACT) != 0;
    wanted.prefault_nbytes = given.prefault_nbytes;
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

tenon_status tenon_arena_stats_get(const tenon_arena* arena, tenon_arena_stats* out,
                                   tenon_error** err) noexcept {
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
    // An arena has at most 2^40 bytes by default and 2^63 by choice. A double is exact enough for
    // thousandths of that.
    if (now.free_nbytes > 0) {
      const double share =
          static_cast<double>(now.largest_free_nbytes) / static_cast<double>(now.free_nbytes);
      stats.fragmentation = static_cast<uint32_t>((1.0 - share) * 1000.0);
    }
    const Backing got = object(arena)->describe_backing();
    stats.pages = static_cast<tenon_pages>(got.pages);
    stats.page_nbytes = got.page_nbytes;
    stats.numa_node = got.numa_node;
    stats.locked = got.locked ? 1 : 0;
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
