// Fills in the view of a tensor, for tensor.cc and message.cc.
#pragma once

#include <tenon/tensor.h>

#include "tensor/tensor.h"

namespace tenon::capi {

tenon_tensor_view view_of(tensor::Tensor* tensor) noexcept;

}  // namespace tenon::capi
