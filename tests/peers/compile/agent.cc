// The agent of compile_test.py, which compiles archives for the lite interpreter. A line of stdin
// is a task, with tabs between its words:
//
//   compile <in> <out> [option]   imports the archive and exports it with bytecode of its own. The
//                                 option is a switch as tenon.export_module names them; or "new":
//                                 with debug tables about the archive's own code; or "carried":
//                                 with the debug tables that the archive has for its code; or
//                                 "flatbuffer": in that form, which is imported and exported once
//                                 more
//   lower <in> <out> <version>    the same, with bytecode of that version
//   opnames <in>                  prints the operators that the bytecode calls, with blanks between
//                                 them
//   time <in> <rounds> [debug]    prints the microseconds that one compilation takes, the median of
//                                 the rounds; "debug": with the origins for debug tables
//
// Each task ends with a line "ok", or "error <code> <message>".
#include <algorithm>
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include "modules/module/code_check.h"
#include "modules/module/compile_code.h"
#include "modules/module/export.h"
#include "modules/module/import.h"
#include "modules/module/resolve.h"
#include "support/run_tasks.h"

namespace {

using namespace tenon;

Status read_option(const std::string& name, module::ImportOptions* reading,
                   module::ExportOptions* writing) {
  if (name == "default_inputs")
    writing->emit.default_inputs = true;
  else if (name == "defaults_before_out")
    writing->emit.defaults_before_out = false;
  else if (name == "plain_operators")
    writing->emit.promoted_operators = false;
  else if (name == "no_interface_methods")
    writing->interface_methods = false;
  else if (name == "forks_at_once")
    writing->forks_at_once = true;
  else if (name == "flatbuffer")
    writing->form = module::Form::kFlatbuffer;
  else if (name == "new" || name == "carried")
    writing->debug_tables = true;
  else
    return invalid("there is no such option");
  reading->debug_tables = name == "carried";
  return Status::ok();
}

// Imports the flatbuffer and replaces it by an export of that module, with the bytecode that the
// import kept.
Status write_again(const std::string& path) {
  module::ImportOptions reading;
  reading.tensors = module::Tensors::kFill;
  TENON_ASSIGN(const Ref<module::Module> module, module::import_module(path, reading));
  TENON_TRY(module->package().why_no_bytecode());
  module::ExportOptions options;
  options.form = module::Form::kFlatbuffer;
  return module::export_module(*module, path, archive::Durability::kNone, options, nullptr);
}

Status compile_archive(const std::string& in, const std::string& out, const std::string* option) {
  module::ImportOptions reading;
  module::ExportOptions options;
  options.bytecode = module::Bytecode::kCompile;
  if (option != nullptr) TENON_TRY(read_option(*option, &reading, &options));
  TENON_ASSIGN(const Ref<module::Module> module, module::import_module(in, reading));
  TENON_TRY(module::export_module(*module, out, archive::Durability::kNone, options, nullptr));
  return options.form == module::Form::kFlatbuffer ? write_again(out) : Status::ok();
}

Status lower_archive(const std::string& in, const std::string& out, int version) {
  TENON_ASSIGN(const Ref<module::Module> module,
               module::import_module(in, module::ImportOptions()));
  module::ExportOptions options;
  options.bytecode = module::Bytecode::kCompile;
  options.bytecode_version = version;
  return module::export_module(*module, out, archive::Durability::kNone, options, nullptr);
}

Status list_operators(const std::string& in) {
  TENON_ASSIGN(const Ref<module::Module> module,
               module::import_module(in, module::ImportOptions()));
  TENON_ASSIGN(const std::vector<std::string> names, module->operator_names({}));
  for (const std::string& name : names) std::cout << name << " ";
  std::cout << "\n";
  return Status::ok();
}

Status time_compilation(const std::string& in, size_t rounds, bool has_debug_info) {
  TENON_ASSIGN(const Ref<module::Module> module,
               module::import_module(in, module::ImportOptions()));
  TENON_ASSIGN(const module::Resolved resolved, module::resolve(*module, 0));
  TENON_ASSIGN(const script::Declarations code, module::declarations_of(resolved));
  std::vector<double> samples;
  for (size_t i = 0; i < rounds; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    compile::DebugInfo debug_info;
    TENON_TRY(module::compile_resolved(resolved, code, compile::CompileOptions(),
                                       has_debug_info ? &debug_info : nullptr)
                  .status());
    samples.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
            .count());
  }
  std::sort(samples.begin(), samples.end());
  std::cout << samples[samples.size() / 2] << "\n";
  return Status::ok();
}

Status run(const std::vector<std::string>& words) {
  if (words.size() == 3 && words[0] == "compile")
    return compile_archive(words[1], words[2], nullptr);
  if (words.size() == 4 && words[0] == "compile")
    return compile_archive(words[1], words[2], &words[3]);
  if (words.size() == 4 && words[0] == "lower")
    return lower_archive(words[1], words[2], std::stoi(words[3]));
  if (words.size() == 2 && words[0] == "opnames") return list_operators(words[1]);
  if (words.size() == 3 && words[0] == "time")
    return time_compilation(words[1], std::stoul(words[2]), false);
  if (words.size() == 4 && words[0] == "time")
    return time_compilation(words[1], std::stoul(words[2]), words[3] == "debug");
  return invalid("this agent knows no such task");
}

}  // namespace

int main() { return tenon::test::run_tasks(run); }
