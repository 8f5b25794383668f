// Tensors of other frameworks in this process, both ways, without a copy. The structs are DLPack's
// (dlpack.h), kept out of this header.
#pragma once

#include "base/counted.h"
#include "base/status.h"
#include "tensor/tensor.h"

struct DLManagedTensor;
struct DLManagedTensorVersioned;

namespace tenon::tensor {

// The argument is consumed on success: its deleter runs once, when the storage goes.
Result<Ref<Tensor>> from_dlpack(DLManagedTensorVersioned* managed);
Result<Ref<Tensor>> from_dlpack(DLManagedTensor* managed);

// The result holds a reference to the tensor until its deleter is called.
Result<DLManagedTensorVersioned*> to_dlpack(const Ref<Tensor>& tensor);
Result<DLManagedTensor*> to_dlpack_legacy(const Ref<Tensor>& tensor);

}  // namespace tenon::tensor
