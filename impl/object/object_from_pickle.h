// Reads an object from a split pickle, which names its storages by numbers (docs/format/object.md).
// This is the inverse of object_to_pickle(), and also reads what Python wrote. object_of() calls it
// for a message that was received.
//
// The pickle is data of another process. No function in it is called, and no class is looked up.
// Only these calls are known: the functions of tenon.pickle that stand for tensors, complex,
// bytearray, and OrderedDict without arguments, whose items follow. A value to which the pickle
// refers twice becomes two values. A limit (kMostCopies) bounds how much larger the object gets by
// that.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/status.h"
#include "object/object.h"

namespace tenon::object {

// `storages` came with the pickle, ordered by number. Each is a uint8 tensor over the bytes of one
// storage. CORRUPT: the bytes are no pickle, or name a storage that did not come, or a tensor
// leaves its storage. UNSUPPORTED, by name: classes, functions, integers of more than 64 bits,
// values that contain themselves, element types and flags that Tenon does not have.
// RESOURCE_EXHAUSTED: beyond a limit. If the pickle is to blame, the error has the detail `offset`,
// in bytes.
Result<Ref<Object>> object_from_pickle(std::vector<std::byte> bytes,
                                       std::span<const Ref<tensor::Tensor>> storages);

}  // namespace tenon::object
