// Chooses the version that an archive states. The version tells PyTorch what six operators mean,
// for all code of the archive at once. So code that was written for different versions can be in
// one archive only if the difference does not matter for this code.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "modules/module/class_graph.h"
#include "modules/module/code_environment.h"
#include "modules/script/ast.h"

namespace tenon::module {

// One of `div`, `div_`, `full`, `linspace`, `logspace`, `gelu`.
struct VersionedOperator {
  std::string_view name;
  int changed = 0;  // the version that gave it its present meaning
};

// A function of the archive, or one method. The texts and pointers are borrowed.
struct CodePart {
  std::string_view class_name;  // qualified; empty: a function
  std::string name;             // qualified
  int version = 0;              // the version of the operators to which the code refers
  const script::Source* source = nullptr;
  const script::Function* function = nullptr;
};

// The operators whose calls in this code depend on the version, each once, in the order of their
// versions. The operands decide: `k / 2` of an int and `torch.full([2], 3.)` mean the same in every
// version. If the checker refuses the code, every such operator in its text counts.
std::vector<VersionedOperator> versioned_operators(const CodeEnvironment& environment,
                                                   const CodePart& part);

// Gives the version of an archive with these classes. If all code is of one version, that is the
// version. Otherwise it is kNewCodeVersion, provided that no code uses an operator that means
// something else in it. If some code does, INVALID_ARGUMENT names both pieces of code and the
// operator. If `file_version` is not 0, it is the version, under the same condition.
Result<int> resolve_version(const ClassGraph& graph, int file_version);

}  // namespace tenon::module
