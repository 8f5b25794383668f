// These tests check what a parameter keeps when another tensor replaces its own, and which objects
// an export refuses.
#include <gtest/gtest.h>

#include "unit/module/module_kit.h"

namespace tenon::module {
namespace {

ValueRef with_grad(const ValueRef& tensor) {
  const value::TensorValue& from = *tensor->as_tensor();
  value::StridedSpec spec;
  spec.storage = from.storage();
  spec.sizes.assign(from.sizes().begin(), from.sizes().end());
  spec.strides.assign(from.strides().begin(), from.strides().end());
  spec.requires_grad = true;
  return Value::of_tensor(must(value::TensorValue::create(spec)));
}

bool requires_grad(const Module& module, const char* path) {
  return must(module.find(path)).value->as_tensor()->requires_grad();
}

TEST(Parameter, KeepsThatItRequiresAGradient) {
  const Ref<Module> module = must(Module::create("M"));
  ok(module->add_parameter("w", with_grad(floats({1, 2}))));
  ok(module->add_parameter("frozen", floats({1, 2})));
  ok(module->add_buffer("b", with_grad(floats({1, 2}))));
  ok(module->set("w", floats({3, 4, 5})));
  EXPECT_TRUE(requires_grad(*module, "w"));
  EXPECT_EQ(elements_of(*must(module->find("w")).value), (std::vector<float>{3, 4, 5}));
  ok(module->set("frozen", floats({3})));
  EXPECT_FALSE(requires_grad(*module, "frozen"));
  ok(module->set("frozen", with_grad(floats({3}))));
  EXPECT_TRUE(requires_grad(*module, "frozen"));
  ok(module->set("b", floats({3})));
  EXPECT_FALSE(requires_grad(*module, "b"));
}

TEST(Parameter, KeepsItWhenAStateIsLoaded) {
  const Ref<Module> module = must(Module::create("M"));
  const Ref<Module> child = must(Module::create("C"));
  ok(child->add_parameter("w", with_grad(floats({1}))));
  ok(module->add_submodule("child", child));
  ok(module->add_parameter("frozen", floats({1})));
  ok(module->add_buffer("b", with_grad(floats({1}))));
  const std::vector<NamedTensor> state = {
      {"child.w", floats({2})}, {"frozen", floats({3})}, {"b", floats({4})}};
  ok(module->load(state, {}, nullptr));
  EXPECT_TRUE(requires_grad(*module, "child.w"));
  EXPECT_EQ(elements_of(*must(module->find("child.w")).value), std::vector<float>{2});
  EXPECT_FALSE(requires_grad(*module, "frozen"));
  EXPECT_FALSE(requires_grad(*module, "b"));
}

TEST(Parameter, TwoThatAreGivenOneTensorShareIt) {
  const Ref<Module> module = must(Module::create("M"));
  for (const char* name : {"left", "right"})
    ok(module->add_parameter(name, with_grad(floats({1}))));
  const ValueRef given = floats({2});
  ok(module->load(std::vector<NamedTensor>{{"left", given}, {"right", given}}, {}, nullptr));
  EXPECT_TRUE(requires_grad(*module, "left"));
  EXPECT_EQ(must(module->find("left")).value.get(), must(module->find("right")).value.get());
}

TEST(Export, RefusesAttributesOfAClassThatReadsAState) {
  const Ref<Module> module = must(Module::create("St"));
  ok(module->add_attribute("k", Type::integer(), Value::of_int(3)));
  ok(module->define("def __getstate__(self) -> int:\n  return self.k\n"));
  // A class with __getstate__ but without __setstate__ is written with its attributes, as PyTorch
  // does it.
  ok(module->check());
  ok(module->define("def __setstate__(self, s: int) -> NoneType:\n  self.k = s\n"));
  refused(module->check(), {"__torch__.St", "__setstate__", "remove the two methods"},
          Code::kUnsupported);
  archive::MemorySink sink;
  refused(export_module(*module, &sink, unchecked(), nullptr), {"__setstate__"},
          Code::kUnsupported);
  ok(module->remove_method("__setstate__"));
  ok(module->remove_method("__getstate__"));
  const auto bytes = exported(*module);
  ok(imported(bytes).status());
}

TEST(Import, TensorsOfEveryDeviceComeToTheCpu) {
  const std::string code =
      "class M(Module):\n  __parameters__ = []\n  __buffers__ = [\"w\"]\n  w : Tensor\n";
  for (const char* device :
       {"cuda:0", "mps", "xpu:1", "hpu:0", "privateuseone:0", "xla:0", "mtia"}) {
    std::string tensor = pickled_tensor("0", 1, 1);
    tensor.replace(tensor.find(pickled_text("cpu")), pickled_text("cpu").size(),
                   pickled_text(device));
    const auto bytes = made_archive(code, pickled_object("M", pickled_text("w") + tensor),
                                    {{"data/0", std::string(4, '\0')}});
    const Ref<Module> module = must(imported(bytes));
    EXPECT_EQ(must(module->find("w")).value->as_tensor()->device(), "cpu");
    ASSERT_EQ(module->package().report.warnings.size(), 1U);
    EXPECT_NE(module->package().report.warnings[0].find(device), std::string::npos)
        << module->package().report.warnings[0];
  }
  for (const char* device : {"", ":0", "cuda:", "cuda:x", "no device", "0"}) {
    std::string tensor = pickled_tensor("0", 1, 1);
    tensor.replace(tensor.find(pickled_text("cpu")), pickled_text("cpu").size(),
                   pickled_text(device));
    const auto bytes = made_archive(code, pickled_object("M", pickled_text("w") + tensor),
                                    {{"data/0", std::string(4, '\0')}});
    refused(imported(bytes), {"device"}, Code::kUnsupported);
  }
}

TEST(Import, ADeviceMapThatSaysTheCpuNeedsNoWarning) {
  const std::string code =
      "class M(Module):\n  __parameters__ = []\n  __buffers__ = [\"w\"]\n  w : Tensor\n";
  for (const auto& [device, map] : {std::pair("mps", "mps=cpu"), std::pair("xpu:1", "xpu=cpu"),
                                    std::pair("hpu:0", "hpu:0=cpu,mps=cpu")}) {
    std::string tensor = pickled_tensor("0", 1, 1);
    tensor.replace(tensor.find(pickled_text("cpu")), pickled_text("cpu").size(),
                   pickled_text(device));
    const auto bytes = made_archive(code, pickled_object("M", pickled_text("w") + tensor),
                                    {{"data/0", std::string(4, '\0')}});
    ImportOptions options;
    options.device_map = must(DeviceMap::parse(map));
    const Ref<Module> module = must(imported(bytes, options));
    EXPECT_EQ(must(module->find("w")).value->as_tensor()->device(), "cpu");
    EXPECT_TRUE(module->package().report.warnings.empty()) << module->package().report.warnings[0];
  }
}

TEST(DeviceMap, FindsTheNumberBeforeTheKind) {
  const DeviceMap map = must(DeviceMap::parse("cuda=cpu,cuda:2=cuda:0,privateuseone:1=cuda:3"));
  EXPECT_EQ(map.find("cuda:2"), DeviceMap::Target{0});
  EXPECT_EQ(map.find("cuda:1"), DeviceMap::Target{});
  EXPECT_EQ(map.find("cuda"), DeviceMap::Target{});
  EXPECT_EQ(map.find("privateuseone:1"), DeviceMap::Target{3});
  EXPECT_FALSE(map.find("privateuseone:2").has_value());
  EXPECT_FALSE(map.find("cpu").has_value());
  EXPECT_EQ(map.ordinals(), (std::vector<int32_t>{0, 3}));
  EXPECT_TRUE(must(DeviceMap::parse("")).is_empty());
}

TEST(DeviceMap, RefusesWhatIsNoPair) {
  for (const char* text :
       {"cuda", "=cpu", "cuda:=cpu", "cuda:x=cpu", "CUDA=cpu", "cuda=", "cuda=mps", "cuda=cuda",
        "cuda=cuda:", "cuda=cuda:-1", "cuda=cuda:99999999999", "cuda=cpu,", ",cuda=cpu",
        "cuda=cpu,cuda=cuda:0", "cuda=cpu=cpu", "cu da=cpu"}) {
    const Status status = DeviceMap::parse(text).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << text;
    EXPECT_NE(status.message().find("write pairs like cuda:1=cuda:0,mps=cpu"), std::string::npos)
        << status.message();
  }
}

}  // namespace
}  // namespace tenon::module
