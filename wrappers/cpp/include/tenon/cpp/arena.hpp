// Arenas: one segment in which many storages are born. StorageOptions::arena says in which.
#ifndef TENON_CPP_ARENA_HPP
#define TENON_CPP_ARENA_HPP

#include <tenon/arena.h>
#include <tenon/cpp/error.hpp>
#include <tenon/cpp/handle.hpp>

#include <cstdint>
#include <optional>
#include <string>

TENON_CPP_BEGIN

enum class Mode : tenon_mode;  // storage.hpp

/// Kinds of pages, from the ordinary up.
enum class Pages : tenon_pages {
  kAuto = TENON_PAGES_AUTO,       ///< transparent huge pages where the machine gives them to shared memory, else ordinary ones
  kSmall = TENON_PAGES_SMALL,     ///< ordinary pages, 4 KiB on x86
  kThp = TENON_PAGES_THP,         ///< transparent huge pages
  kHugetlb = TENON_PAGES_HUGETLB  ///< pages of the pool that the administrator set aside; PyTorch cannot open such memory
};

/// How an arena is made.
struct ArenaOptions {
  Mode mode{};                                           ///< Mode::kShared or Mode::kLenderWrites; of all its storages
  std::uint64_t capacity_nbytes = 0;                     ///< most that it can hold; 0: as much address space as can be had, at most 1 TiB
  std::uint64_t alignment = 0;                           ///< of each storage, bytes, a power of two from 64 to 4096; 0: 64
  Pages pages = Pages::kAuto;                            ///< what stats() tells that it got
  std::uint64_t huge_page_nbytes = 0;                    ///< Pages::kHugetlb: size of the pool's pages; 0: the machine's default
  std::optional<std::int32_t> numa_node = std::nullopt;  ///< memory of that node only
  bool locked = false;                                   ///< never swapped out; counts against RLIMIT_MEMLOCK
  bool exact = false;                                    ///< pages or node that cannot be had are an error, not told by stats() alone
  std::uint64_t prefault_nbytes = 0;                     ///< memory that is made ready in the background
};

/// What an arena holds and what it got, of one moment; tenon/arena.h says what each is.
using ArenaStats = tenon_arena_stats;

/// One fd and one mapping, here and at each borrower, for all storages that are born in it. Memory is taken as it fills. A copy of the
/// object is one more reference; the memory goes with the last one, the last storage in it and the last lease on it. Who is lent one byte
/// of it can read all of it, and in Mode::kShared write all of it.
class Arena : public detail::Counted<Arena, tenon_arena, tenon_arena_retain, tenon_arena_release> {
 public:
  /// Make an arena.
  static Result<Arena> try_make(const ArenaOptions& options = {}) {
    tenon_arena_options c{};
    c.struct_size = sizeof c;
    c.mode = static_cast<tenon_mode>(options.mode);
    c.flags = (options.locked ? std::uint32_t{TENON_ARENA_LOCKED} : 0U) | (options.exact ? std::uint32_t{TENON_ARENA_EXACT} : 0U);
    c.capacity_nbytes = options.capacity_nbytes;
    c.alignment = options.alignment;
    c.pages = static_cast<tenon_pages>(options.pages);
    if (options.numa_node) {
      if (*options.numa_node < 0 || *options.numa_node == INT32_MAX)
        return detail::wrong("numa_node " + std::to_string(*options.numa_node) + " is no node; leave it unset for any");
      c.numa_node_plus_1 = *options.numa_node + 1;
    }
    c.huge_page_nbytes = options.huge_page_nbytes;
    c.prefault_nbytes = options.prefault_nbytes;
    return detail::make<Arena>([&](tenon_arena** out, tenon_error** err) { return tenon_arena_new(&c, out, err); });
  }

  /// What it holds and what it got, now.
  Result<ArenaStats> try_stats() const {
    return detail::fill<ArenaStats>([&](tenon_arena_stats* out, tenon_error** err) { return tenon_arena_stats_get(get(), out, err); });
  }

  /// Take memory from the system ahead of need: `nbytes` from the arena's start; more than its capacity means all of it.
  Result<void> try_reserve(std::uint64_t nbytes) {
    return detail::call([&](tenon_error** err) { return tenon_arena_reserve(get(), nbytes, err); });
  }

#ifndef TENON_NO_EXCEPTIONS
  // Each throws what its try_ form returns.
  static Arena make(const ArenaOptions& options = {}) { return try_make(options).value(); }
  ArenaStats stats() const { return try_stats().value(); }
  void reserve(std::uint64_t nbytes) { try_reserve(nbytes).value(); }
#endif
};

TENON_CPP_END

#endif
