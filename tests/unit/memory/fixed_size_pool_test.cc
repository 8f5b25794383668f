// These tests check FixedSizePool. Its places do not overlap, lie close together, keep their
// contents, and are freed when a piece is empty. Threads share a pool under one lock.
#include "memory/fixed_size_pool.h"
#include "support/sanitizers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace tenon::memory {
namespace {

constexpr size_t kPlace = 48;
constexpr size_t kPerPiece = (FixedSizePool::kPieceNbytes - 40) / kPlace;

struct Taken {
  unsigned char* place;
  unsigned char fill;
};

Taken take_filled(FixedSizePool* slab, unsigned char fill) {
  auto* const place = static_cast<unsigned char*>(slab->take());
  if (place != nullptr) std::memset(place, fill, kPlace);
  return {place, fill};
}

bool is_whole(const Taken& taken) {
  return std::all_of(taken.place, taken.place + kPlace,
                     [&](unsigned char byte) { return byte == taken.fill; });
}

TEST(FixedSizePool, PlacesAreCloseTogether) {
  FixedSizePool slab(kPlace);
  std::vector<void*> places;
  for (size_t i = 0; i < 10 * kPerPiece; ++i) {
    places.push_back(slab.take());
    ASSERT_NE(places.back(), nullptr);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(places.back()) % 8, 0U);
  }
  EXPECT_EQ(slab.pieces(), 10U);
  std::sort(places.begin(), places.end());
  for (size_t i = 1; i < places.size(); ++i)
    ASSERT_GE(static_cast<char*>(places[i]) - static_cast<char*>(places[i - 1]), ptrdiff_t{kPlace});
  for (void* place : places) slab.give_back(place);
}

TEST(FixedSizePool, EmptyPiecesGoBackButForOne) {
  FixedSizePool slab(kPlace);
  for (const unsigned seed : {1U, 2U}) {
    std::vector<void*> places;
    for (size_t i = 0; i < 20 * kPerPiece; ++i) places.push_back(slab.take());
    EXPECT_EQ(slab.pieces(), 20U);
    std::shuffle(places.begin(), places.end(), std::mt19937(seed));
    for (void* place : places) slab.give_back(place);
    EXPECT_EQ(slab.taken(), 0U);
    EXPECT_EQ(slab.pieces(), 1U);
  }
  // The piece that was kept serves the next place.
  void* const place = slab.take();
  EXPECT_EQ(slab.pieces(), 1U);
  slab.give_back(place);
}

TEST(FixedSizePool, RandomSteps) {
  for (const unsigned seed : {1U, 2U, 3U}) {
    std::mt19937 random(seed);
    FixedSizePool slab(kPlace);
    std::vector<Taken> held;
    for (const unsigned give_percent : {20U, 80U, 50U, 10U, 95U}) {
      for (size_t i = 0; i < 20'000; ++i) {
        if (held.empty() || random() % 100 >= give_percent) {
          held.push_back(take_filled(&slab, static_cast<unsigned char>(random())));
          ASSERT_NE(held.back().place, nullptr);
          continue;
        }
        std::swap(held[random() % held.size()], held.back());
        ASSERT_TRUE(is_whole(held.back()));
        slab.give_back(held.back().place);
        held.pop_back();
      }
      ASSERT_EQ(slab.taken(), held.size());
      for (const Taken& each : held) ASSERT_TRUE(is_whole(each));
    }
    for (const Taken& each : held) slab.give_back(each.place);
    EXPECT_EQ(slab.pieces(), 1U);
  }
}

// One thread takes what another gives back, as lenders and the service thread do.
TEST(FixedSizePool, Threads) {
  constexpr int kThreads = 4;
  FixedSizePool slab(kPlace);
  std::mutex mutex;
  std::vector<Taken> common;
  std::vector<std::thread> threads;
  for (int id = 0; id < kThreads; ++id) {
    threads.emplace_back([&, id] {
      std::mt19937 random(static_cast<unsigned>(id));
      for (int i = 0; i < 20'000; ++i) {
        const std::lock_guard<std::mutex> lock(mutex);
        if (random() % 2 == 0 || common.empty()) {
          common.push_back(take_filled(&slab, static_cast<unsigned char>(id)));
          continue;
        }
        std::swap(common[random() % common.size()], common.back());
        ASSERT_TRUE(is_whole(common.back()));
        slab.give_back(common.back().place);
        common.pop_back();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(slab.taken(), common.size());
  for (const Taken& each : common) slab.give_back(each.place);
  EXPECT_EQ(slab.pieces(), 1U);
}

#if TENON_TEST_ASAN
TEST(SlabDeathTest, AddressSanitizerSeesUseAfterGiveBack) {
  FixedSizePool slab(kPlace);
  auto* const place = static_cast<unsigned char*>(slab.take());
  slab.give_back(place);
  EXPECT_DEATH(*static_cast<volatile unsigned char*>(place) = 1, "use-after-poison");
}
#endif

}  // namespace
}  // namespace tenon::memory
