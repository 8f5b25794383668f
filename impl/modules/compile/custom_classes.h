// The result types of methods of the custom classes that PyTorch's quantised modules hold. The
// compiler asks here because the schema table has the names of these methods but no types.
#pragma once

#include <string_view>

#include "modules/value/type.h"

namespace tenon::compile {

// Returns the result type of a method without arguments, such as "unpack" of
// "__torch__.torch.classes.quantized.Conv2dPackedParamsBase". Null: it is not known.
value::TypeRef custom_method_returns(std::string_view class_name, std::string_view method);

}  // namespace tenon::compile
