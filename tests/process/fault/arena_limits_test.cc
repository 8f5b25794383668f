// These tests use arenas and leases on a machine that has no more to give: no fds at any step, no
// huge pages, no locked memory. Each call fails with an error that names its limit, and works
// afterwards.
#include <sys/file.h>

#include <filesystem>

#include "process/lease/hostile_kit.h"

namespace leases {
namespace {

// Keeps the machine's pool of huge pages for this child as long as it lives. See Setting in
// unit/memory/backing_kit.h.
void take_the_pool() {
  const int alone = open("/proc/sys/vm/nr_hugepages", O_RDONLY | O_CLOEXEC);
  if (alone >= 0) flock(alone, LOCK_EX);
}

// Opens the fds that a process needs only for its first lend and its first receive.
void warm_all() {
  fault::Pair pair(SOCK_SEQPACKET);
  tenon_storage* storage = fault::new_storage(1);
  lend(pair.left, {storage});
  tenon_storage_release(storage);
  tenon_message_release(receive(pair.right));
}

TEST(ArenaLimits, AnArenaAtEveryNumberOfFds) {
  IN_CHILD([] {
    take_the_pool();
    warm_all();
    const fault::Held before = fault::hold();
    for (const tenon_mode mode : {TENON_MODE_SHARED, TENON_MODE_LENDER_WRITES}) {
      for (const tenon_pages pages : {TENON_PAGES_SMALL, TENON_PAGES_AUTO, TENON_PAGES_HUGETLB}) {
        int room = 0;
        for (bool made = false; !made; ++room) {
          REQUIRE(room < 20);
          tenon_arena_options options = arena_options(4 * kMiB, mode);
          options.pages = pages;
          tenon_arena* arena = nullptr;
          Outcome outcome;
          {
            const fault::Limit limit(RLIMIT_NOFILE, fault::fd_limit_with_room(room));
            outcome = CALL(tenon_arena_new(&options, &arena, err));
          }
          made = outcome.ok();
          CHECK_SAYING(made || (outcome.status == TENON_RESOURCE_EXHAUSTED &&
                                outcome.detail("limit") == "RLIMIT_NOFILE"),
                       outcome.text());
          CHECK_EQ(made, arena != nullptr);
          if (made) tenon_storage_release(new_in(arena, kMiB, 3));
          tenon_arena_release(arena);
        }
        CHECK(room > 1);
      }
    }
    CHECK_HELD(before);
  });
}

// Sends a message that travels in a memfd, under leases. At each number of free fds it is sent or
// refused.
TEST(ArenaLimits, ALargeLeasedMessageIsSentAtEveryNumberOfFds) {
  IN_CHILD([] {
    warm_all();
    const fault::Held before = fault::hold();
    int refused = 0;
    for (int room = 0; room < 16; ++room) {
      const Arena arena(kMiB, TENON_MODE_LENDER_WRITES);
      tenon_storage* storage = new_in(arena, kMiB, 3);
      fault::Pair pair(SOCK_SEQPACKET);
      tenon_message* message = fault::new_large_message(storage, 3000);
      tenon_storage_release(storage);
      Outcome outcome;
      {
        const fault::Limit limit(RLIMIT_NOFILE, fault::fd_limit_with_room(room));
        outcome = try_send(pair.left, message);
      }
      if (!outcome.ok()) {
        ++refused;
        CHECK_SAYING(outcome.status == TENON_RESOURCE_EXHAUSTED &&
                         outcome.detail("limit") == "RLIMIT_NOFILE",
                     outcome.text());
        CHECK(try_send(pair.left, message).ok());
      }
      tenon_message_release(message);
      tenon_message_release(receive(pair.right));
      CHECK_COMES_BACK(arena, kMiB);
    }
    CHECK(refused > 0 && refused < 16);
    CHECK_HELD(before);
  });
}

// Receives two messages under each of two accounts. The very first receive has room for `room` fds,
// and the others have enough. Returns how many messages were lost.
int receive_with_room(const raw::Honest& honest, int room) {
  int lost = 0;
  bool seen = false;
  const auto ends = fault::socket_ends();
  tenon_connection* here = fault::new_connection(ends[0]);
  uint64_t sequence = 0;
  for (uint64_t id = 1; id <= 2; ++id) {
    raw::Account account(id);
    raw::Message made(honest, account);
    const int memfd = raw::memfd_with(made.content());
    CHECK(raw::send_packet(ends[1], raw::cut(made.large(memfd), sequence++).front()));
    // The next message brings no fds. It refers to fds that may have been lost.
    made.block.tokens.clear();
    made.token_fds.clear();
    made.segment_fds.clear();
    made.descriptor = honest.more.front();
    CHECK(raw::send_packet(ends[1], raw::cut(made.frame(), sequence++).front()));
    close(memfd);
    account.let_go_of_sent();
    for (const bool first : {true, false}) {
      tenon_message* message = nullptr;
      Outcome outcome;
      {
        const fault::Limit limit(RLIMIT_NOFILE,
                                 id == 1 && first ? fault::fd_limit_with_room(room) : 1000);
        outcome = try_receive(here, &message);
      }
      lost += outcome.ok() ? 0 : 1;
      // The content was read if the memfd came. But first the library asks how much memory is left,
      // unless it did so in the last 50 ms. For that it needs an fd too.
      if (id == 1 && first)
        seen = room > 0 && outcome.text().find("no fd is left to read") == std::string::npos;
      // The second account brings all fds again. But if the content of the first message was never
      // read, no later message can be trusted.
      if (id == 2)
        CHECK_SAYING(outcome.ok() == seen,
                     "room for " + std::to_string(room) + ": " + outcome.text());
      CHECK_SAYING(outcome.ok() || outcome.status == TENON_RESOURCE_EXHAUSTED, outcome.text());
      CHECK_SAYING(outcome.ok() || outcome.detail("limit") == "RLIMIT_NOFILE", outcome.text());
      if (outcome.ok()) CHECK(shows(message, raw::kPatternSeed));
      tenon_message_release(message);
    }
    if (id == 1 && lost > 0 && room < 4) CHECK(wait_until([&] { return account.has_hung_up(); }));
  }
  tenon_connection_release(here);
  close(ends[1]);
  return lost;
}

// The process lends nothing. It has the service thread, because it borrows.
TEST(ArenaLimits, ALargeLeasedMessageIsReceivedAtEveryNumberOfFds) {
  IN_CHILD([] {
    const raw::Honest honest;
    CHECK_EQ(receive_with_room(honest, 100), 0);
    const fault::Held before = fault::hold();
    int lost = 0;
    for (int room = 0; room < 8; ++room) lost += receive_with_room(honest, room);
    CHECK(lost > 0 && lost < 32);
    CHECK_HELD(before);
  });
}

uint64_t number_in(const std::filesystem::path& file) {
  std::ifstream stream(file);
  uint64_t value = 0;
  stream >> value;
  return value;
}

TEST(ArenaLimits, NoHugePages) {
  IN_CHILD([] {
    take_the_pool();
    const std::filesystem::path sizes = "/sys/kernel/mm/hugepages";
    bool known = false;
    if (std::filesystem::is_directory(sizes)) {
      for (const auto& each : std::filesystem::directory_iterator(sizes)) {
        known = true;
        if (number_in(each.path() / "free_hugepages") > 0 ||
            number_in(each.path() / "nr_overcommit_hugepages") > 0)
          fault::skip("this machine has huge pages to give");
      }
    }
    tenon_arena_options options = arena_options(8 * kMiB);
    options.pages = TENON_PAGES_HUGETLB;
    options.flags = TENON_ARENA_EXACT;
    tenon_arena* arena = nullptr;
    const Outcome outcome = CALL(tenon_arena_new(&options, &arena, err));
    CHECK(arena == nullptr);
    if (known) {
      CHECK_SAYING(outcome.status == TENON_RESOURCE_EXHAUSTED &&
                       outcome.detail("limit").find("hugepages") != std::string::npos &&
                       outcome.detail("limit_value") == "0",
                   outcome.text());
    } else {
      CHECK_SAYING(outcome.status == TENON_UNSUPPORTED, outcome.text());
    }
    // Without EXACT the arena gets other pages, and its stats say so.
    options.flags = 0;
    REQUIRE_OK(tenon_arena_new(&options, &arena, err));
    CHECK(stats(arena).pages != TENON_PAGES_HUGETLB);
    tenon_storage* storage = new_in(arena, 8 * kMiB, 4);
    CHECK(names::shows_pattern(storage, 4));
    tenon_storage_release(storage);
    tenon_arena_release(arena);
  });
}

TEST(ArenaLimits, NoMoreLockedMemory) {
  for (const rlim_t most : {rlim_t{0}, rlim_t{256 * 1024}}) {
    IN_CHILD([most] {
      const rlimit none{most, most};
      REQUIRE(setrlimit(RLIMIT_MEMLOCK, &none) == 0);
      fault::leave_root();
      tenon_arena_options options = arena_options(8 * kMiB);
      options.flags = TENON_ARENA_LOCKED;
      options.pages = TENON_PAGES_SMALL;
      tenon_arena* arena = nullptr;
      const Outcome made = CALL(tenon_arena_new(&options, &arena, err));
      if (most == 0) {
        CHECK_SAYING(made.status == TENON_RESOURCE_EXHAUSTED &&
                         made.detail("limit") == "RLIMIT_MEMLOCK" &&
                         made.detail("limit_value") == "0",
                     made.text());
        CHECK(arena == nullptr);
        return;
      }
      if (!CHECK_SAYING(made.ok(), made.text())) return;
      CHECK_EQ(stats(arena).locked, 1);
      tenon_storage* small = new_in(arena, 4096, 3);
      tenon_storage* storage = nullptr;
      const Outcome refused = try_new(arena, 4 * kMiB, &storage);
      CHECK_SAYING(refused.status == TENON_RESOURCE_EXHAUSTED &&
                       refused.detail("limit") == "RLIMIT_MEMLOCK" &&
                       refused.detail("limit_value") == std::to_string(most),
                   refused.text());
      CHECK(storage == nullptr && names::shows_pattern(small, 3));
      tenon_storage_release(new_in(arena, 4096, 4));
      tenon_storage_release(small);
      tenon_arena_release(arena);
    });
  }
}

}  // namespace
}  // namespace leases
