// The commonest job of all: import a model, put new weights in, export. The new ones are half the
// old ones here; they would come from a trainer. usage: replace_weights FILE OUT
#include <iostream>
#include <span>
#include <string>
#include <tenon/tenon.hpp>
#include <vector>

namespace {

// A new tensor of the same sizes, half as large in its elements.
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
    if (!tensor) continue;  // what is quantised, sparse, … is no Tensor
    const tenon::TensorView old = tensor->view();
    if (old.dtype() == tenon::kDtypeOf<float> && old.is_contiguous())
      weights.push_back({member.name, halve(old)});  // "encoder.0.weight"
  }
  // All of them or none; a name that the model has not is an error.
  model.load(weights, {.allow_missing = true});
  tenon::export_module(model, out);
  std::cout << out << ": " << weights.size() << " parameters replaced\n";
} catch (const tenon::Error& error) {
  std::cerr << "failed: " << error.what() << "\n";
  return 1;
}
