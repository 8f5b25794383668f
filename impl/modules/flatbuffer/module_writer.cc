#include "modules/flatbuffer/module_writer.h"

#ifdef TENON_HAS_FLATBUFFERS

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "modules/flatbuffer/generated.h"
#include "modules/value/walk.h"

namespace tenon::flatbuffer {

using ::flatbuffers::FlatBufferBuilder;
using ::flatbuffers::Offset;
using value::StorageValueRef;
using value::TensorValue;
using value::TypeKind;
using value::Value;
using value::ValueKind;
using value::ValueRef;

namespace {

// An upper bound for the headers, the padding and the table of one value or function, without its
// items.
constexpr uint64_t kTableNbytes = 512;
constexpr size_t kStorageAlignment = 32;  // the most that FlatBuffers allows
int8_t qscheme_number(value::QScheme scheme) noexcept {
  const auto* const known = std::ranges::find(kQSchemeNumbers, scheme, &QSchemeNumber::scheme);
  return known == std::end(kQSchemeNumbers) ? int8_t{0} : known->number;
}

// The kind of the items of a list that the form stores as a plain vector and not as values. kNone:
// the value is no such list.
ValueKind item_kind_of(const Value& value) {
  if (!value.is(ValueKind::kList) || !value.declared_type()) return ValueKind::kNone;
  ValueKind kind = ValueKind::kNone;
  switch (value.declared_type()->element()->kind()) {
    case TypeKind::kInt: kind = ValueKind::kInt; break;
    case TypeKind::kFloat: kind = ValueKind::kFloat; break;
    case TypeKind::kBool: kind = ValueKind::kBool; break;
    default: return kind;
  }
  const bool fits = std::all_of(value.items().begin(), value.items().end(),
                                [kind](const ValueRef& item) { return item->is(kind); });
  return fits ? kind : ValueKind::kNone;
}

// The names of classes of C++ code begin with this prefix. PyTorch makes their objects from a
// state.
constexpr std::string_view kCustomClasses = "__torch__.torch.classes.";

// The approximate size of the buffer in bytes. It lets the buffer be allocated once, because a
// buffer that grows is copied.
size_t likely_nbytes(const ModuleContents& contents) {
  constexpr uint64_t kSomeNbytes = uint64_t{64} << 10;
  std::set<value::StorageKey> seen;
  uint64_t nbytes = 0;
  const auto add = [&](const ValueRef& root) {
    // The writer reports the failure later.
    (void)value::for_each(*root, [&](const Value& below, size_t) {
      if (!below.is(ValueKind::kTensor) ||
          below.as_tensor()->layout() != value::TensorLayout::kStrided)
        return Status::ok();
      const StorageValueRef& storage = below.as_tensor()->storage();
      if (seen.insert(storage->key()).second)
        nbytes += std::min(storage->nbytes(), kMostNbytes) + kStorageAlignment;
      return nbytes < kMostNbytes ? Status::ok() : Status(Code::kUnsupported, "too large");
    });
  };
  add(contents.root);
  for (const ValueRef& constant : contents.constants) add(constant);
  return static_cast<size_t>(std::min(nbytes + nbytes / 16 + kSomeNbytes, kMostNbytes - 1));
}

class ModuleWriter {
 public:
  ModuleWriter(const ModuleContents& contents, const ReadStorage& read_storage)
      : contents_(contents), read_storage_(read_storage), builder_(likely_nbytes(contents)) {}

  Status run() {
    // Index 0 means "no value" to the loader.
    TENON_TRY(add_value(form::IValueUnion::NONE, 0));
    std::vector<uint32_t> methods;
    // Functions come first, because some objects are made by a function.
    for (const bytecode::Function& function : contents_.program->functions) {
      TENON_ASSIGN(const uint32_t index, function_index(function));
      methods.push_back(index);
    }
    TENON_ASSIGN(const uint32_t root, value_index(contents_.root));
    const auto mobile_values = static_cast<uint32_t>(values_.size());
    std::vector<uint32_t> constants;
    for (const ValueRef& constant : contents_.constants) {
      TENON_ASSIGN(const uint32_t index, value_index(constant));
      constants.push_back(index);
    }
    TENON_TRY(check_classes());
    TENON_ASSIGN(const auto storages, storage_tables());
    TENON_ASSIGN(const auto extra_files, text_tables(contents_.extra_files));
    TENON_ASSIGN(const auto sources, text_tables(contents_.sources));
    const auto method_vector = builder_.CreateVector(methods);
    const auto value_vector = builder_.CreateVector(values_);
    const auto class_vector = class_tables();
    const auto constant_vector = builder_.CreateVector(constants);
    const auto version = static_cast<uint32_t>(contents_.version);
    builder_.Finish(
        form::CreateModule(builder_, version, extra_files, method_vector, root, value_vector,
                           static_cast<int32_t>(storages_.size()), storages, class_vector, sources,
                           constant_vector, version, mobile_values),
        form::ModuleIdentifier());
    return Status::ok();
  }

  std::span<const std::byte> bytes() const {
    return {reinterpret_cast<const std::byte*>(builder_.GetBufferPointer()), builder_.GetSize()};
  }

 private:
  struct Class {
    form::ClassKind kind = form::ClassKind::UNSET;  // UNSET: no object of the class was met so far
    std::vector<std::string> attributes;
    std::string of_function;  // a function that names the class
  };
  // An open value: some of its children have no index yet.
  struct Open {
    const Value* value;
    size_t next;
  };

  Status make_room(uint64_t nbytes) const {
    if (builder_.GetSize() + storage_nbytes_ + nbytes + kTableNbytes < kMostNbytes)
      return Status::ok();
    return {Code::kUnsupported,
            "the module has 2 GiB or more, which the flatbuffer form cannot hold: write a module "
            "archive instead"};
  }

  Status add_value(form::IValueUnion kind, Offset<void> content) {
    if (values_.size() >= std::numeric_limits<uint32_t>::max()) return make_room(kMostNbytes);
    TENON_TRY(make_room(0));
    values_.push_back(form::CreateIValue(builder_, kind, content));
    return Status::ok();
  }

  uint32_t last_index() const { return static_cast<uint32_t>(values_.size() - 1); }

  // Stores a value after its children, unless that was done already, and returns its index.
  Result<uint32_t> value_index(const ValueRef& root) {
    if (const auto known = indices_.find(root.get()); known != indices_.end()) return known->second;
    std::vector<Open> open{{root.get(), 0}};
    open_.insert(root.get());
    while (!open.empty()) {
      Open& top = open.back();
      if (top.next == 0 && item_kind_of(*top.value) != ValueKind::kNone)
        top.next = top.value->child_count();
      if (top.next == top.value->child_count()) {
        TENON_ASSIGN(const uint32_t index, store(*top.value));
        indices_.emplace(top.value, index);
        open_.erase(top.value);
        open.pop_back();
        continue;
      }
      const Value* const child = &top.value->child(top.next++);
      if (indices_.contains(child)) continue;
      if (!open_.insert(child).second) {
        return invalid(format("a %s contains itself", value::value_kind_name(child->kind())));
      }
      if (open.size() >= value::kMaxWalkDepth)
        return invalid(format("the values are nested deeper than %zu", value::kMaxWalkDepth));
      open.push_back({child, 0});
    }
    return indices_.at(root.get());
  }

  Result<uint32_t> store(const Value& value) {
    switch (value.kind()) {
      case ValueKind::kNone: return 0;
      case ValueKind::kBool:
        return store_number(form::IValueUnion::Bool, value.as_bool(), &bools_,
                            form::Bool(value.as_bool()));
      case ValueKind::kInt:
        return store_number(form::IValueUnion::Int, value.as_int(), &ints_,
                            form::Int(value.as_int()));
      case ValueKind::kFloat:
        // Floats are compared by their bits, because 0 differs from -0 and a NaN must equal itself.
        return store_number(form::IValueUnion::Double, std::bit_cast<int64_t>(value.as_float()),
                            &doubles_, form::Double(value.as_float()));
      case ValueKind::kComplex: {
        const form::ComplexDouble number(value.as_complex().real(), value.as_complex().imag());
        TENON_TRY(
            add_value(form::IValueUnion::ComplexDouble, builder_.CreateStruct(number).Union()));
        return last_index();
      }
      case ValueKind::kStr: return store_text(value.as_str());
      case ValueKind::kDevice: {
        TENON_TRY(make_room(value.as_device().size()));
        const auto text = builder_.CreateSharedString(value.as_device());
        TENON_TRY(add_value(form::IValueUnion::Device, form::CreateDevice(builder_, text).Union()));
        return last_index();
      }
      case ValueKind::kTensor: {
        TENON_ASSIGN(const Offset<form::TensorMetadata> tensor, tensor_table(*value.as_tensor()));
        TENON_TRY(add_value(form::IValueUnion::TensorMetadata, tensor.Union()));
        return last_index();
      }
      case ValueKind::kTuple: {
        TENON_ASSIGN(const auto items, index_vector(value.items()));
        TENON_TRY(add_value(form::IValueUnion::Tuple, form::CreateTuple(builder_, items).Union()));
        return last_index();
      }
      case ValueKind::kList: return store_list(value);
      case ValueKind::kDict: return store_dict(value);
      case ValueKind::kEnum: {
        TENON_TRY(make_room(value.class_name().size()));
        const auto name = builder_.CreateSharedString(value.class_name());
        const uint32_t inner = indices_.at(value.enum_value().get());
        TENON_TRY(add_value(form::IValueUnion::EnumValue,
                            form::CreateEnumValue(builder_, name, inner).Union()));
        return last_index();
      }
      case ValueKind::kObject: return store_object(value);
    }
    return Status(Code::kInternal, "a value of no kind");
  }

  template <class Number, class Struct>
  Result<uint32_t> store_number(form::IValueUnion kind, Number number,
                                std::unordered_map<Number, uint32_t>* known,
                                const Struct& content) {
    if (const auto found = known->find(number); found != known->end()) return found->second;
    TENON_TRY(add_value(kind, builder_.CreateStruct(content).Union()));
    known->emplace(number, last_index());
    return last_index();
  }

  Result<uint32_t> store_text(const std::string& text) {
    if (const auto found = texts_.find(text); found != texts_.end()) return found->second;
    TENON_TRY(make_room(text.size()));
    const auto content = builder_.CreateSharedString(text);
    TENON_TRY(add_value(form::IValueUnion::String, form::CreateString(builder_, content).Union()));
    texts_.emplace(text, last_index());
    return last_index();
  }

  template <class Items>
  Result<Offset<::flatbuffers::Vector<uint32_t>>> index_vector(const Items& items) {
    TENON_TRY(make_room(items.size() * sizeof(uint32_t)));
    std::vector<uint32_t> indices;
    indices.reserve(items.size());
    for (const ValueRef& item : items) indices.push_back(indices_.at(item.get()));
    return builder_.CreateVector(indices);
  }

  template <class Number, class Take>
  Result<Offset<::flatbuffers::Vector<Number>>> number_vector(const Value& list, const Take& take) {
    TENON_TRY(make_room(list.items().size() * sizeof(Number)));
    Number* out = nullptr;
    const auto made = builder_.CreateUninitializedVector<Number>(list.items().size(), &out);
    for (const ValueRef& item : list.items())
      ::flatbuffers::WriteScalar<Number>(out++, take(*item));
    return made;
  }

  Result<uint32_t> store_list(const Value& list) {
    const ValueKind kind = item_kind_of(list);
    if (kind == ValueKind::kInt) {
      TENON_ASSIGN(const auto items,
                   number_vector<int64_t>(list, [](const Value& item) { return item.as_int(); }));
      TENON_TRY(
          add_value(form::IValueUnion::IntList, form::CreateIntList(builder_, items).Union()));
    } else if (kind == ValueKind::kFloat) {
      TENON_ASSIGN(const auto items,
                   number_vector<double>(list, [](const Value& item) { return item.as_float(); }));
      TENON_TRY(add_value(form::IValueUnion::DoubleList,
                          form::CreateDoubleList(builder_, items).Union()));
    } else if (kind == ValueKind::kBool) {
      TENON_ASSIGN(const auto items, number_vector<uint8_t>(list, [](const Value& item) {
                     return static_cast<uint8_t>(item.as_bool());
                   }));
      TENON_TRY(
          add_value(form::IValueUnion::BoolList, form::CreateBoolList(builder_, items).Union()));
    } else {
      TENON_ASSIGN(const auto items, index_vector(list.items()));
      TENON_ASSIGN(const auto type, type_text(list, "List[Any]"));
      TENON_TRY(
          add_value(form::IValueUnion::List, form::CreateList(builder_, items, type).Union()));
    }
    return last_index();
  }

  Result<uint32_t> store_dict(const Value& dict) {
    std::vector<ValueRef> keys;
    std::vector<ValueRef> mapped;
    for (const value::DictEntry& entry : dict.entries()) {
      keys.push_back(entry.key);
      mapped.push_back(entry.value);
    }
    TENON_ASSIGN(const auto key_vector, index_vector(keys));
    TENON_ASSIGN(const auto mapped_vector, index_vector(mapped));
    TENON_ASSIGN(const auto type, type_text(dict, "Dict[str, Any]"));
    TENON_TRY(add_value(form::IValueUnion::Dict,
                        form::CreateDict(builder_, key_vector, mapped_vector, type).Union()));
    return last_index();
  }

  Result<Offset<::flatbuffers::String>> type_text(const Value& container, const char* if_none) {
    const std::string text =
        container.declared_type() ? container.declared_type()->print() : if_none;
    TENON_TRY(make_room(text.size()));
    return builder_.CreateSharedString(text);
  }

  Result<uint32_t> store_object(const Value& object) {
    const uint32_t type = class_index(object.class_name());
    Class& known = classes_[type];
    if (object.is_opaque()) {
      const bool is_custom = object.class_name().starts_with(kCustomClasses);
      uint32_t set_state = 0;
      if (!is_custom) {
        const auto function = functions_.find(object.class_name() + ".__setstate__");
        if (function == functions_.end()) {
          return invalid(
              format("the bytecode has no %.300s.__setstate__, which makes an object of that class",
                     object.class_name().c_str()));
        }
        set_state = function->second;
      }
      known.kind = is_custom ? form::ClassKind::CUSTOM_CLASS : form::ClassKind::CLASS_WITH_SETSTATE;
      const uint32_t state = indices_.at(object.state().get());
      TENON_TRY(add_value(form::IValueUnion::Object,
                          form::CreateObject(builder_, type, state, 0, set_state).Union()));
      return last_index();
    }
    const std::span<const value::Attribute> attributes = object.attributes().all();
    std::vector<ValueRef> values;
    std::vector<std::string> names;
    for (const value::Attribute& attribute : attributes) {
      values.push_back(attribute.value);
      names.push_back(attribute.name);
    }
    if (known.kind == form::ClassKind::UNSET) {
      known.kind = form::ClassKind::CLASS_WITH_FIELD;
      known.attributes = std::move(names);
    } else if (known.attributes != names) {
      return invalid(format("two objects of %.300s have different attributes, or in another order",
                            object.class_name().c_str()));
    }
    TENON_ASSIGN(const auto items, index_vector(values));
    TENON_TRY(
        add_value(form::IValueUnion::Object, form::CreateObject(builder_, type, 0, items).Union()));
    return last_index();
  }

  // ---- tensors

  static Result<int32_t> narrow(int64_t number, const char* what) {
    if (number >= std::numeric_limits<int32_t>::min() &&
        number <= std::numeric_limits<int32_t>::max())
      return static_cast<int32_t>(number);
    return Status(
        Code::kUnsupported,
        format(
            "the flatbuffer form cannot hold a tensor with %s of %lld: the largest is 2147483647",
            what, static_cast<long long>(number)));
  }

  Result<Offset<::flatbuffers::Vector<int32_t>>> dims_vector(std::span<const int64_t> dims,
                                                             const char* what) {
    std::vector<int32_t> narrowed;
    for (const int64_t dim : dims) {
      TENON_ASSIGN(const int32_t number, narrow(dim, what));
      narrowed.push_back(number);
    }
    return builder_.CreateVector(narrowed);
  }

  static Status unsupported_tensor(const char* what) {
    return {
        Code::kUnsupported,
        format(
            "the flatbuffer form cannot hold a tensor that is %s: write a module archive instead",
            what)};
  }

  Result<Offset<form::TensorMetadata>> tensor_table(const TensorValue& tensor) {
    if (tensor.layout() != value::TensorLayout::kStrided) return unsupported_tensor("sparse");
    if (tensor.storage()->is_meta()) return unsupported_tensor("on the device meta");
    if (tensor.is_conj() || tensor.is_neg())
      return unsupported_tensor("lazily conjugated or negated");
    Offset<form::QuantizedSchema> quantizer;
    if (tensor.quantizer()) {
      TENON_ASSIGN(quantizer, quantizer_table(*tensor.quantizer()));
    }
    TENON_ASSIGN(const uint32_t storage, storage_index(tensor.storage()));
    TENON_ASSIGN(const int32_t offset, narrow(tensor.offset(), "an offset"));
    TENON_TRY(make_room(2 * tensor.sizes().size() * sizeof(int32_t)));
    TENON_ASSIGN(const auto sizes, dims_vector(tensor.sizes(), "a size"));
    TENON_ASSIGN(const auto strides, dims_vector(tensor.strides(), "a stride"));
    return form::CreateTensorMetadata(builder_, storage, static_cast<int8_t>(tensor.type()), offset,
                                      sizes, strides, tensor.requires_grad(), quantizer);
  }

  Result<Offset<form::QuantizedSchema>> quantizer_table(const value::Quantizer& quantizer) {
    Offset<form::TensorMetadata> scales;
    Offset<form::TensorMetadata> zero_points;
    if (quantizer.scales) {
      TENON_ASSIGN(scales, tensor_table(*quantizer.scales));
    }
    if (quantizer.zero_points) {
      TENON_ASSIGN(zero_points, tensor_table(*quantizer.zero_points));
    }
    TENON_ASSIGN(const int32_t zero_point, narrow(quantizer.zero_point, "a zero point"));
    TENON_ASSIGN(const int32_t axis, narrow(quantizer.axis, "an axis"));
    return form::CreateQuantizedSchema(builder_, qscheme_number(quantizer.scheme), quantizer.scale,
                                       zero_point, scales, zero_points, axis);
  }

  Result<uint32_t> storage_index(const StorageValueRef& storage) {
    const auto [known, is_new] =
        storage_indices_.try_emplace(storage->key(), static_cast<uint32_t>(storages_.size()));
    if (is_new) {
      if (storage->nbytes() >= kMostNbytes) return make_room(kMostNbytes);
      TENON_TRY(make_room(storage->nbytes()));
      storages_.push_back(storage);
      storage_nbytes_ += storage->nbytes() + kTableNbytes;
    }
    return known->second;
  }

  Result<Offset<::flatbuffers::Vector<Offset<form::StorageData>>>> storage_tables() {
    std::vector<Offset<form::StorageData>> tables;
    for (const StorageValueRef& storage : storages_) {
      const size_t nbytes = storage->nbytes();
      builder_.ForceVectorAlignment(nbytes, 1, kStorageAlignment);
      uint8_t* into = nullptr;
      const auto data = builder_.CreateUninitializedVector<uint8_t>(nbytes, &into);
      if (nbytes > 0)
        TENON_TRY(read_storage_(*storage, {reinterpret_cast<std::byte*>(into), nbytes}));
      tables.push_back(form::CreateStorageData(builder_, data));
    }
    storage_nbytes_ = 0;
    return builder_.CreateVector(tables);
  }

  // ---- classes and functions

  uint32_t class_index(const std::string& name) {
    const auto [known, is_new] =
        class_indices_.try_emplace(name, static_cast<uint32_t>(classes_.size()));
    if (is_new) {
      classes_.emplace_back();
      class_names_.push_back(name);
    }
    return known->second;
  }

  // PyTorch's loader takes the class of a function from an object of that class.
  Status check_classes() const {
    for (size_t i = 0; i < classes_.size(); ++i) {
      if (classes_[i].kind != form::ClassKind::UNSET) continue;
      return {Code::kUnsupported, format("the flatbuffer form cannot hold the function %.300s, "
                                         "because the module has no object of its class",
                                         classes_[i].of_function.c_str())};
    }
    return Status::ok();
  }

  Offset<::flatbuffers::Vector<Offset<form::ObjectType>>> class_tables() {
    std::vector<Offset<form::ObjectType>> tables;
    for (size_t i = 0; i < classes_.size(); ++i) {
      const auto name = builder_.CreateSharedString(class_names_[i]);
      Offset<::flatbuffers::Vector<Offset<::flatbuffers::String>>> attributes;
      if (classes_[i].kind == form::ClassKind::CLASS_WITH_FIELD)
        attributes = text_vector(classes_[i].attributes);
      tables.push_back(form::CreateObjectType(builder_, name, classes_[i].kind, attributes));
    }
    return builder_.CreateVector(tables);
  }

  Offset<::flatbuffers::Vector<Offset<::flatbuffers::String>>> text_vector(
      const std::vector<std::string>& texts) {
    std::vector<Offset<::flatbuffers::String>> offsets;
    offsets.reserve(texts.size());
    for (const std::string& text : texts) offsets.push_back(builder_.CreateSharedString(text));
    return builder_.CreateVector(offsets);
  }

  Result<Offset<::flatbuffers::Vector<Offset<form::ExtraFile>>>> text_tables(
      const std::vector<NamedText>& texts) {
    std::vector<Offset<form::ExtraFile>> tables;
    for (const NamedText& text : texts) {
      TENON_TRY(make_room(text.name.size() + text.content.size()));
      const auto name = builder_.CreateString(text.name.data(), text.name.size());
      const auto content = builder_.CreateString(text.content.data(), text.content.size());
      tables.push_back(form::CreateExtraFile(builder_, name, content));
    }
    return builder_.CreateVector(tables);
  }

  Result<Offset<::flatbuffers::Vector<Offset<form::Arg>>>> argument_tables(
      const std::vector<bytecode::Argument>& arguments) {
    std::vector<Offset<form::Arg>> tables;
    for (const bytecode::Argument& argument : arguments) {
      uint32_t default_value = 0;
      if (argument.default_value) {
        TENON_ASSIGN(default_value, value_index(argument.default_value));
      }
      TENON_TRY(make_room(argument.name.size() + argument.type.size()));
      const auto name = builder_.CreateSharedString(argument.name);
      const auto type = builder_.CreateSharedString(argument.type);
      tables.push_back(form::CreateArg(builder_, name, type, default_value));
    }
    return builder_.CreateVector(tables);
  }

  static uint64_t nbytes_of(const bytecode::Function& function) {
    uint64_t nbytes =
        function.name.size() + function.instructions.size() * sizeof(form::Instruction);
    for (const bytecode::OperatorUse& use : function.operators)
      nbytes += use.name.size() + use.overload.size() + kTableNbytes;
    for (const std::string& type : function.types) nbytes += type.size() + kTableNbytes;
    return nbytes + function.constants.size() * sizeof(uint32_t);
  }

  Result<uint32_t> function_index(const bytecode::Function& function) {
    std::vector<uint32_t> constants;
    for (const ValueRef& constant : function.constants) {
      TENON_ASSIGN(const uint32_t index, value_index(constant));
      constants.push_back(index);
    }
    TENON_ASSIGN(const auto arguments, argument_tables(function.arguments));
    TENON_ASSIGN(const auto returns, argument_tables(function.returns));
    TENON_TRY(make_room(nbytes_of(function)));
    std::vector<form::Instruction> instructions;
    instructions.reserve(function.instructions.size());
    for (const bytecode::Instruction& instruction : function.instructions) {
      instructions.emplace_back(static_cast<int8_t>(instruction.opcode),
                                static_cast<uint16_t>(instruction.n), instruction.x);
    }
    std::vector<Offset<form::Operator>> operators;
    for (const bytecode::OperatorUse& use : function.operators) {
      const auto name = builder_.CreateSharedString(use.name);
      const auto overload = builder_.CreateSharedString(use.overload);
      operators.push_back(
          form::CreateOperator(builder_, name, overload, std::max(use.arguments, -1)));
    }
    TENON_ASSIGN(const int32_t registers, narrow(function.register_count, "a number of registers"));
    const size_t dot = function.name.rfind('.');
    const std::string class_name = function.name.substr(0, dot == std::string::npos ? 0 : dot);
    const uint32_t type = class_index(class_name);
    classes_[type].of_function = function.name;
    const auto name = builder_.CreateSharedString(function.name);
    const auto instruction_vector = builder_.CreateVectorOfStructs(instructions);
    const auto operator_vector = builder_.CreateVector(operators);
    const auto constant_vector = builder_.CreateVector(constants);
    const auto types = text_vector(function.types);
    const auto schema = form::CreateSchema(builder_, arguments, returns);
    const auto table = form::CreateFunction(builder_, name, instruction_vector, operator_vector,
                                            constant_vector, types, registers, schema, 0, type);
    TENON_TRY(add_value(form::IValueUnion::Function, table.Union()));
    functions_.emplace(function.name, last_index());
    return last_index();
  }

  const ModuleContents& contents_;
  const ReadStorage& read_storage_;
  FlatBufferBuilder builder_;
  std::vector<Offset<form::IValue>> values_;
  // Values are deduplicated: by their address here, and numbers and texts by their contents below.
  std::unordered_map<const Value*, uint32_t> indices_;
  std::unordered_set<const Value*> open_;
  std::unordered_map<bool, uint32_t> bools_;
  std::unordered_map<int64_t, uint32_t> ints_;
  std::unordered_map<int64_t, uint32_t> doubles_;
  std::unordered_map<std::string, uint32_t> texts_;
  std::unordered_map<std::string, uint32_t> functions_;
  std::unordered_map<std::string, uint32_t> class_indices_;
  std::vector<std::string> class_names_;
  std::vector<Class> classes_;
  std::map<value::StorageKey, uint32_t> storage_indices_;
  std::vector<StorageValueRef> storages_;
  uint64_t storage_nbytes_ = 0;  // the bytes of the storages that are not in the buffer yet
};

}  // namespace

Status write_module(const ModuleContents& contents, const ReadStorage& read_storage,
                    archive::Sink* sink, uint64_t* nbytes) {
  ModuleWriter writer(contents, read_storage);
  TENON_TRY(writer.run());
  *nbytes = writer.bytes().size();
  return sink->write(writer.bytes());
}

}  // namespace tenon::flatbuffer

#else

namespace tenon::flatbuffer {

Status write_module(const ModuleContents&, const ReadStorage&, archive::Sink*, uint64_t*) {
  return {Code::kUnsupported,
          "this build of Tenon writes no flatbuffers: build it where FlatBuffers is installed "
          "(libflatbuffers-dev and "
          "flatbuffers-compiler of Debian)"};
}

}  // namespace tenon::flatbuffer

#endif
