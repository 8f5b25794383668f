// Exchanges tensors with other frameworks in this process, in both directions and without a copy.
// The structs are those of DLPack. Its header dlpack.h is not included here.
#pragma once

#include "base/counted.h"
#include "base/status.h"
#include "tensor/tensor.h"

struct DLManagedTensor;
struct DLManagedTensorVersioned;

namespace tenon::tensor {

// On success the tensor owns the argument and calls its deleter once, when the storage ends. If the
// tensor has no elements, the deleter is called at once. On failure the caller keeps the argument.
Result<Ref<Tensor>> from_dlpack(DLManagedTensorVersioned* managed);
Result<Ref<Tensor>> from_dlpack(DLManagedTensor* managed);

// The result holds a reference to the tensor until its deleter is called.
Result<DLManagedTensorVersioned*> to_dlpack(const Ref<Tensor>& tensor);
Result<DLManagedTensor*> to_dlpack_legacy(const Ref<Tensor>& tensor);

}  // namespace tenon::tensor
