// Copies elements between tensors of one type and shape whose layouts differ. Weights::replace()
// uses it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "modules/value/tensor_value.h"

namespace tenon::weights {

// Whether two indices of a strided tensor may lead to one element of its storage.
bool elements_overlap(const value::TensorValue& tensor);

// Whether the tensor's elements are all `nbytes` bytes of its storage, without a gap.
bool fills(const value::TensorValue& tensor, uint64_t nbytes) noexcept;

// Whether two tensors of one shape have their elements in the same order and at the same distances.
bool have_same_order(const value::TensorValue& one, const value::TensorValue& other) noexcept;

// Writes the elements of `from` where `to` has them in a storage whose bytes begin at `data`. Both
// are in host memory and have one type and shape. RESOURCE_EXHAUSTED if memory is lacking. The
// other errors are those of Storage::read(). After an error nothing was written.
Status copy_elements(const value::TensorValue& from, const value::TensorValue& to, std::byte* data);

}  // namespace tenon::weights
