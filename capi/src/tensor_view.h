// What tensor.cc and message.cc both tell about a tensor.
#pragma once

#include <tenon/tensor.h>

#include "tensor/tensor.h"

namespace tenon::capi {

tenon_tensor_view view_of(tensor::Tensor* tensor) noexcept;

}  // namespace tenon::capi
