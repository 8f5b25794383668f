// These tests check what an arena gives out and takes back: modes, alignment, room, reuse, growth
// and figures.
#include <sys/file.h>

#include "process/lease/agent.h"
#include "support/seed.h"

namespace leases {
namespace {

uintptr_t address(const tenon_storage* storage) {
  return reinterpret_cast<uintptr_t>(tenon_storage_data(storage));
}

TEST(Arena, Modes) {
  IN_CHILD([] {
    for (const tenon_mode mode : {TENON_MODE_SHARED, TENON_MODE_LENDER_WRITES}) {
      const Arena arena(kMiB, mode);
      tenon_storage* storage = new_in(arena, 1000, 3);
      CHECK_EQ(tenon_storage_mode(storage), mode);
      CHECK(names::shows_pattern(storage, 3));
      CHECK(tenon_storage_is_shared(storage) == 1 && tenon_storage_is_sealed(storage) == 1 &&
            tenon_storage_is_read_only(storage) == 0);
      // The options may name the arena's own mode. Another mode is refused.
      tenon_storage_options options = born_in(arena);
      options.mode = mode;
      tenon_storage* other = nullptr;
      CHECK_OK(tenon_storage_new(&options, 1, &other, err));
      tenon_storage_release(other);
      if (mode == TENON_MODE_SHARED) {
        options.mode = TENON_MODE_LENDER_WRITES;
        other = nullptr;
        CHECK_STATUS(TENON_INVALID_ARGUMENT, tenon_storage_new(&options, 1, &other, err));
        CHECK(other == nullptr);
      }
      tenon_storage_release(storage);
    }
  });
}

TEST(Arena, WhatItIsNotFor) {
  IN_CHILD([] {
    tenon_arena* arena = nullptr;
    tenon_arena_options options = arena_options(kMiB, TENON_MODE_FROZEN);
    CHECK_STATUS(TENON_UNSUPPORTED, tenon_arena_new(&options, &arena, err));
    for (const uint64_t alignment : {uint64_t{1}, uint64_t{32}, uint64_t{96}, uint64_t{8192}}) {
      options = arena_options(kMiB);
      options.alignment = alignment;
      CHECK_STATUS(TENON_INVALID_ARGUMENT, tenon_arena_new(&options, &arena, err));
    }
    options = arena_options(kMiB);
    options.flags = 64;
    CHECK_STATUS(TENON_UNSUPPORTED, tenon_arena_new(&options, &arena, err));
    options = arena_options(kMiB, 7);
    CHECK_STATUS(TENON_INVALID_ARGUMENT, tenon_arena_new(&options, &arena, err));
    options = arena_options(kMiB);
    options.pages = 9;
    CHECK_STATUS(TENON_INVALID_ARGUMENT, tenon_arena_new(&options, &arena, err));
    options = arena_options(UINT64_MAX);
    CHECK_STATUS(TENON_INVALID_ARGUMENT, tenon_arena_new(&options, &arena, err));
    options = arena_options(kMiB);
    CHECK_STATUS(TENON_INVALID_ARGUMENT, tenon_arena_new(&options, nullptr, err));
    CHECK(arena == nullptr);
    arena = new_arena(kMiB);
    for (const uint32_t flags : {TENON_STORAGE_ISOLATED, TENON_STORAGE_PRIVATE}) {
      tenon_storage_options born = born_in(arena);
      born.flags = flags;
      tenon_storage* storage = nullptr;
      CHECK_STATUS(TENON_INVALID_ARGUMENT, tenon_storage_new(&born, 100, &storage, err));
      CHECK_STATUS(TENON_INVALID_ARGUMENT, tenon_storage_new_from(&born, "x", 1, &storage, err));
      CHECK(storage == nullptr);
    }
    tenon_arena_release(arena);
    tenon_arena_release(nullptr);
    CHECK(tenon_arena_retain(nullptr) == nullptr);
  });
}

TEST(Arena, Alignment) {
  IN_CHILD([] {
    for (const uint64_t alignment : {uint64_t{0}, uint64_t{64}, uint64_t{256}, uint64_t{4096}}) {
      tenon_arena_options options = arena_options(kMiB);
      options.alignment = alignment;
      tenon_arena* arena = nullptr;
      REQUIRE_OK(tenon_arena_new(&options, &arena, err));
      std::vector<tenon_storage*> all;
      for (const uint64_t nbytes : {1, 63, 64, 65, 100, 1000, 4097, 10'000}) {
        all.push_back(new_in(arena, nbytes, nbytes));
        CHECK_EQ(address(all.back()) % std::max<uint64_t>(alignment, 64), 0);
        // A storage may have a larger alignment than its arena.
        tenon_storage_options more = born_in(arena);
        more.alignment = 1024;
        tenon_storage* aligned = nullptr;
        REQUIRE_OK(tenon_storage_new(&more, nbytes, &aligned, err));
        CHECK_EQ(address(aligned) % 1024, 0);
        names::put_pattern(aligned, nbytes);
        all.push_back(aligned);
      }
      for (tenon_storage* each : all) CHECK(names::shows_pattern(each, tenon_storage_nbytes(each)));
      for (tenon_storage* each : all) tenon_storage_release(each);
      // In whatever order the blocks lay, they are one free piece again.
      CHECK_COMES_BACK(arena, kMiB);
      tenon_arena_release(arena);
    }
  });
}

TEST(Arena, Full) {
  IN_CHILD([] {
    const Arena arena(kMiB);
    tenon_storage* half = new_in(arena, kMiB / 2, 1);
    Outcome outcome = CHECK_FULL(arena, kMiB);
    CHECK_EQ(std::stoull(outcome.detail("limit_value")), kMiB);
    CHECK_EQ(std::stoull(outcome.detail("live")), kMiB / 2);
    CHECK_EQ(std::stoull(outcome.detail("lent")), 0);
    CHECK_SAYING(outcome.detail("holders") == "nobody", outcome.text());
    CHECK_SAYING(outcome.message.find("1048576") != std::string::npos, outcome.text());
    // The request is larger than the arena can ever be. No wait would help, so the call does not
    // wait.
    tenon_storage* storage = nullptr;
    outcome = try_new(arena, kMiB + 1, &storage, -1);
    CHECK_SAYING(outcome.status == TENON_RESOURCE_EXHAUSTED && outcome.detail("limit") == "arena",
                 outcome.text());
    outcome = try_new(arena, UINT64_MAX, &storage, -1);
    CHECK_SAYING(outcome.status == TENON_RESOURCE_EXHAUSTED, outcome.text());
    tenon_storage* rest = new_in(arena, kMiB / 2, 2);
    CHECK_FULL(arena, 1);
    CHECK(names::shows_pattern(half, 1) && names::shows_pattern(rest, 2));
    tenon_storage_release(half);
    tenon_storage_release(rest);
    CHECK_COMES_BACK(arena, kMiB);
    // An empty storage needs no room.
    tenon_storage* all = new_in(arena, kMiB, 1);
    CHECK_OK(tenon_storage_new(nullptr, 0, &storage, err));
    tenon_storage_release(storage);
    CHECK_SAYING(try_new(arena, 0, &storage).ok(), "an empty one in a full arena");
    tenon_storage_release(storage);
    tenon_storage_release(all);
  });
}

TEST(Arena, ReuseIsWarm) {
  IN_CHILD([] {
    const Arena arena(64 * kMiB);
    tenon_storage* stays = new_in(arena, 5000, 1);
    tenon_storage* storage = new_in(arena, 100'000, 2);
    const uintptr_t first = address(storage);
    const uint64_t reserved = stats(arena).bytes_reserved;
    for (uint64_t round = 0; round < 1000; ++round) {
      tenon_storage_release(storage);
      storage = new_in(arena, 100'000 - round % 100, round);
      CHECK(address(storage) == first);
    }
    CHECK_EQ(stats(arena).bytes_reserved, reserved);
    // A storage that is alone in its arena gets the same block again, too.
    tenon_storage_release(stays);
    tenon_storage_release(storage);
    storage = new_in(arena, 100'000, 3);
    const uintptr_t alone = address(storage);
    tenon_storage_release(storage);
    storage = new_in(arena, 100'000, 3);
    CHECK(address(storage) == alone);
    tenon_storage_release(storage);
  });
}

TEST(Arena, Grows) {
  IN_CHILD([] {
    const Arena arena(0);
    tenon_arena_stats now = stats(arena);
    CHECK(now.bytes_capacity > 64 * kMiB || kSanitized);
    CHECK_EQ(now.bytes_reserved, 0);
    const long fds = fault::count_open_fds();
    const long mappings = count_memfd_mappings();
    std::vector<tenon_storage*> all;
    for (uint64_t i = 0; i < 20; ++i) {
      all.push_back(new_in(arena, kMiB, i));
      now = stats(arena);
      CHECK_EQ(now.bytes_live, (i + 1) * kMiB);
      CHECK(now.bytes_reserved >= now.bytes_live &&
            now.bytes_reserved <= 2 * now.bytes_live + 17 * kMiB);
    }
    CHECK_EQ(fault::count_open_fds(), fds);
    CHECK_EQ(count_memfd_mappings(), mappings);
    for (uint64_t i = 0; i < all.size(); ++i) CHECK(names::shows_pattern(all[i], i));
    for (tenon_storage* each : all) tenon_storage_release(each);
    CHECK_EQ(stats(arena).bytes_peak, 20 * kMiB);
    CHECK_EQ(stats(arena).bytes_live, 0);
  });
}

TEST(Arena, StorageOutlivesItsArena) {
  IN_CHILD([] {
    const fault::Held before = fault::hold();
    tenon_arena* arena = new_arena(kMiB);
    CHECK(tenon_arena_retain(arena) == arena);
    tenon_arena_release(arena);
    tenon_storage* storage = new_in(arena, 100'000, 7);
    tenon_storage* other = new_in(arena, 100'000, 8);
    tenon_arena_release(arena);
    CHECK(names::shows_pattern(storage, 7));
    tenon_storage_release(storage);
    CHECK(names::shows_pattern(other, 8));
    CHECK_EQ(count_memfd_mappings(), before.mappings + 2);  // the segment and the board
    tenon_storage_release(other);
    CHECK_HELD(before);
  });
}

TEST(Arena, NewFrom) {
  IN_CHILD([] {
    for (const tenon_mode mode : {TENON_MODE_SHARED, TENON_MODE_LENDER_WRITES}) {
      const Arena arena(16 * kMiB, mode);
      const tenon_storage_options options = born_in(arena);
      for (const uint64_t nbytes : {uint64_t{0}, uint64_t{1}, uint64_t{4095}, uint64_t{4096},
                                    uint64_t{1'000'003}, 9 * kMiB}) {
        // The storage is made in fresh memory, and then in the same block again.
        for (uint64_t round = 0; round < 2; ++round) {
          const std::vector<unsigned char> bytes = fault::pattern(nbytes, nbytes + round);
          tenon_storage* storage = nullptr;
          REQUIRE_OK(tenon_storage_new_from(&options, bytes.data(), nbytes, &storage, err));
          CHECK_EQ(tenon_storage_nbytes(storage), nbytes);
          CHECK(names::shows_pattern(storage, nbytes + round));
          if (nbytes > 0) CHECK(stats(arena).bytes_live >= nbytes);
          tenon_storage_release(storage);
        }
      }
      CHECK_EQ(stats(arena).bytes_live, 0);
    }
  });
}

TEST(Arena, ZeroedWhenAskedFor) {
  IN_CHILD([] {
    const Arena arena(kMiB);
    tenon_storage_release(new_in(arena, 10'000, 5));
    tenon_storage_options options = born_in(arena);
    options.flags = TENON_STORAGE_ZEROED;
    tenon_storage* storage = nullptr;
    REQUIRE_OK(tenon_storage_new(&options, 10'000, &storage, err));
    const auto* bytes = static_cast<const unsigned char*>(tenon_storage_data(storage));
    CHECK(std::all_of(bytes, bytes + 10'000, [](unsigned char each) { return each == 0; }));
    tenon_storage_release(storage);
  });
}

// The arena takes the block that came back last, because its bytes are the likeliest to be in the
// caches.
TEST(Access, ALargeBlockIsTheOneThatCameBackLast) {
  IN_CHILD([] {
    constexpr uint64_t kLarge = kMiB;
    const Arena arena(4 * kMiB);
    fault::Pair pair(SOCK_SEQPACKET);
    std::vector<const void*> blocks;
    std::vector<tenon_message*> lent;
    for (uint64_t i = 0; i < 2; ++i) {
      tenon_storage* storage = new_in(arena, kLarge, i);
      blocks.push_back(tenon_storage_data(storage));
      lend(pair.left, {storage});
      tenon_storage_release(storage);
      lent.push_back(receive(pair.right));
    }
    for (size_t i = 0; i < 2; ++i) {
      tenon_message_release(lent[i]);
      tenon_storage* storage = new_in(arena, kLarge);
      CHECK(tenon_storage_data(storage) == blocks[i]);
      tenon_storage_release(storage);
    }
  });
}

// After every step of a random run the figures add up, and no storage shows another one's bytes.
TEST(Arena, FiguresAddUp) {
  IN_CHILD([] {
    const uint64_t seed = test_seed();
    std::mt19937_64 random(seed);
    const Arena arena(4 * kMiB);
    fault::Pair pair(SOCK_SEQPACKET);
    std::vector<std::pair<tenon_storage*, uint64_t>> live;
    // The lent storages are kept as received messages, because the lender has released its own.
    std::vector<std::pair<tenon_message*, uint64_t>> lent;
    uint64_t peak = 0;
    for (int step = 0; step < (kSanitized ? 800 : 4000) && fault::g_failures == 0; ++step) {
      const uint64_t what = random() % 8;
      if (what < 4) {
        tenon_storage_options options = born_in(arena);
        options.alignment = uint64_t{64} << random() % 7;
        tenon_storage* storage = nullptr;
        const Outcome outcome = CALL(tenon_storage_new(
            &options, 1 + random() % (random() % 4 == 0 ? 300'000 : 3000), &storage, err));
        if (outcome.ok()) {
          live.emplace_back(storage, random());
          names::put_pattern(storage, live.back().second);
        } else {
          CHECK_SAYING(outcome.detail("limit") == "arena", outcome.text());
        }
      } else if (what < 6 && !live.empty()) {
        const size_t at = random() % live.size();
        CHECK(names::shows_pattern(live[at].first, live[at].second));
        tenon_storage_release(live[at].first);
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
      } else if (what == 6 && !live.empty()) {
        const size_t at = random() % live.size();
        lend(pair.left, {live[at].first});
        tenon_storage_release(live[at].first);
        lent.emplace_back(receive(pair.right), live[at].second);
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
      } else if (!lent.empty()) {
        const size_t at = random() % lent.size();
        CHECK(shows(lent[at].first, lent[at].second));
        tenon_message_release(lent[at].first);
        lent.erase(lent.begin() + static_cast<std::ptrdiff_t>(at));
      }
      const tenon_arena_stats now = stats(arena);
      CHECK_EQ(now.blocks_live, live.size());
      CHECK_EQ(now.blocks_lent, lent.size());
      CHECK_EQ(now.bytes_live + now.bytes_lent + now.bytes_free + now.bytes_retired,
               now.bytes_reserved);
      CHECK(now.bytes_largest_free <= now.bytes_free && now.fragmentation <= 1000);
      CHECK(now.bytes_reserved <= now.bytes_capacity);
      peak = std::max(peak, now.bytes_live + now.bytes_lent);
      CHECK_EQ(now.bytes_peak, peak);
      uint64_t nbytes = 0;
      for (const auto& [storage, each] : live) nbytes += tenon_storage_nbytes(storage);
      CHECK(now.bytes_live >= nbytes);
    }
    for (const auto& [storage, each] : live) tenon_storage_release(storage);
    for (const auto& [message, each] : lent) tenon_message_release(message);
    CHECK_COMES_BACK(arena, 4 * kMiB);
    CHECK_EQ(stats(arena).bytes_free, stats(arena).bytes_reserved);
  });
}

TEST(Arena, ThreadsAtOnce) {
  IN_CHILD([] {
    const Arena arena(16 * kMiB);
    std::vector<std::thread> threads;
    for (uint64_t id = 0; id < 4; ++id) {
      threads.emplace_back([&arena, id] {
        std::mt19937_64 random(id);
        for (int round = 0; round < (kSanitized ? 150 : 500); ++round) {
          tenon_storage* storage = new_in(arena, 1 + random() % 100'000, id, kPatienceNs);
          std::this_thread::yield();
          CHECK(names::shows_pattern(storage, id));
          tenon_storage_release(storage);
        }
      });
    }
    for (std::thread& each : threads) each.join();
    CHECK_EQ(stats(arena).blocks_live, 0);
    CHECK_COMES_BACK(arena, 16 * kMiB);
  });
}

TEST(Arena, ReserveAndPrefault) {
  IN_CHILD([] {
    tenon_arena* arena = new_arena(64 * kMiB);
    CHECK_OK(tenon_arena_reserve(arena, 8 * kMiB + 1, err));
    CHECK(stats(arena).bytes_reserved > 8 * kMiB && stats(arena).bytes_reserved < 10 * kMiB);
    CHECK_EQ(stats(arena).bytes_free, stats(arena).bytes_reserved);
    CHECK_OK(tenon_arena_reserve(arena, UINT64_MAX, err));
    CHECK_EQ(stats(arena).bytes_reserved, 64 * kMiB);
    CHECK_STATUS(TENON_INVALID_ARGUMENT, tenon_arena_reserve(nullptr, 1, err));
    tenon_arena_release(arena);

    tenon_arena_options options = arena_options(256 * kMiB);
    options.prefault_nbytes = 32 * kMiB;
    arena = nullptr;
    REQUIRE_OK(tenon_arena_new(&options, &arena, err));
    tenon_storage* storage = new_in(arena, 100'000, 4);
    CHECK(wait_until([&] { return stats(arena).bytes_reserved >= 32 * kMiB; }));
    CHECK(stats(arena).bytes_reserved <= 48 * kMiB);
    CHECK(names::shows_pattern(storage, 4));
    tenon_storage_release(storage);
    tenon_arena_release(arena);
    // The arena ends before its memory is ready.
    REQUIRE_OK(tenon_arena_new(&options, &arena, err));
    tenon_arena_release(arena);
  });
}

TEST(Arena, SaysWhatItGot) {
  IN_CHILD([] {
    tenon_arena_options options = arena_options(8 * kMiB);
    options.pages = TENON_PAGES_SMALL;
    tenon_arena* arena = nullptr;
    REQUIRE_OK(tenon_arena_new(&options, &arena, err));
    CHECK_EQ(stats(arena).pages, TENON_PAGES_SMALL);
    CHECK_EQ(stats(arena).page_nbytes, static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
    CHECK_EQ(stats(arena).numa_node, -1);
    CHECK_EQ(stats(arena).locked, 0);
    tenon_arena_release(arena);
    // No other test may count the pages that this test takes from the pool. Setting in
    // unit/memory/backing_kit.h takes the same lock.
    const int alone = open("/proc/sys/vm/nr_hugepages", O_RDONLY | O_CLOEXEC);
    if (alone >= 0) flock(alone, LOCK_EX);
    for (const tenon_pages pages : {TENON_PAGES_AUTO, TENON_PAGES_THP, TENON_PAGES_HUGETLB}) {
      options.pages = pages;
      REQUIRE_OK(tenon_arena_new(&options, &arena, err));
      tenon_storage* storage = new_in(arena, kMiB, 4);
      const tenon_arena_stats got = stats(arena);
      CHECK(got.pages >= TENON_PAGES_SMALL && got.pages <= TENON_PAGES_HUGETLB &&
            got.pages <= std::max<tenon_pages>(pages, TENON_PAGES_THP));
      CHECK(got.page_nbytes >= 4096);
      CHECK(names::shows_pattern(storage, 4));
      tenon_storage_release(storage);
      tenon_arena_release(arena);
    }
    close(alone);
    CHECK_STATUS(TENON_INVALID_ARGUMENT, tenon_arena_stats_get(nullptr, nullptr, err));
  });
}

}  // namespace
}  // namespace leases
