// The identity cache: finds the segments and storages that this process already has. Code that
// opens memory of other processes calls it, so that one segment with one access is mapped once, and
// one range of it is one storage. Code that lends calls it too, so that memory which comes home is
// found.
//
// The entries are weak. An object removes its own entry when it is disposed of, so the cache is
// never swept, and a look-up finds no dead entries except those of objects that are just going.
//
// The find and intern functions take LockRank::kIdentityCache (base/lock_rank.h). intern_segment()
// may end a segment, and so may the release of a reference that any of them returned, so their
// caller holds no ranked lock. A forked child's cache has the objects that it inherited.
#pragma once

#include <cstdint>

#include "base/counted.h"
#include "memory/segment.h"
#include "storage/storage.h"

namespace tenon::share {

// Return a new reference, null if the cache has no such object or if its last reference was just
// released.
Ref<memory::Segment> find_segment(const memory::SegmentKey& key);
Ref<storage::Storage> find_storage(const memory::Segment* segment, uint64_t offset,
                                   uint64_t nbytes);

// Adds an object, unless the cache has a living object with the same key. Returns the object that
// the cache has then. If that is another object, or if the call throws std::bad_alloc, `storage`
// stays the caller's, with its lease, and intern_segment() has released its reference.
Ref<memory::Segment> intern_segment(Ref<memory::Segment> segment);
Ref<storage::Storage> intern_storage(Ref<storage::Storage>&& storage);

// The storages in the cache that Storage::open_uncounted() made, and their bytes in segments of
// other processes.
struct OpenedTotals {
  uint64_t storages = 0;
  uint64_t nbytes = 0;
};
OpenedTotals opened_totals();

// Whether the cache has this very object. The answer stays true until the object ends. Takes no
// lock: the cache owns the end hook of segments and the first end hook of storages, and sets them
// when it adds an object.
inline bool is_cached(const memory::Segment& segment) noexcept { return segment.has_end_hook(); }
inline bool is_cached(const storage::Storage& storage) noexcept {
  return storage.has_end_hook(storage::Storage::EndSlot::kFirst);
}

}  // namespace tenon::share
