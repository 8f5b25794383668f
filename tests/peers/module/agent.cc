// The agent of change_test.py and others, which works on module archives. A line of stdin is a
// task, with tabs between its words:
//
//   pack <out> <in>...                            writes a package of modules: net.pt is the
//                                                 resource zoo/net.pkl
//   rewrite <in> <out> <map, private or fill>     imports and exports again; prints what the
//                                                 reports say
//   add <in> <out> <number>                       adds the number to every float parameter
//   twice <in> <out> <method>                     replaces the method by one that returns twice
//                                                 what it returned
//   combine <out> <in> <in> ...                   a new root whose forward returns the tuple of
//                                                 what theirs return
//   swap <in> <path> <other> <out>                another archive's root takes the place of a
//                                                 submodule
//   version <in> <out> <version>                  exports as that version
//   transplant <in> <from> <out> [compile]        gives <in> all tensors of <from>, and prints its
//                                                 states; compile: exports with bytecode that is
//                                                 compiled here
//
// The agent ends every task with a line "ok", or "error <code> <message>".
#include <iostream>
#include <string>
#include <vector>

#include "agent_kit.h"
#include "modules/module/export.h"
#include "modules/module/export_package.h"
#include "modules/module/import.h"

namespace {

using namespace tenon;
using namespace tenon::module;
using value::Value;

using Words = std::vector<std::string>;

Status save(const Module& module, const std::string& path, int version = 0) {
  ExportOptions options;
  options.file_version = version;
  ExportReport report;
  TENON_TRY(export_module(module, path, archive::Durability::kNone, options, &report));
  std::cout << "exported version " << report.version << " records " << report.records << " oldest "
            << report.oldest_pytorch << "\n";
  return Status::ok();
}

Result<Ref<Module>> load(const std::string& path, const std::string& how = "map") {
  ImportOptions options;
  if (how == "private") options.tensors = Tensors::kMapPrivate;
  if (how == "fill") {
    options.tensors = Tensors::kFill;
    options.check = archive::Check::kAll;
  }
  TENON_ASSIGN(Ref<Module> module, import_module(path, options));
  const ImportReport& report = module->package().report;
  std::cout << "imported version " << report.version << " mapped " << report.mapped_tensors
            << " filled " << report.filled_tensors << "\n";
  for (const std::string& warning : report.warnings) std::cout << "warning " << warning << "\n";
  return module;
}

Status transplant(const Words& words) {
  TENON_ASSIGN(const Ref<Module> module, load(words[1]));
  TENON_ASSIGN(const Ref<Module> donor, load(words[2]));
  TENON_ASSIGN(const std::vector<std::string> states, module->states());
  for (const std::string& path : states) std::cout << "state " << path << "\n";
  TENON_ASSIGN(const std::vector<NamedTensor> tensors, donor->tensors());
  TENON_TRY(module->load(tensors, {}, nullptr));
  ExportOptions options;
  if (words.size() > 4) options.bytecode = Bytecode::kCompile;
  return export_module(*module, words[3], archive::Durability::kNone, options, nullptr);
}

Status combine(const Words& words) {
  TENON_ASSIGN(Ref<Module> root, Module::create("Combined"));
  std::string calls;
  for (size_t i = 2; i < words.size(); ++i) {
    TENON_ASSIGN(Ref<Module> part, load(words[i]));
    const std::string name = "part" + std::to_string(i - 2);
    TENON_TRY(root->add_submodule(name, part));
    calls += "self." + name + ".forward(x), ";
  }
  TENON_TRY(root->define("def forward(self, x: Tensor):\n  return (" + calls + ")\n"));
  return save(*root, words[1]);
}

Status twice(const std::string& in, const std::string& out, const std::string& method) {
  TENON_ASSIGN(Ref<Module> module, load(in));
  TENON_TRY(module->define("def " + method + "_before(self, x: Tensor) -> Tensor:\n  return x\n"));
  TENON_TRY(module->remove(method + "_before"));
  TENON_ASSIGN(const Member old, module->find(method));
  std::string source = old.source;
  // Renames the old method, in the text of a file.
  source.replace(source.find("def " + method), 4 + method.size(), "def " + method + "_once");
  std::string dedented;
  std::istringstream lines(source);
  for (std::string line; std::getline(lines, line);)
    dedented += line.substr(std::min<size_t>(2, line.size())) + "\n";
  TENON_TRY(module->define(dedented));
  TENON_TRY(module->define("def " + method + "(self, x: Tensor) -> Tensor:\n  return self." +
                           method + "_once(x) * 2\n"));
  return save(*module, out);
}

Status swap(const Words& words) {
  TENON_ASSIGN(Ref<Module> module, load(words[1]));
  TENON_ASSIGN(Ref<Module> other, load(words[3]));
  TENON_TRY(module->set_submodule(words[2], other));
  return save(*module, words[4]);
}

Status pack(const Words& words) {
  std::vector<PackageEntry> entries;
  for (size_t i = 2; i < words.size(); ++i) {
    const std::string leaf = words[i].substr(words[i].rfind('/') + 1);
    TENON_ASSIGN(Ref<Module> module, import_module(words[i], {}));
    entries.push_back({"zoo/" + leaf.substr(0, leaf.rfind('.')) + ".pkl", std::move(module), {}});
  }
  return export_package(entries, words[1], archive::Durability::kNone, {}, nullptr);
}

Status run(const Words& words) {
  const auto is = [&](const char* task, size_t n_words) {
    return words[0] == task && words.size() >= n_words;
  };
  if (words.size() > 2 && words[0] == "pack") return pack(words);
  if (is("rewrite", 4)) {
    TENON_ASSIGN(const Ref<Module> module, load(words[1], words[3]));
    return save(*module, words[2]);
  }
  if (is("add", 4)) {
    TENON_ASSIGN(const Ref<Module> module, load(words[1]));
    TENON_TRY(add_to_parameters(*module, std::stof(words[3])));
    return save(*module, words[2]);
  }
  if (is("twice", 4)) return twice(words[1], words[2], words[3]);
  if (is("combine", 3)) return combine(words);
  if (is("swap", 5)) return swap(words);
  if (is("transplant", 4)) return transplant(words);
  if (is("version", 4)) {
    TENON_ASSIGN(const Ref<Module> module, load(words[1]));
    return save(*module, words[2], std::stoi(words[3]));
  }
  return Status(Code::kInvalidArgument, "no such task: " + words[0]);
}

}  // namespace

int main() { return tenon::test::run_tasks(run); }
