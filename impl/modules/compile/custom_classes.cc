#include "modules/compile/custom_classes.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tenon::compile {
namespace {

struct CustomMethod {
  // The name below __torch__.torch.classes.quantized. Empty: both classes of convolutions have the
  // method.
  std::string_view class_name;
  std::string_view method;
  std::string_view returns;
};

// The list comes from the custom classes of PyTorch 1.13 and 2.15, which agree.
constexpr auto kMethods = std::to_array<CustomMethod>({
    {"LinearPackedParamsBase", "bias", "Optional[Tensor]"},
    {"LinearPackedParamsBase", "unpack", "Tuple[Tensor, Optional[Tensor]]"},
    {"", "weight", "Tensor"},
    {"", "bias", "Optional[Tensor]"},
    {"", "unpack", "Tuple[Tensor, Optional[Tensor]]"},
    {"", "stride", "List[int]"},
    {"", "padding", "List[int]"},
    {"", "output_padding", "List[int]"},
    {"", "dilation", "List[int]"},
    {"", "groups", "int"},
    {"", "transpose", "bool"},
    {"EmbeddingPackedParamsBase", "bit_rate", "int"},
    {"EmbeddingPackedParamsBase", "unpack", "Tensor"},
    {"EmbeddingPackedParamsBase", "version", "int"},
});

constexpr std::string_view kQuantized = "__torch__.torch.classes.quantized.";

}  // namespace

value::TypeRef custom_method_returns(std::string_view class_name, std::string_view method) {
  if (!class_name.starts_with(kQuantized)) return {};
  class_name.remove_prefix(kQuantized.size());
  const bool is_convolution =
      class_name == "Conv2dPackedParamsBase" || class_name == "Conv3dPackedParamsBase";
  const auto found = std::find_if(kMethods.begin(), kMethods.end(), [&](const CustomMethod& each) {
    return each.method == method &&
           (each.class_name.empty() ? is_convolution : each.class_name == class_name);
  });
  if (found == kMethods.end()) return {};
  Result<value::TypeRef> type = value::Type::parse(found->returns);
  return type.is_ok() ? std::move(type).value() : value::TypeRef();
}

}  // namespace tenon::compile
