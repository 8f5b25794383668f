// From the code of an archive to a program for the lite interpreter of PyTorch.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "bytecode/program.h"
#include "compile/debug_info.h"
#include "compile/emit.h"
#include "script/declarations.h"
#include "script/schema_table.h"

namespace tenon::compile {

struct CompileOptions {
  script::Torch torch = script::Torch::kNewest;  // whose overloads are chosen
  int version = bytecode::Program::kVersion;     // of the bytecode: 4 to 8 (target.h)
  EmitOptions emit;                              // a version below 8 sets some of these by itself
  // Whether the program has the methods that are called through an interface. Without them such a
  // call fails when it is run.
  bool interface_methods = true;
  // `fork` runs its function at once, and `wait` gives its result. Without this both are refused.
  bool forks_at_once = false;
  // Whether the form in which the program is written has NamedTuples. Without them they are plain
  // tuples, as below version 8.
  bool named_tuples = true;
  // Of one method, with all that it calls. A node takes about 500 bytes while it is compiled.
  size_t max_nodes = size_t{1} << 19;
  // The root's methods. Empty: all that it has.
  std::vector<std::string> methods;
  // The names of a class's attributes in the order in which data.pkl lists them: an instruction
  // names an attribute by its place there. Null, or no entry for a class: the order in which the
  // class declares them.
  const std::map<std::string, std::vector<std::string>, std::less<>>* slots = nullptr;
};

// `root` is the class of the archive's root, `modules` are the classes of all objects in its tree,
// root included: among them, methods that are called through an interface are looked for. Errors
// name file, line and column. `debug_info` gets that of all functions of the program, in its order;
// it may be null.
Result<bytecode::Program> compile_program(const script::Declarations& declarations,
                                          std::span<const value::ValueRef> constants,
                                          std::string_view root,
                                          std::span<const std::string> modules,
                                          const CompileOptions& options,
                                          DebugInfo* debug_info = nullptr);

// The names of the operators that a program calls, "aten::add.Tensor", sorted, each once.
std::vector<std::string> operator_names(const bytecode::Program& program);

}  // namespace tenon::compile
