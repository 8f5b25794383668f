// The identity cache: what this process already holds. One segment and access is one mapping here,
// one range of it one storage.
//
// Entries are weak and are taken out by the object's own disposal, so a look-up never meets more
// than it asks for and nothing is ever swept.
#pragma once

#include <cstdint>

#include "base/counted.h"
#include "memory/segment.h"
#include "storage/storage.h"

namespace tenon::share {

Ref<memory::Segment> find_segment(const memory::SegmentKey& key);
Ref<storage::Storage> find_storage(const memory::Segment* segment, uint64_t offset,
                                   uint64_t nbytes);

// Put an object in, unless there is a living one already: then that one is returned. A storage
// stays the caller's then, as it does if there is no memory.
Ref<memory::Segment> intern_segment(Ref<memory::Segment> segment);
Ref<storage::Storage> intern_storage(Ref<storage::Storage>&& storage);

}  // namespace tenon::share
