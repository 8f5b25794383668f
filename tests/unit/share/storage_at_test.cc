// These tests find the storage in which an address lies.
#include "share/storage_at.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "support/must.h"

namespace tenon::share {
namespace {

using storage::Storage;
using storage::StorageOptions;

Ref<Storage> new_storage(uint64_t nbytes, const StorageOptions& options = {}) {
  return must(Storage::create(options, nbytes));
}

void expect_found(const Ref<Storage>& storage) {
  for (const uint64_t at : {uint64_t{0}, storage->nbytes() / 2, storage->nbytes() - 1}) {
    EXPECT_EQ(find_storage_at(storage->data() + at, 1).get(), storage.get())
        << at << " of " << storage->nbytes();
  }
}

TEST(StorageAt, EachOfManySizesIsFoundByEachOfItsBytesAndByNoOther) {
  std::mt19937_64 random(1);
  std::vector<Ref<Storage>> storages;
  for (int i = 0; i < 2000; ++i) {
    const uint64_t nbytes = 1 + (random() & ((uint64_t{1} << (random() % 18)) - 1));
    storages.push_back(new_storage(nbytes));
    remember_address(storages.back().get());
    remember_address(storages.back().get());  // the second call does nothing
  }
  for (int round = 0; round < 3; ++round) {
    for (const Ref<Storage>& each : storages) {
      expect_found(each);
      // The byte behind the storage belongs to the next block or to none.
      const Ref<Storage> next = find_storage_at(each->data() + each->nbytes(), 1);
      EXPECT_NE(next.get(), each.get());
      if (next) EXPECT_EQ(next->data(), each->data() + each->nbytes());
    }
    for (int i = 0; i < 500; ++i) {
      std::swap(storages[random() % storages.size()], storages.back());
      const std::byte* const first = storages.back()->data();
      storages.pop_back();
      EXPECT_FALSE(find_storage_at(first, 1));
    }
  }
}

TEST(StorageAt, OnlyASharedStorageWhoseAddressWasGivenOut) {
  const Ref<Storage> silent = new_storage(100);
  EXPECT_FALSE(find_storage_at(silent->data(), 1));
  const Ref<Storage> empty = new_storage(0);
  remember_address(empty.get());
  EXPECT_FALSE(find_storage_at(nullptr, 1));
  StorageOptions as_private;
  as_private.is_private = true;
  const Ref<Storage> of_this_process = new_storage(100, as_private);
  remember_address(of_this_process.get());
  EXPECT_FALSE(find_storage_at(of_this_process->data(), 1));
  int on_the_stack = 0;
  EXPECT_FALSE(find_storage_at(&on_the_stack, 1));
  EXPECT_FALSE(find_storage_at(reinterpret_cast<const void*>(UINTPTR_MAX), 1));
}

// The private storage is memory that is not Tenon's own. It lies over the bytes of another storage.
TEST(StorageAt, APrivateStorageOverTheBytesDoesNotHideIt) {
  const Ref<Storage> whole = new_storage(4096);
  remember_address(whole.get());
  const Ref<Storage> over =
      Storage::wrap(const_cast<std::byte*>(whole->data()) + 64, 64, nullptr, nullptr, {}).value();
  remember_address(over.get());
  EXPECT_EQ(find_storage_at(whole->data() + 64, 1).get(), whole.get());
}

TEST(StorageAt, TheSmallestOfThoseThatOverlap) {
  const Ref<Storage> home = new_storage(1 << 20);
  const auto open = [&](uint64_t offset, uint64_t nbytes) {
    Ref<Storage> part = Storage::open(home->segment(), home->offset() + offset, nbytes);
    remember_address(part.get());
    return part;
  };
  const Ref<Storage> all = open(0, 1 << 20);
  const Ref<Storage> half = open(1 << 19, 1 << 19);
  Ref<Storage> few = open((1 << 19) + 1000, 100);
  EXPECT_EQ(find_storage_at(home->data() + (1 << 19) + 1099, 1).get(), few.get());
  EXPECT_EQ(find_storage_at(home->data() + (1 << 19) + 1100, 1).get(), half.get());
  EXPECT_EQ(find_storage_at(home->data() + (1 << 19) - 1, 1).get(), all.get());
  // A range that reaches beyond the smallest storage finds a larger one.
  EXPECT_EQ(find_storage_at(few->data(), 100).get(), few.get());
  EXPECT_EQ(find_storage_at(few->data(), 101).get(), half.get());
  EXPECT_EQ(find_storage_at(few->data(), 1 << 20).get(), nullptr);
  EXPECT_EQ(find_storage_at(home->data(), 1 << 20).get(), all.get());
  EXPECT_EQ(find_storage_at(home->data(), UINT64_MAX).get(), nullptr);
  few = nullptr;
  EXPECT_EQ(find_storage_at(home->data() + (1 << 19) + 1099, 1).get(), half.get());
}

// A finder gets a complete storage or none, whenever another thread releases the last reference.
TEST(StorageAt, BesideTheLastRelease) {
  std::atomic<const std::byte*> address{nullptr};
  std::atomic<bool> over{false};
  std::thread finder([&] {
    while (!over) {
      if (const Ref<Storage> found = find_storage_at(address.load(), 1))
        EXPECT_EQ(found->nbytes(), 64U);
    }
  });
  for (int i = 0; i < 20'000; ++i) {
    const Ref<Storage> storage = new_storage(64);
    address = storage->data();
    remember_address(storage.get());
  }
  over = true;
  finder.join();
}

TEST(StorageAt, AChildOfForkFindsItsParents) {
  const Ref<Storage> storage = new_storage(100);
  remember_address(storage.get());
  const pid_t child = fork();
  if (child == 0)
    std::_Exit(find_storage_at(storage->data() + 99, 1).get() == storage.get() ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace tenon::share
