// Which version an archive says. It tells PyTorch what six operators mean, for all code of the archive at once, so code that was written
// for different versions can be in one archive only if that makes no difference to it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "module/class_graph.h"
#include "script/ast.h"

namespace tenon::module {

// The operators among `div`, `div_`, `full`, `linspace`, `logspace`, `gelu` that some code uses, each once, in the order of their versions.
struct VersionedOperator {
  std::string_view name;
  int changed = 0;  // the version with which it got its present meaning
};
std::vector<VersionedOperator> versioned_operators(const script::Function& function);

// The version of an archive with these classes. All code of one version: that one. Of several: the newest, if no code among it uses an
// operator that means something else then; else INVALID_ARGUMENT, which names both and the operator. `file_version`, if it is not 0, is
// taken under the same condition.
Result<int> resolve_version(const ClassGraph& graph, int file_version);

}  // namespace tenon::module
