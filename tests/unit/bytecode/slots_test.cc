// These tests check the slots of GET_ATTR and SET_ATTR. A slot that the object has is accepted, and
// any other slot is refused.
#include "modules/bytecode/slots.h"

#include <gtest/gtest.h>

#include "support/must.h"
#include "unit/bytecode/bytecode_kit.h"
#include "unit/cpu_time.h"

namespace tenon::bytecode::test {
namespace {

using enum Opcode;
using value::ClassDecl;

ValueRef object_of(const std::string& name, const std::vector<ValueRef>& attributes) {
  ValueRef object = Value::object("__torch__." + name);
  for (size_t i = 0; i < attributes.size(); ++i) {
    EXPECT_TRUE(object->attributes().add("a" + std::to_string(i), attributes[i]).is_ok());
  }
  return object;
}

ValueRef number() { return Value::of_int(1); }

// Returns an object of class M. Slot 0 holds a Small with 1 attribute, slot 1 a Large with 4, and
// slot 2 a number.
ValueRef small_and_large() {
  return object_of("M", {object_of("Small", {number()}),
                         object_of("Large", {number(), number(), number(), number()}), number()});
}

// Declares the fields of a class, for objects with a state.
class DeclaredFields final : public value::ClassTable {
 public:
  DeclaredFields(std::string name, size_t count) : name_(std::move(name)) {
    decl_.fields.resize(count);
  }
  const ClassDecl* find(std::string_view class_name) const override {
    return class_name == name_ ? &decl_ : nullptr;
  }
  bool implements(std::string_view, std::string_view) const override { return false; }

 private:
  std::string name_;
  ClassDecl decl_;
};

Function method(const std::string& name, std::vector<Instruction> instructions) {
  Function function = function_of(std::move(instructions));
  function.name = "__torch__." + name;
  return function;
}

Status verified_in(const ValueRef& module, std::vector<Function> functions,
                   const value::ClassTable* classes = nullptr) {
  Program program;
  program.functions = std::move(functions);
  VerifyOptions options = with_arities();
  options.module = module;
  options.classes = classes;
  return verify(program, options);
}

struct SlotCase {
  const char* what;
  std::vector<Instruction> instructions;
  std::string fault;  // empty: the case is good
};

void check_cases(std::span<const SlotCase> cases, const std::string& name = "M.forward") {
  for (const SlotCase& one : cases) {
    SCOPED_TRACE(one.what);
    const Status status = verified_in(small_and_large(), {method(name, one.instructions)});
    if (one.fault.empty()) {
      EXPECT_TRUE(status.is_ok()) << status.message();
    } else {
      expect_error(status,
                   "bytecode.pkl: function __torch__." + name + ", instruction " + one.fault);
    }
  }
}

TEST(BytecodeSlots, of_self_and_what_it_holds) {
  const SlotCase cases[] = {
      {"the last of self", {{kStoreN, 1, 2}, {kLoad, 1}, {kGetAttr, 2}, {kRet}}, ""},
      {"beyond self",
       {{kStoreN, 1, 2}, {kLoad, 1}, {kGetAttr, 3}, {kRet}},
       "2 (GET_ATTR 3 0): there is no attribute 3, for an object of the class __torch__.M has 3"},
      {"self that stays on the stack",
       {{kStore, 2}, {kGetAttr, 200}, {kRet}},
       "1 (GET_ATTR 200 0): there is no attribute 200"},
      {"in Large", {{kStoreN, 1, 2}, {kMove, 1}, {kGetAttr, 1}, {kGetAttr, 3}, {kRet}}, ""},
      {"in Small",
       {{kStoreN, 1, 2}, {kMove, 1}, {kGetAttr, 0}, {kGetAttr, 1}, {kRet}},
       "3 (GET_ATTR 1 0): there is no attribute 1, for an object of the class __torch__.Small has "
       "1"},
      {"Small in a register",
       {{kStoreN, 1, 2}, {kLoad, 1}, {kGetAttr, 0}, {kStore, 3}, {kLoad, 3}, {kGetAttr, 2}, {kRet}},
       "5 (GET_ATTR 2 0): there is no attribute 2, for an object of the class __torch__.Small has "
       "1"},
      {"behind an operator",
       {{kStoreN, 1, 2},
        {kLoad, 1},
        {kGetAttr, 0},
        {kLoad, 2},
        {kOp, 0},
        {kDrop},
        {kGetAttr, 1},
        {kRet}},
       "6 (GET_ATTR 1 0): there is no attribute 1, for an object of the class __torch__.Small has "
       "1"},
      {"Small is set",
       {{kStoreN, 1, 2}, {kLoad, 1}, {kGetAttr, 0}, {kLoad, 2}, {kSetAttr, 1}, {kLoad, 2}, {kRet}},
       "4 (SET_ATTR 1 0)"},
      {"self is set",
       {{kStoreN, 1, 2}, {kLoad, 1}, {kLoad, 2}, {kSetAttr, 2}, {kLoad, 2}, {kRet}},
       ""},
      {"self in a loop",
       {{kStoreN, 1, 2},
        {kLoadC, 0},
        {kLoadC, 0},
        {kLoadC, 0},
        {kLoop, 6, 2},
        {kStore, 3},
        {kLoad, 1},
        {kGetAttr, 3},
        {kNot},
        {kJmp, -5},
        {kLoad, 2},
        {kRet}},
       "7 (GET_ATTR 3 0)"},
  };
  check_cases(cases);
  // The lite interpreter finds a method of the root by the last part of its name.
  const SlotCase other[] = {
      {"another class", {{kStoreN, 1, 2}, {kLoad, 1}, {kGetAttr, 3}, {kRet}}, "2 (GET_ATTR 3 0)"}};
  check_cases(other, "Nowhere.forward");
  const SlotCase small[] = {{"a method of Small",
                             {{kStoreN, 1, 2}, {kLoad, 1}, {kGetAttr, 1}, {kRet}},
                             "2 (GET_ATTR 1 0)"}};
  check_cases(small, "Small.run");
}

TEST(BytecodeSlots, of_unknown_objects_are_below_the_most_that_any_has) {
  const SlotCase cases[] = {
      {"an argument", {{kStoreN, 1, 2}, {kLoad, 2}, {kGetAttr, 3}, {kRet}}, ""},
      {"an argument beyond all",
       {{kStoreN, 1, 2}, {kLoad, 2}, {kGetAttr, 4}, {kRet}},
       "2 (GET_ATTR 4 0): there is no attribute 4, for no object of the module has more than 4"},
      {"an argument that is set",
       {{kStoreN, 1, 2}, {kLoad, 2}, {kLoad, 1}, {kSetAttr, 4}, {kLoad, 2}, {kRet}},
       "3 (SET_ATTR 4 0)"},
      {"a register with two values",
       {{kStoreN, 1, 2},
        {kLoad, 2},
        {kStore, 3},
        {kLoad, 1},
        {kGetAttr, 0},
        {kStore, 3},
        {kLoad, 3},
        {kGetAttr, 3},
        {kRet}},
       ""},
      {"where two paths meet",
       {{kStoreN, 1, 2},
        {kLoad, 1},
        {kLoad, 2},
        {kJf, 3},
        {kGetAttr, 0},
        {kJmp, 2},
        {kGetAttr, 1},
        {kGetAttr, 3},
        {kRet}},
       ""},
      {"an attribute that is set",
       {{kStoreN, 1, 2},
        {kLoad, 1},
        {kLoad, 2},
        {kSetAttr, 0},
        {kLoad, 1},
        {kGetAttr, 0},
        {kGetAttr, 3},
        {kRet}},
       ""},
      {"behind many results",
       {{kStoreN, 1, 2},
        {kLoad, 1},
        {kLoad, 2},
        {kListUnpack, 100},
        {kTupleConstruct, 100},
        {kDrop},
        {kGetAttr, 3},
        {kRet}},
       ""},
  };
  check_cases(cases);
}

TEST(BytecodeSlots, without_a_module_none_is_checked) {
  EXPECT_TRUE(
      verified_in({}, {method("M.forward", {{kStoreN, 1, 2}, {kLoad, 1}, {kGetAttr, 200}, {kRet}})})
          .is_ok());
}

TEST(BytecodeSlots, objects_of_one_class_that_hold_others) {
  const std::vector<Function> functions = {
      method("M.forward",
             {{kStoreN, 1, 2}, {kLoad, 1}, {kGetAttr, 0}, {kGetAttr, 0}, {kGetAttr, 1}, {kRet}})};
  const ValueRef same = object_of("Box", {object_of("Small", {number()})});
  const ValueRef other = object_of("Box", {object_of("Large", {number(), number()})});
  expect_error(verified_in(object_of("M", {same, same}), functions), "4 (GET_ATTR 1 0)");
  EXPECT_TRUE(verified_in(object_of("M", {same, other}), functions).is_ok());
}

TEST(BytecodeSlots, of_an_object_with_a_state_are_what_its_class_declares) {
  const ValueRef module = object_of("M", {Value::object_with_state("__torch__.Kept", number())});
  const DeclaredFields classes("__torch__.Kept", 4);
  const auto set_slot = [](int32_t slot) {
    return method("Kept.__setstate__",
                  {{kStoreN, 1, 2}, {kLoad, 1}, {kLoad, 2}, {kSetAttr, slot}, {kLoadC, 0}, {kRet}});
  };
  EXPECT_TRUE(verified_in(module, {set_slot(3)}, &classes).is_ok());
  expect_error(verified_in(module, {set_slot(4)}, &classes),
               "3 (SET_ATTR 4 0): there is no attribute 4");
  const Function get =
      method("M.forward", {{kStoreN, 1, 2}, {kLoad, 1}, {kGetAttr, 0}, {kGetAttr, 3}, {kRet}});
  EXPECT_TRUE(verified_in(module, {get}, &classes).is_ok());
  expect_error(verified_in(module, {get}), "no object of the module has more than 1");
}

TEST(BytecodeSlots, an_argument_of_a_class_may_have_what_the_class_declares) {
  const DeclaredFields classes("__torch__.Item", 6);
  Function function = method("M.forward", {{kStoreN, 1, 2}, {kLoad, 2}, {kGetAttr, 5}, {kRet}});
  function.arguments[1].type = "__torch__.Item";
  EXPECT_TRUE(verified_in(small_and_large(), {function}, &classes).is_ok());
  function.instructions[2].x = 6;
  expect_error(verified_in(small_and_large(), {function}, &classes), "more than 6");
}

TEST(BytecodeSlots, hostile_functions_take_bounded_time) {
  Function function = method("M.forward", {{kStoreN, 1, 2}});
  for (int32_t i = 0; i < 300'000; ++i) {
    function.instructions.push_back({kLoad, 2});
    function.instructions.push_back({kListUnpack, i % 2 == 0 ? 63 : 2'147'483'647});
    function.instructions.push_back({kLoad, 1});
    function.instructions.push_back({kStoreN, 3, 2});
  }
  function.instructions.push_back({kRet});
  // One object of the class has many attributes, and many objects of the class have none.
  std::vector<ValueRef> wide(100'000, number());
  std::vector<ValueRef> objects = {object_of("Wide", wide)};
  for (int i = 0; i < 20'000; ++i) objects.push_back(object_of("Wide", {}));
  const ValueRef module = object_of("M", objects);
  const double begin = cpu_seconds();
  EXPECT_FALSE(verified_in(module, {function}).is_ok());
  Program program;
  program.functions.push_back(function);
  ModuleSlots slots = must(ModuleSlots::create(program, module, nullptr));
  EXPECT_TRUE(check_slots(function, slots, find_arity).is_ok());
  EXPECT_LT(cpu_seconds() - begin, 20);
}

}  // namespace
}  // namespace tenon::bytecode::test
