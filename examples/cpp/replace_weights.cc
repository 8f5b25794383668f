// Imports a model, puts new weights in, and exports the model. Here the new weights are half the
// old ones. In practice a trainer makes them. usage: replace_weights FILE OUT
#include <iostream>
#include <span>
#include <string>
#include <tenon/tenon.hpp>
#include <vector>

namespace {

// Makes a new tensor of the same sizes with halved elements.
tenon::Tensor halve(const tenon::TensorView& old) {
  std::vector<float> half;
  for (const float element : old.view<float>()) half.push_back(element * 0.5F);
  const auto storage = tenon::Storage::make_from(std::as_bytes(std::span(half)));
  return tenon::Tensor::over(storage, old.sizes(), old.dtype(), {.flags = old.flags()});
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::cerr << "usage: replace_weights FILE OUT\n";
    return 2;
  }
  const std::string out = argv[2];
  auto model = tenon::import_module(argv[1]);
  std::vector<tenon::NamedValue> weights;
  for (const tenon::Member& member : model.parameters()) {
    const auto tensor = member.value.try_as<tenon::Tensor>();
    if (!tensor) continue;  // a quantised or a sparse tensor, for example, is not a Tensor
    const tenon::TensorView old = tensor->view();
    if (old.dtype() == tenon::kDtypeOf<float> && old.is_contiguous())
      weights.push_back({member.name, halve(old)});  // "encoder.0.weight"
  }
  // load replaces all of them or none. A name that the model does not have is an error.
  model.load(weights, {.allow_missing = true});
  tenon::export_module(model, out);
  std::cout << out << ": " << weights.size() << " parameters replaced\n";
} catch (const tenon::Error& error) {
  std::cerr << "failed: " << error.what() << "\n";
  return 1;
}
