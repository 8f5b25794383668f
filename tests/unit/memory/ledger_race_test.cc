// These tests run ledgers beside other threads and forks. They check which fds a forked child has,
// and what a check, a bell or a wait finds after another thread was there first.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "memory/lease_page.h"
#include "memory/ledger.h"
#include "memory/ledgers.h"
#include "memory/unread_guard.h"
#include "os/clock.h"
#include "os/mapping.h"
#include "os/memfd.h"
#include "os/service.h"
#include "os/token.h"
#include "unit/memory/standing.h"

namespace tenon::memory {
namespace {

using test::wait_until;

Ref<Ledger> new_ledger(bool by_slot = true) {
  Result<Ref<Ledger>> made = Ledger::create({getpid(), getuid()}, by_slot);
  if (!made.is_ok()) std::abort();
  return std::move(made).value();
}

// A ledger whose token was sent. The borrower's copies of the fds are here, and the lender has
// closed its own.
struct Sent {
  Ref<Ledger> ledger = new_ledger();
  os::Fd token = os::duplicate(ledger->fds().token.get()).value();
  os::Fd bell = os::duplicate(ledger->fds().bell.get()).value();
  os::Mapping page =
      os::Mapping::create(os::Mapping::Kind::kSharedWritable, ledger->fds().page.get(), 0,
                          lease_page::page_nbytes(lease_page::kSlots))
          .value();

  Sent() { (void)ledger->take_fds(); }
  lease_page::Header& header() const { return lease_page::header(page.base()); }
};

int tokens_here() {
  int count = 0;
  for (int fd = 0; fd < 256; ++fd) count += os::is_token(fd) ? 1 : 0;
  return count;
}

// Returns how many more tokens a forked child has than its parent had. The fork stops while it
// holds the ledgers' lock and all locks before it. Meanwhile `body` runs in another thread, until
// it needs one of these locks.
int born_with(const std::function<void()>& body) {
  test::ForkGate gate(LockRank::kLedgers);
  int before = 0;
  std::atomic<int> born{-1};
  std::thread forks([&] {
    before = tokens_here();
    test::ForkChild child([](int) { ::_exit(tokens_here()); });
    born = child.reap();
  });
  gate.await();
  test::Told told;
  std::thread other([&] {
    told.tell();
    body();
  });
  EXPECT_TRUE(told.falls_asleep()) << "in front of a lock that fork has";
  gate.open();
  forks.join();
  other.join();
  // The child also has the write end of ForkChild's pipe, which is_token() counts.
  return born - before - 1;
}

// The lease of this object does not end before `may_end` is set, as if a slow function of its owner
// ran.
class SlowObject final : public Leased {
 public:
  void lease_ended() noexcept override {
    EXPECT_FALSE(ledger->is_ending_elsewhere()) << "it would wait for itself";
    is_ending = true;
    while (!may_end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    Leased::lease_ended();
  }
  uint64_t leased_nbytes() const noexcept override { return 100; }
  const Ledger* ledger = nullptr;
  std::atomic<bool> is_ending{false};
  std::atomic<bool> may_end{false};
};

// A caller that asks what is lent waits for a lease that another thread has taken back and not
// ended yet.
TEST(LedgerRace, ALookWaitsForWhoEndsALease) {
  test::in_child([] {
    const Sent sent;
    const auto object = Ref<SlowObject>::adopt(new SlowObject());
    object->ledger = sent.ledger.get();
    Leased* const leased = object.get();
    uint32_t slot = 0;
    ASSERT_TRUE(sent.ledger->grant({&leased, 1}, &slot).is_ok());
    (void)lease_page::release(sent.page.base(), lease_page::kSlots, slot);
    std::thread other([&] { (void)sent.ledger->drain(); });
    ASSERT_TRUE(wait_until([&] { return object->is_ending.load(); }));
    EXPECT_TRUE(sent.ledger->is_ending_elsewhere());
    // The wait has a limit, because the owner's function may itself wait for this thread.
    const auto begin = std::chrono::steady_clock::now();
    (void)settle_ledgers();
    EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(100));
    object->may_end = true;
    other.join();
    EXPECT_FALSE(sent.ledger->is_ending_elsewhere());
  });
}

TEST(LedgerRace, AChildHasNoTokenThatIsJustMade) {
  for (const bool by_slot : {true, false}) {
    test::in_child([by_slot] {
      Ref<Ledger> ledger;
      EXPECT_EQ(born_with([&] { ledger = new_ledger(by_slot); }), 0) << by_slot;
      EXPECT_TRUE(ledger->has_fds());
    });
  }
}

// The kernel copies the fds before it copies the memory. An fd that is closed between the two would
// be open in the child, and the child would not know of it.
TEST(LedgerRace, AChildHasNoTokenThatIsJustClosed) {
  for (const bool by_slot : {true, false}) {
    test::in_child([by_slot] {
      const Ref<Ledger> ledger = new_ledger(by_slot);
      std::shared_ptr<TokenFds> fds = ledger->take_fds();
      EXPECT_EQ(born_with([&] { fds = nullptr; }), -1) << "as in the parent, one less: " << by_slot;
    });
  }
}

TEST(LedgerRace, AChildHasADescriptorsTokenAsItsParent) {
  test::in_child([] {
    const Ref<Ledger> of_connection = new_ledger();
    const std::shared_ptr<TokenFds> on_its_way = of_connection->take_fds();
    const Ref<Ledger> of_descriptor = new_ledger(false);
    std::shared_ptr<TokenFds> fds = of_descriptor->take_fds();
    test::ForkChild child([&](int) {
      int wrong =
          on_its_way->token.is_open() || on_its_way->page.is_open() || on_its_way->bell.is_open()
              ? 1
              : 0;
      if (!os::is_token(fds->token.get())) wrong |= 2;
      const int number = fds->token.get();
      fds = nullptr;
      if (os::is_token(number)) wrong |= 4;
      ::_exit(wrong);
    });
    EXPECT_EQ(child.reap(), 0);
  });
}

// A ledger that cannot be created must not hold the lock that its destructor takes.
TEST(LedgerRace, OneThatCannotBeMadeLeavesNothing) {
  test::in_child([] {
    (void)new_ledger();  // the service has its fds from now on
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    const int tokens = tokens_here();
    int failed = 0;
    for (bool made = false; !made; ++failed) {
      const os::Fd next(dup(0));
      const rlimit few{static_cast<rlim_t>(next.get() + failed), before.rlim_max};
      ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
      made = Ledger::create({getpid(), getuid()}, true).is_ok();
      ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
      if (!made) EXPECT_EQ(tokens_here(), tokens);
      EXPECT_TRUE(test::forks_well());
    }
    EXPECT_GE(failed, 5);
  });
}

struct Busy {
  std::atomic<bool> over{false};
  std::atomic<int> asked{0};
};

// Measures how often the number grows per millisecond.
template <typename Number>
double rate_of(const Number& number) {
  const auto before = number.load();
  const int64_t began_ns = os::monotonic_ns();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return (number.load() - before) * 1e6 / static_cast<double>(os::monotonic_ns() - began_ns);
}

TEST(LedgerRace, LedgersThatMustWaitAreLookedAtTogether) {
  test::in_child([] {
    constexpr int kLedgers = 4;
    Busy busy;
    std::vector<Sent> sent(kLedgers);
    {
      UnreadGuard guard(
          [](void* context) noexcept {
            auto& all = *static_cast<Busy*>(context);
            ++all.asked;
            return all.over ? Drained::kYes : Drained::kBusy;
          },
          &busy);
      for (const Sent& each : sent) guard.add(each.ledger->id());
      for (Sent& each : sent) each.token.reset();
      ASSERT_TRUE(wait_until([&] { return busy.asked > kLedgers; }));
      EXPECT_LT(rate_of(busy.asked), 2 * kLedgers)
          << "asked in each millisecond: each once, or one more for whoever looks besides";
      EXPECT_FALSE(sent.front().ledger->has_ended());
      busy.over = true;
      for (const Sent& each : sent)
        EXPECT_TRUE(wait_until([&] { return each.ledger->has_ended(); }));
    }
  });
}

TEST(LedgerRace, OneBusyConnectionIsAskedForARenewalInOneRow) {
  test::in_child([] {
    Busy busy;
    const Sent sent;
    sent.ledger->set_renewer(
        [](void* context) noexcept {
          auto& all = *static_cast<Busy*>(context);
          ++all.asked;
          return all.over.load();
        },
        &busy);
    sent.header().renew.store(1);
    for (int ring = 0; ring < 50; ++ring) {
      const int before = busy.asked;
      os::ring(sent.bell.get());
      ASSERT_TRUE(wait_until([&] { return busy.asked > before; }));
    }
    EXPECT_LT(rate_of(busy.asked), 1) << "every 5 ms";
    busy.over = true;
    sent.header().renew.store(0);
    sent.ledger->set_renewer(nullptr, nullptr);
  });
}

// A child checks its own ledgers, although a check was already due in the parent.
TEST(LedgerRace, WhatWasDueInTheParentIsNotDueInTheChild) {
  test::in_child([] {
    ASSERT_TRUE(os::use_no_thread().is_ok());
    end_hung_up_soon();
    test::in_child([] {
      Busy busy;
      Sent sent;
      UnreadGuard guard(
          [](void* context) noexcept {
            return static_cast<Busy*>(context)->over ? Drained::kYes : Drained::kNo;
          },
          &busy);
      guard.add(sent.ledger->id());
      sent.token.reset();
      EXPECT_TRUE(os::poll_service().is_ok());
      EXPECT_FALSE(sent.ledger->has_ended());
      busy.over = true;
      guard.drained();
      EXPECT_TRUE(os::poll_service().is_ok());
      EXPECT_TRUE(sent.ledger->has_ended());
    });
  });
}

// The bell of this ledger hung up, and nobody noticed in time. Its fd was closed, and another
// socket got the number.
struct Reuse {
  Sent ledger;
  os::Fd other_end;
  test::Told told;
  std::thread serves;
};

std::atomic<int> g_heard{0};

void hear(int fd, bool /*readable*/, bool /*hung_up*/) noexcept {
  char byte = 0;
  if (read(fd, &byte, 1) == 1) ++g_heard;
}

// Runs with the ledgers' lock held.
void use_number_again(Reuse* all) noexcept {
  const int number = all->ledger.ledger->listener();
  all->ledger.bell.reset();
  all->serves = std::thread([all] {
    all->told.tell();
    EXPECT_TRUE(os::poll_service().is_ok());
  });
  EXPECT_TRUE(all->told.falls_asleep()) << "in front of the lock, with the old one's hang-up";
  std::array<int, 2> ends{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  os::stop_serving_fd(number);
  ASSERT_EQ(dup3(ends[0], number, O_CLOEXEC), number);
  close(ends[0]);
  all->other_end = os::Fd(ends[1]);
  EXPECT_TRUE(os::serve_fd(number, &hear).is_ok());
}

TEST(LedgerRace, AHangUpOfAnOldBellIsNotTheNewOnes) {
  test::in_child([] {
    ASSERT_TRUE(os::use_no_thread().is_ok());
    Reuse all;
    Sent waits;
    UnreadGuard guard(
        [](void* context) noexcept {
          if (auto* const reuse = static_cast<Reuse*>(context); !reuse->serves.joinable())
            use_number_again(reuse);
          return Drained::kNo;
        },
        &all);
    guard.add(waits.ledger->id());
    os::stop_serving_fd(waits.ledger->watch());
    waits.token.reset();
    settle_ledger(*waits.ledger);
    all.serves.join();
    EXPECT_EQ(g_heard, 0);
    os::ring(all.other_end.get());
    EXPECT_TRUE(os::poll_service().is_ok());
    EXPECT_EQ(g_heard, 1) << "is not served any more";
  });
}

TEST(LedgerRace, WhoeverStopsWaitingLeavesTheBellOfWhatIsLentOn) {
  int undone = 0;
  for (int round = 0; round < 1000; ++round) {
    const Sent sent;
    std::atomic<int> ready{0};
    const auto start = [&] {
      ++ready;
      while (ready < 2) std::this_thread::yield();
    };
    std::thread other([&] {
      start();
      sent.ledger->set_waiting(false);
    });
    start();
    sent.ledger->always_ring();
    other.join();
    undone += sent.header().waiting.load() == 1 ? 0 : 1;
  }
  EXPECT_EQ(undone, 0);
}

}  // namespace
}  // namespace tenon::memory
