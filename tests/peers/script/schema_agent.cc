// The agent of schema_test.py. It prints every schema of the table: a line "oldest" or "newest",
// then the schemas of that PyTorch. The schemas of one operator are in the order in which PyTorch
// tries them. A line end inside a schema is written "
// ".
#include "modules/script/schema.h"

#include <iostream>
#include <string>

#include "modules/script/schema_show.h"
#include "modules/script/schema_table.h"

namespace {

std::string on_one_line(const std::string& text) {
  std::string made;
  for (const char c : text) {
    if (c == '\n')
      made += "\\n";
    else
      made.push_back(c);
  }
  return made;
}

}  // namespace

int main() {
  using namespace tenon::script;
  const SchemaTable& table = SchemaTable::get();
  for (const Torch torch : {Torch::kOldest, Torch::kNewest}) {
    std::cout << (torch == Torch::kOldest ? "oldest" : "newest") << "\n";
    for (const std::string_view name : table.operators()) {
      for (const Schema* schema : table.schemas(name, torch))
        std::cout << on_one_line(show(*schema)) << "\n";
    }
  }
  return 0;
}
