// Compiles the code of an archive into a program for PyTorch's lite interpreter.
// impl/modules/module calls this when an export writes bytecode.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "modules/bytecode/program.h"
#include "modules/compile/debug_info.h"
#include "modules/compile/emit.h"
#include "modules/script/declarations.h"
#include "modules/script/schema_table.h"

namespace tenon::compile {

struct CompileOptions {
  script::Torch torch = script::Torch::kNewest;  // the PyTorch whose overloads are chosen
  int version = bytecode::Program::kVersion;     // the bytecode's version, 4 to 8 (target.h)
  EmitOptions emit;                              // a version below 8 overrides some of these
  // The code of a method is copied into its callers. Only a call through an interface type looks
  // for a method by name when it is run. This says whether the program has those methods, of every
  // class in `modules`. Without them the program is smaller, and such a call fails when it is run.
  bool interface_methods = true;
  // If set, TorchScript's `fork` runs its function at once, and `wait` gives its result. Otherwise
  // both are refused.
  bool forks_at_once = false;
  // Whether the format in which the program is written has NamedTuples. Without them, and in
  // bytecode below version 8, a NamedTuple becomes a plain tuple.
  bool named_tuples = true;
  // The most nodes of one method together with all functions that it calls. A node takes about 500
  // bytes while it is compiled.
  size_t max_nodes = size_t{1} << 19;
  // The methods of the root to compile. Empty: all of them. A `__setstate__` is left out if its
  // class has no `__getstate__`: the archive then has the object's plain attributes, and the
  // interpreter would pass these to `__setstate__` in place of a state.
  std::vector<std::string> methods;
  // The names of a class's attributes in the order in which data.pkl lists them: an instruction
  // names an attribute by its place there. Null, or no entry for a class: the order in which the
  // class declares them.
  const std::map<std::string, std::vector<std::string>, std::less<>>* slots = nullptr;
};

// Compiles the methods of the class `root`, which is the class of the archive's root. `modules` are
// the classes of all objects in its tree, with the root's. All names are qualified
// ("__torch__.a.B"). `constants` are the entries of constants.pkl, which the code names by index.
// `__setstate__` and `__getstate__`, and methods that are called through an interface, are looked
// for in the classes of `modules`. Errors name file, line and column. `debug_info` may be null. It
// gets the debug info of all functions, in the program's order, and refers to the sources in
// `declarations`. The program does not refer to the arguments of this call, so they may go.
// Any number of threads may compile with the same declarations.
//
// INVALID_ARGUMENT for code that PyTorch refuses, or a version that is not 4 to 8. NOT_FOUND for a
// root or a method that does not exist. UNSUPPORTED for code that the target's lite interpreter
// cannot run, for a `forward` of the root that has hooks, and if no method is left.
// RESOURCE_EXHAUSTED for code that is too large (max_nodes) or nested too deep. CORRUPT for a class
// that cannot be read. After an error `debug_info` is of no use.
Result<bytecode::Program> compile_program(const script::Declarations& declarations,
                                          std::span<const value::ValueRef> constants,
                                          std::string_view root,
                                          std::span<const std::string> modules,
                                          const CompileOptions& options,
                                          DebugInfo* debug_info = nullptr);

// Returns the names of the operators that a program calls, such as "aten::add.Tensor". The names
// are sorted and each is listed once.
std::vector<std::string> operator_names(const bytecode::Program& program);

}  // namespace tenon::compile
