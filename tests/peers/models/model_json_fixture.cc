// Writes an archive like those before 1.4, which keep the object tree in a record `model.json`
// instead of data.pkl. An importer refuses the archive and names that record.
//
// usage: model_json_fixture ARCHIVE
#include <torch/script.h>

#include <iostream>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  torch::jit::script::Module module("Net");
  module.register_parameter("weight", torch::ones({2}), false);
  module.define("def forward(self, x):\n  return x + self.weight\n");
  module.save(argv[1]);
  std::cout << "refused: model.json\n";
  return 0;
}
