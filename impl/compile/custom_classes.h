// Methods of the custom classes that PyTorch's quantised modules hold. The schema table has their
// names and no types.
#pragma once

#include <string_view>

#include "value/type.h"

namespace tenon::compile {

// What a method without arguments returns: "unpack" of
// "__torch__.torch.classes.quantized.Conv2dPackedParamsBase". Null: it is not known.
value::TypeRef custom_method_returns(std::string_view class_name, std::string_view method);

}  // namespace tenon::compile
