// These tests reach limits of the machine while an arena is made and while it grows. The error
// names the limit, and the arena still works afterwards.
#include "process/lease/agent.h"

namespace leases {
namespace {

TEST(Limits, FileSize) {
  IN_CHILD([] {
    {
      const fault::Limit limit(RLIMIT_FSIZE, 8 * kMiB);
      tenon_arena_options options = arena_options(16 * kMiB);
      tenon_arena* arena = nullptr;
      CHECK_LIMIT("RLIMIT_FSIZE", tenon_arena_new(&options, &arena, err));
      CHECK(arena == nullptr);
      // Without a capacity the arena gets as much as the limit allows.
      arena = new_arena(0);
      CHECK_EQ(stats(arena).bytes_capacity, 8 * kMiB);
      tenon_storage* storage = new_in(arena, 8 * kMiB, 4);
      CHECK_FULL(arena, 1);
      CHECK(names::shows_pattern(storage, 4));
      tenon_storage_release(storage);
      tenon_arena_release(arena);
    }
    // This arena was made before the limit fell, so everything inside its size can be used.
    const Arena arena(16 * kMiB);
    const fault::Limit limit(RLIMIT_FSIZE, kMiB);
    for (const bool from : {false, true}) {
      tenon_storage* storage = nullptr;
      if (from) {
        const std::vector<unsigned char> bytes = fault::pattern(12 * kMiB, 4);
        const tenon_storage_options options = born_in(arena);
        REQUIRE_OK(tenon_storage_new_from(&options, bytes.data(), bytes.size(), &storage, err));
      } else {
        storage = new_in(arena, 12 * kMiB, 4);
      }
      CHECK(names::shows_pattern(storage, 4));
      tenon_storage_release(storage);
    }
  });
}

TEST(Limits, AddressSpace) {
  SKIP_UNDER_SANITIZERS("they reserve address space of their own");
  IN_CHILD([] {
    std::ifstream file("/proc/self/statm");
    uint64_t pages = 0;
    file >> pages;
    const fault::Limit limit(RLIMIT_AS, pages * 4096 + 512 * kMiB);
    tenon_arena_options options = arena_options(4096 * kMiB);
    tenon_arena* arena = nullptr;
    const Outcome outcome =
        CHECK_STATUS(TENON_RESOURCE_EXHAUSTED, tenon_arena_new(&options, &arena, err));
    CHECK_SAYING(!outcome.detail("limit").empty(), outcome.text());
    CHECK(arena == nullptr);
    arena = new_arena(0);
    CHECK(stats(arena).bytes_capacity >= 64 * kMiB && stats(arena).bytes_capacity <= 256 * kMiB);
    tenon_storage_release(new_in(arena, kMiB, 3));
    // The arena leaves address space to the rest of the process.
    CHECK_EQ(std::vector<char>(100 * kMiB, 'x').back(), 'x');
    tenon_arena_release(arena);
  });
}

// The arena can get no more memory, and all of its memory is free, in pieces that are too small. It
// joins the pieces.
TEST(Limits, WhatHasPagesIsJoinedBeforeMoreAreRefused) {
  IN_CHILD([] {
    const rlimit most{kMiB, kMiB};
    REQUIRE(setrlimit(RLIMIT_MEMLOCK, &most) == 0);
    fault::leave_root();
    tenon_arena_options options = arena_options(8 * kMiB);
    options.flags = TENON_ARENA_LOCKED;
    options.pages = TENON_PAGES_SMALL;
    tenon_arena* arena = nullptr;
    REQUIRE_OK(tenon_arena_new(&options, &arena, err));
    std::vector<tenon_storage*> all;
    for (uint64_t i = 0; i < 3; ++i) all.push_back(new_in(arena, kMiB / 4, i));
    for (tenon_storage* each : all) tenon_storage_release(each);
    tenon_storage_release(new_in(arena, kMiB * 3 / 4, 5));
    tenon_storage* storage = nullptr;
    const Outcome more = try_new(arena, 2 * kMiB, &storage);
    CHECK_SAYING(
        more.status == TENON_RESOURCE_EXHAUSTED && more.detail("limit") == "RLIMIT_MEMLOCK",
        more.text());
    tenon_arena_release(arena);
  });
}

TEST(Limits, NoFds) {
  IN_CHILD([] {
    // The library makes some things once, so this call makes them before the limit is set. The
    // storage stays, so that its segment is not given back.
    tenon_storage* stays = fault::new_storage(1);
    tenon_arena_options options = arena_options(kMiB);
    tenon_arena* arena = nullptr;
    {
      const fault::Limit limit(RLIMIT_NOFILE, fault::fd_limit_with_room(0));
      CHECK_LIMIT("RLIMIT_NOFILE", tenon_arena_new(&options, &arena, err));
      CHECK(arena == nullptr);
    }
    REQUIRE_OK(tenon_arena_new(&options, &arena, err));
    {
      // An arena needs no fd to give out storages.
      const fault::Limit limit(RLIMIT_NOFILE, fault::fd_limit_with_room(0));
      tenon_storage* storage = new_in(arena, kMiB, 3);
      CHECK_FULL(arena, 1);
      // A wait needs an fd.
      tenon_storage* other = nullptr;
      const Outcome outcome = try_new(arena, 1, &other, 10 * kMs);
      CHECK_SAYING(
          outcome.status == TENON_RESOURCE_EXHAUSTED && outcome.detail("limit") == "RLIMIT_NOFILE",
          outcome.text());
      tenon_storage_release(storage);
    }
    CHECK_COMES_BACK(arena, kMiB);
    tenon_arena_release(arena);
    tenon_storage_release(stays);
  });
}

// Returns what a process holds that has lent before.
fault::Held hold_when_warm() {
  {
    fault::Pair warm(SOCK_SEQPACKET);
    tenon_storage* storage = fault::new_storage(1);
    lend(warm.left, {storage});
    tenon_storage_release(storage);
  }
  CHECK(wait_until([] { return fault::hold().mappings == 0; }));
  return fault::hold();
}

// For each number of free fds the lend fails or succeeds. In the end no lease and no fd is left.
TEST(Limits, NoFdsToLend) {
  IN_CHILD([] {
    const fault::Held before = hold_when_warm();
    int refused = 0;
    for (int room = 0; room < 16; ++room) {
      const Arena arena(kMiB, TENON_MODE_LENDER_WRITES);
      tenon_storage* storage = new_in(arena, kMiB, 3);
      const auto ends = fault::socket_ends();
      tenon_connection* left = fault::new_connection(ends[0]);
      tenon_connection* right = fault::new_connection(ends[1]);
      tenon_message* message = message_of({storage});
      tenon_storage_release(storage);
      Outcome outcome;
      {
        const fault::Limit limit(RLIMIT_NOFILE, fault::fd_limit_with_room(room));
        outcome = try_send(left, message);
        if (!outcome.ok()) {
          ++refused;
          CHECK_SAYING(outcome.status == TENON_RESOURCE_EXHAUSTED &&
                           outcome.detail("limit") == "RLIMIT_NOFILE",
                       outcome.text());
        }
      }
      // With more fds the same send succeeds.
      if (!outcome.ok()) CHECK(try_send(left, message).ok());
      tenon_message_release(message);
      message = receive(right);
      CHECK(shows(message, 3));
      tenon_message_release(message);
      CHECK(wait_until([] { return leases_standing() == 0; }));
      CHECK_COMES_BACK(arena, kMiB);
      tenon_connection_release(left);
      tenon_connection_release(right);
    }
    CHECK(refused > 0 && refused < 16);
    CHECK_HELD(before);
  });
}

// The receiver has no fds for the token, or for the fds that come with it.
TEST(Limits, NoFdsToBorrow) {
  IN_CHILD([] {
    const fault::Held before = hold_when_warm();
    for (int room = 0; room < 6; ++room) {
      Agent lender;
      const auto ends = fault::socket_ends();
      const int there = lender.connect(ends[1]);
      tenon_connection* here = fault::new_connection(ends[0]);
      const int arena = lender.arena(kMiB);
      const int storage = lender.make(arena, kMiB, 3).object;
      lender.send(there, storage);
      lender.release(storage);
      tenon_message* message = nullptr;
      Outcome outcome;
      {
        const fault::Limit limit(RLIMIT_NOFILE, fault::fd_limit_with_room(room));
        outcome = try_receive(here, &message);
      }
      if (outcome.ok()) {
        CHECK(shows(message, 3));
        tenon_message_release(message);
      } else {
        CHECK_SAYING(outcome.status == TENON_RESOURCE_EXHAUSTED, outcome.text());
        CHECK_SAYING(outcome.detail("limit") == "RLIMIT_NOFILE", outcome.text());
      }
      // The leases of the message have ended, whatever was received.
      CHECK(lender.make(arena, kMiB, 4, kPatienceNs).ok());
      tenon_connection_release(here);
    }
    CHECK_HELD(before);
  });
}

}  // namespace
}  // namespace leases
