// Which version an archive says. It tells PyTorch what six operators mean, for all code of the
// archive at once. So code that was written for different versions can be in one archive only if
// that makes no difference to the code.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "module/class_graph.h"
#include "module/code_environment.h"
#include "script/ast.h"

namespace tenon::module {

// One of `div`, `div_`, `full`, `linspace`, `logspace`, `gelu`.
struct VersionedOperator {
  std::string_view name;
  int changed = 0;  // the version with which it got its present meaning
};

// A function of the archive, or one method.
struct CodePart {
  std::string_view class_name;  // qualified; empty: a function
  std::string name;             // qualified
  int version = 0;              // of the operators that the code means
  const script::Source* source = nullptr;
  const script::Function* function = nullptr;
};

// The operators whose calls in this code depend on the version, each once, in the order of their
// versions. The operands decide: `k / 2` of an int and `torch.full([2], 3.)` mean the same in every
// version. Code that the checker does not take has every such operator that stands in it.
std::vector<VersionedOperator> versioned_operators(const CodeEnvironment& environment,
                                                   const CodePart& part);

// The version of an archive with these classes. All code of one version: that one. Of several: the
// newest, if no code among it uses an operator that means something else then; else
// INVALID_ARGUMENT, which names both and the operator. `file_version`, if it is not 0, is taken
// under the same condition.
Result<int> resolve_version(const ClassGraph& graph, int file_version);

}  // namespace tenon::module
