/// @file
/// Arenas: memory from which many storages are allocated, in one segment. StorageOptions::arena
/// names the arena of a storage. tenon/arena.h has the details.
#ifndef TENON_CPP_ARENA_HPP
#define TENON_CPP_ARENA_HPP

#include <tenon/arena.h>
#include <tenon/cpp/error.hpp>
#include <tenon/cpp/handle.hpp>

#include <cstdint>
#include <optional>
#include <string>

TENON_CPP_BEGIN

// storage.hpp defines Mode.
enum class Mode : tenon_mode;

/// Kinds of memory pages, from ordinary pages upwards.
enum class Pages : tenon_pages {
  /// Transparent huge pages if the machine gives them to shared memory, else ordinary pages.
  kAuto = TENON_PAGES_AUTO,
  /// Ordinary pages, 4 KiB on x86.
  kSmall = TENON_PAGES_SMALL,
  /// Transparent huge pages.
  kThp = TENON_PAGES_THP,
  /// Pages of the pool that the administrator set aside. PyTorch cannot open such memory.
  kHugetlb = TENON_PAGES_HUGETLB
};

/// How to make an arena.
struct ArenaOptions {
  /// The mode of all storages in the arena: Mode::kShared or Mode::kLenderWrites.
  Mode mode{};
  /// The most bytes that the arena can hold. 0 means as much address space as is available, at most
  /// 1 TiB.
  std::uint64_t capacity_nbytes = 0;
  /// The alignment of each storage in bytes, a power of two from 64 to 4096. 0 means 64.
  std::uint64_t alignment = 0;
  /// The pages to ask for. stats() tells which pages the arena got.
  Pages pages = Pages::kAuto;
  /// For Pages::kHugetlb: the size of the pool's pages in bytes. 0 means the machine's default.
  std::uint64_t huge_page_nbytes = 0;
  /// Take memory of this NUMA node only.
  std::optional<std::int32_t> numa_node = std::nullopt;
  /// The memory is never swapped out. It counts against RLIMIT_MEMLOCK.
  bool locked = false;
  /// If the machine cannot give the requested pages or the requested node, the call fails.
  /// Otherwise the arena takes the next best memory, and stats() tells its kind.
  bool exact = false;
  /// How many bytes, from the arena's start, the service thread prepares in the background.
  std::uint64_t prefault_nbytes = 0;
};

/// Figures about the contents of an arena and the kind of its memory, at one moment. tenon/arena.h
/// explains each figure.
using ArenaStats = tenon_arena_stats;

/// An arena, whose storages share one fd and one mapping in this process and in each borrower.
/// Memory is taken from the system as the arena fills. A copy of the object is another reference.
/// The memory is freed once the last reference and the last storage in the arena are released and
/// the last lease on the arena has ended. A borrower of one byte of an arena can read the whole
/// arena. In Mode::kShared it can also write to the whole arena.
class Arena : public detail::Counted<Arena, tenon_arena, tenon_arena_retain, tenon_arena_release> {
 public:
  /// Makes an arena.
  static Result<Arena> try_make(const ArenaOptions& options = {}) {
    tenon_arena_options c{};
    c.struct_size = sizeof c;
    c.mode = static_cast<tenon_mode>(options.mode);
    c.flags = (options.locked ? std::uint32_t{TENON_ARENA_LOCKED} : 0U) |
              (options.exact ? std::uint32_t{TENON_ARENA_EXACT} : 0U);
    c.capacity_nbytes = options.capacity_nbytes;
    c.alignment = options.alignment;
    c.pages = static_cast<tenon_pages>(options.pages);
    if (options.numa_node) {
      if (*options.numa_node < 0 || *options.numa_node == INT32_MAX)
        return detail::wrong("numa_node " + std::to_string(*options.numa_node) +
                             " is no node; leave it unset for any");
      c.numa_node_plus_1 = *options.numa_node + 1;
    }
    c.huge_page_nbytes = options.huge_page_nbytes;
    c.prefault_nbytes = options.prefault_nbytes;
    return detail::make<Arena>(
        [&](tenon_arena** out, tenon_error** err) { return tenon_arena_new(&c, out, err); });
  }

  /// Gives the figures of this moment.
  Result<ArenaStats> try_stats() const {
    return detail::fill<ArenaStats>([&](tenon_arena_stats* out, tenon_error** err) {
      return tenon_arena_stats_get(get(), out, err);
    });
  }

  /// Takes memory from the system before it is needed: `nbytes` bytes from the arena's start. A
  /// number above the capacity means the whole arena.
  Result<void> try_reserve(std::uint64_t nbytes) {
    return detail::call([&](tenon_error** err) { return tenon_arena_reserve(get(), nbytes, err); });
  }

#ifndef TENON_NO_EXCEPTIONS
  // Each function throws the error that its try_ form returns.
  static Arena make(const ArenaOptions& options = {}) { return try_make(options).value(); }
  ArenaStats stats() const { return try_stats().value(); }
  void reserve(std::uint64_t nbytes) { try_reserve(nbytes).value(); }
#endif
};

TENON_CPP_END

#endif
