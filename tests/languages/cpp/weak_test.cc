// Tests of weak references, and of the race between lock and the last release.
#include <atomic>

#include "kit.h"

namespace {

using Weak = kit::Leaves;

TEST_F(Weak, LockWhileItLives) {
  tenon::Storage storage = tenon::Storage::make(64);
  const tenon::WeakStorage weak = tenon::WeakStorage::make(storage);
  EXPECT_EQ(weak.id(), storage.id());
  EXPECT_FALSE(weak.expired());
  EXPECT_EQ(weak.lock(), storage);
  EXPECT_EQ(storage.use_count(), 1U);
  const std::uint64_t id = storage.id();
  storage.close();
  EXPECT_TRUE(weak.expired());
  EXPECT_FALSE(weak.lock());
  EXPECT_EQ(weak.id(), id);
}

TEST_F(Weak, ACopyKnowsTheSame) {
  tenon::Storage storage = tenon::Storage::make(64);
  const std::uint64_t id = storage.id();
  tenon::WeakStorage weak = tenon::WeakStorage::make(storage);
  const tenon::WeakStorage copy = weak;
  EXPECT_EQ(storage.use_count(), 1U);
  weak.close();
  EXPECT_EQ(copy.lock(), storage);
  weak = copy;
  storage.close();
  EXPECT_TRUE(copy.expired());
  EXPECT_TRUE(weak.expired());
  const tenon::WeakStorage late = weak;
  EXPECT_FALSE(late.lock());
  EXPECT_EQ(late.id(), id);
  const tenon::WeakStorage nothing = tenon::WeakStorage();
  EXPECT_FALSE(tenon::WeakStorage(nothing));
}

TEST_F(Weak, ARaceHasOneWinner) {
  constexpr int kRounds = 500;
  int whole = 0;
  int gone = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::atomic<int> deleted{0};
    tenon::Storage storage = tenon::Storage::wrap({}, [&deleted] { ++deleted; });
    const tenon::WeakStorage weak = tenon::WeakStorage::make(storage);
    std::atomic<int> ready{0};
    tenon::Storage locked;
    std::thread other([&] {
      ++ready;
      while (ready < 2) std::this_thread::yield();
      locked = weak.lock();
    });
    ++ready;
    while (ready < 2) std::this_thread::yield();
    storage.close();
    other.join();
    if (locked) {
      ++whole;
      EXPECT_EQ(deleted, 0);
      EXPECT_EQ(locked.use_count(), 1U);
      locked.close();
    } else {
      ++gone;
    }
    EXPECT_EQ(deleted, 1);
    EXPECT_TRUE(weak.expired());
  }
  EXPECT_EQ(whole + gone, kRounds);
}

}  // namespace
