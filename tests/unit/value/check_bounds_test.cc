// These tests bound the steps and the memory that a check of values takes, whatever its input is.
#include <gtest/gtest.h>

#include <map>

#include "modules/value/check.h"
#include "unit/cpu_time.h"
#include "unit/value/value_kit.h"

namespace tenon::value {
namespace {

// Declares `count` NamedTuples of one field. The field holds an int or any of the NamedTuples.
class Nested : public ClassTable {
 public:
  explicit Nested(size_t count) {
    std::string members = "int";
    for (size_t i = 0; i < count; ++i) members += ", " + name(i);
    const std::string declared = "Union[" + members + "]";
    for (size_t i = 0; i < count; ++i) {
      ClassDecl& decl = decls_[name(i)];
      decl.kind = ClassDecl::Kind::kNamedTuple;
      // Each class has its own object for the type, because each code spells the type out.
      decl.fields = {{"f", type(declared.c_str())}};
    }
  }
  static std::string name(size_t i) { return "__torch__.N" + std::to_string(i); }
  TypeRef field() const { return decls_.begin()->second.fields[0].type; }
  const ClassDecl* find(std::string_view class_name) const override {
    const auto found = decls_.find(std::string(class_name));
    return found != decls_.end() ? &found->second : nullptr;
  }
  bool implements(std::string_view, std::string_view) const override { return false; }

 private:
  std::map<std::string, ClassDecl> decls_;
};

ValueRef tuples(size_t depth, ValueRef inner) {
  for (size_t i = 0; i < depth; ++i) inner = Value::tuple({inner});
  return inner;
}

Status check_within(const ValueRef& value, const Nested& classes, uint64_t* steps) {
  CheckOptions options;
  options.classes = &classes;
  options.steps_left = steps;
  return check_value(*value, *classes.field(), "w", options);
}

TEST(CheckBounds, AMemberThatFailsOnceIsNotTriedAgain) {
  const Nested classes(3);
  // At each depth, each class tries three classes for the next depth. Without a memory the check
  // would take 3^400 steps.
  for (const bool fits : {true, false}) {
    uint64_t steps = 100'000;
    const Status status = check_within(tuples(400, fits ? num(1) : str("bad")), classes, &steps);
    EXPECT_EQ(status.is_ok(), fits);
    EXPECT_EQ(status.code(), fits ? Code::kOk : Code::kInvalidArgument) << status.message();
    EXPECT_GT(steps, 80'000U);
  }
}

TEST(CheckBounds, WhatFitsOneMemberInPartIsNotLookedAtAgain) {
  // The last item decides, and each member of the Union checks all items before it.
  std::vector<ValueRef> items(1000, tuples(100, num(1)));
  items.push_back(str("bad"));
  const TypeRef declared = type("Union[List[Tuple[int]], List[int], List[Any], Dict[str, int]]");
  uint64_t steps = 20'000;
  CheckOptions options;
  options.steps_left = &steps;
  EXPECT_TRUE(
      check_value(*Value::list(nullptr, std::move(items)), *declared, "w", options).is_ok());
}

TEST(CheckBounds, TheStepsOfACheckEnd) {
  const Nested classes(100);
  uint64_t steps = 10'000;
  const Status status = check_within(tuples(400, str("bad")), classes, &steps);
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_NE(status.message().find("more steps than any module of this size needs"),
            std::string::npos)
      << status.message();
  EXPECT_EQ(steps, 0U);
  // The steps that are left are shared by all checks.
  EXPECT_EQ(check_within(num(1), classes, &steps).code(), Code::kResourceExhausted);
}

TEST(CheckBounds, TheMessageIsTheSameAsWithoutAUnionAround) {
  const Nested one(1);
  uint64_t steps = 10'000;
  EXPECT_EQ(check_within(tuples(2, str("bad")), one, &steps).message(),
            "w: Union[int, __torch__.N0] wanted, a tuple of 1 found");
  const TypeRef declared = type("Union[List[Union[List[int], str]], str]");
  const ValueRef value = Value::list(nullptr, {str("a"), Value::list(nullptr, {num(1), str("b")})});
  EXPECT_EQ(check_value(*value, *declared, "w").message(), "w[1][1]: int wanted, str found");
}

TEST(CheckBounds, AnEnumOfManyMembersIsAskedOnce) {
  class Table : public ClassTable {
   public:
    explicit Table(int64_t count) {
      decl_.kind = ClassDecl::Kind::kEnum;
      for (int64_t i = 0; i < count; ++i) decl_.enum_values.push_back(num(i));
    }
    const ClassDecl* find(std::string_view) const override { return &decl_; }
    bool implements(std::string_view, std::string_view) const override { return false; }

   private:
    ClassDecl decl_;
  };
  const int64_t count = 20'000;
  const Table table(count);
  CheckOptions options;
  options.classes = &table;
  std::vector<ValueRef> items;
  for (int64_t i = 0; i < count; ++i)
    items.push_back(Value::enumeration("__torch__.E", num(count - 1 - i)));
  const double begin = cpu_seconds();
  EXPECT_TRUE(
      check_value(*Value::list(nullptr, std::move(items)), *type("List[__torch__.E]"), "w", options)
          .is_ok());
  EXPECT_LT(cpu_seconds() - begin, 2);
}

// Returns a Union of many members that differ in their last parts, in one of two orders.
std::string wide_union(size_t members, size_t parts, bool reversed) {
  std::string text = "Union[";
  for (size_t k = 0; k < members; ++k) {
    const size_t i = reversed ? members - 1 - k : k;
    text += k == 0 ? "Tuple[" : ", Tuple[";
    for (size_t part = 0; part < parts; ++part) {
      text += part == 0 ? "" : ", ";
      text += part + 8 < parts || (i >> (parts - 1 - part) & 1) != 0 ? "int" : "float";
    }
    text += "]";
  }
  return text + "]";
}

TEST(CheckBounds, UnionsAreComparedInOnePass) {
  const TypeRef one = type(wide_union(250, 60, false).c_str());
  const TypeRef other = type(wide_union(250, 60, true).c_str());
  EXPECT_TRUE(one->equals(*other));
  EXPECT_EQ(one->parts().size(), 250U);
  EXPECT_FALSE(one->equals(*type(wide_union(249, 60, true).c_str())));
  const double begin = cpu_seconds();
  for (int i = 0; i < 500; ++i) EXPECT_TRUE(one->equals(*other));
  // A comparison of each member with each other one would take a million steps.
  EXPECT_LT(cpu_seconds() - begin, 2);
}

TEST(CheckBounds, UnionsOfOtherMembersDiffer) {
  EXPECT_TRUE(type("Union[int, str, List[int]]")->equals(*type("Union[List[int], str, int]")));
  EXPECT_FALSE(type("Union[int, str, List[int]]")->equals(*type("Union[List[str], str, int]")));
  EXPECT_FALSE(type("Union[__torch__.A, int]")->equals(*type("Union[__torch__.B, int]")));
  EXPECT_TRUE(type("List[Union[__torch__.A, __torch__.B]]")
                  ->equals(*type("List[Union[__torch__.B, __torch__.A]]")));
  EXPECT_EQ(type("Union[__torch__.B, __torch__.A, __torch__.B]")->print(),
            "Union[__torch__.B, __torch__.A]");
}

}  // namespace
}  // namespace tenon::value
