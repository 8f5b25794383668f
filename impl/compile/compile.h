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
#include "compile/emit.h"
#include "script/declarations.h"
#include "script/schema_table.h"

namespace tenon::compile {

struct CompileOptions {
  script::Torch torch = script::Torch::kNewest;  // whose overloads are chosen
  EmitOptions emit;
  // Of one method, with all that it calls. A node takes about 500 bytes while it is compiled.
  size_t max_nodes = size_t{1} << 19;
  // The root's methods. Empty: all that it has.
  std::vector<std::string> methods;
  // The names of a class's attributes in the order in which data.pkl lists them: an instruction names an attribute by its place there.
  // Null, or no entry for a class: the order in which the class declares them.
  const std::map<std::string, std::vector<std::string>, std::less<>>* slots = nullptr;
  // Methods of the root that cannot be compiled are left out, and `left_out` names them with the reason; else the first is the error. What
  // the others need beside themselves (implementations of interfaces, methods that read states) is an error in any case.
  bool leave_out = false;
};

struct LeftOut {
  std::string method;
  Status why;
};

struct CompileReport {
  std::vector<LeftOut> left_out;
};

// `root` is the class of the archive's root, `modules` are the classes of all objects in its tree, root included: among them, methods
// that are called through an interface are looked for. Errors name file, line and column. `report` may be null.
Result<bytecode::Program> compile_program(const script::Declarations& declarations, std::span<const value::ValueRef> constants,
                                          std::string_view root, std::span<const std::string> modules, const CompileOptions& options,
                                          CompileReport* report);

// The names of the operators that a program calls, "aten::add.Tensor", sorted, each once.
std::vector<std::string> operator_names(const bytecode::Program& program);

}  // namespace tenon::compile
