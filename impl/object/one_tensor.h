// Reads the pickle of an object that is one tensor and nothing else. Queues carry many of them, and
// the reader of all pickles (object_from_pickle.h) takes ten times as long. object_of() calls it.
#pragma once

#include <cstddef>
#include <span>

#include "base/counted.h"
#include "object/object.h"
#include "tensor/tensor.h"

namespace tenon::object {

// Null: it is another pickle than object_to_pickle() writes for one tensor, or the tensor cannot be
// made. Then object_from_pickle() reads the bytes, or says what is wrong with them.
Ref<Object> read_one_tensor(std::span<const std::byte> bytes,
                            std::span<const Ref<tensor::Tensor>> storages);

}  // namespace tenon::object
