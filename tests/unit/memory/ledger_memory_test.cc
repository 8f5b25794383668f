// These tests make allocations fail while ledgers work. The test is a program of its own, because
// it replaces operator new.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "memory/ledger.h"
#include "memory/ledgers.h"
#include "memory/unread_guard.h"
#include "os/service.h"
#include "os/token.h"
#include "unit/failing_new.h"
#include "unit/memory/lent_object.h"
#include "unit/memory/standing.h"

namespace tenon::memory {
namespace {

// The end of a ledger makes some allocations, such as the first list of its work. Each of them
// fails in its turn.
TEST(LedgerWithoutMemory, LeasesEndAllTheSame) {
  for (int allowed = 0; allowed < 5; ++allowed) {
    test::in_child([allowed] {
      ASSERT_TRUE(os::use_no_thread().is_ok());
      const auto object = Ref<LentObject>::adopt(new LentObject());
      const Ref<Ledger> ledger = Ledger::create({getpid(), getuid()}, true).value();
      const std::vector<Leased*> objects(20'000, object.get());
      std::vector<uint32_t> slots(objects.size());
      ASSERT_TRUE(ledger->grant(objects, slots.data()).is_ok());
      (void)ledger->take_fds();
      allocations_left = allowed;
      settle_ledger(*ledger);
      allocations_left = -1;
      for (int i = 0; i < 100 && object->leases > 0; ++i) EXPECT_TRUE(os::poll_service().is_ok());
      EXPECT_TRUE(ledger->has_ended());
      EXPECT_EQ(object->leases, 0) << allowed;
    });
  }
}

// A check of the ledgers that failed for lack of memory never comes. The next caller notices that
// the check is overdue, and requests it again.
TEST(LedgerWithoutMemory, ALookThatNeverComesIsAskedForAgain) {
  test::in_child([] {
    ASSERT_TRUE(os::use_no_thread().is_ok());
    const Ref<Ledger> ledger = Ledger::create({getpid(), getuid()}, true).value();
    Drained drained = Drained::kNo;
    UnreadGuard guard([](void* context) noexcept { return *static_cast<Drained*>(context); },
                      &drained);
    guard.add(ledger->id());
    (void)ledger->take_fds();
    settle_ledger(*ledger);
    drained = Drained::kYes;
    allocations_left = 0;
    guard.drained();
    allocations_left = -1;
    EXPECT_TRUE(os::poll_service().is_ok());
    EXPECT_FALSE(ledger->has_ended());
    for (int i = 0; i < 200 && !ledger->has_ended(); ++i) {
      end_hung_up_soon();
      EXPECT_TRUE(os::poll_service().is_ok());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_TRUE(ledger->has_ended());
  });
}

TEST(LedgerWithoutMemory, OneThatCannotBeMadeLeavesNothing) {
  test::in_child([] {
    const auto tokens = [] {
      int count = 0;
      for (int fd = 0; fd < 256; ++fd) count += os::is_token(fd) ? 1 : 0;
      return count;
    };
    const int before = tokens();
    int failed = 0;
    for (Ref<Ledger> ledger; !ledger; ++failed) {
      EXPECT_EQ(tokens(), before);
      try {
        allocations_left = failed;
        Result<Ref<Ledger>> made = Ledger::create({getpid(), getuid()}, true);
        allocations_left = -1;
        if (made.is_ok()) ledger = std::move(made).value();
      } catch (const std::bad_alloc&) {
        allocations_left = -1;
      }
      if (!ledger) EXPECT_TRUE(test::forks_well());
    }
    EXPECT_GT(failed, 3);
  });
}

}  // namespace
}  // namespace tenon::memory
