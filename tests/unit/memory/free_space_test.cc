// These tests check the bookkeeping of a segment's bytes: the sizes of blocks, the pieces that are
// taken and given back, and which bytes were lent before.
#include "memory/free_space.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <vector>

#include "support/seed.h"

namespace tenon::memory {
namespace {

// Takes a piece as an arena does: a freed piece first, and then the front. Returns false if the
// space is full.
bool take_piece(FreeSpace* space, uint64_t nbytes, uint64_t alignment, FreeSpace::Piece* piece) {
  const uint64_t wanted = block_nbytes(nbytes, alignment);
  if (space->take_free(wanted, alignment, piece)) return true;
  uint64_t offset = 0;
  if (!space->peek_front(wanted, alignment, &offset)) return false;
  *piece = space->take_front(offset, wanted);
  return true;
}

constexpr uint64_t kGiB = uint64_t{1} << 30;

TEST(BlockNbytes, IsTheNextMultipleOfTheAlignment) {
  EXPECT_EQ(block_nbytes(1, 64), 64U);
  EXPECT_EQ(block_nbytes(64, 64), 64U);
  EXPECT_EQ(block_nbytes(65, 64), 128U);
  EXPECT_EQ(block_nbytes(65, 4096), 4096U);
  EXPECT_EQ(block_nbytes((uint64_t{1} << 20) + 1, 64), (uint64_t{1} << 20) + 64);
  EXPECT_EQ(block_nbytes(100 << 20, 64), uint64_t{100} << 20);
  EXPECT_EQ(block_nbytes(127 * kGiB + 1, 64), 127 * kGiB + 64);
  EXPECT_EQ(block_nbytes(128 * kGiB + 1, 64), 128 * kGiB + 4096);
}

TEST(BlockSize, IsExactUpToTheLargestBlock) {
  for (const uint64_t nbytes : {uint64_t{0}, uint64_t{64}, 128 * kGiB - 64, 128 * kGiB,
                                200 * kGiB + 4096, 4096 * kGiB, kBlockLimit}) {
    EXPECT_EQ(BlockSize(nbytes).nbytes(), nbytes);
  }
  EXPECT_EQ(sizeof(BlockSize), 4U);
}

// A space that is one free piece can be given out whole, and as many blocks fit as the arithmetic
// says, whatever the sizes are.
TEST(FreeSpace, AFreePieceThatFitsIsFound) {
  for (const uint64_t unit : {uint64_t{4096}, uint64_t{1} << 20, kGiB, 1024 * kGiB}) {
    for (uint64_t eighths = 1; eighths <= 64; ++eighths) {
      const uint64_t nbytes = unit / 8 * eighths;
      FreeSpace space(nbytes);
      FreeSpace::Piece piece;
      ASSERT_TRUE(take_piece(&space, nbytes - 3, 64, &piece)) << nbytes;
      EXPECT_FALSE(take_piece(&space, 1, 64, &piece)) << nbytes;
      space.give_back(0, nbytes, false);
      ASSERT_TRUE(take_piece(&space, nbytes, 64, &piece)) << nbytes << " once more";
    }
  }
  for (const uint64_t nbytes :
       {uint64_t{65}, uint64_t{1025}, uint64_t{5000}, (uint64_t{1} << 20) + 1, 3 * kGiB + 77}) {
    for (const uint64_t extra : {uint64_t{0}, uint64_t{4096}}) {
      FreeSpace space(64 * block_nbytes(nbytes, 64) + extra);
      FreeSpace::Piece piece;
      for (int i = 0; i < 64; ++i)
        ASSERT_TRUE(take_piece(&space, nbytes, 64, &piece)) << i << " of " << nbytes;
    }
  }
}

TEST(FreeSpace, AFreedPieceOfAboutTheSizeIsGivenOutWhole) {
  for (const uint64_t nbytes :
       {uint64_t{1152}, uint64_t{98'304}, uint64_t{1} << 20, uint64_t{9} << 20}) {
    FreeSpace space(4 * nbytes);
    FreeSpace::Piece stays;
    FreeSpace::Piece first;
    FreeSpace::Piece again;
    ASSERT_TRUE(take_piece(&space, nbytes, 64, &first) && take_piece(&space, 64, 64, &stays));
    space.give_back(first.offset, nbytes, false);
    // A size just below the freed size gets the freed piece, also across the border of two bins.
    ASSERT_TRUE(take_piece(&space, nbytes - 64, 64, &again));
    EXPECT_EQ(again.offset, first.offset) << nbytes;
    EXPECT_EQ(again.nbytes, nbytes);
    space.give_back(again.offset, again.nbytes, false);
    // A piece that would waste more than an eighth is not used.
    ASSERT_TRUE(take_piece(&space, nbytes / 9 * 8 - 64, 64, &again));
    EXPECT_NE(again.offset, first.offset) << nbytes;
  }
}

TEST(FreeSpace, BinsKeepOneSizeFromAnother) {
  std::vector<uint64_t> sizes;
  for (uint64_t nbytes = 64; nbytes < 40'000; nbytes += 64) sizes.push_back(nbytes);
  for (const uint64_t nbytes : sizes) {
    FreeSpace space(1 << 20);
    FreeSpace::Piece stays;
    FreeSpace::Piece piece;
    ASSERT_TRUE(take_piece(&space, nbytes, 64, &piece) && take_piece(&space, 64, 64, &stays));
    space.give_back(piece.offset, nbytes, false);
    EXPECT_EQ(space.largest_free(), nbytes);
    ASSERT_FALSE(space.take_free(nbytes + 64, 64, &piece)) << nbytes << " is too small";
    ASSERT_TRUE(space.take_free(nbytes, 64, &piece)) << nbytes;
    EXPECT_EQ(space.largest_free(), 0U);
  }
}

TEST(FreeSpace, LastFreedFirstTaken) {
  FreeSpace space(1 << 20);
  FreeSpace::Piece a;
  FreeSpace::Piece b;
  FreeSpace::Piece again;
  ASSERT_TRUE(take_piece(&space, 1000, 64, &a) && take_piece(&space, 1000, 64, &b));
  EXPECT_NE(a.offset, b.offset);
  space.give_back(a.offset, uint64_t{1024}, false);
  space.give_back(b.offset, uint64_t{1024}, false);
  ASSERT_TRUE(take_piece(&space, 1001, 64, &again));
  EXPECT_EQ(again.offset, b.offset);
  EXPECT_EQ(space.free_nbytes(), uint64_t{1024});
  EXPECT_EQ(space.largest_free(), uint64_t{1024});
}

TEST(FreeSpace, NothingBehindTheEnd) {
  FreeSpace space(4096);
  FreeSpace::Piece piece;
  ASSERT_TRUE(take_piece(&space, 4096, 64, &piece));
  EXPECT_FALSE(take_piece(&space, 1, 64, &piece));
  uint64_t offset = 0;
  EXPECT_FALSE(space.peek_front(uint64_t{1} << 62, 64, &offset));
}

TEST(FreeSpace, NeighboursAreJoinedWhenRoomIsShort) {
  FreeSpace space(64 * 1024);
  std::vector<FreeSpace::Piece> pieces(64);
  for (FreeSpace::Piece& piece : pieces) ASSERT_TRUE(take_piece(&space, 1024, 64, &piece));
  for (const FreeSpace::Piece& piece : pieces) {
    if (piece.offset != 0) space.give_back(piece.offset, 1024, false);
  }
  FreeSpace::Piece large;
  EXPECT_FALSE(take_piece(&space, 32 * 1024, 64, &large));
  EXPECT_TRUE(space.consolidate());
  EXPECT_EQ(space.front(), 1024U);
  EXPECT_EQ(space.touched(), 64U * 1024);
  EXPECT_FALSE(space.consolidate());
  EXPECT_TRUE(take_piece(&space, 32 * 1024, 64, &large));
}

TEST(FreeSpace, WasLentSurvivesJoiningAndSplitting) {
  FreeSpace space(64 * 1024);
  std::vector<FreeSpace::Piece> pieces(64);
  for (FreeSpace::Piece& piece : pieces) ASSERT_TRUE(take_piece(&space, 1024, 64, &piece));
  // One piece in the middle was lent. The last piece stays taken, so that the freed pieces do not
  // become part of the front.
  for (size_t i = 8; i < 24; ++i) space.give_back(pieces[i].offset, 1024, i == 15);
  ASSERT_TRUE(space.consolidate());
  FreeSpace::Piece part;
  for (int i = 0; i < 16; ++i) {
    ASSERT_TRUE(space.take_free(1024, 64, &part));
    EXPECT_TRUE(part.was_lent);
  }
  EXPECT_FALSE(space.take_free(1024, 64, &part));
}

TEST(FreeSpace, WasLentSurvivesTheFront) {
  FreeSpace space(64 * 1024);
  FreeSpace::Piece piece;
  ASSERT_TRUE(take_piece(&space, 4096, 64, &piece));
  EXPECT_FALSE(piece.was_lent);
  space.give_back(piece.offset, 4096, true);
  ASSERT_TRUE(space.consolidate());
  EXPECT_EQ(space.front(), 0U);
  ASSERT_TRUE(take_piece(&space, 1024, 64, &piece));
  EXPECT_TRUE(piece.was_lent);
  space.reset();
  ASSERT_TRUE(take_piece(&space, 1024, 64, &piece));
  EXPECT_TRUE(piece.was_lent) << "what was lent before a reset is remembered after it";
}

TEST(FreeSpace, WhatAnAlignmentSkipsIsNotLost) {
  FreeSpace space(64 * 1024);
  FreeSpace::Piece small;
  FreeSpace::Piece aligned;
  ASSERT_TRUE(take_piece(&space, 64, 64, &small) && take_piece(&space, 4096, 4096, &aligned));
  EXPECT_EQ(aligned.offset, 4096U);
  EXPECT_EQ(space.free_nbytes(), 4096U - 64);
  space.give_back(small.offset, 64, false);
  space.give_back(aligned.offset, 4096, false);
  ASSERT_TRUE(space.consolidate());
  EXPECT_EQ(space.front(), 0U);
  EXPECT_EQ(space.free_nbytes(), 0U);
}

// Returns whether this many units in a row are free, the first of them at a multiple of
// `alignment`.
bool model_has_room(const std::vector<bool>& taken, uint64_t units, uint64_t alignment) {
  for (uint64_t begin = 0; begin + units <= taken.size(); begin += alignment) {
    const auto first = taken.begin() + static_cast<std::ptrdiff_t>(begin);
    if (std::find(first, first + static_cast<std::ptrdiff_t>(units), true) ==
        first + static_cast<std::ptrdiff_t>(units))
      return true;
  }
  return false;
}

// Compares the space with a model. For each 64 bytes, the model knows whether they are taken and
// whether a borrower may know their contents.
TEST(FreeSpace, AgreesWithASimpleModel) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE("TENON_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  constexpr uint64_t kNbytes = 256 * 1024;
  constexpr uint64_t kUnits = kNbytes / 64;
  for (int round = 0; round < 20; ++round) {
    FreeSpace space(kNbytes);
    std::vector<bool> taken(kUnits);
    std::vector<bool> known(kUnits);
    std::map<uint64_t, uint64_t> live;  // offset -> nbytes
    uint64_t live_nbytes = 0;
    for (int step = 0; step < 2000; ++step) {
      const bool full = live_nbytes > kNbytes / 4 * 3;
      if (live.empty() || (random() % 2 == 0 && !full)) {
        const uint64_t alignment = uint64_t{64} << (random() % 4 == 0 ? random() % 7 : 0);
        const uint64_t nbytes = 1 + random() % (random() % 8 == 0 ? 40'000 : 2'000);
        FreeSpace::Piece piece;
        bool got = take_piece(&space, nbytes, alignment, &piece);
        if (!got && space.consolidate()) got = take_piece(&space, nbytes, alignment, &piece);
        if (!got) {
          ASSERT_FALSE(model_has_room(taken, block_nbytes(nbytes, alignment) / 64, alignment / 64))
              << nbytes << " at " << alignment;
          continue;
        }
        ASSERT_GE(piece.nbytes, nbytes);
        ASSERT_LE(piece.nbytes, block_nbytes(nbytes, alignment) / 8 * 9 + 8);
        ASSERT_EQ(piece.offset % alignment, 0U);
        ASSERT_LE(piece.offset + piece.nbytes, kNbytes);
        bool may_be_known = false;
        for (uint64_t i = piece.offset / 64; i < (piece.offset + piece.nbytes) / 64; ++i) {
          ASSERT_FALSE(taken[i]) << "given out twice: " << i * 64;
          taken[i] = true;
          may_be_known = may_be_known || known[i];
          known[i] = false;  // the arena clears it
        }
        if (may_be_known) ASSERT_TRUE(piece.was_lent) << piece.offset;
        live.emplace(piece.offset, piece.nbytes);
        live_nbytes += piece.nbytes;
      } else {
        const auto at =
            std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
        const bool lent = random() % 5 == 0;
        for (uint64_t i = at->first / 64; i < (at->first + at->second) / 64; ++i) {
          taken[i] = false;
          if (lent) known[i] = true;
        }
        space.give_back(at->first, at->second, lent);
        live_nbytes -= at->second;
        live.erase(at);
      }
      ASSERT_EQ(space.front(), live_nbytes + space.free_nbytes()) << "step " << step;
      ASSERT_LE(space.largest_free(), space.free_nbytes());
      ASSERT_LE(space.front(), space.touched());
      if (random() % 100 == 0) (void)space.consolidate();
    }
    for (const auto& [offset, nbytes] : live) space.give_back(offset, nbytes, false);
    (void)space.consolidate();
    ASSERT_EQ(space.front(), 0U) << "what all was given back is one piece again";
    ASSERT_EQ(space.free_nbytes(), 0U);
  }
}

}  // namespace
}  // namespace tenon::memory
