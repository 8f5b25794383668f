// Says which operators give no Tensor but a number, a text or the like. The checker asks this to
// judge by the operands whether a division can be one of Tensors.
#pragma once

#include <string_view>

namespace tenon::script {

// Whether a call of the operator ("aten::size") gives a value that neither is a Tensor nor holds
// one. `of_tensors`: an operand may be, or may hold, a Tensor. False for every operator that no
// PyTorch has.
bool gives_no_tensor(std::string_view qualified_name, bool of_tensors) noexcept;

}  // namespace tenon::script
