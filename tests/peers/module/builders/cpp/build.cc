// usage: build STEPS FOLDER. It executes the steps of tests/peers/module/builders/README.md with
// the C++ wrapper.
#include <complex>
#include <fstream>
#include <iostream>

#include "words.h"

namespace {

using tenon::Module;
using tenon::Quantizer;
using tenon::Storage;
using tenon::TensorLayout;
using tenon::Value;

const std::map<std::string, TensorLayout> kLayouts{
    {"strided", TensorLayout::kStrided},      {"sparse_coo", TensorLayout::kSparseCoo},
    {"sparse_csr", TensorLayout::kSparseCsr}, {"sparse_csc", TensorLayout::kSparseCsc},
    {"sparse_bsr", TensorLayout::kSparseBsr}, {"sparse_bsc", TensorLayout::kSparseBsc}};
const std::map<std::string, Quantizer> kQuantizers{
    {"none", Quantizer::kNone},
    {"per_tensor_affine", Quantizer::kPerTensorAffine},
    {"per_channel_affine", Quantizer::kPerChannelAffine},
    {"per_channel_affine_float_qparams", Quantizer::kPerChannelAffineFloatQparams}};

// Holds the objects that the steps made.
class Builder {
 public:
  explicit Builder(std::string folder) : folder_(std::move(folder)) {}

  void execute(const Words& words) {
    const std::string& step = words.text(0);
    if (step == "model") {
      storages_.clear();
      values_.clear();
      modules_.clear();
    } else if (step == "storage") {
      const std::string bytes = words.bytes(1);
      storages_.push_back(Storage::make_from(std::as_bytes(std::span(bytes))));
    } else if (step == "module") {
      modules_.push_back(Module::make(words.text(1)));
    } else if (const std::optional<Value> value = make_value(step, words)) {
      values_.push_back(*value);
    } else {
      change(step, words);
    }
  }

 private:
  const Value& value(const Words& words, size_t at) const { return words.of(values_, at); }
  Value value_or_none(const Words& words, size_t at) const {
    return words.text(at) == "-" ? Value::none() : value(words, at);
  }

  std::vector<Value> values(const Words& words, size_t first) const {
    std::vector<Value> found;
    for (size_t at = first; at < words.size(); ++at) found.push_back(value(words, at));
    return found;
  }

  std::vector<tenon::NamedValue> named_values(const Words& words) const {
    std::vector<tenon::NamedValue> found;
    for (size_t at = 2; at < words.size(); at += 2)
      found.push_back({words.text(at), value(words, at + 1)});
    return found;
  }

  Value make_tensor(const Words& words) const {
    const std::optional<tenon::Dtype> dtype = tenon::dtype_of(words.scalar_type(2));
    if (!dtype) throw std::runtime_error("DLPack has no " + words.text(2));
    tenon::TensorOptions options;
    options.strides = words.numbers(4);
    options.offset = words.size_at(5);
    options.flags = words.flag(6, TENON_TENSOR_REQUIRES_GRAD);
    return Value::make(
        tenon::Tensor::over(words.of(storages_, 1), words.numbers(3), *dtype, options));
  }

  Value make_tensor_from_spec(const Words& words) const {
    tenon::ValueTensorSpec spec;
    for (size_t field = 1; field < words.size(); field += 2) {
      const std::string& name = words.text(field);
      const size_t at = field + 1;
      if (name == "scalar_type") {
        spec.scalar_type = words.scalar_type(at);
      } else if (name == "layout") {
        spec.layout = words.named(kLayouts, at);
      } else if (name == "quantizer") {
        spec.quantizer = words.named(kQuantizers, at);
      } else if (name == "device") {
        spec.device = words.text(at);
      } else if (name == "sizes") {
        spec.sizes = words.numbers(at);
      } else if (name == "strides") {
        spec.strides = words.numbers(at);
      } else if (name == "offset") {
        spec.offset = words.number(at);
      } else if (name == "storage") {
        spec.storage = words.of(storages_, at);
      } else if (name == "storage_offset") {
        spec.storage_offset = words.size_at(at);
      } else if (name == "storage_numel") {
        spec.storage_numel = words.size_at(at);
      } else if (name == "scale") {
        spec.scale = words.floating(at);
      } else if (name == "zero_point") {
        spec.zero_point = words.number(at);
      } else if (name == "axis") {
        spec.axis = words.number(at);
      } else if (name == "requires_grad") {
        spec.flags |= words.flag(at, TENON_TENSOR_REQUIRES_GRAD);
      } else if (name == "conj") {
        spec.flags |= words.flag(at, TENON_TENSOR_CONJ);
      } else if (name == "neg") {
        spec.flags |= words.flag(at, TENON_TENSOR_NEG);
      } else if (name == "coalesced") {
        spec.coalesced = words.number(at) != 0;
      } else if (name == "indices") {
        spec.indices = value(words, at);
      } else if (name == "plain_indices") {
        spec.plain_indices = value(words, at);
      } else if (name == "values") {
        spec.values = value(words, at);
      } else if (name == "scales") {
        spec.scales = value(words, at);
      } else if (name == "zero_points") {
        spec.zero_points = value(words, at);
      } else {
        throw std::runtime_error("there is no field " + name);
      }
    }
    return Value::tensor_from_spec(spec);
  }

  // Returns no value if the step makes none.
  std::optional<Value> make_value(const std::string& step, const Words& words) const {
    if (step == "tensor") return make_tensor(words);
    if (step == "spec") return make_tensor_from_spec(words);
    if (step == "none") return Value::none();
    if (step == "bool") return Value(words.number(1) != 0);
    if (step == "int") return Value(words.number(1));
    if (step == "float") return Value(words.floating(1));
    if (step == "complex") return Value(std::complex<double>(words.floating(1), words.floating(2)));
    if (step == "str") return Value(words.text(1));
    if (step == "device") return Value::device(words.text(1));
    if (step == "tuple") {
      const std::optional<std::string> name = words.given(1);
      return name ? Value::named_tuple(*name, values(words, 2)) : Value::tuple(values(words, 2));
    }
    if (step == "list") return Value::list(words.given(1), values(words, 2));
    if (step == "dict") {
      std::vector<tenon::Entry> entries;
      for (size_t at = 2; at < words.size(); at += 2)
        entries.push_back({value(words, at), value(words, at + 1)});
      return Value::dict(words.given(1), entries);
    }
    if (step == "enum") return Value::enum_member(words.text(1), value(words, 2));
    if (step == "opaque") return Value::opaque(words.text(1), value(words, 2));
    if (step == "object") return Value::object(words.text(1), named_values(words));
    return std::nullopt;
  }

  void change(const std::string& step, const Words& words) {
    Module module = words.of(modules_, 1);
    const std::string& name = words.text(2);
    if (step == "parameter") {
      module.add_parameter(name, value_or_none(words, 3));
    } else if (step == "buffer") {
      module.add_buffer(name, value_or_none(words, 3));
    } else if (step == "attribute") {
      module.add_attribute(name, words.given(3), value(words, 4));
    } else if (step == "constant") {
      module.add_constant(name, words.given(3), value(words, 4));
    } else if (step == "submodule") {
      module.add_submodule(name, words.of(modules_, 3), words.given(4));
    } else if (step == "define") {
      module.define(name);
    } else if (step == "types") {
      module.define_types(name, words.text(3));
    } else if (step == "before") {
      module.set_hooks_before_forward(words.texts(2));
    } else if (step == "after") {
      module.set_hooks_after_forward(words.texts(2));
    } else if (step == "traced") {
      module.set_traced_inputs(name, values(words, 3));
    } else if (step == "extra") {
      module.set_extra_file(name, words.bytes(3));
    } else if (step == "set") {
      module.set(name, value_or_none(words, 3));
    } else if (step == "state") {
      module.set_state(name, value_or_none(words, 3));
    } else if (step == "replace") {
      module.set_submodule(name, words.of(modules_, 3));
    } else if (step == "remove") {
      module.remove(name);
    } else if (step == "load") {
      module.load(named_values(words));
    } else if (step == "export") {
      tenon::export_module(module, folder_ + "/" + name);
    } else {
      throw std::runtime_error("there is no such step");
    }
  }

  std::string folder_;
  std::vector<Storage> storages_;
  std::vector<Value> values_;
  std::vector<Module> modules_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::ifstream steps(argv[1]);
  if (!steps) return 2;
  Builder builder(argv[2]);
  size_t number = 0;
  for (std::string line; std::getline(steps, line);) {
    ++number;
    try {
      builder.execute(Words(line));
    } catch (const std::exception& error) {
      std::cerr << "line " << number << ", " << line.substr(0, line.find('\t')) << ": "
                << error.what() << "\n";
      return 1;
    }
  }
  return 0;
}
