// These tests parse hostile texts: deep nesting, long chains and large trees. Each is refused with
// a typed error, and without much memory or stack.
#include "support/small_stack.h"
#include "unit/script/script_support.h"

namespace tenon::script {
namespace {

using namespace test;

std::string repeated(const std::string& text, size_t n) {
  std::string all;
  for (size_t i = 0; i < n; ++i) all += text;
  return all;
}

std::string nested_blocks(const std::string& header, size_t n) {
  std::string text = "def f(x):\n";
  for (size_t i = 1; i <= n; ++i) text += std::string(i, ' ') + header + ":\n";
  return text + std::string(n + 1, ' ') + "pass\n";
}

TEST(ParserLimits, NestingIsRefused) {
  const std::string texts[] = {
      in_function(std::string(100'000, '(')),
      in_function(std::string(100'000, '[')),
      in_function(repeated("{a:", 100'000)),
      in_function(repeated("f(", 100'000)),
      in_function(repeated("a[", 100'000)),
      in_function(repeated("-", 100'000) + "1"),
      in_function(repeated("not ", 100'000) + "1"),
      in_function("a" + repeated("**a", 100'000)),
      in_function("a" + repeated("+a", 100'000)),
      in_function("a" + repeated(".a", 100'000)),
      in_function("a" + repeated("()", 100'000)),
      in_function("a" + repeated(" if a else a", 100'000)),
      in_function("a" + repeated(" for a in a", 100'000)),
      in_function("if a:\n    b\n" + repeated("  elif a:\n    b\n", 100'000)),
      nested_blocks("if a", 3'000),
      nested_blocks("def g()", 3'000),
  };
  on_small_stack([&texts] {
    for (const std::string& text : texts) {
      const Status status = refusal(text);
      EXPECT_EQ(status.code(), Code::kResourceExhausted) << text.substr(0, 60) << status.message();
      EXPECT_FALSE(status.detail("line").empty());
    }
  });
}

TEST(ParserLimits, NestingWithinTheLimitIsReadPrintedAndCompared) {
  const std::string texts[] = {
      in_function("a = " + std::string(950, '(') + "1" + std::string(950, ')')),
      in_function("a = " + std::string(450, '[') + "1" + std::string(450, ']')),
      in_function("a = a" + repeated(" + a", 450)),
      in_function("a = a" + repeated(" ** a", 450)),
      in_function("a = a" + repeated(".a", 450)),
      in_function("if a:\n    b\n" + repeated("  elif a:\n    b\n", 450)),
      nested_blocks("while a", 450),
  };
  on_small_stack([&texts] {
    for (const std::string& text : texts) {
      const auto file = parsed(text);
      ASSERT_NE(file, nullptr);
      const auto again = parsed(print(file->items()[0]));
      ASSERT_NE(again, nullptr);
      EXPECT_TRUE(equal(*file->items()[0].function, *again->items()[0].function));
    }
  });
}

TEST(ParserLimits, Sizes) {
  ParseLimits limits;
  limits.max_nbytes = 10;
  EXPECT_EQ(parse_file("f", "def f(): return 1\n", limits).status().code(),
            Code::kResourceExhausted);
  limits = {};
  limits.max_tree_nbytes = 100'000;
  EXPECT_TRUE(parse_file("f", in_function("a = [" + repeated("1,", 500) + "]"), limits).is_ok());
  const Status status =
      parse_file("f", in_function("a = [" + repeated("1,", 5'000) + "]"), limits).status();
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_NE(status.message().find("100000"), std::string::npos) << status.message();
  limits = {};
  limits.max_depth = 3;
  EXPECT_TRUE(parse_expression("e", "((((1))))", limits).is_ok());
  EXPECT_EQ(parse_expression("e", "((((((1))))))", limits).status().code(),
            Code::kResourceExhausted);
}

}  // namespace
}  // namespace tenon::script
