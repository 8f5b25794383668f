// These tests bound the steps and the memory that an import takes for hostile archives.
#include <gtest/gtest.h>

#include "unit/cpu_time.h"
#include "unit/module/module_kit.h"

namespace tenon::module {
namespace {

constexpr char kModule[] =
    "class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n  training : bool\n";

std::string attribute(const std::string& name, const std::string& pickled) {
  return pickled_text(name) + pickled;
}

TEST(ImportBounds, TuplesThatManyMembersOfAUnionMayBe) {
  const std::string declared = "Union[__torch__.A, __torch__.B, int]";
  std::string code;
  for (const char* name : {"A", "B"})
    code += "class " + std::string(name) + "(NamedTuple):\n  f : " + declared + "\n";
  code += kModule + ("  f : " + declared + "\n");
  const std::string bad = pickled_text("bad") + std::string(400, '\x85');
  const double begin = cpu_seconds();
  refused(imported(made_archive(
              code, pickled_object("M", attribute("training", "\x88") + attribute("f", bad)))),
          {"data.pkl", "wanted"}, Code::kCorrupt);
  EXPECT_LT(cpu_seconds() - begin, 2);
}

// The Union of each class contains all classes. So the pairs to compare are as many as the values
// times the square of the number of classes.
TEST(ImportBounds, AnArchiveThatAsksForTooManyStepsIsRefused) {
  constexpr int kClasses = 250;
  std::string declared = "Union[int";
  for (int i = 0; i < kClasses; ++i) declared += ", __torch__.N" + std::to_string(i);
  declared += "]";
  std::string code = kModule + ("  f : " + declared + "\n");
  for (int i = 0; i < kClasses; ++i)
    code += "class N" + std::to_string(i) + "(NamedTuple):\n  f : " + declared + "\n";
  // The list has 300 chains, and no value is in two of them.
  std::string list = "(";
  for (int i = 0; i < 300; ++i) list += pickled_text("bad") + std::string(500, '\x85');
  const std::string root =
      pickled_object("M", attribute("training", "\x88") + attribute("f", list + "t"));
  const double begin = cpu_seconds();
  const auto bytes = made_archive(code, root);
  const auto result = imported(bytes);
  EXPECT_FALSE(result.is_ok());
  // An import may take 64 steps for each byte. A million steps take at most a second, and three
  // seconds on a busy machine.
  EXPECT_LT(cpu_seconds() - begin, 200e-6 * static_cast<double>(bytes.size()) + 5)
      << result.status().message();
}

// Bounds the time of four times as many members. The time is four times as long if each member is
// read once, and sixteen times as long if each is compared with all. A busy machine can double a
// measurement.
constexpr double kMostForFourTimes = 9;

double seconds_for_fields(int n) {
  std::string names;
  std::string fields;
  std::string state = attribute("training", "\x88");
  for (int i = 0; i < n; ++i) {
    const std::string name = "p" + std::to_string(i);
    names += "\"" + name + "\", ";
    fields += "  " + name + " : NoneType\n";
    state += attribute(name, "N");
  }
  const std::string code = "class M(Module):\n  __parameters__ = [" + names +
                           "]\n  __buffers__ = [" + names + "]\n  training : bool\n" + fields;
  const double begin = cpu_seconds();
  const auto module = must(imported(made_archive(code, pickled_object("M", state))));
  EXPECT_EQ(must(module->members()).size(), static_cast<size_t>(n) + 1U);
  return cpu_seconds() - begin;
}

TEST(ImportBounds, AClassOfManyFieldsIsReadOnce) {
  const double few = seconds_for_fields(5'000);
  EXPECT_LT(seconds_for_fields(20'000), kMostForFourTimes * few + 0.5);
}

double seconds_for_methods(int n) {
  std::string code = kModule;
  for (int i = 0; i < n; ++i) {
    code += "  def m" + std::to_string(i) +
            "(self: __torch__.M, x: Tensor) -> Tensor:\n    return torch.add(x, 1)\n";
  }
  const double begin = cpu_seconds();
  const auto bytes = made_archive(code, pickled_object("M", attribute("training", "\x88")));
  const auto module = must(imported(bytes));
  EXPECT_EQ(must(module->members()).size(), static_cast<size_t>(n) + 1U);
  ok(module->check());
  return cpu_seconds() - begin;
}

TEST(ImportBounds, AClassOfManyMethodsIsReadOnce) {
  const double few = seconds_for_methods(2'000);
  EXPECT_LT(seconds_for_methods(8'000), kMostForFourTimes * few + 0.5);
}

// Each level has two names for the same submodule. That gives 2^15 paths, each with 15 long names.
TEST(ImportBounds, PathsOfSharedSubmodulesAreCounted) {
  constexpr int kDepth = 15;
  const std::string a(4000, 'a');
  const std::string b(4000, 'b');
  std::string code;
  std::string root;
  for (int i = 0; i < kDepth; ++i) {
    const std::string kid = "__torch__.M" + std::to_string(i + 1);
    code += "class M" + std::to_string(i) +
            "(Module):\n  __parameters__ = []\n  __buffers__ = []\n  training : bool\n  " + a +
            " : " + kid + "\n  " + b + " : " + kid + "\n";
    root += "c__torch__\nM" + std::to_string(i) + "\n)\x81}(" + attribute("training", "\x88") +
            pickled_text(a);
  }
  std::string closing;
  for (int i = kDepth - 1; i >= 0; --i) {
    const std::string memo{static_cast<char>(i)};
    closing += "q" + memo + pickled_text(b) + "h" + memo + "ub";
  }
  code += "class M" + std::to_string(kDepth) +
          "(Module):\n  __parameters__ = []\n  __buffers__ = [\"w\"]\n  training : bool\n  w : "
          "Tensor\n";
  root += "c__torch__\nM" + std::to_string(kDepth) + "\n)\x81}(" + attribute("training", "\x88") +
          attribute("w", pickled_tensor("0", 1, 1)) + "ub" + closing;
  const auto bytes = made_archive(code, root, {{"data/0", std::string(4, '\0')}});
  const auto module = must(imported(bytes));
  refused(module->tensors(), {"paths", "one submodule at a time"}, Code::kResourceExhausted);
  EXPECT_EQ(must(must(module->find(a)).module->find(a)).kind, MemberKind::kSubmodule);
}

TEST(ImportBounds, ExtraFilesHaveALimit) {
  ImportOptions options;
  options.zip_limits.max_kept_nbytes = 3000;
  const auto bytes = [](size_t nbytes) {
    return made_archive(
        kModule, pickled_object("M", attribute("training", "\x88")),
        {{"extra/a", std::string(nbytes, 'x')}, {"extra/b", std::string(1000, 'x')}});
  };
  const auto good = bytes(1000);
  ok(imported(good, options).status());
  const auto bad = bytes(2500);
  refused(imported(bad, options), {"max_kept_nbytes", "extra files", "3000"},
          Code::kResourceExhausted);
}

}  // namespace
}  // namespace tenon::module
