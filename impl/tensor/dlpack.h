// Exchanges tensors with other frameworks in this process, in both directions and without a copy.
// The structs are those of DLPack. Its header dlpack.h is not included here. capi/src/dlpack.cc is
// the caller.
#pragma once

#include "base/counted.h"
#include "base/status.h"
#include "tensor/tensor.h"

struct DLManagedTensor;
struct DLManagedTensorVersioned;

namespace tenon::tensor {

// On success the tensor owns the argument and calls its deleter once, when the storage ends. If the
// tensor has no elements, the deleter is called at once. The thread that releases the last
// reference calls it, for host memory in a forked child too. For a CUDA tensor wrap_cuda()
// (device/by_cuda.h) says when and on which thread the deleter is called. A forked child never
// calls the deleter of a CUDA tensor. On failure the caller keeps the argument. INCOMPATIBLE:
// another major version. UNSUPPORTED: a device or an element type that Tenon does not take.
// INVALID_ARGUMENT: the tensor contradicts itself. For a CUDA tensor also the errors of
// device::wrap_cuda().
Result<Ref<Tensor>> from_dlpack(DLManagedTensorVersioned* managed);
Result<Ref<Tensor>> from_dlpack(DLManagedTensor* managed);

// The result holds a reference to the tensor until its deleter is called. UNSUPPORTED: a conjugate
// or negative bit is set. PEER_GONE: the storage is dropped. PERMISSION, from to_dlpack_legacy()
// alone: the tensor is read-only, which that form cannot say.
Result<DLManagedTensorVersioned*> to_dlpack(const Ref<Tensor>& tensor);
Result<DLManagedTensor*> to_dlpack_legacy(const Ref<Tensor>& tensor);

}  // namespace tenon::tensor
