// Every allocation fails in turn: in arenas, in lending and borrowing under leases, and in the list
// of lease holders.
#include "process/fault/failing_malloc.h"
#include "process/lease/hostile_kit.h"
#include "support/sized.h"

#if !TENON_TEST_SANITIZED
namespace fault {
namespace {

using leases::kMiB;

TEST(MallocLease, Arenas) {
  run_without_leaks([] {
    for (const tenon_mode mode : {TENON_MODE_SHARED, TENON_MODE_LENDER_WRITES}) {
      tenon_arena_options options = leases::arena_options(4 * kMiB, mode);
      AT_EVERY_ALLOCATION(tenon_arena, tenon_arena_release, arena,
                          tenon_arena_new(&options, &arena, err));
      tenon_arena* arena = leases::new_arena(4 * kMiB, mode);
      const tenon_storage_options born = leases::born_in(arena);
      for (const uint64_t nbytes : {uint64_t{0}, uint64_t{100}, kMiB})
        AT_EVERY_ALLOCATION(tenon_storage, tenon_storage_release, storage,
                            tenon_storage_new(&born, nbytes, &storage, err));
      const auto nothing = [](bool, const std::string&) {};
      fail_at_every_allocation(
          "tenon_arena_reserve",
          [&](tenon_error** err) { return tenon_arena_reserve(arena, kMiB, err); }, nothing);
      auto stats = tenon::test::sized<tenon_arena_stats>();
      fail_at_every_allocation(
          "tenon_arena_stats_get",
          [&](tenon_error** err) { return tenon_arena_stats_get(arena, &stats, err); }, nothing);
      CHECK_EQ(stats.bytes_live, 0);
      CHECK_EQ(stats.bytes_free, stats.bytes_reserved);
      tenon_arena_release(arena);
    }
  });
}

// Allocates in a full arena and waits for space, while there is no memory for the error.
TEST(MallocLease, AFullArena) {
  run_without_leaks([] {
    tenon_arena* arena = leases::new_arena(kMiB);
    tenon_storage* all = leases::new_in(arena, kMiB);
    for (const int64_t timeout : {int64_t{0}, int64_t{100'000}}) {
      for (long allowed = 0; allowed < 30; ++allowed) {
        const tenon_wait wait = wait_ns(timeout);
        const tenon_storage_options born = leases::born_in(arena, &wait);
        tenon_storage* storage = nullptr;
        tenon_error* error = nullptr;
        t_allowed = allowed;
        const tenon_status status = tenon_storage_new(&born, 1, &storage, &error);
        t_allowed = -1;
        const Outcome outcome = read_error(status, error);
        CHECK_SAYING(storage == nullptr && (outcome.status == TENON_RESOURCE_EXHAUSTED ||
                                            outcome.status == TENON_TIMEOUT),
                     outcome.text());
      }
    }
    tenon_storage_release(all);
    CHECK_COMES_BACK(arena, kMiB);
    tenon_arena_release(arena);
  });
}

// The lender's side: whatever fails, the message is sent in the end, and the lent blocks come back.
void lend_at_every_allocation(bool large) {
  run_without_leaks([large] {
    long most = 1;
    for (long allowed = 0; allowed <= most; ++allowed) {
      tenon_arena* arena = leases::new_arena(4 * kMiB);
      tenon_storage* storage = leases::new_in(arena, kMiB, 5);
      Pair pair(SOCK_SEQPACKET);
      tenon_message* message = leases::message_of({storage});
      // The message is longer than a packet, so it travels in a memfd.
      const std::vector<unsigned char> user = pattern(large ? TENON_MESSAGE_MAX_USER_NBYTES : 0, 9);
      REQUIRE_OK(tenon_message_set_user_bytes(message, user.data(), user.size(), err));
      tenon_storage_release(storage);
      const tenon_wait now = wait_ns(0);
      tenon_error* error = nullptr;
      t_refused = false;
      t_allowed = allowed;
      const tenon_status status = tenon_send(pair.left, message, &now, &error);
      t_allowed = -1;
      if (t_refused) most = allowed + 1;
      const Outcome outcome = read_error(status, error);
      CHECK_SAYING(outcome.ok() || (t_refused && outcome.status == TENON_RESOURCE_EXHAUSTED),
                   outcome.text());
      std::array<tenon_lease_holder, 4> holders{};
      holders[0].struct_size = sizeof holders[0];
      size_t total = 0;
      t_allowed = allowed % 8;
      const tenon_status told =
          tenon_lease_holders(holders.data(), holders.size(), &total, nullptr);
      t_allowed = -1;
      CHECK(told == TENON_OK ? total <= 1 : told == TENON_RESOURCE_EXHAUSTED);
      if (!outcome.ok()) REQUIRE_OK(tenon_send(pair.left, message, &now, err));
      tenon_message_release(message);
      message = leases::receive(pair.right);
      CHECK(leases::shows(message, 5, true));
      tenon_message_release(message);
      CHECK_COMES_BACK(arena, 4 * kMiB);
      tenon_arena_release(arena);
    }
    std::printf("  sent with up to %ld allocations\n", most);
    REQUIRE(most > 5);
  });
}
TEST(MallocLease, Lending) { lend_at_every_allocation(false); }
TEST(MallocLease, LendingInALargeMessage) { lend_at_every_allocation(true); }

// The borrower's side, with a lender that is another process. The message can be received once
// there is memory, its slots are given back once, and no token stays open.
TEST(MallocLease, Borrowing) {
  run_without_leaks([] {
    static const leases::raw::Honest honest;
    for (const bool large : {false, true}) {
      long most = 1;
      for (long allowed = 0; allowed <= most; ++allowed) {
        const auto ends = fault::socket_ends();
        tenon_connection* connection = new_connection(ends[0]);
        leases::raw::Account account;
        leases::raw::Pipe up;
        leases::raw::Message made(honest, account);
        made.block.tokens.push_back({5, leases::raw::kInherited, 1});
        made.token_fds.push_back(up.token);
        const int memfd = leases::raw::memfd_with(made.content());
        CHECK(leases::raw::send_packet(
            ends[1], leases::raw::cut(large ? made.large(memfd) : made.frame(), 0).front()));
        close(memfd);
        account.let_go_of_sent();
        leases::raw::let_go(&up.token);
        const tenon_wait now = wait_ns(0);
        tenon_message* got = nullptr;
        tenon_error* error = nullptr;
        t_refused = false;
        t_allowed = allowed;
        const tenon_status status = tenon_recv(connection, &now, &got, &error);
        t_allowed = -1;
        if (t_refused) most = allowed + 1;
        const Outcome outcome = read_error(status, error);
        CHECK_SAYING(
            outcome.ok() == (got != nullptr) &&
                (outcome.ok() || (t_refused && outcome.status == TENON_RESOURCE_EXHAUSTED)),
            outcome.text());
        if (got == nullptr) REQUIRE_OK(tenon_recv(connection, &now, &got, err));
        CHECK(leases::shows(got, leases::raw::kPatternSeed));
        CHECK(!account.is_given_back(7));
        CHECK(!account.is_given_back(4095));
        CHECK(!account.has_hung_up());
        CHECK(!up.has_hung_up());
        // The release works without memory too.
        t_allowed = 0;
        tenon_message_release(got);
        t_allowed = -1;
        CHECK(account.is_given_back(7));
        CHECK(account.is_given_back(4095));
        tenon_connection_release(connection);
        CHECK(account.has_hung_up() && up.has_hung_up());
        close(ends[1]);
      }
      std::printf("  received with up to %ld allocations\n", most);
      REQUIRE(most > 5);
    }
  });
}

}  // namespace
}  // namespace fault

#else
TEST(MallocLease, Injection) {
  GTEST_SKIP() << "skipped: the sanitizer stands in for malloc itself";
}
#endif
