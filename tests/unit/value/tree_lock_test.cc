// These tests check the lock for trees: who waits for whom, what is freed when, and forks.
#include "modules/value/tree_lock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <thread>

#include "base/fork.h"
#include "support/child_status.h"
#include "unit/memory/standing.h"
#include "unit/value/value_kit.h"

namespace tenon::value {
namespace {

// Begins a change of a thread that holds nothing.
ChangeTrees begin_change() { return must(ChangeTrees::begin()); }

TEST(TreeLock, ThreadsReadTogether) {
  const ReadTrees reading;
  std::thread([] { const ReadTrees also_reading; }).join();
}

TEST(TreeLock, AChangeWaitsForReadersAndReadersForAChange) {
  bool is_changed = false;
  std::optional<ReadTrees> reading(std::in_place);
  test::Told change_told;
  std::thread changes([&] {
    change_told.tell();
    const ChangeTrees changing = begin_change();
    is_changed = true;
  });
  EXPECT_TRUE(change_told.falls_asleep());
  EXPECT_FALSE(is_changed);
  // The lock goes to the threads in the order in which they came. Otherwise readers could keep a
  // change out for ever.
  test::Told reader_told;
  bool found_changed = false;
  std::thread reads([&] {
    reader_told.tell();
    const ReadTrees after_it;
    found_changed = is_changed;
  });
  EXPECT_TRUE(reader_told.falls_asleep());
  reading.reset();
  changes.join();
  reads.join();
  EXPECT_TRUE(found_changed);
}

TEST(TreeLock, AThreadThatHoldsItReadsAtOnceAndChangesNothing) {
  {
    const ReadTrees reading;
    const ReadTrees again;
    EXPECT_EQ(ChangeTrees::begin().status().code(), Code::kPermission);
  }
  {
    const ChangeTrees changing = begin_change();
    const ReadTrees inside;
    EXPECT_EQ(ChangeTrees::begin().status().code(), Code::kPermission);
  }
  (void)begin_change();
}

TEST(TreeLock, APauseLetsOthersChange) {
  const ReadTrees reading;
  const ReadTrees again;
  {
    const PauseReading pause;
    std::thread([] { (void)begin_change(); }).join();
    (void)begin_change();
    const ReadTrees inside;
  }
  EXPECT_EQ(ChangeTrees::begin().status().code(), Code::kPermission);
}

// A tensor over memory of the user's. Its end needs the lock, as a call of the user's would.
ValueRef tensor_whose_end_changes(int* ends) {
  static std::byte memory[4] = {};
  const auto end = [](void* context) {
    (void)begin_change();
    ++*static_cast<int*>(context);
  };
  const Ref<storage::Storage> bytes =
      must(storage::Storage::wrap(memory, sizeof(memory), end, ends, {}));
  const StorageValueRef storage = must(StorageValue::create(tensor::ScalarType::kFloat, 1, bytes));
  return Value::of_tensor(must(TensorValue::create(spec_of(storage, {1}, {1}))));
}

TEST(TreeLock, WhatIsDroppedUnderItEndsAfterwards) {
  int ends = 0;
  ValueRef dropped = tensor_whose_end_changes(&ends);
  ValueRef below = Value::list(nullptr, {tensor_whose_end_changes(&ends), num(1)});
  {
    const ChangeTrees changing = begin_change();
    dropped = nullptr;
    below = nullptr;
    EXPECT_EQ(ends, 0);
  }
  EXPECT_EQ(ends, 2);
  dropped = tensor_whose_end_changes(&ends);
  below = tensor_whose_end_changes(&ends);
  const ReadTrees reading;
  dropped = nullptr;
  EXPECT_EQ(ends, 2);
  {
    const PauseReading pause;
    EXPECT_EQ(ends, 3);
    below = nullptr;
    EXPECT_EQ(ends, 4);
  }
}

// Forks, and returns the status of the child, which runs `body` alone.
template <typename Body>
int status_of_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    ::_exit(body() ? 0 : 1);
  }
  return test::wait_for_child(child);
}

bool can_change() {
  const bool good = ChangeTrees::begin().is_ok();
  const ReadTrees reading;
  return good;
}

TEST(TreeLock, AForkWaitsForAChange) {
  for (int round = 0; round < 50; ++round) {
    int halves = 0;
    std::atomic<bool> changes{false};
    const uint32_t mark = fork_mark();
    std::thread changing([&] {
      const ChangeTrees change = begin_change();
      halves = 1;
      changes = true;
      while (!forked_since(mark)) std::this_thread::yield();
      halves = 2;
    });
    while (!changes) std::this_thread::yield();
    EXPECT_EQ(status_of_child([&] { return halves == 2 && can_change(); }), 0);
    changing.join();
    (void)begin_change();
  }
}

TEST(TreeLock, AForkWaitsForNoReaderAndItsChildForNobody) {
  std::optional<ReadTrees> reading(std::in_place);
  test::Told told;
  std::thread waits([&] {
    told.tell();
    (void)begin_change();
  });
  EXPECT_TRUE(told.falls_asleep());
  std::thread forks([] { EXPECT_EQ(status_of_child(can_change), 0); });
  forks.join();
  // This thread goes on in its child, and holds the lock there too.
  EXPECT_EQ(status_of_child([&] {
              const bool holds = !ChangeTrees::begin().is_ok();
              reading.reset();
              return holds && can_change();
            }),
            0);
  reading.reset();
  waits.join();
}

}  // namespace
}  // namespace tenon::value
