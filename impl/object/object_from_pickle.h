// From a split pickle to an object: the inverse of object_to_pickle, also for what Python wrote.
//
// The pickle is data of a foreign process. Nothing in it is called, and no class is looked up. Only
// the functions of tenon.pickle that stand for tensors, complex and an empty OrderedDict are known.
// A value that the pickle refers to twice becomes two values. A limit bounds how much larger the
// object gets by that.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/status.h"
#include "object/object.h"

namespace tenon::object {

// `storages` are what came with the pickle, by number: each a uint8 tensor over the bytes of one
// storage. CORRUPT: the bytes are no pickle, or name a storage that did not come, or a tensor
// leaves its storage. UNSUPPORTED, by name: classes, functions, integers of more than 64 bits,
// values that contain themselves, element types and flags that Tenon does not have.
// RESOURCE_EXHAUSTED: beyond a limit. All have the detail `offset`, in bytes, where the pickle is
// to blame.
Result<Ref<Object>> object_from_pickle(std::vector<std::byte> bytes,
                                       std::span<const Ref<tensor::Tensor>> storages);

}  // namespace tenon::object
