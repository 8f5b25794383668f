#include "models.h"

#include <cmath>
#include <map>
#include <utility>

namespace tenon::module {

using value::ScalarType;
using value::Type;
using value::Value;

ValueRef ramp(std::vector<int64_t> sizes, float first, bool requires_grad) {
  uint64_t numel = 1;
  std::vector<int64_t> strides(sizes.size());
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = static_cast<int64_t>(numel);
    numel *= static_cast<uint64_t>(sizes[i]);
  }
  std::vector<float> elements(numel);
  for (size_t i = 0; i < numel; ++i) elements[i] = first + static_cast<float>(static_cast<int>(i % 17) - 8) / 16;
  storage::StorageOptions options;
  options.is_private = true;
  value::StridedSpec spec;
  spec.storage =
      value::StorageValue::whole(ScalarType::kFloat, storage::Storage::create_from(options, elements.data(), numel * sizeof(float)).value())
          .value();
  spec.sizes = std::move(sizes);
  spec.strides = std::move(strides);
  spec.requires_grad = requires_grad;
  return Value::of_tensor(value::TensorValue::create(std::move(spec)).value());
}

namespace {

Result<Ref<Module>> linear(int64_t in, int64_t out, float first) {
  TENON_ASSIGN(Ref<Module> module, Module::create("layers.Linear"));
  TENON_TRY(module->add_parameter("weight", ramp({out, in}, first)));
  TENON_TRY(module->add_parameter("bias", ramp({out}, first)));
  TENON_TRY(module->add_constant("in_features", Type::integer(), Value::of_int(in)));
  TENON_TRY(module->define("def forward(self, x: Tensor) -> Tensor:\n  return torch.linear(x, self.weight, self.bias)\n"));
  return module;
}

Result<Ref<Module>> mlp() {
  TENON_ASSIGN(Ref<Module> module, Module::create("MLP"));
  TENON_ASSIGN(Ref<Module> first, linear(4, 8, 0));
  TENON_ASSIGN(Ref<Module> second, linear(8, 3, 0.25F));
  TENON_TRY(module->add_submodule("fc1", first));
  TENON_TRY(module->add_submodule("fc2", second));
  TENON_TRY(module->define_types("__torch__", "def activate(x: Tensor) -> Tensor:\n  return torch.relu(x)\n"));
  TENON_TRY(
      module->define("def forward(self, x: Tensor) -> Tensor:\n  return self.fc2.forward(__torch__.activate(self.fc1.forward(x)))\n"));
  return module;
}

// Layers under numbers, as nn.Sequential has them; one of them twice.
Result<Ref<Module>> sequential() {
  TENON_ASSIGN(Ref<Module> module, Module::create("Sequential"));
  TENON_ASSIGN(Ref<Module> layer, linear(4, 4, 0));
  TENON_ASSIGN(Ref<Module> other, linear(4, 4, 0.5F));
  TENON_TRY(module->add_submodule("0", layer));
  TENON_TRY(module->add_submodule("1", other));
  TENON_TRY(module->add_submodule("2", layer));
  TENON_TRY(
      module->define("def forward(self, x: Tensor) -> Tensor:\n"
                     "  for_0 = getattr(self, \"0\").forward(x)\n"
                     "  for_1 = getattr(self, \"1\").forward(for_0)\n"
                     "  return getattr(self, \"2\").forward(for_1)\n"));
  return module;
}

Result<Ref<Module>> cnn() {
  TENON_ASSIGN(Ref<Module> module, Module::create("nets.CNN"));
  TENON_TRY(module->add_parameter("conv_weight", ramp({4, 3, 3, 3})));
  TENON_TRY(module->add_parameter("conv_bias", Value::none()));
  TENON_TRY(module->add_parameter("bn_weight", ramp({4}, 1)));
  TENON_TRY(module->add_parameter("bn_bias", ramp({4})));
  TENON_TRY(module->add_buffer("running_mean", ramp({4}, 0, false)));
  TENON_TRY(module->add_buffer("running_var", ramp({4}, 2, false)));
  TENON_TRY(module->add_constant("eps", Type::floating(), Value::of_float(1e-5)));
  TENON_TRY(
      module->define("def forward(self, x: Tensor) -> Tensor:\n"
                     "  y = torch.conv2d(x, self.conv_weight, self.conv_bias, [1, 1], [1, 1])\n"
                     "  y = torch.batch_norm(y, self.bn_weight, self.bn_bias, self.running_mean, self.running_var, False, 0.1, self.eps, "
                     "False)\n"
                     "  y = torch.max_pool2d(torch.relu(y), [2, 2])\n"
                     "  return torch.flatten(y, 1)\n"));
  return module;
}

Result<Ref<Module>> attention() {
  TENON_ASSIGN(Ref<Module> module, Module::create("Attention"));
  for (const char* name : {"q", "k", "v", "out"}) {
    TENON_ASSIGN(Ref<Module> part, linear(8, 8, name[0] == 'q' ? 0.5F : 0.125F));
    TENON_TRY(module->add_submodule(name, part));
  }
  TENON_TRY(module->add_attribute("n_heads", Type::integer(), Value::of_int(2)));
  TENON_TRY(
      module->define("def split(self, x: Tensor) -> Tensor:\n"
                     "  b, t, c = x.size()\n"
                     "  return x.view([b, t, self.n_heads, c // self.n_heads]).transpose(1, 2)\n"
                     "def forward(self, x: Tensor, mask: Optional[Tensor]=None) -> Tensor:\n"
                     "  q, k, v = self.split(self.q.forward(x)), self.split(self.k.forward(x)), self.split(self.v.forward(x))\n"
                     "  scores = torch.matmul(q, k.transpose(-2, -1)) / (float(q.size(-1)) ** 0.5)\n"
                     "  if mask is not None:\n"
                     "    scores = scores + mask\n"
                     "  y = torch.matmul(torch.softmax(scores, -1), v)\n"
                     "  return self.out.forward(y.transpose(1, 2).contiguous().view(x.size()))\n"));
  return module;
}

Result<Ref<Module>> lstm() {
  TENON_ASSIGN(Ref<Module> module, Module::create("LSTM"));
  TENON_TRY(module->add_parameter("w_ih", ramp({12, 4})));
  TENON_TRY(module->add_parameter("w_hh", ramp({12, 3})));
  TENON_TRY(module->add_parameter("b_ih", ramp({12})));
  TENON_TRY(module->add_parameter("b_hh", ramp({12})));
  TENON_TRY(
      module->define("def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:\n"
                     "  h = torch.zeros([1, x.size(1), 3])\n"
                     "  weights = [self.w_ih, self.w_hh, self.b_ih, self.b_hh]\n"
                     "  y, hn, cn = torch.lstm(x, [h, h], weights, True, 1, 0., False, False, False)\n"
                     "  return y, cn\n"));
  return module;
}

Result<Ref<Module>> embedding() {
  TENON_ASSIGN(Ref<Module> module, Module::create("Embedding"));
  TENON_TRY(module->add_parameter("weight", ramp({10, 4})));
  TENON_TRY(
      module->define("def forward(self, ids: Tensor, offsets: Tensor) -> Tensor:\n"
                     "  return (torch.embedding_bag(self.weight, ids, offsets, False, 1))[0]\n"));
  return module;
}

// Loops, branches, containers, strings.
Result<Ref<Module>> control_flow() {
  TENON_ASSIGN(Ref<Module> module, Module::create("Control"));
  TENON_ASSIGN(const TypeRef table, Type::parse("Dict[str, List[float]]"));
  TENON_ASSIGN(ValueRef dict, Value::dict(nullptr, {{Value::of_str("a"), Value::list(nullptr, {Value::of_float(1.5), Value::of_float(-2)})},
                                                    {Value::of_str("b"), Value::list(nullptr, {})}}));
  TENON_TRY(module->add_attribute("table", table, std::move(dict)));
  TENON_ASSIGN(const TypeRef optional, Type::parse("Optional[Tensor]"));
  TENON_TRY(module->add_attribute("extra", optional, Value::none()));
  TENON_ASSIGN(const TypeRef pairs, Type::parse("List[Tuple[int, str]]"));
  TENON_TRY(module->add_attribute("pairs", pairs, Value::list(nullptr, {Value::tuple({Value::of_int(3), Value::of_str("x")})})));
  TENON_TRY(
      module->define("def forward(self, x: Tensor, n: int) -> Tensor:\n"
                     "  y = x\n"
                     "  for i in range(n):\n"
                     "    if i % 2 == 0:\n"
                     "      y = y + float(i)\n"
                     "    else:\n"
                     "      y = y * 2\n"
                     "  for v in self.table[\"a\"]:\n"
                     "    y = y + v\n"
                     "  for number, name in self.pairs:\n"
                     "    y = y * number\n"
                     "  extra = self.extra\n"
                     "  if extra is not None:\n"
                     "    y = y + extra\n"
                     "  while bool(y.sum() > 100.):\n"
                     "    y = y / 10.\n"
                     "  return y\n"));
  return module;
}

Result<Ref<Module>> types() {
  TENON_ASSIGN(Ref<Module> module, Module::create("Types"));
  TENON_TRY(module->define_types("__torch__",
                                 "class Point(NamedTuple):\n  x : Tensor\n  n : int\n"
                                 "class Color(Enum):\n  RED = \"r\"\n  BLUE = \"b\"\n"
                                 "class Scaler(ModuleInterface):\n  def run(self, x: Tensor) -> Tensor:\n    pass\n"
                                 "class Counter:\n  n : int\n"
                                 "  def __init__(self, n: int) -> NoneType:\n    self.n = n\n"
                                 "  def more(self, by: int=1) -> int:\n    self.n = self.n + by\n    return self.n\n"));
  TENON_ASSIGN(Ref<Module> scaler, Module::create("Double"));
  TENON_TRY(scaler->add_buffer("by", ramp({1}, 2.5F)));
  TENON_TRY(scaler->define("def run(self, x: Tensor) -> Tensor:\n  return x * self.by\n"));
  TENON_ASSIGN(const TypeRef interface, Type::parse("__torch__.Scaler"));
  TENON_TRY(module->add_submodule("scaler", scaler, interface));
  TENON_ASSIGN(const TypeRef color, Type::parse("__torch__.Color"));
  TENON_TRY(module->add_attribute("color", color, Value::enumeration("__torch__.Color", Value::of_str("b"))));
  TENON_ASSIGN(const TypeRef point, Type::parse("__torch__.Point"));
  TENON_TRY(module->add_attribute("point", point, Value::tuple({ramp({2}), Value::of_int(7)})));
  ValueRef counter = Value::object("__torch__.Counter");
  TENON_TRY(counter->attributes().add("n", Value::of_int(5)));
  TENON_ASSIGN(const TypeRef counter_type, Type::parse("__torch__.Counter"));
  TENON_TRY(module->add_attribute("counter", counter_type, std::move(counter)));
  TENON_TRY(
      module->define("def pre(self, input: Tuple[Tensor]) -> Tuple[Tensor]:\n  return (input[0] + 1,)\n"
                     "def post(self, input: Tuple[Tensor], output: __torch__.Point) -> __torch__.Point:\n"
                     "  return __torch__.Point(output.x * 3, output.n)\n"
                     "def forward(self, x: Tensor) -> __torch__.Point:\n"
                     "  y = self.scaler.run(x) + self.point.x\n"
                     "  if self.color == __torch__.Color.BLUE:\n"
                     "    y = y - 1.\n"
                     "  return __torch__.Point(y, self.counter.more(2) + self.point.n)\n"));
  TENON_TRY(module->set_hooks(true, {"pre"}));
  TENON_TRY(module->set_hooks(false, {"post"}));
  return module;
}

// Every scalar constant, and those that only constants.pkl can say.
Result<Ref<Module>> constants() {
  TENON_ASSIGN(Ref<Module> module, Module::create("Constants"));
  TENON_ASSIGN(const TypeRef ints, Type::parse("List[int]"));
  TENON_ASSIGN(const TypeRef strs, Type::parse("List[str]"));
  TENON_TRY(module->add_constant("i", Type::integer(), Value::of_int(-3)));
  TENON_TRY(module->add_constant("f", Type::floating(), Value::of_float(0.1)));
  TENON_TRY(module->add_constant("b", Type::boolean(), Value::of_bool(true)));
  TENON_TRY(module->add_constant("s", Type::str(), Value::of_str("it's \"q\" \\ here")));
  TENON_TRY(module->add_constant("u", Type::str(), Value::of_str("\xc3\xa9t\xc3\xa9")));
  TENON_TRY(module->add_constant("inf", Type::floating(), Value::of_float(-HUGE_VAL)));
  TENON_TRY(module->add_constant("l", ints, Value::list(nullptr, {Value::of_int(1), Value::of_int(2)})));
  TENON_TRY(module->add_constant("e", strs, Value::list(nullptr, {})));
  TENON_TRY(module->add_constant("c", Type::complex(), Value::of_complex({1, -2})));
  TENON_TRY(module->add_constant("t", Type::tensor(), ramp({3}, 0, false)));
  TENON_TRY(
      module->define("def forward(self, x: Tensor) -> Tuple[int, float, bool, str, str, float, int, int, complex, Tensor]:\n"
                     "  return (self.i, self.f, self.b, self.s, self.u, self.inf, len(self.l), len(self.e), self.c, self.t + x)\n"));
  return module;
}

Result<Ref<Module>> shared() {
  TENON_ASSIGN(Ref<Module> module, Module::create("Shared"));
  TENON_ASSIGN(Ref<Module> encoder, Module::create("Part"));
  TENON_ASSIGN(Ref<Module> decoder, Module::create("Part"));
  const ValueRef weight = ramp({4, 4});
  TENON_TRY(encoder->add_parameter("weight", weight));
  TENON_TRY(decoder->add_parameter("weight", weight));
  for (const Ref<Module>& part : {encoder, decoder}) {
    TENON_TRY(part->define("def forward(self, x: Tensor) -> Tensor:\n  return torch.matmul(x, self.weight)\n"));
  }
  TENON_TRY(module->add_submodule("encoder", encoder));
  TENON_TRY(module->add_submodule("decoder", decoder));
  TENON_TRY(module->define("def forward(self, x: Tensor) -> Tensor:\n  return self.decoder.forward(self.encoder.forward(x))\n"));
  TENON_TRY(module->set_extra_file("note.txt", "hello"));
  TENON_TRY(module->set_traced_inputs("forward", {ramp({2, 4})}));
  return module;
}

using Build = Result<Ref<Module>> (*)();
const std::map<std::string, Build>& builds() {
  static const std::map<std::string, Build> all{{"attention", attention},
                                                {"cnn", cnn},
                                                {"constants", constants},
                                                {"control_flow", control_flow},
                                                {"embedding", embedding},
                                                {"lstm", lstm},
                                                {"mlp", mlp},
                                                {"sequential", sequential},
                                                {"shared", shared},
                                                {"types", types}};
  return all;
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& [name, build] : builds()) names.push_back(name);
  return names;
}

Result<Ref<Module>> build_model(const std::string& name) {
  const auto found = builds().find(name);
  if (found == builds().end()) return Status(Code::kNotFound, "no model " + name);
  return found->second();
}

}  // namespace tenon::module
