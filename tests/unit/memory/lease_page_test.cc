// These tests run lender and borrower of a lease page as two threads over one mapping. A race
// detector sees a race within one mapping, and sees none between two mappings.
#include "memory/lease_page.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "process/fault/kit.h"

namespace tenon::memory::lease_page {
namespace {

constexpr uint32_t kFew = 2 * kSlotsUnit;
constexpr int kRounds = TENON_TEST_TSAN ? 20'000 : 200'000;

struct Page {
  alignas(4096) std::array<std::byte, page_nbytes(kFew)> bytes{};
  std::byte* base() { return bytes.data(); }
};

std::vector<uint32_t> drained(std::byte* base, uint32_t end = kFew) {
  std::vector<uint32_t> slots;
  drain(base, kFew, end, [&](uint32_t slot) { slots.push_back(slot); });
  return slots;
}

TEST(LeasePage, Layout) {
  EXPECT_EQ(released_offset(kSlots), 4096U + 8192);
  EXPECT_EQ(page_nbytes(kSlots), 4096U + 8192 + (4U << 20) / 8);
  EXPECT_EQ(released_offset(kSlotsUnit), 8192U);
}

TEST(LeasePage, WhatIsReleasedIsDrainedOnce) {
  const auto page = std::make_unique<Page>();
  for (const uint32_t slot : {0U, 63U, 64U, 4095U, 4096U, kFew - 1})
    EXPECT_FALSE(release(page->base(), kFew, slot));
  EXPECT_FALSE(release(page->base(), kFew, 64));
  EXPECT_EQ(drained(page->base()), (std::vector<uint32_t>{0, 63, 64, 4095, 4096, kFew - 1}));
  EXPECT_TRUE(drained(page->base()).empty());
}

TEST(LeasePage, SlotsThatWereNeverUsedAreNotLookedAt) {
  const auto page = std::make_unique<Page>();
  (void)release(page->base(), kFew, kSlotsUnit + 1);
  EXPECT_TRUE(drained(page->base(), kSlotsUnit).empty());
  EXPECT_EQ(drained(page->base()).size(), 1U);
}

TEST(LeasePage, WhoWaitsIsRungFor) {
  const auto page = std::make_unique<Page>();
  set_waiting(page->base(), true);
  EXPECT_TRUE(release(page->base(), kFew, 5));
  set_waiting(page->base(), false);
  EXPECT_FALSE(release(page->base(), kFew, 6));
}

// Random bytes from a borrower give slots below the end of the page, and nothing else.
TEST(LeasePage, RandomBytesGiveSlots) {
  const auto page = std::make_unique<Page>();
  std::memset(page->base(), 0xff, page->bytes.size());
  EXPECT_EQ(drained(page->base()).size(), size_t{kFew});
}

// The lender fills a block and lends it. The borrower checks the block and gives it back, and the
// lender fills it again. With `early` the borrower reads the block after it has given the block
// back. The race detector must see that race.
void run_both(bool early) {
  struct Block {
    uint64_t value = 0;
    std::array<uint64_t, 7> same{};
  };
  constexpr uint32_t kBlocks = 64;
  const auto page = std::make_unique<Page>();
  std::vector<Block> blocks(kBlocks);
  std::vector<std::atomic<uint64_t>> lent(kBlocks);  // 0: not lent; stands in for the message
  std::counting_semaphore<1 << 20> bell(0);
  std::atomic<bool> over{false};
  std::thread borrower([&] {
    while (!over.load(std::memory_order_relaxed)) {
      bool any = false;
      for (uint32_t slot = 0; slot < kBlocks; ++slot) {
        const uint64_t wanted = lent[slot].load(std::memory_order_acquire);
        if (wanted == 0) continue;
        any = true;
        lent[slot].store(0, std::memory_order_relaxed);
        if (early && release(page->base(), kFew, slot * 100)) bell.release();
        EXPECT_EQ(blocks[slot].value, wanted);
        for (const uint64_t each : blocks[slot].same) EXPECT_EQ(each, wanted);
        if (!early && release(page->base(), kFew, slot * 100)) bell.release();
      }
      if (!any) std::this_thread::yield();
    }
  });
  std::vector<uint32_t> room(kBlocks);
  for (uint32_t i = 0; i < kBlocks; ++i) room[i] = i;
  const auto look = [&] {
    drain(page->base(), kFew, kFew, [&](uint32_t slot) { room.push_back(slot / 100); });
  };
  for (uint64_t round = 1; round <= uint64_t{kRounds}; ++round) {
    if (room.empty()) look();
    while (room.empty()) {
      set_waiting(page->base(), true);
      look();
      // If the bell does not ring although a block was given back, a wake was lost.
      if (room.empty() && !bell.try_acquire_for(std::chrono::seconds(30))) {
        ADD_FAILURE() << "nobody rang in round " << round;
        round = uint64_t{kRounds};
        break;
      }
      set_waiting(page->base(), false);
      look();
    }
    if (room.empty()) break;
    const uint32_t slot = room.back();
    room.pop_back();
    blocks[slot].value = round;
    blocks[slot].same.fill(round);
    lent[slot].store(round, std::memory_order_release);
  }
  over = true;
  borrower.join();
}

TEST(LeasePage, TwoRolesOverOneMapping) { run_both(false); }

// Only the next test runs this one.
TEST(LeasePage, DISABLED_ReadsAfterGivingBack) {
  testing::GTEST_FLAG(throw_on_failure) = false;
  run_both(true);
}

TEST(LeasePage, ARaceWouldBeReported) {
  if (!TENON_TEST_TSAN) GTEST_SKIP() << "skipped: only ThreadSanitizer can report it";
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    dup2(ends[1], 2);
    dup2(ends[1], 1);
    close(ends[0]);
    alarm(60);
    setenv("TSAN_OPTIONS", "halt_on_error=1:exitcode=66", 1);
    execl("/proc/self/exe", "lease_page", "--gtest_also_run_disabled_tests",
          "--gtest_filter=*ReadsAfterGivingBack", nullptr);
    _exit(127);
  }
  close(ends[1]);
  std::string said;
  std::array<char, 4096> part;
  for (ssize_t got = 0; (got = read(ends[0], part.data(), part.size())) > 0;)
    said.append(part.data(), static_cast<size_t>(got));
  close(ends[0]);
  const int status = fault::wait_for_child(child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 66)
      << fault::describe_status(status) << "\n"
      << said;
  EXPECT_NE(said.find("data race"), std::string::npos) << said;
}

}  // namespace
}  // namespace tenon::memory::lease_page
