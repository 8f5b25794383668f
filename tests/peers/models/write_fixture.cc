// Writes one archive with the PyTorch that it is linked with, from 1.4 on, and prints what an
// importer must make of it.
//
// The printed text has one line for each attribute, in the order of the class: path, declared type
// and value. A tensor is printed with the number of its storage, in the order of first use, so
// sharing shows. Then there is one line for each call, with the result that this PyTorch returned.
// README.md in tests/peers/golden/module has the grammar.
//
// usage: write_fixture ARCHIVE
#include <torch/script.h>

#include <cmath>
#include <cstdio>
#include <iostream>
#include <map>
#include <string>
#include <vector>

namespace {

using torch::jit::script::Module;

constexpr char kRootCode[] = R"(
def forward(self, x: Tensor, n: int) -> Tensor:
  total = self.weight * self.by_name["scale"]
  i = 0
  while i < n:
    if i % 2 == 0:
      total = total + x
    else:
      total = self.child.forward(total)
    i += 1
  for bias in self.tensors:
    total = total + bias
  if self.flag and len(self.ints) > 2:
    total = total * self.ratio
  return total

def halves(self, x: Tensor) -> Tensor:
  return torch.div(x, 2)

def filled(self) -> Tensor:
  return torch.full([2], 3)

def words_of(self) -> Tuple[List[str], Dict[str, Tensor], Tuple[int, str]]:
  return self.words, self.by_name, self.pair
)";

constexpr char kChildCode[] = R"(
def forward(self, x: Tensor) -> Tensor:
  return x * self.gain - self.offset
)";

at::Tensor ramp(std::vector<int64_t> sizes) {
  int64_t numel = 1;
  for (int64_t size : sizes) numel *= size;
  return torch::arange(numel, torch::kFloat).mul(0.25).sub(0.5).reshape(sizes);
}

/// Prints values: numbers so that they read back exactly, strings with escapes, tensors with their
/// memory.
class Printer {
 public:
  std::string of(const c10::IValue& value) {
    if (value.isNone()) return "None";
    if (value.isTensor()) return of_tensor(value.toTensor());
    if (value.isBool()) return value.toBool() ? "True" : "False";
    if (value.isInt()) return std::to_string(value.toInt());
    if (value.isDouble()) return of_double(value.toDouble());
    if (value.isString()) return of_string(value.toStringRef());
    if (value.isDevice()) return "device " + value.toDevice().str();
    if (value.isTuple()) {
      std::string text = "(";
      for (const c10::IValue& item : value.toTuple()->elements()) text += of(item) + ", ";
      return text + ")";
    }
    if (value.isObject()) {
      const size_t number = objects_.emplace(value.toObject().get(), objects_.size()).first->second;
      return "object " + std::to_string(number) + " " +
             value.toObject()->type()->name()->qualifiedName();
    }
    if (value.isGenericDict()) {
      std::string text = "{";
      for (const auto& entry : value.toGenericDict())
        text += of(entry.key()) + ": " + of(entry.value()) + ", ";
      return text + "}";
    }
    return of_list(value);
  }

 private:
  std::string of_list(const c10::IValue& value) {
    std::string text = "[";
    if (value.isIntList()) {
      for (int64_t item : value.toIntList()) text += std::to_string(item) + ", ";
    } else if (value.isDoubleList()) {
      for (double item : value.toDoubleList()) text += of_double(item) + ", ";
    } else if (value.isBoolList()) {
      for (bool item : value.toBoolList()) text += item ? "True, " : "False, ";
    } else if (value.isTensorList()) {
      for (at::Tensor item : value.toTensorList()) text += of_tensor(item) + ", ";
    } else {
      for (const auto& item : value.to<c10::List<c10::IValue>>()) text += of(item) + ", ";
    }
    return text + "]";
  }

  std::string of_tensor(const at::Tensor& tensor) {
    if (!tensor.defined()) return "undefined";
    const size_t number =
        storages_.emplace(tensor.storage().unsafeGetStorageImpl(), storages_.size()).first->second;
    std::string text = "tensor " + std::string(c10::toString(tensor.scalar_type())) + " sizes [";
    for (int64_t size : tensor.sizes()) text += std::to_string(size) + ", ";
    text += "] strides [";
    for (int64_t stride : tensor.strides()) text += std::to_string(stride) + ", ";
    text += "] offset " + std::to_string(tensor.storage_offset()) + " storage " +
            std::to_string(number) + " values [";
    const at::Tensor values = tensor.detach().to(at::kDouble).contiguous().reshape({-1});
    for (int64_t i = 0; i < values.numel(); ++i)
      text += of_double(values.data_ptr<double>()[i]) + ", ";
    return text + "]" + (tensor.requires_grad() ? " requires_grad" : "");
  }

  static std::string of_double(double value) {
    char text[40];
    std::snprintf(text, sizeof(text), "%.17g", value);
    return std::isfinite(value) && std::string(text).find_first_of(".e") == std::string::npos
               ? std::string(text) + ".0"
               : text;
  }

  static std::string of_string(const std::string& value) {
    std::string text = "\"";
    for (char c : value) {
      if (c == '"' || c == '\\') text += '\\';
      text += c == '\n' ? std::string("\\n") : std::string(1, c);
    }
    return text + "\"";
  }

  std::map<const void*, size_t> storages_;
  std::map<const void*, size_t> objects_;
};

void print_attributes(const Module& module, const std::string& path, Printer& printer) {
  const c10::ClassTypePtr type = module.type();
  for (size_t i = 0; i < type->numAttributes(); ++i) {
    const std::string name = type->getAttributeName(i);
    const c10::TypePtr declared = type->getAttribute(i);
#if TENON_TORCH >= 10700
    const std::string text = declared->annotation_str();
#else
    const std::string text = declared->python_str();
#endif
    std::cout << path << name << " : " << text << " = " << printer.of(module.attr(name)) << "\n";
    if (declared->cast<c10::ClassType>())
      print_attributes(Module(module.attr(name).toObject()), path + name + ".", printer);
  }
}

void print_call(Module& module, const std::string& name, const std::string& shown,
                std::vector<c10::IValue> arguments) {
  std::cout << "call " << name << "(" << shown << ") = ";
  try {
    Printer printer;
    std::cout << printer.of(module.get_method(name)(std::move(arguments))) << "\n";
  } catch (const std::exception&) {
    std::cout << "refused\n";
  }
}

Module make_module() {
  using c10::DictType;
  using c10::ListType;
  using c10::StringType;
  using c10::TensorType;
  using c10::TupleType;

  Module child("__torch__.parts.Child");
  child.register_parameter("gain", ramp({3}).add(1.0), false);
  child.register_buffer("offset", torch::ones({}, at::kFloat));
  child.register_attribute("label", StringType::get(), std::string("child \"one\"\n"));
  child.define(kChildCode);

  Module root("__torch__.Net");
  const at::Tensor weight = ramp({2, 3}).set_requires_grad(true);
  root.register_parameter("weight", weight, false);
  root.register_attribute("nothing", c10::NoneType::get(), c10::IValue(), true);
  root.register_buffer("column", weight.detach().t()[1]);
  root.register_buffer("steps", torch::arange(4, torch::kLong));
  root.register_buffer("half", ramp({2}).to(at::kHalf));
  root.register_buffer("mask", torch::ones({2}, at::kBool));
  root.register_buffer("empty", torch::empty({0, 2}, at::kDouble));
  root.register_attribute("flag", c10::BoolType::get(), true);
  root.register_attribute("number", c10::IntType::get(), int64_t{-70000});
  root.register_attribute("large", c10::IntType::get(), int64_t{1} << 40);
  root.register_attribute("ratio", c10::FloatType::get(), 0.1);
  root.register_attribute("text", StringType::get(),
                          std::string("gr\xc3\xbc\xc3\x9f"
                                      "e"));
  root.register_attribute("ints", ListType::ofInts(), c10::List<int64_t>({0, 255, 65536}));
  root.register_attribute("floats", ListType::ofFloats(), c10::List<double>({0.5, -0.0, INFINITY}));
  root.register_attribute("bools", ListType::ofBools(), c10::List<bool>({true, false}));
  root.register_attribute("tensors", ListType::ofTensors(),
                          c10::List<at::Tensor>({weight[0].detach(), ramp({3})}));
  root.register_attribute("words", ListType::create(StringType::get()),
                          c10::List<std::string>({"a", "", "a"}));
  c10::List<c10::List<int64_t>> nested;
  nested.push_back(c10::List<int64_t>({1, 2}));
  nested.push_back(c10::List<int64_t>());
  root.register_attribute("nested", ListType::create(ListType::ofInts()), nested);
  c10::Dict<std::string, at::Tensor> by_name;
  by_name.insert("scale", torch::full({}, 2.0, at::kFloat));
  by_name.insert("weight", weight.detach());
  root.register_attribute("by_name", DictType::create(StringType::get(), TensorType::get()),
                          by_name);
  c10::Dict<int64_t, std::string> by_number;
  by_number.insert(3, "c");
  root.register_attribute("by_number", DictType::create(c10::IntType::get(), StringType::get()),
                          by_number);
  root.register_attribute(
      "pair", TupleType::create({c10::IntType::get(), StringType::get()}),
      c10::ivalue::Tuple::create({c10::IValue(int64_t{1}), c10::IValue(std::string("one"))}));
  root.register_attribute("maybe", c10::OptionalType::create(c10::FloatType::get()), 2.5);
  root.register_attribute("maybe_not", c10::OptionalType::create(ListType::ofInts()),
                          c10::IValue());
  root.register_module("child", child);
  root.register_module("again", child);
  root.define(kRootCode);
  return root;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  Module module = make_module();
  module.eval();
  module.save(argv[1]);
  // The module is read back, so that the text says what the archive holds, and not what only this
  // process knew.
  Module read = torch::jit::load(argv[1]);
  Printer printer;
  std::cout << "root : " << read.type()->name()->qualifiedName() << "\n";
  print_attributes(read, "", printer);
  for (int64_t n : {0, 3})
    print_call(read, "forward", "ones 3, " + std::to_string(n), {torch::ones({3}), n});
  print_call(read, "halves", "5, -5", {torch::tensor({5, -5}, at::kLong)});
  print_call(read, "filled", "", {});
  print_call(read, "words_of", "", {});
  return 0;
}
