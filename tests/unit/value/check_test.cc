// These tests check values against types, and the messages of the errors.
#include "modules/value/check.h"

#include <gtest/gtest.h>

#include <map>

#include "unit/value/value_kit.h"

namespace tenon::value {
namespace {

std::string message(Value& value, const char* declared, const CheckOptions& options = {}) {
  const Status status = check_value(value, *type(declared), "w", options);
  if (!status.is_ok()) EXPECT_EQ(status.code(), Code::kInvalidArgument);
  return status.is_ok() ? "fits" : status.message();
}
std::string message(const ValueRef& value, const char* declared, const CheckOptions& options = {}) {
  return message(*value, declared, options);
}

ValueRef tensor() { return Value::of_tensor(tensor_of(ScalarType::kFloat, 1)); }
ValueRef dict(const char* declared, std::vector<DictEntry> entries) {
  return must(Value::dict(declared != nullptr ? type(declared) : nullptr, std::move(entries)));
}
ValueRef bare(std::vector<ValueRef> items) { return Value::list(nullptr, std::move(items)); }

TEST(Check, SimpleTypesTakeTheirOwnKindOnly) {
  const std::vector<std::pair<const char*, ValueRef>> kinds = {{"NoneType", Value::none()},
                                                               {"bool", Value::of_bool(true)},
                                                               {"int", num(1)},
                                                               {"float", Value::of_float(1)},
                                                               {"complex", Value::of_complex(1)},
                                                               {"str", str("a")},
                                                               {"Device", Value::of_device("cpu")},
                                                               {"Tensor", tensor()}};
  for (const auto& [declared, ignored] : kinds) {
    for (const auto& [own, value] : kinds) {
      EXPECT_EQ(message(value, declared) == "fits", std::string(own) == declared)
          << own << " for " << declared;
      EXPECT_EQ(message(value, "Any"), "fits");
    }
  }
  EXPECT_EQ(message(num(5), "Tensor"), "w: Tensor wanted, int found");
  EXPECT_EQ(message(num(5), "float"), "w: float wanted, int found");
  EXPECT_EQ(message(num(5), "number"), "fits");
  EXPECT_EQ(message(Value::of_float(5), "number"), "fits");
  EXPECT_EQ(message(Value::of_bool(true), "number"), "w: number wanted, bool found");
}

TEST(Check, DetailsSayWhereAndWhat) {
  const Status status =
      check_value(*Value::tuple({num(1), num(2)}), *type("Tuple[int, Tensor]"), "a.b");
  std::map<std::string, std::string> details;
  for (const Detail& detail : status.info()->details) details[detail.key] = detail.value;
  EXPECT_EQ(details["where"], "a.b[1]");
  EXPECT_EQ(details["wanted"], "Tensor");
  EXPECT_EQ(details["found"], "int");
}

TEST(Check, NothingIsAGeneratorOrAFuture) {
  for (const char* declared :
       {"Generator", "Stream", "Capsule", "Future[int]", "RRef[int]", "Await[int]"}) {
    EXPECT_EQ(message(num(1), declared), std::string("w: ") + declared + " wanted, int found");
    EXPECT_EQ(message(Value::none(), (std::string("Optional[") + declared + "]").c_str()), "fits");
  }
}

TEST(Check, OptionalAndUnion) {
  EXPECT_EQ(message(Value::none(), "Optional[Tensor]"), "fits");
  EXPECT_EQ(message(tensor(), "Optional[Tensor]"), "fits");
  EXPECT_EQ(message(num(1), "Optional[Tensor]"), "w: Tensor wanted, int found");
  EXPECT_EQ(message(str("a"), "Union[int, str]"), "fits");
  EXPECT_EQ(message(Value::none(), "Union[int, str]"), "w: Union[int, str] wanted, None found");
  EXPECT_EQ(message(Value::none(), "Union[int, str, NoneType]"), "fits");
  EXPECT_EQ(message(Value::of_complex(1), "Union[number]"), "fits");
  EXPECT_EQ(message(bare({num(1), str("a")}), "Union[List[int], str]"),
            "w[1]: int wanted, str found");
  EXPECT_EQ(message(bare({num(1), str("a")}), "Union[List[int], List[str]]"),
            "w: Union[List[int], List[str]] wanted, an untyped list found");
  EXPECT_EQ(message(bare({num(1), str("a")}), "List[Union[int, str]]"), "fits");
}

TEST(Check, Lists) {
  EXPECT_EQ(message(list("List[int]", {num(1)}), "List[int]"), "fits");
  EXPECT_EQ(message(list("List[int]", {num(1), str("x")}), "List[int]"),
            "w[1]: int wanted, str found");
  EXPECT_EQ(message(list("List[int]", {}), "List[float]"),
            "w: List[float] wanted, List[int] found");
  EXPECT_EQ(message(list("List[int]", {num(1)}), "List[Optional[int]]"),
            "w: List[Optional[int]] wanted, List[int] found");
  EXPECT_EQ(message(bare({}), "List[float]"), "fits");
  EXPECT_EQ(message(bare({num(1), num(2)}), "List[int]"), "fits");
  EXPECT_EQ(message(bare({num(1), Value::none()}), "List[int]"), "w[1]: int wanted, None found");
  EXPECT_EQ(message(bare({num(1), Value::none()}), "List[Optional[int]]"), "fits");
  EXPECT_EQ(message(Value::tuple({}), "List[int]"), "w: List[int] wanted, a tuple of 0 found");
  EXPECT_EQ(message(list("List[List[int]]", {list("List[int]", {num(1)})}), "List[List[int]]"),
            "fits");
  EXPECT_EQ(message(list("List[List[int]]", {list("List[str]", {})}), "List[List[int]]"),
            "w[0]: List[int] wanted, List[str] found");
  EXPECT_EQ(message(list("List[int]", {num(1)}), "list"), "fits");
  EXPECT_EQ(message(Value::tuple({}), "list"), "w: list wanted, a tuple of 0 found");
  EXPECT_EQ(message(list("List[int]", {str("a")}), "list"), "w[0]: int wanted, str found");
  EXPECT_EQ(message(list("List[int]", {str("a")}), "Any"), "w[0]: int wanted, str found");
}

TEST(Check, Dicts) {
  EXPECT_EQ(message(dict("Dict[str, int]", {{str("a"), num(1)}}), "Dict[str, int]"), "fits");
  EXPECT_EQ(message(dict("Dict[str, int]", {{str("a"), str("b")}}), "Dict[str, int]"),
            "w['a']: int wanted, str found");
  EXPECT_EQ(message(dict("Dict[str, int]", {{num(3), num(1)}}), "Dict[str, int]"),
            "w: keys of str wanted, the key 3 found");
  EXPECT_EQ(message(dict("Dict[str, int]", {}), "Dict[str, float]"),
            "w: Dict[str, float] wanted, Dict[str, int] found");
  EXPECT_EQ(message(dict(nullptr, {}), "Dict[str, float]"), "fits");
  EXPECT_EQ(message(dict(nullptr, {{str("a"), tensor()}}), "Dict[str, Tensor]"), "fits");
  EXPECT_EQ(message(bare({}), "Dict[str, Tensor]"),
            "w: Dict[str, Tensor] wanted, an untyped list found");
  EXPECT_EQ(message(dict("Dict[str, int]", {{str("a"), str("b")}}), "Any"),
            "w['a']: int wanted, str found");
}

TEST(Check, Tuples) {
  EXPECT_EQ(message(Value::tuple({}), "Tuple[()]"), "fits");
  EXPECT_EQ(message(Value::tuple({num(1), str("a")}), "Tuple[int, str]"), "fits");
  EXPECT_EQ(message(Value::tuple({num(1)}), "Tuple[int, str]"),
            "w: Tuple[int, str] wanted, a tuple of 1 found");
  EXPECT_EQ(message(Value::tuple({num(1), num(2)}), "Tuple[int, str]"),
            "w[1]: str wanted, int found");
  EXPECT_EQ(message(Value::tuple({num(1), num(2)}, "__torch__.P"), "Tuple[int, int]"), "fits");
  EXPECT_EQ(message(Value::tuple({num(1)}), "tuple"), "fits");
  EXPECT_EQ(message(num(1), "tuple"), "w: tuple wanted, int found");
}

TEST(Check, PathsLeadAllTheWayDown) {
  const ValueRef value =
      list("List[Dict[str, Tuple[int, Tensor]]]",
           {dict("Dict[str, Tuple[int, Tensor]]", {}),
            dict("Dict[str, Tuple[int, Tensor]]", {{str("k"), Value::tuple({num(1), num(5)})}})});
  EXPECT_EQ(message(value, "List[Dict[str, Tuple[int, Tensor]]]"),
            "w[1]['k'][1]: Tensor wanted, int found");
}

class Classes : public ClassTable {
 public:
  ClassDecl& add(const std::string& name, ClassDecl::Kind kind) {
    ClassDecl& decl = decls_[name];
    decl.kind = kind;
    return decl;
  }
  const ClassDecl* find(std::string_view class_name) const override {
    const auto found = decls_.find(std::string(class_name));
    return found != decls_.end() ? &found->second : nullptr;
  }
  bool implements(std::string_view class_name, std::string_view declared) const override {
    return class_name == "__torch__.Linear" && declared == "__torch__.Runs";
  }

 private:
  std::map<std::string, ClassDecl> decls_;
};

class CheckClasses : public testing::Test {
 protected:
  CheckClasses() {
    classes_.add("__torch__.Linear", ClassDecl::Kind::kObject).fields = {
        {"weight", type("Tensor")}, {"bias", type("Optional[Tensor]")}};
    classes_.add("__torch__.Net", ClassDecl::Kind::kObject).fields = {
        {"fc", type("__torch__.Linear")}, {"act", type("__torch__.Runs")}};
    classes_.add("__torch__.Runs", ClassDecl::Kind::kInterface);
    classes_.add("__torch__.P", ClassDecl::Kind::kNamedTuple).fields = {{"a", type("int")},
                                                                        {"b", type("str")}};
    classes_.add("__torch__.C", ClassDecl::Kind::kEnum).enum_values = {num(1), str("r")};
    classes_.add("__torch__.torch.classes.q.P", ClassDecl::Kind::kOpaque);
    ClassDecl& state = classes_.add("__torch__.S", ClassDecl::Kind::kObject);
    state.has_state = true;
    state.state_type = type("Tuple[int, int]");
    options_.classes = &classes_;
  }

  static ValueRef linear(ValueRef weight) {
    return must(Value::object("__torch__.Linear",
                              {{"weight", std::move(weight)}, {"bias", Value::none()}}));
  }
  std::string in(const ValueRef& value, const char* declared) {
    return message(value, declared, options_);
  }

  Classes classes_;
  CheckOptions options_;
};

TEST_F(CheckClasses, ObjectsAreLookedInto) {
  EXPECT_EQ(in(linear(tensor()), "__torch__.Linear"), "fits");
  EXPECT_EQ(in(linear(num(5)), "__torch__.Linear"), "w.weight: Tensor wanted, int found");
  EXPECT_EQ(in(linear(num(5)), "Any"), "w.weight: Tensor wanted, int found");
  EXPECT_EQ(in(num(5), "__torch__.Linear"), "w: __torch__.Linear wanted, int found");
  const ValueRef net =
      must(Value::object("__torch__.Net", {{"fc", linear(tensor())}, {"act", linear(num(1))}}));
  EXPECT_EQ(in(net, "__torch__.Net"), "w.act.weight: Tensor wanted, int found");
  EXPECT_EQ(in(Value::tuple({linear(num(5))}), "Tuple[__torch__.Linear]"),
            "w[0].weight: Tensor wanted, int found");
  EXPECT_EQ(in(Value::object("__torch__.X"), "Any"), "w: there is no class '__torch__.X'");
  EXPECT_EQ(in(Value::object("__torch__.X"), "__torch__.Linear"),
            "w: __torch__.Linear wanted, __torch__.X (an object) found");
  EXPECT_EQ(in(num(1), "__torch__.X"), "w: there is no class '__torch__.X'");
}

TEST_F(CheckClasses, MissingAndExtraAttributesAreNamed) {
  EXPECT_EQ(in(Value::object("__torch__.Linear"), "__torch__.Linear"),
            "w: an object of '__torch__.Linear' misses the attributes 'weight', 'bias'");
  const ValueRef extra = must(Value::object(
      "__torch__.Linear", {{"weight", tensor()}, {"bias", Value::none()}, {"x", num(1)}}));
  EXPECT_EQ(in(extra, "__torch__.Linear"),
            "w: an object of '__torch__.Linear' does not declare the attribute 'x'");
  options_.extra_attributes = true;
  EXPECT_EQ(in(extra, "__torch__.Linear"), "fits");
  const ValueRef both =
      must(Value::object("__torch__.Linear", {{"weight", tensor()}, {"x", num(1)}}));
  EXPECT_EQ(in(both, "__torch__.Linear"),
            "w: an object of '__torch__.Linear' misses the attribute 'bias'");
}

TEST_F(CheckClasses, InterfacesTakeWhatImplementsThem) {
  EXPECT_EQ(in(linear(tensor()), "__torch__.Runs"), "fits");
  EXPECT_EQ(in(Value::object("__torch__.Net"), "__torch__.Runs"),
            "w: __torch__.Runs wanted, __torch__.Net (an object) found");
}

// A value that failed as one member of a Union must not pass as another one.
TEST_F(CheckClasses, AnObjectThatFailsOnceFailsAgain) {
  const ValueRef bad = linear(num(5));
  EXPECT_EQ(in(bad, "Union[__torch__.Linear, __torch__.Runs]"),
            "w.weight: Tensor wanted, int found");
  EXPECT_EQ(in(bad, "Union[__torch__.Runs, __torch__.Linear]"),
            "w.weight: Tensor wanted, int found");
}

TEST_F(CheckClasses, NamedTuples) {
  EXPECT_EQ(in(Value::tuple({num(1), str("a")}, "__torch__.P"), "__torch__.P"), "fits");
  EXPECT_EQ(in(Value::tuple({num(1), str("a")}), "__torch__.P"), "fits");
  EXPECT_EQ(in(Value::tuple({num(1), num(2)}), "__torch__.P"), "w.b: str wanted, int found");
  EXPECT_EQ(in(Value::tuple({num(1)}), "__torch__.P"), "w: __torch__.P wanted, a tuple of 1 found");
  EXPECT_EQ(in(Value::tuple({num(1), str("a")}, "__torch__.Q"), "__torch__.P"),
            "w: __torch__.P wanted, __torch__.Q (a NamedTuple) found");
  EXPECT_EQ(in(Value::tuple({num(1), num(2)}, "__torch__.P"), "Any"), "w.b: str wanted, int found");
  EXPECT_EQ(in(Value::object("__torch__.P"), "Any"), "w: '__torch__.P' is no class of objects");
}

TEST_F(CheckClasses, Enums) {
  EXPECT_EQ(in(Value::enumeration("__torch__.C", num(1)), "__torch__.C"), "fits");
  EXPECT_EQ(in(Value::enumeration("__torch__.C", str("r")), "__torch__.C"), "fits");
  EXPECT_EQ(in(Value::enumeration("__torch__.C", num(2)), "__torch__.C"),
            "w: the enum '__torch__.C' has no value 2");
  EXPECT_EQ(in(Value::enumeration("__torch__.D", num(1)), "__torch__.C"),
            "w: __torch__.C wanted, __torch__.D (an enum) found");
  EXPECT_EQ(in(num(1), "__torch__.C"), "w: __torch__.C wanted, int found");
  EXPECT_EQ(in(Value::enumeration("__torch__.C", num(2)), "Any"),
            "w: the enum '__torch__.C' has no value 2");
}

TEST_F(CheckClasses, States) {
  EXPECT_EQ(in(Value::object_with_state("__torch__.torch.classes.q.P", num(1)),
               "__torch__.torch.classes.q.P"),
            "fits");
  EXPECT_EQ(in(Value::object_with_state("__torch__.torch.classes.q.P", linear(num(1))), "Any"),
            "w.state.weight: Tensor wanted, int found");
  EXPECT_EQ(
      in(Value::object_with_state("__torch__.S", Value::tuple({num(1), num(2)})), "__torch__.S"),
      "fits");
  EXPECT_EQ(
      in(Value::object_with_state("__torch__.S", Value::tuple({num(1), str("2")})), "__torch__.S"),
      "w.state[1]: int wanted, str found");
  EXPECT_EQ(in(Value::object("__torch__.S"), "__torch__.S"),
            "w: an object of '__torch__.S' has attributes, and its class reads a state");
  EXPECT_EQ(in(Value::object_with_state("__torch__.Linear", num(1)), "Any"),
            "w: an object of '__torch__.Linear' has a state, and its class reads attributes");
}

TEST_F(CheckClasses, WithoutATableNamesDecide) {
  options_.classes = nullptr;
  EXPECT_EQ(in(linear(num(5)), "__torch__.Linear"), "fits");
  EXPECT_EQ(in(linear(num(5)), "__torch__.Other"),
            "w: __torch__.Other wanted, __torch__.Linear (an object) found");
  EXPECT_EQ(in(Value::enumeration("__torch__.C", num(2)), "__torch__.C"), "fits");
  EXPECT_EQ(in(Value::tuple({}), "__torch__.P"), "fits");
  EXPECT_EQ(in(Value::tuple({}, "__torch__.Q"), "__torch__.P"),
            "w: __torch__.P wanted, __torch__.Q (a NamedTuple) found");
}

TEST_F(CheckClasses, OfAnObjectAlone) {
  EXPECT_TRUE(check_object(*linear(tensor()), "root", options_).is_ok());
  EXPECT_EQ(check_object(*linear(str("a")), "root", options_).message(),
            "root.weight: Tensor wanted, str found");
  EXPECT_EQ(check_object(*linear(str("a")), "", options_).message(),
            "weight: Tensor wanted, str found");
  EXPECT_EQ(check_object(*Value::object("__torch__.X"), "", options_).message(),
            "there is no class '__torch__.X'");
}

TEST(Check, DeepAndManyTimesSharedValues) {
  ValueRef wide = num(1);
  for (int i = 0; i < 200; ++i) wide = bare({wide, wide});
  EXPECT_EQ(message(wide, "Any"), "fits");
  ValueRef deep = num(1);
  for (int i = 0; i < 100'000; ++i) deep = Value::tuple({deep});
  EXPECT_NE(message(deep, "Any").find("values are nested deeper than 512"), std::string::npos);
  EXPECT_FALSE(type_of(*deep).is_ok());
}

TEST(Check, TypeOf) {
  const auto of = [](const ValueRef& value) { return must(type_of(*value))->print(); };
  EXPECT_EQ(of(Value::none()), "NoneType");
  EXPECT_EQ(of(Value::of_device("cpu")), "Device");
  EXPECT_EQ(of(Value::tuple({num(1), tensor(), Value::tuple({})})),
            "Tuple[int, Tensor, Tuple[()]]");
  EXPECT_EQ(of(Value::tuple({num(1)}, "__torch__.P")), "__torch__.P");
  EXPECT_EQ(of(list("List[str]", {})), "List[str]");
  EXPECT_EQ(of(bare({num(1)})), "List[Any]");
  EXPECT_EQ(of(dict(nullptr, {})), "Dict[Any, Any]");
  EXPECT_EQ(of(Value::object("__torch__.M")), "__torch__.M");
  EXPECT_EQ(of(Value::enumeration("__torch__.C", num(1))), "__torch__.C");
  EXPECT_FALSE(type_of(*Value::object("no name")).is_ok());
  ValueRef wide = num(1);
  for (int i = 0; i < 60; ++i) wide = Value::tuple({wide, wide});
  EXPECT_FALSE(type_of(*wide).is_ok());
}

}  // namespace
}  // namespace tenon::value
