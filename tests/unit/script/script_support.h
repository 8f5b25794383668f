// The tests of the parser share these helpers, which parse and print source text.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "modules/script/parser.h"
#include "modules/script/printer.h"

namespace tenon::script::test {

inline std::string in_function(const std::string& line) { return "def f(x):\n  " + line + "\n"; }

inline std::shared_ptr<const File> parsed(const std::string& text) {
  Result<std::shared_ptr<const File>> made = parse_file("code/t.py", text);
  EXPECT_TRUE(made.is_ok()) << text << "\n"
                            << made.status().message() << "\n"
                            << made.status().detail("excerpt");
  return made.is_ok() ? made.value() : nullptr;
}

inline Status refusal(const std::string& text) {
  Result<std::shared_ptr<const File>> made = parse_file("code/t.py", text);
  EXPECT_FALSE(made.is_ok()) << text;
  return std::move(made).status();
}

inline std::shared_ptr<const ParsedExpr> parsed_expression(const std::string& text) {
  Result<std::shared_ptr<const ParsedExpr>> made = parse_expression("expression", text);
  EXPECT_TRUE(made.is_ok()) << text << "\n" << made.status().message();
  return made.is_ok() ? made.value() : nullptr;
}

inline std::string printed_expression(const std::string& text) {
  const auto made = parsed_expression(text);
  return made ? print(made->expr()) : "";
}

}  // namespace tenon::script::test
