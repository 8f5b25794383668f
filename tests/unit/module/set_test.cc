// These tests replace, load and remove members of modules.
#include "module_kit.h"

namespace tenon::module {
namespace {

Ref<Module> net_that_shares() {
  const Ref<Module> module = must(Module::create("Net"));
  const Ref<Module> encoder = must(Module::create("Part"));
  const Ref<Module> decoder = must(Module::create("Part"));
  const ValueRef shared = floats({1, 2, 3, 4}, {2, 2});
  ok(encoder->add_parameter("weight", shared));
  ok(decoder->add_parameter("weight", shared));
  ok(encoder->add_parameter("bias", Value::none()));
  ok(decoder->add_buffer("mean", floats({5})));
  ok(module->add_submodule("encoder", encoder));
  ok(module->add_submodule("decoder", decoder));
  ok(module->add_attribute(
      "all", type("Dict[str, List[Tensor]]"),
      must(Value::dict(nullptr,
                       {{Value::of_str("w"), Value::list(nullptr, {shared, floats({9})})}}))));
  ok(module->add_attribute("n", Type::integer(), Value::of_int(1)));
  return module;
}

TEST(Set, EveryOwnerOfATensorSeesIt) {
  const Ref<Module> module = net_that_shares();
  const ValueRef other = floats({7, 8, 9});
  ok(module->set("decoder.weight", other));
  EXPECT_EQ(must(module->find("decoder.weight")).value.get(), other.get());
  EXPECT_EQ(must(module->find("encoder.weight")).value.get(), other.get());
  const ValueRef all = must(module->find("all")).value;
  EXPECT_EQ((*all->find("w"))->items()[0].get(), other.get());
  EXPECT_EQ(elements_of(*(*all->find("w"))->items()[1]), std::vector<float>({9}));
  EXPECT_EQ(all->declared_type()->print(), "Dict[str, List[Tensor]]");
}

TEST(Set, ViewsOfOtherElementsStay) {
  const Ref<Module> module = must(Module::create("Net"));
  const ValueRef whole = floats({1, 2, 3, 4});
  value::StridedSpec spec;
  spec.storage = whole->as_tensor()->storage();
  spec.sizes = {2};
  spec.strides = {1};
  spec.offset = 2;
  ok(module->add_parameter("whole", whole));
  ok(module->add_parameter("tail", Value::of_tensor(must(value::TensorValue::create(spec)))));
  ok(module->add_parameter("tail_too", Value::of_tensor(must(value::TensorValue::create(spec)))));
  ok(module->set("tail", floats({6})));
  EXPECT_EQ(elements_of(*must(module->find("tail_too")).value), std::vector<float>({6}));
  EXPECT_EQ(elements_of(*must(module->find("whole")).value), std::vector<float>({1, 2, 3, 4}));
}

TEST(Set, TypesStay) {
  const Ref<Module> module = net_that_shares();
  refused(module->set("decoder.weight", Value::none()), {"decoder.weight", "Tensor wanted"});
  refused(module->set("encoder.bias", floats({1})), {"encoder.bias"});
  refused(module->set("n", Value::of_float(1)), {"n", "int"});
  refused(module->set("encoder", floats({1})), {"submodule"});
  refused(module->set("encoder.nothing", floats({1})), {"__torch__.Part", "nothing"},
          Code::kNotFound);
  refused(module->set("n.m", floats({1})), {"no submodule"}, Code::kNotFound);
  refused(module->set_submodule("n", must(Module::create("Other"))), {"no submodule"});
  ok(module->set("n", Value::of_int(5)));
  EXPECT_EQ(must(module->find("n")).value->as_int(), 5);
}

TEST(Set, LoadingNamesWhatIsMissingAndUnexpected) {
  const Ref<Module> module = net_that_shares();
  LoadReport report;
  const std::vector<NamedTensor> tensors{{"decoder.weight", floats({1})},
                                         {"decoder.scale", floats({2})}};
  refused(module->load(tensors, {}, &report), {"missing decoder.mean", "unexpected decoder.scale"});
  EXPECT_EQ(report.missing, std::vector<std::string>({"decoder.mean"}));
  EXPECT_EQ(report.unexpected, std::vector<std::string>({"decoder.scale"}));
  EXPECT_EQ(elements_of(*must(module->find("decoder.weight")).value).size(), 4U);
  refused(module->load(tensors, {.allow_missing = true}, &report), {"unexpected decoder.scale"});
  ok(module->load(tensors, {.allow_missing = true, .allow_unexpected = true}, &report));
  EXPECT_EQ(report.missing.size(), 1U);
  EXPECT_EQ(elements_of(*must(module->find("encoder.weight")).value), std::vector<float>({1}));
}

TEST(Set, LoadingGivesSharedTensorsOneValue) {
  const Ref<Module> module = net_that_shares();
  const ValueRef mean = floats({3});
  const auto load = [&](const ValueRef& one, const ValueRef& other) {
    return module->load(
        std::vector<NamedTensor>{
            {"encoder.weight", one}, {"decoder.weight", other}, {"decoder.mean", mean}},
        {}, nullptr);
  };
  refused(load(floats({1, 2}), floats({1, 3})), {"encoder.weight", "decoder.weight", "one tensor"});
  EXPECT_EQ(elements_of(*must(module->find("decoder.mean")).value), std::vector<float>({5}));
  ok(load(floats({1, 2}), floats({1, 2})));
  EXPECT_EQ(must(module->find("encoder.weight")).value.get(),
            must(module->find("decoder.weight")).value.get());
  const ValueRef same = floats({4});
  ok(load(same, same));
  refused(module->load(std::vector<NamedTensor>{{"decoder.mean", mean}, {"decoder.mean", mean}}, {},
                       nullptr),
          {"given twice"});
  refused(module->load(std::vector<NamedTensor>{{"decoder.mean", Value::of_int(1)}},
                       {.allow_missing = true}, nullptr),
          {"decoder.mean", "Tensor wanted"});
}

TEST(Set, WhatIsRemovedIsGone) {
  const Ref<Module> module = net_that_shares();
  ok(module->define(
      "def forward(self):\n  return 1\ndef h(self, x: Tuple[Tensor]):\n  return x\n"));
  ok(module->set_hooks(true, {"h"}));
  ok(module->add_constant("c", Type::integer(), Value::of_int(1)));
  for (const char* path : {"encoder.weight", "decoder.mean", "all", "c", "h", "decoder"}) {
    ok(module->remove(path));
    refused(module->find(path), {}, Code::kNotFound);
  }
  refused(module->remove("decoder"), {"decoder"}, Code::kNotFound);
  const std::string code = records_of(exported(*module)).at("code/__torch__.py");
  EXPECT_EQ(code.find("hooks"), std::string::npos) << code;
  EXPECT_EQ(code.find("decoder"), std::string::npos) << code;
}

// Two objects have one class. A method that is added to one object does not appear in the other, so
// the export splits the class.
TEST(Set, AClassOfSeveralIsSplit) {
  const Ref<Module> module = must(Module::create("Net"));
  const auto part = [] {
    const Ref<Module> made = must(Module::create("Part"));
    ok(made->define("def forward(self: __torch__.Part, x: Tensor) -> Tensor:\n  return x\n"));
    return made;
  };
  ok(module->add_submodule("a", part()));
  ok(module->add_submodule("b", part()));
  ok(module->define(
      "def forward(self, x: Tensor) -> Tensor:\n  return self.b.forward(self.a.forward(x))\n"));
  const std::vector<std::byte> bytes = exported(*module);
  EXPECT_EQ(records_of(bytes).at("code/__torch__.py").find("mangle"), std::string::npos);

  const Ref<Module> again = must(imported(bytes));
  EXPECT_EQ(must(again->find("a")).module->class_name(),
            must(again->find("b")).module->class_name());
  ok(must(again->find("a"))
         .module->define("def more(self, x: Tensor) -> Tensor:\n  return x + 1\n"));
  EXPECT_EQ(must(again->find("a.more")).kind, MemberKind::kMethod);
  refused(again->find("b.more"), {"more"}, Code::kNotFound);
  const std::map<std::string, std::string> records = records_of(exported(*again));
  EXPECT_EQ(records.count("code/__torch__/___torch_mangle_0.py"), 1U);
  EXPECT_NE(records.at("code/__torch__.py")
                .find("  a : __torch__.___torch_mangle_0.Part\n  b : __torch__.Part\n"),
            std::string::npos)
      << records.at("code/__torch__.py");
  EXPECT_NE(records.at("code/__torch__/___torch_mangle_0.py")
                .find("self: __torch__.___torch_mangle_0.Part"),
            std::string::npos);
}

}  // namespace
}  // namespace tenon::module
