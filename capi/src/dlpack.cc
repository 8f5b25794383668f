// tenon/dlpack.h: exchanges tensors by DLPack (impl/tensor/dlpack.h).
#include <tenon/dlpack.h>

#include "boundary.h"
#include "handles.h"
#include "tensor/dlpack.h"

using namespace tenon::capi;
using tenon::Ref;
using tenon::Status;
using tenon::tensor::Tensor;

namespace {

template <typename Managed>
tenon_status take(Managed* managed, tenon_tensor** out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(managed != nullptr, "managed is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(Ref<Tensor> tensor, tenon::tensor::from_dlpack(managed));
    *out = handle<tenon_tensor>(tensor.detach());
    return Status::ok();
  });
}

template <typename Managed, typename Give>
tenon_status give(tenon_tensor* tensor, Managed** out, tenon_error** err, Give give_it) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(tensor != nullptr, "tensor is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(*out, give_it(Ref<Tensor>::share(object(tensor))));
    return Status::ok();
  });
}

}  // namespace

extern "C" {

tenon_status tenon_tensor_from_dlpack(struct DLManagedTensorVersioned* managed, tenon_tensor** out,
                                      tenon_error** err) noexcept {
  return take(managed, out, err);
}

tenon_status tenon_tensor_from_dlpack_legacy(struct DLManagedTensor* managed, tenon_tensor** out,
                                             tenon_error** err) noexcept {
  return take(managed, out, err);
}

tenon_status tenon_tensor_to_dlpack(tenon_tensor* tensor, struct DLManagedTensorVersioned** out,
                                    tenon_error** err) noexcept {
  return give(tensor, out, err, &tenon::tensor::to_dlpack);
}

tenon_status tenon_tensor_to_dlpack_legacy(tenon_tensor* tensor, struct DLManagedTensor** out,
                                           tenon_error** err) noexcept {
  return give(tensor, out, err, &tenon::tensor::to_dlpack_legacy);
}
}
