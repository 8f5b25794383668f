// Builds a multilayer perceptron by hand and writes it as a file that torch.jit.load runs, without
// PyTorch. usage: export_mlp [FILE]
#include <iostream>
#include <span>
#include <string>
#include <tenon/tenon.hpp>
#include <vector>

namespace {

// Makes a parameter with plain numbers as weights.
tenon::Tensor parameter(const tenon::Sizes& sizes) {
  std::int64_t numel = 1;
  for (const std::int64_t size : sizes.get()) numel *= size;
  std::vector<float> elements;
  for (std::int64_t i = 0; i < numel; ++i)
    elements.push_back(0.25F * static_cast<float>(i % 7 - 3));
  const auto storage = tenon::Storage::make_from(std::as_bytes(std::span(elements)));
  return tenon::Tensor::over(storage, sizes, tenon::kDtypeOf<float>,
                             {.flags = TENON_TENSOR_REQUIRES_GRAD});
}

tenon::Module linear(std::int64_t in, std::int64_t out) {
  auto layer = tenon::Module::make("layers.Linear");
  layer.add_parameter("weight", parameter({out, in}));
  layer.add_parameter("bias", parameter({out}));
  layer.define(R"(
def forward(self, x: Tensor) -> Tensor:
  return torch.linear(x, self.weight, self.bias)
)");
  return layer;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string file = argc > 1 ? argv[1] : "mlp.pt";
  auto mlp = tenon::Module::make("MLP");
  mlp.add_submodule("fc1", linear(4, 8));
  mlp.add_submodule("fc2", linear(8, 3));
  mlp.define(R"(
def forward(self, x: Tensor) -> Tensor:
  return self.fc2.forward(torch.relu(self.fc1.forward(x)))
)");
  mlp.set_extra_file("labels.txt", "cat\ndog\nowl\n");
  const tenon::ExportReport report = tenon::export_module(mlp, file);
  std::cout << file << ": " << report.records << " records, " << report.nbytes
            << " bytes, for PyTorch " << report.oldest_pytorch << " and later\n";
} catch (const tenon::Error& error) {
  std::cerr << "failed: " << error.what() << "\n";
  return 1;
}
