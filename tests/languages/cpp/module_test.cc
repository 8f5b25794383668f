// Tests of modules that are built, changed and read.
#include <algorithm>
#include <chrono>
#include <future>
#include <unordered_set>

#include "kit.h"

namespace {

using Modules = kit::Leaves;
using tenon::MemberKind;
using tenon::Module;
using tenon::Value;

static_assert(sizeof(Module) == sizeof(void*) && std::is_nothrow_move_constructible_v<Module>);

tenon::Tensor tensor(const std::vector<float>& elements) {
  const std::vector<std::int64_t> sizes{static_cast<std::int64_t>(elements.size())};
  return tenon::Tensor::over(tenon::Storage::make_from(std::as_bytes(std::span(elements))), sizes,
                             tenon::kDtypeOf<float>,
                             {.flags = std::uint32_t{TENON_TENSOR_REQUIRES_GRAD}});
}

Module scale(const std::vector<float>& elements) {
  Module module = Module::make("layers.Scale");
  module.add_parameter("weight", tensor(elements));
  module.define("def forward(self, x: Tensor) -> Tensor:\n  return torch.mul(x, self.weight)\n");
  return module;
}

std::vector<std::string> names(const std::vector<tenon::Member>& members) {
  std::vector<std::string> all;
  for (const tenon::Member& member : members) all.push_back(member.name);
  return all;
}

float first(const Module& module, const std::string& path) {
  const auto found = module.value(path).as<tenon::Tensor>();
  return found.view<float>()[0];
}

using Texts = std::vector<std::string>;

TEST_F(Modules, EveryKindOfMember) {
  Module module = Module::make("Net");
  EXPECT_EQ(module.class_name(), "__torch__.Net");
  module.add_parameter("weight", tensor({1, 2}));
  module.add_parameter("bias", Value::none());
  module.add_buffer("mean", tenon::zeros<float>({}));
  module.add_attribute("sizes", "List[int]", std::vector<int>{4, 3});
  module.add_attribute("name", std::nullopt, "net");
  module.add_constant("eps", "float", 0.5);
  module.add_submodule("child", scale({3}));
  module.define("def forward(self, x: Tensor) -> Tensor:\n  return self.child.forward(x)\n");
  module.check();

  const std::vector<tenon::Member> members = module.members();
  EXPECT_EQ(members.size(), 9U);  // PyTorch's `training` is in every module
  const std::pair<const char*, MemberKind> known[] = {
      {"weight", MemberKind::kParameter}, {"bias", MemberKind::kParameter},
      {"mean", MemberKind::kBuffer},      {"sizes", MemberKind::kAttribute},
      {"eps", MemberKind::kConstant},     {"child", MemberKind::kSubmodule},
      {"forward", MemberKind::kMethod}};
  for (const auto& [name, kind] : known) {
    EXPECT_EQ(module.find(name).kind, kind) << name;
    EXPECT_EQ(std::ranges::count(names(members), name), 1) << name;
  }
  const tenon::Member& method = members.back();
  EXPECT_EQ(tenon::name_of(method.kind), "method");
  EXPECT_FALSE(method.value || method.module);
  EXPECT_NE(method.source.find("self.child"), std::string::npos);
  EXPECT_EQ(module.find("sizes").type_text, "List[int]");
  EXPECT_EQ(module.find("child").type_text, "__torch__.layers.Scale");
  EXPECT_EQ(module.value("name").as<std::string>(), "net");
  EXPECT_EQ(module.value("bias").kind(), tenon::ValueKind::kNone);
  EXPECT_CODE(kInvalidArgument, module.try_value("child"));
  EXPECT_CODE(kInvalidArgument, module.try_submodule("sizes"));
  EXPECT_EQ(names(module.tensors()), (Texts{"weight", "mean", "child.weight"}));
  EXPECT_EQ(names(module.parameters()), (Texts{"weight", "child.weight"}));
  EXPECT_EQ(names(module.buffers()), (Texts{"mean"}));
  const std::vector<tenon::File> code = module.code_files();
  const auto own = std::ranges::find(code, "__torch__.py", &tenon::File::name);
  ASSERT_NE(own, code.end());
  EXPECT_NE(own->data.find("class Net(Module)"), std::string::npos);
  EXPECT_TRUE(module.constants().empty());
  EXPECT_EQ(module.import_report().version, 0);
  EXPECT_TRUE(module.warnings().empty());
  EXPECT_EQ(module.object().find("sizes").as<std::vector<int>>(), (std::vector<int>{4, 3}));
  EXPECT_EQ(tenon::name_of(static_cast<MemberKind>(99)), "");
}

TEST_F(Modules, WhatIsWrongIsSaidAndChangesNothing) {
  Module module = scale({1});
  const tenon::Result<void> unfit = module.try_add_attribute("n", "int", 0.5);
  EXPECT_EQ(unfit.error().detail("where"), "n");
  EXPECT_EQ(unfit.error().detail("wanted"), "int");
  EXPECT_EQ(unfit.error().detail("found"), "float");
  kit::thrown_by<tenon::InvalidArgument>([&] { module.add_buffer("weight", tensor({1})); });
  kit::thrown_by<tenon::InvalidArgument>(
      [&] { module.add_buffer(std::string("a\0", 2), tensor({1})); });
  kit::thrown_by<tenon::InvalidArgument>(
      [&] { module.add_attribute("n", std::string("int\0", 4), 1); });
  kit::thrown_by<tenon::InvalidArgument>(
      [&] { module.define(std::string("def f(self):\n  pass\n\0", 21)); });
  // An empty Value is not None.
  kit::thrown_by<tenon::InvalidArgument>([&] { module.add_parameter("bias", Value()); });
  kit::thrown_by<tenon::InvalidArgument>([&] { module.set("weight", Value()); });
  const tenon::Result<void> unclosed = module.try_define("def f(self) -> int:\n  return (1\n");
  EXPECT_CODE(kInvalidArgument, unclosed);
  EXPECT_TRUE(unclosed.error().detail("line") && unclosed.error().detail("excerpt"));
  kit::thrown_by<tenon::NotFound>([&] { (void)module.find("weight.more"); });
  EXPECT_NE(kit::thrown_by<tenon::NotFound>([&] { module.remove("nothing"); }).find("nothing"),
            std::string::npos);
  EXPECT_EQ(names(module.members()), (Texts{"training", "weight", "forward"}));

  module.define("def g(self, x: Tensor) -> Tensor:\n  return torch.no_such_operator(x)\n");
  const tenon::Result<void> checked = module.try_check();
  EXPECT_TRUE(checked.error().detail("file") && checked.error().detail("column"));
  module.remove("g");
  module.check();
}

TEST_F(Modules, ShowAnOperandOfAWrongType) {
  Module module = Module::make("Net");
  module.define("def bad(self, x: Tensor) -> Tensor:\n  return torch.add(\"a\", x)\n");
  const std::string message = kit::thrown_by<tenon::InvalidArgument>([&] { module.check(); });
  EXPECT_NE(message.find("code/__torch__.py:7:22: torch.add takes a Tensor as self"),
            std::string::npos)
      << message;
  const tenon::Result<void> checked = module.try_check();
  EXPECT_EQ(checked.error().detail("file"), "code/__torch__.py");
  EXPECT_EQ(checked.error().detail("line"), "7");
  EXPECT_EQ(checked.error().detail("column"), "22");
  EXPECT_EQ(checked.error().detail("excerpt"),
            "    return torch.add(\"a\", x)\n"
            "                     ^^^");
}

TEST_F(Modules, ChangeWhatIsThere) {
  Module module = Module::make("Net");
  const Module child = scale({1});
  module.add_submodule("a", child);
  module.add_submodule("b", child);
  module.set("a.weight", tensor({5, 6}));
  const Value now = child.value("weight");
  EXPECT_EQ(now.tensor_spec().sizes, (std::vector<std::int64_t>{2}));
  EXPECT_TRUE(module.value("b.weight").is_same(now));
  kit::thrown_by<tenon::InvalidArgument>([&] { module.set("a.weight", 3); });
  module.submodule("a").define("def more(self) -> int:\n  return 1\n");
  EXPECT_EQ(module.find("b.more").kind, MemberKind::kMethod);
  module.submodule("a").define("def more(self) -> int:\n  return 2\n");
  EXPECT_NE(module.find("b.more").source.find("return 2"), std::string::npos);
  module.set_submodule("b", scale({7}));
  EXPECT_EQ(first(module, "b.weight"), 7);
  module.remove("b");
  EXPECT_CODE(kNotFound, module.try_find("b"));
  kit::thrown_by<tenon::InvalidArgument>([&] { module.add_submodule("itself", module); });
}

TEST_F(Modules, HaveAState) {
  Module module = Module::make("Net"), kept = Module::make("Kept");
  kept.add_attribute("w", {}, tensor({1, 2}));
  module.add_submodule("kept", kept);
  kept.define(
      "def __getstate__(self) -> Tuple[Tensor, int]:\n  return (self.w, 1)\n"
      "def __setstate__(self, s: Tuple[Tensor, int]) -> None:\n  self.w, k = s\n  self.training = "
      "False\n");
  EXPECT_TRUE(module.states().empty());
  kit::thrown_by<tenon::InvalidArgument>([&] { module.set_state("kept", 3); });
  module.set_state("kept", Value::tuple({tensor({5, 6}), 3}));
  EXPECT_EQ(module.states(), Texts{"kept.state"});
  EXPECT_EQ(module.find("kept.state[0]").kind, MemberKind::kState);
  EXPECT_EQ(tenon::name_of(MemberKind::kState), "state");
  module.load({{"kept.state[0]", tensor({7})}});
  EXPECT_EQ(first(kept, "state[0]"), 7);
  module.check();
}

TEST_F(Modules, TheSameObjectIsEqual) {
  const Module one = scale({1});
  const Module other = scale({1});
  Module parent = Module::make("Net");
  parent.add_submodule("a", one);
  parent.add_submodule("b", other);
  EXPECT_FALSE(one == other);
  EXPECT_EQ(parent.submodule("a"), one);
  EXPECT_EQ(parent.find("b").module, other);
  const std::unordered_set<Module> all{one, parent.submodule("a"), other, Module(other)};
  EXPECT_EQ(all.size(), 2U);
  EXPECT_TRUE(one.object().is_same(parent.object().find("a")));
}

TEST_F(Modules, LoadAllOrNone) {
  Module module = Module::make("Net");
  module.add_submodule("a", scale({1}));
  module.add_submodule("b", scale({2}));
  const std::vector<tenon::NamedValue> some{{"a.weight", tensor({8})}, {"c", tensor({9})}};
  const tenon::Result<tenon::LoadReport> refused = module.try_load(some);
  ASSERT_EQ(refused.code(), tenon::Code::kInvalidArgument);
  EXPECT_EQ(refused.error().detail("missing"), "1");
  EXPECT_EQ(refused.error().detail("unexpected"), "1");
  const tenon::LoadReport asked =
      module.load(some, {.allow_missing = true, .allow_unexpected = true, .check_only = true});
  EXPECT_EQ(asked.missing, (Texts{"b.weight"}));
  EXPECT_EQ(asked.unexpected, (Texts{"c"}));
  kit::thrown_by<tenon::InvalidArgument>(
      [&] { module.load({{"a.weight", tensor({8})}, {"b.weight", Value()}}); });
  kit::thrown_by<tenon::InvalidArgument>(
      [&] { module.load({{"a.weight", tensor({8})}, {"b.weight", 3}}); });
  EXPECT_EQ(first(module, "a.weight"), 1);
  module.load(some, {.allow_missing = true, .allow_unexpected = true});
  EXPECT_EQ(first(module, "a.weight"), 8);
  EXPECT_EQ(first(module, "b.weight"), 2);
  const tenon::LoadReport all =
      module.load({{"b.weight", tensor({10})}, {"a.weight", tensor({11})}});
  EXPECT_TRUE(all.missing.empty() && all.unexpected.empty());
  EXPECT_EQ(first(module, "a.weight"), 11);
}

TEST_F(Modules, TypesHooksInputsAndFiles) {
  Module module = scale({1});
  module.define_types("__torch__.kinds", "class Pair(NamedTuple):\n  a : int\n  b : Tensor\n");
  module.add_attribute("pair", "__torch__.kinds.Pair",
                       Value::named_tuple("__torch__.kinds.Pair", {1, tensor({1})}));
  module.define("def hook(self, x: Tuple[Tensor]) -> None:\n  return None\n");
  module.set_hooks_before_forward({"hook"});
  module.set_hooks_before_forward({});
  const tenon::Result<void> no_hook = module.try_set_hooks_after_forward({"nothing"});
  EXPECT_CODE(kNotFound, no_hook);
  EXPECT_CODE(kInvalidArgument, module.try_set_hooks_after_forward({std::string("hook\0", 5)}));
  module.set_traced_inputs("forward", {tensor({1})});
  module.set_extra_file("a.txt", "text");
  module.set_extra_file("empty", "");
  module.set_extra_file("a.txt", std::as_bytes(std::span("n\0w", 3)));
  EXPECT_EQ(module.extra_files(),
            (std::vector<tenon::File>{{"a.txt", std::string("n\0w", 3)}, {"empty", ""}}));
  module.remove_extra_file("empty");
  kit::thrown_by<tenon::NotFound>([&] { module.remove_extra_file("empty"); });
  EXPECT_EQ(module.extra_files().size(), 1U);

  Module parent = Module::make("Net");
  parent.define_types(
      "__torch__",
      "class Layer(ModuleInterface):\n  def forward(self, x: Tensor) -> Tensor:\n    pass\n");
  parent.add_submodule("layer", module, "__torch__.Layer");
  parent.set_submodule("layer", scale({2}));
  kit::thrown_by<tenon::InvalidArgument>(
      [&] { parent.set_submodule("layer", Module::make("WithoutForward")); });
  kit::thrown_by<tenon::NotFound>([&] { parent.add_submodule("other", module, "__torch__.No"); });
}

TEST_F(Modules, ThreadsReadAndChangeOneTree) {
  Module module = Module::make("Net");
  Module part = scale({1});
  module.add_submodule("part", part);
  auto changes = std::async(std::launch::async, [&] {
    for (int i = 0; i < 300; ++i) {
      const std::string name = "attribute_" + std::to_string(i);
      part.add_attribute(name, std::nullopt, i);
      part.remove(name);
    }
  });
  const Value object = part.object();
  while (changes.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    const auto attributes = object.attributes();
    EXPECT_TRUE(attributes.size() == 2 || attributes.size() == 3) << attributes.size();
    EXPECT_GE(module.submodule("part").members().size(), 3U);
  }
  changes.get();
}

TEST_F(Modules, EmptyOnes) {
  Module empty;
  EXPECT_EQ(empty, Module());
  EXPECT_FALSE(empty.object());
  for (const tenon::Code code : {empty.try_class_name().code(),
                                 empty.try_add_parameter("a", tensor({1})).code(),
                                 empty.try_define("def f(self):\n  pass\n").code(),
                                 empty.try_set("a", 1).code(),
                                 empty.try_remove("a").code(),
                                 empty.try_load({}).code(),
                                 empty.try_check().code(),
                                 empty.try_members().code(),
                                 empty.try_find("a").code(),
                                 empty.try_tensors().code(),
                                 empty.try_parameters().code(),
                                 empty.try_extra_files().code(),
                                 empty.try_code_files().code(),
                                 empty.try_constants().code(),
                                 empty.try_warnings().code(),
                                 empty.try_import_report().code(),
                                 empty.try_set_extra_file("a", "b").code(),
                                 empty.try_set_hooks_before_forward({}).code(),
                                 Module::make("Net").try_add_submodule("a", empty).code(),
                                 tenon::try_export_module(empty, "/nowhere/file.pt").code()}) {
    EXPECT_EQ(code, tenon::Code::kInvalidArgument);
  }
  kit::thrown_by<tenon::InvalidArgument>([] { (void)Module::make("1x"); });
  kit::thrown_by<tenon::InvalidArgument>([] { (void)Module::make(std::string("a\0", 2)); });
}

}  // namespace
