// Prints the contents of a TorchScript file. usage: inspect_module FILE
#include <iostream>
#include <string>
#include <tenon/tenon.hpp>

namespace {

void print_tensor(const tenon::ValueTensorSpec& spec) {
  std::cout << " " << tenon::name_of(spec.scalar_type) << " [";
  for (std::size_t i = 0; i < spec.sizes.size(); ++i)
    std::cout << (i == 0 ? "" : ", ") << spec.sizes[i];
  std::cout << "]";
}

void print_members(const tenon::Module& module, std::size_t depth) {
  for (const tenon::Member& member : module.members()) {
    std::cout << std::string(2 * depth, ' ') << tenon::name_of(member.kind) << " " << member.name;
    if (!member.type_text.empty()) std::cout << ": " << member.type_text;
    if (member.kind == tenon::MemberKind::kConstant) std::cout << " = " << member.source;
    if (member.value.kind() == tenon::ValueKind::kTensor) print_tensor(member.value.tensor_spec());
    std::cout << "\n";
    if (member.module) print_members(member.module, depth + 1);
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::cerr << "usage: inspect_module FILE\n";
    return 2;
  }
  const auto module = tenon::import_module(argv[1]);
  const tenon::ImportReport report = module.import_report();
  std::cout << module.class_name() << ", version " << report.version << ", " << report.records
            << " records\n";
  print_members(module, 1);
  for (const tenon::File& file : module.extra_files())
    std::cout << "extra file " << file.name << ", " << file.data.size() << " bytes\n";
  for (const std::string& warning : module.warnings()) std::cout << "warning: " << warning << "\n";
} catch (const tenon::Error& error) {
  std::cerr << "failed: " << error.what() << "\n";
  return 1;
}
