// Fills in the view of a tensor, for tensor.cc and message.cc.
#pragma once

#include <tenon/tensor.h>

#include "tensor/tensor.h"

namespace tenon::capi {

// The view borrows `tensor`: all pointers in it are valid as long as the tensor is.
tenon_tensor_view view_of(tensor::Tensor* tensor) noexcept;

}  // namespace tenon::capi
