// Hostile texts: nesting of every kind, long chains, large trees, all refused with a typed error and without much memory or stack.
#include <pthread.h>

#include <functional>

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

// What a thread of Rust has; a sanitizer's frames are several times as large.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kStackNbytes = size_t{16} << 20;
#elif defined(__has_feature)
constexpr size_t kStackNbytes = size_t{__has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ? 16 : 2} << 20;
#else
constexpr size_t kStackNbytes = size_t{2} << 20;
#endif

void on_small_stack(const std::function<void()>& work) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kStackNbytes), 0);
  pthread_t thread{};
  const auto run = [](void* argument) -> void* {
    (*static_cast<const std::function<void()>*>(argument))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, const_cast<std::function<void()>*>(&work)), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
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
      EXPECT_FALSE(detail(status, "line").empty());
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
  EXPECT_EQ(parse_file("f", "def f(): return 1\n", limits).status().code(), Code::kResourceExhausted);
  limits = {};
  limits.max_tree_nbytes = 100'000;
  EXPECT_TRUE(parse_file("f", in_function("a = [" + repeated("1,", 500) + "]"), limits).is_ok());
  const Status status = parse_file("f", in_function("a = [" + repeated("1,", 5'000) + "]"), limits).status();
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_NE(status.message().find("100000"), std::string::npos) << status.message();
  limits = {};
  limits.max_depth = 3;
  EXPECT_TRUE(parse_expression("e", "((((1))))", limits).is_ok());
  EXPECT_EQ(parse_expression("e", "((((((1))))))", limits).status().code(), Code::kResourceExhausted);
}

}  // namespace
}  // namespace tenon::script
