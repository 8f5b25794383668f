// These tests make allocations fail while FreeSpace works. The test is a program of its own,
// because it replaces operator new.
#include <gtest/gtest.h>

#include <new>

#include "memory/free_space.h"
#include "unit/failing_new.h"

namespace tenon::memory {
namespace {

constexpr uint64_t kBlock = 4096;

// Calls `body` with 0, 1, 2, ... allocations allowed until it needs no more. Returns how often it
// ran out of memory.
template <typename Body>
int without_memory(const Body& body) {
  for (int allowed = 0;; ++allowed) {
    bool refused = false;
    allocations_left = allowed;
    try {
      body();
    } catch (const std::bad_alloc&) {
      refused = true;
    }
    allocations_left = -1;
    if (!refused) return allowed;
  }
}

// Sixteen blocks from the front, of which each second one and the last three are given back.
void fill_in_part(FreeSpace* space) {
  for (uint64_t i = 0; i < 16; ++i) {
    uint64_t offset = 0;
    ASSERT_TRUE(space->peek_front(kBlock, 64, &offset));
    (void)space->take_front(offset, kBlock);
  }
  for (uint64_t i = 1; i < 16; i += 2) space->give_back(i * kBlock, kBlock, false);
  space->give_back(14 * kBlock, kBlock, false);
}

TEST(FreeSpaceWithoutMemory, AConsolidationThatFailsChangesNothing) {
  FreeSpace space(64 * kBlock);
  fill_in_part(&space);
  const int refused = without_memory([&] {
    EXPECT_EQ(space.front(), 16 * kBlock);
    EXPECT_EQ(space.free_nbytes(), 9 * kBlock);
    EXPECT_TRUE(space.consolidate());
  });
  EXPECT_GT(refused, 1);
  EXPECT_EQ(space.front(), 13 * kBlock);
  EXPECT_EQ(space.free_nbytes(), 6 * kBlock);
}

// A block in the middle of a piece leaves two rests, and the second one needs an entry.
TEST(FreeSpaceWithoutMemory, ATakeThatFailsChangesNothing) {
  FreeSpace space(64 * kBlock);
  uint64_t offset = 0;
  ASSERT_TRUE(space.peek_front(kBlock, 64, &offset));
  (void)space.take_front(offset, kBlock);
  ASSERT_TRUE(space.peek_front(16 * kBlock, 64, &offset));
  (void)space.take_front(offset, 16 * kBlock);
  ASSERT_TRUE(space.peek_front(kBlock, 64, &offset));
  (void)space.take_front(offset, kBlock);
  space.give_back(kBlock, 16 * kBlock, true);
  ASSERT_TRUE(space.consolidate());
  FreeSpace::Piece piece;
  const int refused = without_memory([&] {
    EXPECT_EQ(space.free_nbytes(), 16 * kBlock);
    EXPECT_TRUE(space.take_free(kBlock, 4 * kBlock, &piece));
  });
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(piece.offset, 4 * kBlock);
  EXPECT_EQ(piece.nbytes, kBlock);
  EXPECT_TRUE(piece.was_lent);
  EXPECT_EQ(space.free_nbytes(), 15 * kBlock);
  EXPECT_TRUE(space.take_free(3 * kBlock, 64, &piece));
  EXPECT_EQ(piece.offset, kBlock);
  EXPECT_TRUE(space.take_free(12 * kBlock, 64, &piece));
  EXPECT_EQ(piece.offset, 5 * kBlock);
  EXPECT_EQ(space.free_nbytes(), 0U);
}

}  // namespace
}  // namespace tenon::memory
