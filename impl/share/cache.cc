#include "share/cache.h"

#include <cstddef>
#include <mutex>
#include <utility>

#include "base/keyed_hash.h"
#include "base/process_state.h"
#include "share/object_table.h"

namespace tenon::share {
namespace {

using memory::Segment;
using memory::SegmentKey;
using storage::Storage;

struct Segments {
  using Key = SegmentKey;
  static Key key_of(const Segment& segment) noexcept { return segment.key(); }
  static uint64_t hash(const Key& key) noexcept {
    return keyed_hash({key.inode * 2 + (key.writable ? 1 : 0), key.device});
  }
};

struct Storages {
  // The key has the segment's address. A living storage keeps its segment alive, and the entry is
  // removed before the storage releases the segment.
  struct Key {
    const Segment* segment;
    uint64_t offset;
    uint64_t nbytes;
    bool operator==(const Key&) const = default;
  };
  static Key key_of(const Storage& storage) noexcept {
    return {storage.segment().get(), storage.offset(), storage.nbytes()};
  }
  static uint64_t hash(const Key& key) noexcept {
    return keyed_hash({reinterpret_cast<uintptr_t>(key.segment), key.offset, key.nbytes});
  }
};

// Raw pointers are enough, because an object removes its entry, under the lock, before its memory
// can be freed. Between the last release and that moment try_retain() fails, and the key stays as
// it was.
struct CacheState : ProcessState<LockRank::kIdentityCache> {
  ObjectTable<Segment, Segments> segments;
  ObjectTable<Storage, Storages> storages;
  // Plain numbers under the lock, which is held anyway, cost less than atomic ones.
  OpenedTotals opened;
};

// Counts a storage that was added or removed, if nobody else does. The caller holds the lock.
void count_opened(OpenedTotals* totals, const Storage& storage, bool is_gone) noexcept {
  if (!storage.is_uncounted()) return;
  const uint64_t nbytes = storage.segment()->own() ? 0 : storage.nbytes();
  totals->storages += is_gone ? ~uint64_t{0} : 1;
  totals->nbytes += is_gone ? 0 - nbytes : nbytes;
}

CacheState& cache_state() noexcept { return process_state<CacheState>(); }

// By now intern() may have put a new object in the place of this one. ObjectTable::erase() removes
// exactly the given object, so the new one stays.
void forget_segment(Segment* segment) noexcept {
  CacheState& all = cache_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.segments.erase(segment);
}

void forget_storage(Storage* storage) noexcept {
  CacheState& all = cache_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.storages.erase(storage);
  count_opened(&all.opened, *storage, true);
}

template <typename T>
Ref<T> try_ref(T* object) noexcept {
  return object != nullptr && object->try_retain() ? Ref<T>::adopt(object) : Ref<T>();
}

void call_at_end(Segment* segment, Segment::EndHook forget) noexcept {
  segment->call_at_end(forget);
}
void call_at_end(Storage* storage, Storage::EndHook forget) noexcept {
  storage->call_at_end(Storage::EndSlot::kFirst, forget);
}

template <typename T, typename Table, typename Added>
Ref<T> intern(std::mutex* mutex, Table* table, Ref<T>&& object, typename T::EndHook forget,
              const Added& added) {
  Ref<T> known;
  {
    const std::lock_guard<std::mutex> lock(*mutex);
    T* const there = table->insert(object.get());
    if (there != nullptr && there != object.get()) {
      known = try_ref(there);
      if (!known) table->replace(there, object.get());
    }
    if (!known) {
      if (there != object.get()) added(*object);
      call_at_end(object.get(), forget);
    }
  }
  return known ? std::move(known) : std::move(object);
}

}  // namespace

Ref<Segment> find_segment(const SegmentKey& key) {
  CacheState& all = cache_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  return try_ref(all.segments.find(key));
}

Ref<Storage> find_storage(const Segment* segment, uint64_t offset, uint64_t nbytes) {
  CacheState& all = cache_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  return try_ref(all.storages.find({segment, offset, nbytes}));
}

Ref<Segment> intern_segment(Ref<Segment> segment) {
  CacheState& all = cache_state();
  return intern(&all.mutex, &all.segments, std::move(segment), &forget_segment,
                [](const Segment&) {});
}

Ref<Storage> intern_storage(Ref<Storage>&& storage) {
  CacheState& all = cache_state();
  return intern(&all.mutex, &all.storages, std::move(storage), &forget_storage,
                [&all](const Storage& each) { count_opened(&all.opened, each, false); });
}

OpenedTotals opened_totals() {
  CacheState& all = cache_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  return all.opened;
}

}  // namespace tenon::share
