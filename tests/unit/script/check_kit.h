// The tests of the checker share these helpers, which check programs that are given as text.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "modules/script/check.h"
#include "modules/script/declarations.h"
#include "modules/script/parser.h"

namespace tenon::script {

// Returns the declarations of code/__torch__.py.
inline Declarations declared(const std::string& code, size_t constants = 0) {
  Declarations declarations;
  declarations.set_constants(constants);
  auto file = parse_file("code/__torch__.py", code);
  EXPECT_TRUE(file.is_ok()) << file.status().message();
  if (!file.is_ok()) return declarations;
  const Status status = declarations.add("__torch__", file.value());
  EXPECT_TRUE(status.is_ok()) << status.message();
  return declarations;
}

inline Status check_code(const std::string& code, size_t constants = 0, Uses* uses = nullptr,
                         const CheckOptions& options = {}) {
  auto file = parse_file("code/__torch__.py", code);
  if (!file.is_ok()) return std::move(file).status();
  const Declarations declarations = declared(code, constants);
  return check_file(declarations, "__torch__", *file.value(), options, uses);
}

// Returns the code of a module M that has a weight, a count, a Final, a list of objects, and a
// method with this body. Before M the code has the NamedTuple Pair, the enum Mode, the interface
// Runs, the class Item and the function twice, which the body may use.
inline std::string method(const std::string& body, const std::string& parameters = "x: Tensor",
                          const std::string& returns = "") {
  std::string code =
      "class Pair(NamedTuple):\n  left : Tensor\n  right : int\n"
      "class Mode(Enum):\n  ON = 1\n  OFF = 2\n"
      "class Runs(Interface):\n  def run(self, x: Tensor) -> Tensor:\n    pass\n"
      "class Item:\n  n : int\n  def __init__(self, n: int) -> NoneType:\n    self.n = n\n"
      "  def add(self, by: int, times: int=1) -> int:\n    return self.n\n"
      "def twice(x: Tensor, by: float=2.) -> Tensor:\n  return torch.mul(x, by)\n"
      "class M(Module):\n  __parameters__ = [\"weight\", ]\n  weight : Tensor\n  bias : NoneType\n "
      " count : int\n  items : "
      "List[__torch__.Item]\n"
      "  width : Final[int] = 3\n"
      "  def forward(self, " +
      parameters + ")" + (returns.empty() ? "" : " -> " + returns) + ":\n";
  std::string line;
  for (const char c : body + "\n") {
    line.push_back(c);
    if (c != '\n') continue;
    code += "    " + line;
    line.clear();
  }
  return code;
}

inline std::string message(const Status& status) {
  return status.is_ok() ? "taken" : status.message();
}

}  // namespace tenon::script
