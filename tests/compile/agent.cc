// Compiles archives for the lite interpreter. Reads one task per line on stdin, with tabs between its words:
//
//   compile <in> <out> [switch]   imports the archive and exports it with bytecode of its own; a switch is named as in tenon.export_module
//   opnames <in>                  prints the operators that the bytecode calls, with blanks between them
//   time <in> <rounds>            prints the microseconds that one compilation takes, the median of the rounds
//
// Each task ends with a line "ok", or "error <code> <message>".
#include <algorithm>
#include <chrono>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "module/code_check.h"
#include "module/compile_code.h"
#include "module/export.h"
#include "module/import.h"
#include "module/resolve.h"

namespace {

using namespace tenon;

Status flip(const std::string& name, module::ExportOptions* options) {
  if (name == "default_inputs")
    options->emit.default_inputs = true;
  else if (name == "defaults_before_out")
    options->emit.defaults_before_out = false;
  else if (name == "plain_operators")
    options->emit.promoted_operators = false;
  else if (name == "no_interface_methods")
    options->interface_methods = false;
  else
    return invalid("there is no such switch");
  return Status::ok();
}

Status compile_archive(const std::string& in, const std::string& out, const std::string* name_of_switch) {
  TENON_ASSIGN(const Ref<module::Module> module, module::import_module(in, module::ImportOptions()));
  module::ExportOptions options;
  options.bytecode = module::Bytecode::kCompile;
  if (name_of_switch != nullptr) TENON_TRY(flip(*name_of_switch, &options));
  return module::export_module(*module, out, archive::Durability::kNone, options, nullptr);
}

Status list_operators(const std::string& in) {
  TENON_ASSIGN(const Ref<module::Module> module, module::import_module(in, module::ImportOptions()));
  TENON_ASSIGN(const std::vector<std::string> names, module->operator_names({}));
  for (const std::string& name : names) std::cout << name << " ";
  std::cout << "\n";
  return Status::ok();
}

Status time_compilation(const std::string& in, size_t rounds) {
  TENON_ASSIGN(const Ref<module::Module> module, module::import_module(in, module::ImportOptions()));
  TENON_ASSIGN(const module::Resolved resolved, module::resolve(*module, 0));
  TENON_ASSIGN(const script::Declarations code, module::declarations_of(resolved));
  std::vector<double> samples;
  for (size_t i = 0; i < rounds; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    TENON_TRY(module::compile_resolved(resolved, code, compile::CompileOptions()).status());
    samples.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(samples.begin(), samples.end());
  std::cout << samples[samples.size() / 2] << "\n";
  return Status::ok();
}

Status run(const std::vector<std::string>& words) {
  if (words.size() == 3 && words[0] == "compile") return compile_archive(words[1], words[2], nullptr);
  if (words.size() == 4 && words[0] == "compile") return compile_archive(words[1], words[2], &words[3]);
  if (words.size() == 2 && words[0] == "opnames") return list_operators(words[1]);
  if (words.size() == 3 && words[0] == "time") return time_compilation(words[1], std::stoul(words[2]));
  return invalid("this agent knows no such task");
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::vector<std::string> words;
    std::istringstream stream(line);
    for (std::string word; std::getline(stream, word, '\t');) words.push_back(word);
    const Status status = run(words);
    if (status.is_ok())
      std::cout << "ok" << std::endl;
    else
      std::cout << "error " << code_name(status.code()) << " " << status.message() << std::endl;
  }
  return 0;
}
