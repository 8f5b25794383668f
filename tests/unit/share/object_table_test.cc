// These tests compare ObjectTable with std::unordered_map, in random steps with colliding keys. The
// table grows, shrinks, and fails to grow without memory.
#include "share/object_table.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <new>
#include <random>
#include <unordered_map>
#include <vector>

namespace {

// How many allocations operator new may still serve; negative: any number.
thread_local long g_allocations = -1;

bool may_allocate() noexcept {
  if (g_allocations == 0) return false;
  if (g_allocations > 0) --g_allocations;
  return true;
}

}  // namespace

// noinline: otherwise gcc warns that new is paired with free, and delete with malloc.
[[gnu::noinline]] void* operator new(size_t nbytes) {
  void* const bytes = may_allocate() ? std::malloc(nbytes) : nullptr;
  if (bytes == nullptr) throw std::bad_alloc();
  return bytes;
}
[[gnu::noinline]] void* operator new(size_t nbytes, const std::nothrow_t& /*tag*/) noexcept {
  return may_allocate() ? std::malloc(nbytes) : nullptr;
}
void* operator new[](size_t nbytes) { return operator new(nbytes); }
void* operator new[](size_t nbytes, const std::nothrow_t& tag) noexcept {
  return operator new(nbytes, tag);
}
[[gnu::noinline]] void operator delete(void* bytes) noexcept { std::free(bytes); }
[[gnu::noinline]] void operator delete(void* bytes, size_t /*nbytes*/) noexcept {
  std::free(bytes);
}
void operator delete[](void* bytes) noexcept { operator delete(bytes); }
void operator delete[](void* bytes, size_t /*nbytes*/) noexcept { operator delete(bytes); }

namespace tenon::share {
namespace {

struct Object {
  uint64_t key;
};

struct Spread {
  using Key = uint64_t;
  static Key key_of(const Object& object) noexcept { return object.key; }
  static uint64_t hash(const Key& key) noexcept {
    uint64_t h = key * 0x9e3779b97f4a7c15ULL;
    h ^= h >> 32;
    return h * 0xd6e8feb86659fd93ULL;
  }
};

// All keys have one of five hashes, so that all clusters are long and all tags alike. One of the
// clusters begins at the end of the table and wraps around.
struct Crowded : Spread {
  static uint64_t hash(const Key& key) noexcept {
    return key % 5 == 0 ? ~uint64_t{0} : Spread::hash(key % 5);
  }
};

template <typename Traits>
class Both {
 public:
  explicit Both(uint64_t keys) : keys_(keys) {}

  // Inserts, replaces or erases an object as the cache does. A third of the inserts and erasures
  // run without memory. Such an insert fails if the table must grow.
  void step(std::mt19937_64* random, unsigned erase_percent) {
    const uint64_t key = (*random)() % keys_;
    const auto known = map_.find(key);
    Object* const there = known == map_.end() ? nullptr : known->second;
    ASSERT_EQ(table_.find(key), there);
    if ((*random)() % 100 < erase_percent) {
      Object stranger{key};
      table_.erase(&stranger);
      ASSERT_EQ(table_.find(key), there);
      if (there == nullptr) return;
      // A table that has no memory to shrink stays as it is.
      g_allocations = (*random)() % 3 == 0 ? 0 : -1;
      table_.erase(there);
      g_allocations = -1;
      map_.erase(known);
      delete there;
      ASSERT_EQ(table_.find(key), nullptr);
      return;
    }
    auto* const made = new Object{key};
    if (there != nullptr) {
      ASSERT_EQ(table_.insert(made), there);
      table_.replace(there, made);
      known->second = made;
      delete there;
      ASSERT_EQ(table_.find(key), made);
      return;
    }
    map_.emplace(key, made);
    const size_t size = table_.size();
    bool failed = false;
    g_allocations = (*random)() % 3 == 0 ? 0 : -1;
    try {
      if (table_.insert(made) != nullptr) std::abort();
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    g_allocations = -1;
    if (failed) {
      ++failures_;
      ASSERT_EQ(table_.size(), size);
      ASSERT_EQ(table_.find(key), nullptr);
      map_.erase(key);
      delete made;
    }
  }

  void compare() const {
    ASSERT_EQ(table_.count(), map_.size());
    for (const auto& [key, object] : map_) ASSERT_EQ(table_.find(key), object);
    for (uint64_t key = 0; key < keys_; ++key)
      ASSERT_EQ(table_.find(key) != nullptr, map_.contains(key));
  }

  void clear() {
    for (const auto& [key, object] : map_) {
      table_.erase(object);
      delete object;
    }
    map_.clear();
    compare();
  }

  size_t size() const { return table_.size(); }
  size_t count() const { return table_.count(); }
  size_t failures() const { return failures_; }

 private:
  uint64_t keys_;
  ObjectTable<Object, Traits, 16> table_;
  std::unordered_map<uint64_t, Object*> map_;
  size_t failures_ = 0;
};

template <typename Traits>
void walk(uint64_t keys, size_t steps) {
  for (const uint64_t seed : {1U, 2U, 3U, 4U}) {
    std::mt19937_64 random(seed);
    Both<Traits> both(keys);
    // The table grows and shrinks several times.
    for (const unsigned erase_percent : {30U, 70U, 50U, 0U, 100U, 45U}) {
      for (size_t i = 0; i < steps; ++i)
        ASSERT_NO_FATAL_FAILURE(both.step(&random, erase_percent)) << "seed " << seed;
      ASSERT_NO_FATAL_FAILURE(both.compare()) << "seed " << seed;
      ASSERT_LE(both.count() * 4, both.size() * 3);
    }
    EXPECT_GT(both.failures(), 0U);
    both.clear();
  }
}

TEST(ObjectTable, FewObjects) { walk<Spread>(40, 2000); }
TEST(ObjectTable, ManyObjects) { walk<Spread>(20'000, 30'000); }
TEST(ObjectTable, LongClusters) { walk<Crowded>(150, 4000); }

// Several objects of one key are in the table beside each other. Each is found by a condition of
// its own, and is erased alone.
template <typename Traits>
void beside_each_other() {
  constexpr size_t kMany = 3000;
  constexpr uint64_t kKeys = 700;
  std::vector<Object> objects(kMany);
  std::vector<bool> is_in(kMany);
  ObjectTable<Object, Traits, 16> table;
  std::mt19937_64 random(7);
  size_t count = 0;
  for (size_t step = 0; step < 20'000; ++step) {
    const size_t i = random() % kMany;
    objects[i].key = i % kKeys;
    const auto is_it = [&](const Object& each) { return &each == &objects[i]; };
    ASSERT_EQ(table.find_if(objects[i].key, is_it) != nullptr, is_in[i]);
    if (is_in[i]) {
      table.erase(&objects[i]);
    } else {
      const size_t size = table.size();
      g_allocations = random() % 3 == 0 ? 0 : -1;
      try {
        table.insert_beside(&objects[i]);
      } catch (const std::bad_alloc&) {
        g_allocations = -1;
        ASSERT_EQ(table.size(), size);
        continue;
      }
      g_allocations = -1;
    }
    is_in[i] = !is_in[i];
    count += is_in[i] ? 1 : -1;
    ASSERT_EQ(table.count(), count);
    ASSERT_EQ(table.find_if(objects[i].key, is_it) != nullptr, is_in[i]);
  }
  for (size_t i = 0; i < kMany; ++i) {
    ASSERT_EQ(table.find_if(i % kKeys, [&](const Object& each) { return &each == &objects[i]; }) !=
                  nullptr,
              is_in[i]);
  }
  ASSERT_EQ(table.find_if(0, [](const Object&) { return false; }), nullptr);
}

TEST(ObjectTable, BesideEachOther) { beside_each_other<Spread>(); }
TEST(ObjectTable, BesideEachOtherInLongClusters) { beside_each_other<Crowded>(); }

TEST(ObjectTable, TakesAtMost22BytesForEachOfManyAndKeepsRoomForThousands) {
  constexpr size_t kMany = 100'000;
  std::vector<Object> objects(kMany);
  for (size_t i = 0; i < kMany; ++i) objects[i].key = i * 64;
  ObjectTable<Object, Spread> table;
  for (size_t i = 0; i < kMany; ++i) {
    ASSERT_EQ(table.insert(&objects[i]), nullptr);
    if (i >= 16) ASSERT_LE(table.size() * sizeof(void*), (i + 1) * 22);
  }
  for (size_t i = 0; i < kMany; ++i) {
    table.erase(&objects[i]);
    ASSERT_EQ(table.count(), kMany - i - 1);
    if (i + 1 < kMany) ASSERT_EQ(table.find(objects[kMany - 1].key), &objects[kMany - 1]);
  }
  EXPECT_EQ(table.size(), 16'384U);
}

}  // namespace
}  // namespace tenon::share
