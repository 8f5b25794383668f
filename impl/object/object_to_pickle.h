// Writes an object as a split pickle: a pickle that Python's unpickler reads, and beside it the
// storages that the pickle names by their numbers (docs/format/object.md). message_of() calls it.
#pragma once

#include <cstddef>
#include <vector>

#include "base/status.h"
#include "object/object.h"
#include "storage/storage.h"

namespace tenon::object {

struct SplitPickle {
  std::vector<std::byte> bytes;
  // In the order of their numbers. Tensors over one storage share its number.
  std::vector<Ref<storage::Storage>> storages;
};

// Writes protocol 4. Equal objects give equal bytes. Fails only by std::bad_alloc.
SplitPickle object_to_pickle(const Object& object);

}  // namespace tenon::object
