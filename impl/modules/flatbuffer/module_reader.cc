#include "modules/flatbuffer/module_reader.h"

#include <utility>

#ifdef TENON_HAS_FLATBUFFERS

#include <algorithm>
#include <iterator>
#include <new>
#include <optional>
#include <unordered_map>

#include "modules/bytecode/instruction.h"
#include "modules/flatbuffer/generated.h"
#include "modules/flatbuffer/storage_ranges.h"
#include "modules/value/dict_key.h"
#include "modules/value/tensor_value.h"
#include "os/limits.h"
#include "os/mapping.h"
#include "tensor/scalar_type.h"

namespace tenon::flatbuffer {

using archive::ZipSource;
using value::Attribute;
using value::TensorValueRef;
using value::Type;
using value::TypeKind;
using value::TypeRef;
using value::Value;
using value::ValueRef;

namespace {

template <typename T>
using Vector = ::flatbuffers::Vector<T>;
using Text = ::flatbuffers::String;
template <typename T>
using Tables = Vector<::flatbuffers::Offset<T>>;

constexpr uint64_t kLeastNbytes = 12;  // the root's offset, the identifier, a table
// Values and functions may take kLeastMemory bytes, and kNbytesPerByte bytes for each byte of the
// file besides its storages. A file can refer to one part many times, so without this limit a small
// file could fill the memory.
constexpr uint64_t kNbytesPerByte = 64;
constexpr uint64_t kLeastMemory = uint64_t{1} << 20;
// The average memory of a value is at most this many bytes.
constexpr uint64_t kValueNbytes = 160;
// The storages of a file up to this size are copied with the rest, because finding them takes
// longer.
constexpr uint64_t kSmallNbytes = uint64_t{1} << 20;
// The most storages. A list of storages can refer to one table many times, and each entry takes
// time. Few modules have thousands of storages.
constexpr uint32_t kMostStorages = uint32_t{1} << 20;

[[gnu::cold]] Status corrupt(const std::string& what) {
  return {Code::kCorrupt, "the flatbuffer is broken: " + what};
}

std::string_view text_of(const Text* text) {
  return text == nullptr ? std::string_view() : std::string_view(text->c_str(), text->size());
}

template <typename T>
uint32_t size_of(const Vector<T>* vector) {
  return vector == nullptr ? 0 : vector->size();
}

}  // namespace

// The copy of the file. It never changes after make(), so any number of readers may use it at the
// same time.
class ModuleReader::Bytes {
 public:
  static Result<std::shared_ptr<const Bytes>> make(const ZipSource& source,
                                                   const pickle::PickleLimits& limits) {
    const uint64_t nbytes = source.nbytes();
    if (nbytes < kLeastNbytes) return corrupt("the file ends too early");
    if (nbytes >= kMostNbytes) return corrupt("it has 2 GiB or more, which the form cannot have");
    auto made = std::make_shared<Bytes>();
    made->nbytes_ = nbytes;
    made->max_depth_ = limits.max_depth;
    // The list of storages itself is copied, so a list beyond the limit is refused below.
    std::vector<StorageRange> left_out;
    if (nbytes > std::min(kSmallNbytes, limits.max_nbytes))
      left_out = likely_storages(source, limits.max_nbytes);
    uint64_t copied = nbytes;
    for (const StorageRange& range : left_out) copied -= range.nbytes;
    if (copied > limits.max_nbytes) {
      return Status(Code::kResourceExhausted, format("the flatbuffer has %llu bytes besides its "
                                                     "storages, and the limit max_nbytes is %llu",
                                                     as_llu(copied), as_llu(limits.max_nbytes)))
          .with("limit", "max_nbytes")
          .with("limit_value", limits.max_nbytes);
    }
    TENON_TRY(os::ask_headroom(copied));
    TENON_TRY(made->allocate(left_out.empty()));
    uint64_t at = 0;
    const auto take_until = [&](uint64_t end) {
      return end > at ? source.read(at, made->base_ + at, end - at) : Status::ok();
    };
    for (const StorageRange& range : left_out) {
      TENON_TRY(take_until(range.offset));
      at = range.offset + range.nbytes;
    }
    TENON_TRY(take_until(nbytes));
    made->copied_ = copied;
    TENON_TRY(made->verify());
    TENON_TRY(made->find_storages());
    return std::shared_ptr<const Bytes>(std::move(made));
  }

  const form::Module& root() const { return *root_; }
  const std::vector<StorageRange>& storages() const { return storages_; }
  uint64_t copied() const { return copied_; }
  // How deep values may be nested.
  uint32_t max_depth() const { return max_depth_; }

 private:
  Status verify() {
    const auto* const base = reinterpret_cast<const uint8_t*>(base_);
    if (has_shared_texts({base_, nbytes_}, copied_)) return corrupt("tables share their texts");
    ::flatbuffers::Verifier::Options options;
    // Each table of the flatbuffer has four bytes or more of its own.
    options.max_tables = static_cast<uint32_t>(copied_ / sizeof(uint32_t));
    ::flatbuffers::Verifier verifier(base, nbytes_, options);
    if (!form::VerifyModuleBuffer(verifier))
      return corrupt("FlatBuffers' verifier refuses it. Copy or download the file again");
    root_ = form::GetModule(base);
    return Status::ok();
  }

  Status find_storages() {
    const auto* const tables = root_->storage_data();
    if (size_of(tables) > kMostStorages) {
      return Status(Code::kResourceExhausted,
                    format("the flatbuffer has %u storages, and the limit is %u", size_of(tables),
                           kMostStorages))
          .with("limit", "storages");
    }
    for (uint32_t i = 0; i < size_of(tables); ++i) {
      const auto* const data = tables->Get(i)->data();
      StorageRange range;
      if (size_of(data) != 0)
        range = {static_cast<uint64_t>(data->Data() - reinterpret_cast<const uint8_t*>(base_)),
                 data->size()};
      storages_.push_back(range);
    }
    std::vector<StorageRange> sorted = storages_;
    std::ranges::sort(sorted, {}, &StorageRange::offset);
    for (size_t i = 1; i < sorted.size(); ++i) {
      if (sorted[i - 1].offset + sorted[i - 1].nbytes > sorted[i].offset)
        return corrupt("two storages lie over each other");
    }
    return Status::ok();
  }

  // The copy has the alignment that FlatBuffers' verifier checks, and more.
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(std::byte* bytes) const noexcept { ::operator delete(bytes, kAlignment); }
  };

  // A mapping has fresh pages, and each of them costs a page fault. So a small copy of a whole file
  // lies on the heap. In a mapping, storages that are left out are zeros and take no memory.
  Status allocate(bool is_whole) {
    if (is_whole && nbytes_ <= kSmallNbytes) {
      heap_.reset(static_cast<std::byte*>(::operator new(nbytes_, kAlignment)));
      base_ = heap_.get();
      return Status::ok();
    }
    TENON_ASSIGN(mapping_, os::Mapping::create(os::Mapping::Kind::kAnonymous, -1, 0, nbytes_));
    base_ = mapping_.base();
    return Status::ok();
  }

  std::unique_ptr<std::byte, Free> heap_;
  os::Mapping mapping_;
  std::byte* base_ = nullptr;  // of heap_ or of mapping_
  uint64_t nbytes_ = 0;
  uint64_t copied_ = 0;
  uint32_t max_depth_ = 0;
  const form::Module* root_ = nullptr;
  std::vector<StorageRange> storages_;
};

// One reading of the copy.
class ModuleReader::Reading {
 public:
  explicit Reading(std::shared_ptr<const Bytes> bytes) noexcept
      : bytes_(std::move(bytes)),
        root_(&bytes_->root()),
        memory_left_(kLeastMemory + kNbytesPerByte * bytes_->copied()) {}

  const Bytes& bytes() const { return *bytes_; }

  // Counts memory that the caller will allocate. CORRUPT beyond the limit.
  Status spend(uint64_t count, uint64_t each) {
    if (count <= memory_left_ / each) {
      memory_left_ -= count * each;
      return Status::ok();
    }
    return corrupt(
        "its parts are used so often that they would take 64 times as much memory as the file");
  }

  Result<std::vector<NamedFile>> files(const Tables<form::ExtraFile>* tables) {
    std::vector<NamedFile> files;
    for (uint32_t i = 0; i < size_of(tables); ++i) {
      const form::ExtraFile& file = *tables->Get(i);
      const std::string_view name = text_of(file.name());
      const std::string_view content = text_of(file.content());
      TENON_TRY(spend(name.size() + content.size() + sizeof(NamedFile), 1));
      files.push_back({std::string(name), std::string(content)});
    }
    return files;
  }

  // ---- values

  Status read_values(const FindStorage& find_storage, const CheckClass& check_class) {
    find_storage_ = &find_storage;
    check_class_ = &check_class;
    const auto* const values = root_->ivalues();
    TENON_TRY(spend(size_of(values), kValueNbytes));
    TENON_TRY(os::ask_headroom(kValueNbytes * size_of(values)));
    checked_classes_.resize(size_of(root_->object_types()));
    values_.reserve(size_of(values));
    place_.clear();
    for (uint32_t i = 0; i < size_of(values); ++i) {
      TENON_ASSIGN(ValueRef value, read_value(*values->Get(i)));
      values_.push_back({std::move(value), height_});
    }
    return Status::ok();
  }

  // Returns a value that was read already and is no function.
  Result<ValueRef> value_at(uint32_t index) {
    if (index >= values_.size()) {
      return wrong(format("names the value %u, which does not stand before it", index));
    }
    const ReadObject& known = values_[index];
    if (!known.value) return wrong(format("names the function %u as a value", index));
    height_ = std::max(height_, known.height + 1);
    return known.value;
  }

  Result<ValueRef> outer_value(uint32_t index, const char* what) {
    place_ = what;
    return value_at(index);
  }

  Result<std::vector<ValueRef>> constants() {
    place_ = "the list of constants";
    return items(root_->jit_constants());
  }

  // ---- functions

  Result<bytecode::Program> program() {
    bytecode::Program program;
    std::vector<bool> seen(values_.size());
    const auto* const methods = root_->methods();
    for (uint32_t i = 0; i < size_of(methods); ++i) {
      const uint32_t index = methods->Get(i);
      place_ = format("method %u", i);
      if (index >= values_.size() || values_[index].value)
        return wrong(format("is the value %u, which is no function", index));
      if (seen[index]) return wrong("stands in the list twice");
      seen[index] = true;
      TENON_ASSIGN(bytecode::Function function,
                   read_function(*root_->ivalues()->Get(index)->val_as_Function()));
      program.functions.push_back(std::move(function));
    }
    return program;
  }

 private:
  struct ReadObject {
    ValueRef value;       // null for a function
    uint32_t height = 0;  // how deep values stand within it
  };

  // Names the part that is being read, for messages.
  [[gnu::cold]] std::string place() const {
    return place_.empty() ? format("value %zu", values_.size()) : place_;
  }
  [[gnu::cold]] Status wrong(const std::string& what) const {
    return corrupt(place() + " " + what);
  }
  // Adds the place to the error of a value that impl/value refused.
  [[gnu::cold]] Status in_place(const Status& status) const {
    return status.code() == Code::kInvalidArgument ? corrupt(place() + ": " + status.message())
                                                   : status;
  }

  Result<std::vector<ValueRef>> items(const Vector<uint32_t>* indices) {
    std::vector<ValueRef> items;
    TENON_TRY(spend(size_of(indices), sizeof(ValueRef)));
    items.reserve(size_of(indices));
    for (uint32_t i = 0; i < size_of(indices); ++i) {
      TENON_ASSIGN(ValueRef item, value_at(indices->Get(i)));
      items.push_back(std::move(item));
    }
    return items;
  }

  template <typename T, typename Make>
  Result<ValueRef> number_list(const Vector<T>* numbers, const TypeRef& element, Make make) {
    // FlatBuffers' verifier checks the alignment of a vector, but not of its items. FlatBuffers'
    // builder does not align an empty vector.
    if (size_of(numbers) != 0 && reinterpret_cast<uintptr_t>(numbers->Data()) % sizeof(T) != 0)
      return wrong("has numbers that are not aligned");
    TENON_TRY(spend(size_of(numbers), kValueNbytes));
    std::vector<ValueRef> items;
    items.reserve(size_of(numbers));
    for (uint32_t i = 0; i < size_of(numbers); ++i) items.push_back(make(numbers->Get(i)));
    height_ = 1;
    TENON_ASSIGN(TypeRef type, Type::list(element));
    return Value::list(std::move(type), std::move(items));
  }

  // Reads one value. The result is null for a function.
  Result<ValueRef> read_value(const form::IValue& value) {
    height_ = 0;
    if (value.val_type() == form::IValueUnion::NONE) return Value::none();
    if (value.val() == nullptr) return wrong("has a kind and no content");
    Result<ValueRef> made = make_value(value);
    if (!made.is_ok()) return in_place(made.status());
    if (height_ < bytes_->max_depth()) return made;
    return Status(Code::kResourceExhausted,
                  format("%s has values within values, more than the limit max_depth, %u",
                         place().c_str(), bytes_->max_depth()))
        .with("limit", "max_depth")
        .with("limit_value", uint64_t{bytes_->max_depth()});
  }

  Result<ValueRef> make_value(const form::IValue& value) {
    switch (value.val_type()) {
      case form::IValueUnion::Int: return Value::of_int(value.val_as_Int()->value());
      case form::IValueUnion::Bool: return Value::of_bool(value.val_as_Bool()->value());
      case form::IValueUnion::Double: return Value::of_float(value.val_as_Double()->value());
      case form::IValueUnion::ComplexDouble:
        return Value::of_complex(
            {value.val_as_ComplexDouble()->real(), value.val_as_ComplexDouble()->imag()});
      case form::IValueUnion::TensorMetadata: {
        TENON_ASSIGN(TensorValueRef tensor, read_tensor(*value.val_as_TensorMetadata(), true));
        return Value::of_tensor(std::move(tensor));
      }
      case form::IValueUnion::String: {
        TENON_ASSIGN(std::string text, copied_text(value.val_as_String()->data()));
        return Value::of_str(std::move(text));
      }
      case form::IValueUnion::Device: {
        TENON_ASSIGN(std::string text, copied_text(value.val_as_Device()->str()));
        return Value::of_device(std::move(text));
      }
      case form::IValueUnion::List: return read_list(*value.val_as_List());
      case form::IValueUnion::Tuple: {
        TENON_ASSIGN(std::vector<ValueRef> parts, items(value.val_as_Tuple()->items()));
        return Value::tuple(std::move(parts));
      }
      case form::IValueUnion::Dict: return read_dict(*value.val_as_Dict());
      case form::IValueUnion::Object: return read_object(*value.val_as_Object());
      case form::IValueUnion::IntList:
        return number_list(value.val_as_IntList()->items(), Type::integer(),
                           [](int64_t item) { return Value::of_int(item); });
      case form::IValueUnion::DoubleList:
        return number_list(value.val_as_DoubleList()->items(), Type::floating(),
                           [](double item) { return Value::of_float(item); });
      case form::IValueUnion::BoolList:
        return number_list(value.val_as_BoolList()->items(), Type::boolean(),
                           [](uint8_t item) { return Value::of_bool(item != 0); });
      case form::IValueUnion::EnumValue: {
        const form::EnumValue& member = *value.val_as_EnumValue();
        TENON_ASSIGN(std::string name, copied_text(member.type_name()));
        TENON_TRY(check_class(name));
        TENON_ASSIGN(ValueRef inner, value_at(member.value()));
        return Value::enumeration(std::move(name), std::move(inner));
      }
      case form::IValueUnion::Function: return ValueRef();
      default:
        return wrong(format("is of the kind %u, which the form does not have",
                            static_cast<unsigned>(value.val_type())));
    }
  }

  Result<std::string> copied_text(const Text* text) {
    TENON_TRY(spend(text_of(text).size(), 1));
    return std::string(text_of(text));
  }

  // The type of a list or dict. Null: the file does not name it.
  Result<TypeRef> read_type(const Text* text, TypeKind kind) {
    if (text_of(text).empty()) return TypeRef();
    auto known = types_.find(text);
    if (known == types_.end()) {
      TENON_ASSIGN(TypeRef type, Type::parse(text_of(text)));
      known = types_.emplace(text, std::move(type)).first;
    }
    if (known->second->kind() == kind) return known->second;
    return wrong(format("has the type %.100s, which is of another kind",
                        std::string(text_of(text)).c_str()));
  }

  Result<ValueRef> read_list(const form::List& list) {
    TENON_ASSIGN(std::vector<ValueRef> parts, items(list.items()));
    TENON_ASSIGN(TypeRef type, read_type(list.annotation_str(), TypeKind::kList));
    return Value::list(std::move(type), std::move(parts));
  }

  Result<ValueRef> read_dict(const form::Dict& dict) {
    TENON_ASSIGN(const std::vector<ValueRef> keys, items(dict.keys()));
    TENON_ASSIGN(const std::vector<ValueRef> mapped, items(dict.values()));
    TENON_ASSIGN(TypeRef type, read_type(dict.annotation_str(), TypeKind::kDict));
    if (keys.size() != mapped.size())
      return wrong(format("has %zu keys and %zu values", keys.size(), mapped.size()));
    std::vector<value::DictEntry> entries;
    entries.reserve(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) entries.push_back({keys[i], mapped[i]});
    TENON_TRY(spend(value::keys_nbytes(entries), 1));
    return Value::dict(std::move(type), std::move(entries));
  }

  Status check_class(const std::string& name) const {
    if (!value::is_qualified_name(name))
      return wrong(format("is of the class \"%.100s\", which is no name of a class", name.c_str()));
    return (*check_class_)(name);
  }

  Result<ValueRef> read_object(const form::Object& object) {
    if (object.type_index() >= checked_classes_.size())
      return wrong(format("is of the class %u, which is not there", object.type_index()));
    const form::ObjectType& type = *root_->object_types()->Get(object.type_index());
    TENON_ASSIGN(std::string name, copied_text(type.type_name()));
    if (!checked_classes_[object.type_index()]) TENON_TRY(check_class(name));
    checked_classes_[object.type_index()] = true;
    if (type.type() == form::ClassKind::CLASS_WITH_SETSTATE ||
        type.type() == form::ClassKind::CUSTOM_CLASS) {
      TENON_ASSIGN(ValueRef state, value_at(object.state()));
      return Value::object_with_state(std::move(name), std::move(state));
    }
    if (type.type() != form::ClassKind::CLASS_WITH_FIELD) {
      return wrong(
          format("is of the class %.100s, and the file does not say how it gets its attributes",
                 name.c_str()));
    }
    TENON_ASSIGN(std::vector<ValueRef> values, items(object.attrs()));
    if (values.size() != size_of(type.attr_names())) {
      return wrong(format("has %zu attributes, and its class %u", values.size(),
                          size_of(type.attr_names())));
    }
    std::vector<Attribute> attributes;
    TENON_TRY(spend(values.size(), sizeof(Attribute)));
    attributes.reserve(values.size());
    for (uint32_t i = 0; i < values.size(); ++i) {
      TENON_ASSIGN(std::string attribute, copied_text(type.attr_names()->Get(i)));
      attributes.push_back({std::move(attribute), std::move(values[i])});
    }
    return Value::object(std::move(name), std::move(attributes));
  }

  // ---- tensors

  Result<std::vector<int64_t>> dims(const Vector<int32_t>* numbers) {
    TENON_TRY(spend(size_of(numbers), sizeof(int64_t)));
    std::vector<int64_t> dims;
    dims.reserve(size_of(numbers));
    for (uint32_t i = 0; i < size_of(numbers); ++i) dims.push_back(numbers->Get(i));
    return dims;
  }

  Result<TensorValueRef> read_tensor(const form::TensorMetadata& tensor, bool may_be_quantised) {
    const std::optional<tensor::ScalarType> type =
        tensor::scalar_type_from_number(tensor.scalar_type());
    if (!type)
      return wrong(format("is a tensor of the type %d, which is not known", tensor.scalar_type()));
    const uint32_t index = tensor.storage_location_index();
    if (index >= bytes_->storages().size())
      return wrong(format("is a tensor of the storage %u, which is not there", index));
    value::StridedSpec spec;
    TENON_ASSIGN(spec.storage, (*find_storage_)(index, *type));
    TENON_ASSIGN(spec.sizes, dims(tensor.sizes()));
    TENON_ASSIGN(spec.strides, dims(tensor.strides()));
    spec.offset = tensor.storage_offset();
    spec.requires_grad = tensor.requires_grad();
    if (const form::QuantizedSchema* const quantized = tensor.quantized_schema()) {
      if (!may_be_quantised) return wrong("is a tensor whose scales are quantised themselves");
      TENON_ASSIGN(spec.quantizer, read_quantizer(*quantized));
    }
    return value::TensorValue::create(spec);
  }

  Result<value::Quantizer> read_quantizer(const form::QuantizedSchema& quantized) {
    const auto* const known =
        std::ranges::find(kQSchemeNumbers, quantized.qscheme(), &QSchemeNumber::number);
    if (known == std::end(kQSchemeNumbers))
      return wrong(format("is a tensor of the quantisation scheme %d, which is not known",
                          quantized.qscheme()));
    value::Quantizer quantizer;
    quantizer.scheme = known->scheme;
    if (quantizer.scheme == value::QScheme::kPerTensorAffine) {
      quantizer.scale = quantized.scale();
      quantizer.zero_point = quantized.zero_point();
      return quantizer;
    }
    if (quantized.scales() == nullptr || quantized.zero_points() == nullptr)
      return wrong("is a quantised tensor without scales");
    TENON_ASSIGN(quantizer.scales, read_tensor(*quantized.scales(), false));
    TENON_ASSIGN(quantizer.zero_points, read_tensor(*quantized.zero_points(), false));
    quantizer.axis = quantized.axis();
    return quantizer;
  }

  // ---- functions

  Result<bytecode::Function> read_function(const form::Function& function) {
    bytecode::Function made;
    TENON_ASSIGN(made.name, copied_text(function.qn()));
    if (made.name.empty()) return wrong("has an empty name");
    place_ = "function " + made.name.substr(0, 300);
    const auto* const instructions = function.instructions();
    TENON_TRY(spend(size_of(instructions), sizeof(bytecode::Instruction)));
    made.instructions.reserve(size_of(instructions));
    for (uint32_t i = 0; i < size_of(instructions); ++i) {
      const form::Instruction& instruction = *instructions->Get(i);
      const auto opcode = static_cast<uint8_t>(instruction.op());
      if (opcode >= bytecode::kOpcodeCount)
        return wrong(format("has the opcode %u, which PyTorch does not have", opcode));
      made.instructions.push_back(
          {static_cast<bytecode::Opcode>(opcode), instruction.x(), instruction.n()});
    }
    const auto* const operators = function.operators();
    TENON_TRY(spend(size_of(operators), sizeof(bytecode::OperatorUse)));
    for (uint32_t i = 0; i < size_of(operators); ++i) {
      const form::Operator& called = *operators->Get(i);
      bytecode::OperatorUse use;
      TENON_ASSIGN(use.name, copied_text(called.name()));
      TENON_ASSIGN(use.overload, copied_text(called.overload_name()));
      const int32_t arguments = called.num_args_serialized();
      if (use.name.empty()) return wrong(format("has the operator %u without a name", i));
      if (arguments < -1 || arguments > 65535)
        return wrong(format("gives %d arguments to the operator %u", arguments, i));
      use.arguments = arguments == -1 ? bytecode::OperatorUse::kVariadic : arguments;
      made.operators.push_back(std::move(use));
    }
    TENON_ASSIGN(made.constants, items(function.constants()));
    const auto* const types = function.type_annotations();
    TENON_TRY(spend(size_of(types), sizeof(std::string)));
    for (uint32_t i = 0; i < size_of(types); ++i) {
      TENON_ASSIGN(std::string type, copied_text(types->Get(i)));
      if (type.empty()) return wrong(format("has the type %u without a text", i));
      made.types.push_back(std::move(type));
    }
    made.register_count = function.register_size();
    if (made.register_count < 0) return wrong("has fewer than 0 registers");
    if (function.schema() == nullptr) return wrong("has no schema");
    TENON_ASSIGN(made.arguments, read_arguments(function.schema()->arguments()));
    TENON_ASSIGN(made.returns, read_arguments(function.schema()->returns()));
    return made;
  }

  Result<std::vector<bytecode::Argument>> read_arguments(const Tables<form::Arg>* tables) {
    std::vector<bytecode::Argument> arguments;
    TENON_TRY(spend(size_of(tables), sizeof(bytecode::Argument)));
    for (uint32_t i = 0; i < size_of(tables); ++i) {
      const form::Arg& argument = *tables->Get(i);
      bytecode::Argument made;
      TENON_ASSIGN(made.name, copied_text(argument.name()));
      TENON_ASSIGN(made.type, copied_text(argument.type()));
      if (made.type.empty()) return wrong(format("has an argument or result %u without a type", i));
      // Value 0 means that there is no default.
      if (argument.default_value() != 0) {
        TENON_ASSIGN(made.default_value, value_at(argument.default_value()));
      }
      arguments.push_back(std::move(made));
    }
    return arguments;
  }

  std::shared_ptr<const Bytes> bytes_;
  const form::Module* root_;
  uint64_t memory_left_;
  const FindStorage* find_storage_ = nullptr;
  const CheckClass* check_class_ = nullptr;
  std::vector<bool> checked_classes_;
  std::vector<ReadObject> values_;
  std::unordered_map<const Text*, TypeRef> types_;
  std::string place_;    // see place(); empty while values are read
  uint32_t height_ = 0;  // the depth of values within the value that is being read
};

ModuleReader::ModuleReader(std::unique_ptr<Reading> reading) noexcept
    : reading_(std::move(reading)) {}
ModuleReader::ModuleReader(ModuleReader&&) noexcept = default;
ModuleReader::~ModuleReader() = default;

Result<std::shared_ptr<const ModuleReader::Bytes>> ModuleReader::copy(
    const ZipSource& source, const pickle::PickleLimits& limits) {
  return Bytes::make(source, limits);
}

ModuleReader ModuleReader::of(std::shared_ptr<const Bytes> bytes) {
  return ModuleReader(std::make_unique<Reading>(std::move(bytes)));
}

Result<ModuleReader> ModuleReader::open(const ZipSource& source,
                                        const pickle::PickleLimits& limits) {
  TENON_ASSIGN(std::shared_ptr<const Bytes> bytes, copy(source, limits));
  return of(std::move(bytes));
}

uint32_t ModuleReader::bytecode_version() const noexcept {
  return reading_->bytes().root().bytecode_version();
}
uint32_t ModuleReader::operator_version() const noexcept {
  return reading_->bytes().root().operator_version();
}
const std::vector<StorageRange>& ModuleReader::storages() const noexcept {
  return reading_->bytes().storages();
}
uint64_t ModuleReader::nbytes() const noexcept { return reading_->bytes().copied(); }
bool ModuleReader::has_sources() const noexcept {
  return size_of(reading_->bytes().root().jit_sources()) != 0;
}
Result<std::vector<NamedFile>> ModuleReader::sources() const {
  return reading_->files(reading_->bytes().root().jit_sources());
}
Result<std::vector<NamedFile>> ModuleReader::extra_files() const {
  return reading_->files(reading_->bytes().root().extra_files());
}
Status ModuleReader::read_values(const FindStorage& find_storage, const CheckClass& check_class) {
  return reading_->read_values(find_storage, check_class);
}
Result<ValueRef> ModuleReader::root() const {
  return reading_->outer_value(reading_->bytes().root().state_obj(), "the root");
}
Result<std::vector<ValueRef>> ModuleReader::constants() const { return reading_->constants(); }
Result<bytecode::Program> ModuleReader::program() const { return reading_->program(); }

}  // namespace tenon::flatbuffer

#else

namespace tenon::flatbuffer {

class ModuleReader::Bytes {};
class ModuleReader::Reading {};

ModuleReader::ModuleReader(std::unique_ptr<Reading> reading) noexcept
    : reading_(std::move(reading)) {}
ModuleReader::ModuleReader(ModuleReader&&) noexcept = default;
ModuleReader::~ModuleReader() = default;

Result<std::shared_ptr<const ModuleReader::Bytes>> ModuleReader::copy(const archive::ZipSource&,
                                                                      const pickle::PickleLimits&) {
  return Status(Code::kUnsupported,
                "this build of Tenon reads no flatbuffers: build it where FlatBuffers is installed "
                "(libflatbuffers-dev and "
                "flatbuffers-compiler of Debian)");
}

ModuleReader ModuleReader::of(std::shared_ptr<const Bytes>) {
  return ModuleReader(std::make_unique<Reading>());
}

Result<ModuleReader> ModuleReader::open(const archive::ZipSource& source,
                                        const pickle::PickleLimits& limits) {
  return copy(source, limits).status();
}

// copy() always fails in this build, so these functions are never called.
uint32_t ModuleReader::bytecode_version() const noexcept { return 0; }
uint32_t ModuleReader::operator_version() const noexcept { return 0; }
const std::vector<StorageRange>& ModuleReader::storages() const noexcept {
  static const std::vector<StorageRange> none;
  return none;
}
uint64_t ModuleReader::nbytes() const noexcept { return 0; }
bool ModuleReader::has_sources() const noexcept { return false; }
Result<std::vector<NamedFile>> ModuleReader::sources() const { return std::vector<NamedFile>(); }
Result<std::vector<NamedFile>> ModuleReader::extra_files() const {
  return std::vector<NamedFile>();
}
Status ModuleReader::read_values(const FindStorage&, const CheckClass&) { return Status::ok(); }
Result<value::ValueRef> ModuleReader::root() const { return value::ValueRef(); }
Result<std::vector<value::ValueRef>> ModuleReader::constants() const {
  return std::vector<value::ValueRef>();
}
Result<bytecode::Program> ModuleReader::program() const { return bytecode::Program(); }

}  // namespace tenon::flatbuffer

#endif
