// What a program needs of the PyTorch that runs it, by the operators that it uses.
#pragma once

#include <string>
#include <vector>

#include "script/check.h"

namespace tenon::script {

struct Requirements {
  // The oldest PyTorch of the schema table that has all operators, in a form that takes these
  // calls: "1.9". Since operand types are not known, the true one may be newer. Empty: no PyTorch
  // of the table has them all.
  std::string oldest_torch;
  // An operator that older ones have not got ("aten::gelu"); empty: the table's oldest has all.
  std::string because_of;
  // The last PyTorch of the table that has all, where newer ones have not; empty: the newest has
  // them.
  std::string newest_torch;
  // Operators whose meaning depends on the version that the archive says, as they are called here.
  std::vector<std::string> versioned_operators;
  // Namespaces of operators that come from other libraries.
  std::vector<std::string> foreign_namespaces;
};

Requirements requirements(const Uses& uses);

}  // namespace tenon::script
