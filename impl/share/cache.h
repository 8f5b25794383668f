// The identity cache: finds the segments and storages that this process already has. Code that
// opens memory of other processes calls it, so that one segment with one access is mapped once, and
// one range of it is one storage.
//
// The entries are weak. An object removes its own entry when it is disposed of, so the cache is
// never swept, and a look-up finds no dead entries except those of objects that are just going.
//
// All functions take LockRank::kIdentityCache (base/lock_rank.h). The intern functions may release
// an object that loses, which can end a segment, so their caller holds no ranked lock. A forked
// child's cache has the objects that it inherited.
#pragma once

#include <cstdint>

#include "base/counted.h"
#include "memory/segment.h"
#include "storage/storage.h"

namespace tenon::share {

Ref<memory::Segment> find_segment(const memory::SegmentKey& key);
Ref<storage::Storage> find_storage(const memory::Segment* segment, uint64_t offset,
                                   uint64_t nbytes);

// Adds an object, unless the cache has a living object with the same key. In that case the living
// object is returned, and `storage` stays the caller's. It also stays the caller's if the call
// throws std::bad_alloc. intern_segment() takes its reference by value, and releases it in both
// cases.
Ref<memory::Segment> intern_segment(Ref<memory::Segment> segment);
Ref<storage::Storage> intern_storage(Ref<storage::Storage>&& storage);

// Whether the cache has this very object. It keeps the entry as long as the object lives. The cache
// owns the end hook of segments and the first end hook of storages.
inline bool is_cached(const memory::Segment& segment) noexcept { return segment.has_end_hook(); }
inline bool is_cached(const storage::Storage& storage) noexcept {
  return storage.has_end_hook(storage::Storage::EndSlot::kFirst);
}

}  // namespace tenon::share
