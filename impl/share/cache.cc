#include "share/cache.h"

#include <cstddef>
#include <mutex>
#include <unordered_map>

#include "base/fork.h"
#include "base/immortal.h"

namespace tenon::share {
namespace {

using memory::Segment;
using memory::SegmentKey;
using storage::Storage;

uint64_t mix(uint64_t a, uint64_t b) noexcept {
  uint64_t h = a * 0x9e3779b97f4a7c15ULL ^ b;
  h ^= h >> 32;
  return h * 0xd6e8feb86659fd93ULL;
}

struct SegmentKeyHash {
  size_t operator()(const SegmentKey& key) const noexcept { return mix(key.inode * 2 + (key.writable ? 1 : 0), key.device); }
};

// The segment by address: while a storage lives its segment does, and the entry goes before the storage lets go of it.
struct StorageKey {
  const Segment* segment;
  uint64_t offset;
  uint64_t nbytes;
  bool operator==(const StorageKey&) const = default;
};

struct StorageKeyHash {
  size_t operator()(const StorageKey& key) const noexcept {
    return mix(mix(reinterpret_cast<uintptr_t>(key.segment), key.offset), key.nbytes);
  }
};

// Raw pointers are enough: an object takes its entry out, under the lock, before its memory can go. Between its last release and that
// moment try_retain fails.
struct State {
  std::mutex mutex;
  std::unordered_map<SegmentKey, Segment*, SegmentKeyHash> segments;
  std::unordered_map<StorageKey, Storage*, StorageKeyHash> storages;
};

State& state() noexcept { return immortal<State>(); }

const bool g_fork_hooks = [] {
  (void)state();
  register_fork_hooks(
      20, {[]() noexcept { state().mutex.lock(); }, []() noexcept { state().mutex.unlock(); }, []() noexcept { state().mutex.unlock(); }});
  return true;
}();

StorageKey key_of(const Storage& storage) noexcept { return {storage.segment().get(), storage.offset(), storage.nbytes()}; }

void forget_segment(Segment* segment) noexcept {
  State& all = state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.segments.find(segment->key());
  if (found != all.segments.end() && found->second == segment) all.segments.erase(found);
}

void forget_storage(Storage* storage) noexcept {
  State& all = state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.storages.find(key_of(*storage));
  if (found != all.storages.end() && found->second == storage) all.storages.erase(found);
}

template <typename T>
Ref<T> try_ref(T* object) noexcept {
  return object->try_retain() ? Ref<T>::adopt(object) : Ref<T>();
}

template <typename Map, typename T>
Ref<T> intern(std::mutex* mutex, Map* map, const typename Map::key_type& key, Ref<T> object, void (*forget)(T*) noexcept) {
  Ref<T> known;  // let go of `object`, if it loses, only after the lock: its disposal takes it
  {
    const std::lock_guard<std::mutex> lock(*mutex);
    auto [at, inserted] = map->try_emplace(key, object.get());
    if (!inserted && at->second != object.get()) {
      known = try_ref(at->second);
      if (!known) at->second = object.get();
    }
    if (!known) object->tell_cache(forget);
  }
  return known ? known : object;
}

}  // namespace

Ref<Segment> find_segment(const SegmentKey& key) {
  State& all = state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.segments.find(key);
  return found == all.segments.end() ? Ref<Segment>() : try_ref(found->second);
}

Ref<Storage> find_storage(const Segment* segment, uint64_t offset, uint64_t nbytes) {
  State& all = state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.storages.find({segment, offset, nbytes});
  return found == all.storages.end() ? Ref<Storage>() : try_ref(found->second);
}

Ref<Segment> intern_segment(Ref<Segment> segment) {
  State& all = state();
  const SegmentKey key = segment->key();
  return intern(&all.mutex, &all.segments, key, std::move(segment), &forget_segment);
}

Ref<Storage> intern_storage(Ref<Storage> storage) {
  State& all = state();
  const StorageKey key = key_of(*storage);
  return intern(&all.mutex, &all.storages, key, std::move(storage), &forget_storage);
}

}  // namespace tenon::share
