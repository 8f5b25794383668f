// Finds which versions of PyTorch can run a program, by the operators that the program uses. Only
// tests call this so far.
#pragma once

#include <string>
#include <vector>

#include "modules/script/check.h"

namespace tenon::script {

struct Requirements {
  // The oldest PyTorch of the schema table that has all operators and takes these calls: "1.9". The
  // types of operands are not compared, so the true oldest version may be newer. Empty: no PyTorch
  // of the table takes them all.
  std::string oldest_torch;
  // An operator ("aten::gelu") that makes versions older than oldest_torch fail. Empty: the oldest
  // PyTorch of the table takes all calls.
  std::string because_of;
  // The newest PyTorch of the table that takes all calls. Empty: the newest of the table takes
  // them.
  std::string newest_torch;
  // Operators with calls whose meaning depends on the version that the archive says.
  std::vector<std::string> versioned_operators;
  // Namespaces of operators that come from other libraries.
  std::vector<std::string> foreign_namespaces;
};

Requirements requirements(const Uses& uses);

}  // namespace tenon::script
