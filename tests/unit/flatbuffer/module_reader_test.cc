// These tests make broken flatbuffers with FlatBuffers' builder. The reader refuses each one and
// says what is wrong with it.
#ifdef TENON_HAS_FLATBUFFERS

#include "modules/flatbuffer/module_reader.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "modules/flatbuffer/generated.h"
#include "storage/storage.h"
#include "support/must.h"

namespace tenon::flatbuffer {
namespace {

using form::IValueUnion;
using value::Value;
using value::ValueKind;
using value::ValueRef;
template <typename T>
using Offset = ::flatbuffers::Offset<T>;

// These are PyTorch's numbers of element types.
constexpr int8_t kFloat = 6;
constexpr int8_t kQInt8 = 12;

// Collects the parts of a file. The value 0 is None, as in files of PyTorch.
class Maker {
 public:
  ::flatbuffers::FlatBufferBuilder builder;
  std::vector<Offset<form::IValue>> values;
  std::vector<Offset<form::ObjectType>> classes;
  std::vector<Offset<form::StorageData>> storages;
  std::vector<Offset<form::ExtraFile>> sources;
  std::vector<uint32_t> methods;
  uint32_t root = 0;

  Maker() { add(IValueUnion::NONE, 0); }

  uint32_t add(IValueUnion kind, Offset<void> content) {
    values.push_back(form::CreateIValue(builder, kind, content));
    return static_cast<uint32_t>(values.size() - 1);
  }
  uint32_t add_int(int64_t number) {
    return add(IValueUnion::Int, builder.CreateStruct(form::Int(number)).Union());
  }
  uint32_t add_tuple(const std::vector<uint32_t>& items) {
    return add(IValueUnion::Tuple, form::CreateTuple(builder, builder.CreateVector(items)).Union());
  }
  uint32_t add_tensor(uint32_t storage, const std::vector<int32_t>& sizes, int32_t offset = 0) {
    const std::vector<int32_t> strides(sizes.size(), 1);
    const auto sizes_vector = builder.CreateVector(sizes);
    const auto strides_vector = builder.CreateVector(strides);
    return add(
        IValueUnion::TensorMetadata,
        form::CreateTensorMetadata(builder, storage, kFloat, offset, sizes_vector, strides_vector)
            .Union());
  }
  void add_storage(size_t nbytes) {
    builder.ForceVectorAlignment(nbytes, 1, 32);
    storages.push_back(
        form::CreateStorageData(builder, builder.CreateVector(std::vector<uint8_t>(nbytes))));
  }
  // Adds a quantised tensor of two elements, which lies in storage 0.
  uint32_t add_quantised(Offset<form::QuantizedSchema> quantizer) {
    const auto sizes = builder.CreateVector(std::vector<int32_t>{2});
    const auto strides = builder.CreateVector(std::vector<int32_t>{1});
    return add(IValueUnion::TensorMetadata,
               form::CreateTensorMetadata(builder, 0, kQInt8, 0, sizes, strides, false, quantizer)
                   .Union());
  }
  uint32_t add_function(const std::vector<form::Instruction>& instructions,
                        Offset<::flatbuffers::Vector<Offset<::flatbuffers::String>>> types = 0) {
    const auto name = builder.CreateString("__torch__.M.forward");
    const auto code = builder.CreateVectorOfStructs(instructions);
    const auto schema = form::CreateSchema(builder);
    return add(IValueUnion::Function,
               form::CreateFunction(builder, name, code, 0, 0, types, 1, schema).Union());
  }

  std::vector<std::byte> file() {
    const auto value_vector = builder.CreateVector(values);
    const auto class_vector = builder.CreateVector(classes);
    const auto storage_vector = builder.CreateVector(storages);
    const auto source_vector = builder.CreateVector(sources);
    const auto method_vector = builder.CreateVector(methods);
    builder.Finish(form::CreateModule(builder, 10, 0, method_vector, root, value_vector,
                                      static_cast<int32_t>(storages.size()), storage_vector,
                                      class_vector, source_vector, 0, 10),
                   form::ModuleIdentifier());
    const auto* const begin = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
    return {begin, begin + builder.GetSize()};
  }
};

pickle::PickleLimits small_limits() {
  pickle::PickleLimits limits;
  limits.max_nbytes = uint64_t{1} << 20;
  return limits;
}

Result<ModuleReader> opened(const std::vector<std::byte>& file) {
  return ModuleReader::open(*archive::MemorySource::create(file), small_limits());
}

Result<ValueRef> root_of(const std::vector<std::byte>& file) {
  TENON_ASSIGN(ModuleReader reader, opened(file));
  const auto find_storage = [&reader](uint32_t index,
                                      tensor::ScalarType type) -> Result<value::StorageValueRef> {
    storage::StorageOptions options;
    options.is_private = true;
    const uint64_t nbytes = reader.storages()[index].nbytes;
    TENON_ASSIGN(auto bytes, storage::Storage::create(options, nbytes));
    return value::StorageValue::whole(type, std::move(bytes));
  };
  TENON_TRY(reader.read_values(find_storage, [](const std::string&) { return Status::ok(); }));
  return reader.root();
}

void refused(const Status& status, const std::string& words, Code code = Code::kCorrupt) {
  EXPECT_EQ(status.code(), code) << status.message();
  EXPECT_NE(status.message().find(words), std::string::npos)
      << words << " in: " << status.message();
}

// Checks that a file is refused whose root is the value that `make` adds.
void root_refused(const std::function<uint32_t(Maker& maker)>& make, const std::string& words,
                  Code code = Code::kCorrupt) {
  Maker maker;
  maker.root = make(maker);
  refused(root_of(maker.file()).status(), words, code);
}

TEST(ModuleReader, ReadsWhatIsGood) {
  Maker maker;
  maker.add_storage(16);
  maker.root = maker.add_tuple({maker.add_int(7), maker.add_tensor(0, {2}, 2)});
  ValueRef root = must(root_of(maker.file()));
  EXPECT_EQ(root->items()[0]->as_int(), 7);
  EXPECT_EQ(root->items()[1]->as_tensor()->offset(), 2);
}

TEST(ModuleReader, ValuesNameWhatStandsBeforeThem) {
  root_refused([](Maker& maker) { return maker.add_tuple({2}); }, "value 1 names the value 2");
  root_refused([](Maker& maker) { return maker.add_tuple({1}); }, "value 1 names the value 1");
  root_refused([](Maker& maker) { return maker.add_int(3) + 1; }, "the root names the value 2");
  root_refused([](Maker& maker) { return maker.add_tuple({maker.add_function({})}); },
               "names the function 1 as a value");
  root_refused(
      [](Maker& maker) {
        return maker.add(static_cast<IValueUnion>(40), maker.builder.CreateString("?").Union());
      },
      "is of the kind 40");
  root_refused([](Maker& maker) { return maker.add(IValueUnion::Tuple, 0); },
               "has a kind and no content");
}

TEST(ModuleReader, NumbersOfListsAreAligned) {
  // The first item of `words` is the length of a vector of two numbers of 8 bytes. `words` is on a
  // multiple of 8, so the numbers behind its first item are not.
  const auto add_words = [](Maker& maker) {
    const std::vector<uint32_t> words{2, 0, 0, 0, 0};
    maker.builder.ForceVectorAlignment(words.size(), sizeof(uint32_t), sizeof(int64_t));
    return maker.builder.CreateVector(words).o - sizeof(uint32_t);
  };
  const auto ints = [&](Maker& maker) {
    const Offset<::flatbuffers::Vector<int64_t>> items(static_cast<uint32_t>(add_words(maker)));
    return maker.add(IValueUnion::IntList, form::CreateIntList(maker.builder, items).Union());
  };
  const auto doubles = [&](Maker& maker) {
    const Offset<::flatbuffers::Vector<double>> items(static_cast<uint32_t>(add_words(maker)));
    return maker.add(IValueUnion::DoubleList, form::CreateDoubleList(maker.builder, items).Union());
  };
  root_refused(ints, "value 1 has numbers that are not aligned");
  root_refused(doubles, "value 1 has numbers that are not aligned");

  // The builder aligns the items of an empty list to 4 bytes only, so one of these is on no
  // multiple of 8.
  Maker of_empty;
  std::vector<uint32_t> lists;
  for (size_t padding = 0; padding < 2; ++padding) {
    of_empty.builder.CreateVector(std::vector<uint32_t>(padding));
    const auto items = of_empty.builder.CreateVector(std::vector<int64_t>());
    lists.push_back(
        of_empty.add(IValueUnion::IntList, form::CreateIntList(of_empty.builder, items).Union()));
  }
  of_empty.root = of_empty.add_tuple(lists);
  ValueRef root = must(root_of(of_empty.file()));
  EXPECT_TRUE(root->items()[1]->items().empty());
}

TEST(ModuleReader, TensorsLieInTheirStorages) {
  const auto tensor = [](uint32_t storage, int32_t size, int32_t offset) {
    return [=](Maker& maker) {
      maker.add_storage(16);
      return maker.add_tensor(storage, {size}, offset);
    };
  };
  root_refused(tensor(1, 2, 0), "of the storage 1, which is not there");
  root_refused(tensor(0, 5, 0), "value 1: ");
  root_refused(tensor(0, 2, 3), "value 1: ");
  root_refused(tensor(0, -1, 0), "value 1: ");
  root_refused(tensor(0, 1, -1), "value 1: ");
}

TEST(ModuleReader, QuantisedTensorsHaveTheScalesOfTheirScheme) {
  const auto quantised = [](int8_t scheme, bool has_scales, bool scales_are_quantised) {
    return [=](Maker& maker) {
      maker.add_storage(16);
      Offset<form::TensorMetadata> scales;
      if (has_scales) {
        Offset<form::QuantizedSchema> of_scales;
        if (scales_are_quantised) of_scales = form::CreateQuantizedSchema(maker.builder, 0, 0.5, 1);
        scales = form::CreateTensorMetadata(maker.builder, 0, kFloat, 0, 0, 0, false, of_scales);
      }
      return maker.add_quantised(
          form::CreateQuantizedSchema(maker.builder, scheme, 0.5, 1, scales, scales));
    };
  };
  Maker good;
  good.root = quantised(0, false, false)(good);
  ValueRef root = must(root_of(good.file()));
  EXPECT_EQ(root->as_tensor()->quantizer()->zero_point, 1);
  root_refused(quantised(2, false, false), "of the quantisation scheme 2, which is not known");
  root_refused(quantised(1, false, false), "is a quantised tensor without scales");
  root_refused(quantised(1, true, true), "whose scales are quantised themselves");
}

TEST(ModuleReader, StoragesLieApart) {
  Maker maker;
  const auto data = maker.builder.CreateVector(std::vector<uint8_t>(64));
  for (int i = 0; i < 2; ++i)
    maker.storages.push_back(form::CreateStorageData(maker.builder, data));
  refused(opened(maker.file()).status(), "two storages lie over each other");
}

TEST(ModuleReader, ObjectsHaveTheAttributesOfTheirClass) {
  const auto object = [](form::ClassKind kind, const std::vector<uint32_t>& attributes) {
    return [=](Maker& maker) {
      const auto name = maker.builder.CreateString("__torch__.M");
      const auto names = maker.builder.CreateVectorOfStrings(std::vector<std::string>{"a", "b"});
      maker.classes.push_back(form::CreateObjectType(maker.builder, name, kind, names));
      return maker.add(
          IValueUnion::Object,
          form::CreateObject(maker.builder, 0, 0, maker.builder.CreateVector(attributes)).Union());
    };
  };
  root_refused(object(form::ClassKind::CLASS_WITH_FIELD, {0}), "has 1 attributes, and its class 2");
  root_refused(object(form::ClassKind::UNSET, {0, 0}), "does not say how");
  root_refused(
      [](Maker& maker) {
        return maker.add(IValueUnion::Object, form::CreateObject(maker.builder, 3).Union());
      },
      "of the class 3, which is not there");
}

TEST(ModuleReader, ValuesWithinValuesAreBounded) {
  Maker maker;
  uint32_t last = 0;
  for (int i = 0; i < 600; ++i) last = maker.add_tuple({last});
  maker.root = last;
  const Status status = root_of(maker.file()).status();
  refused(status, "more than the limit max_depth", Code::kResourceExhausted);
  EXPECT_EQ(status.detail("limit"), "max_depth");
  EXPECT_EQ(status.detail("limit_value"), "512");
}

// Without the bound this file of 300 kB would take 800 MB.
TEST(ModuleReader, MemoryIsBoundedByTheFile) {
  Maker maker;
  const auto items = maker.builder.CreateVector(std::vector<uint32_t>(50000));
  for (int i = 0; i < 2000; ++i)
    maker.add(IValueUnion::Tuple, form::CreateTuple(maker.builder, items).Union());
  refused(root_of(maker.file()).status(), "64 times as much memory");
}

// Every dict puts its keys into order, so long keys that many dicts share would take minutes.
TEST(ModuleReader, KeysOfDictsAreBounded) {
  const auto make = [](int n_dicts) {
    Maker maker;
    std::vector<uint32_t> keys;
    for (int i = 0; i < 50; ++i) {
      const auto text = maker.builder.CreateString(std::string(2000, 'k') + std::to_string(i));
      keys.push_back(
          maker.add(IValueUnion::String, form::CreateString(maker.builder, text).Union()));
    }
    const auto key_vector = maker.builder.CreateVector(keys);
    const auto type = maker.builder.CreateString("Dict[str, str]");
    std::vector<uint32_t> dicts;
    for (int i = 0; i < n_dicts; ++i) {
      dicts.push_back(
          maker.add(IValueUnion::Dict,
                    form::CreateDict(maker.builder, key_vector, key_vector, type).Union()));
    }
    maker.root = maker.add_tuple(dicts);
    return maker.file();
  };
  EXPECT_TRUE(root_of(make(20)).is_ok()) << root_of(make(20)).status().message();
  refused(root_of(make(400)).status(), "64 times as much memory");
}

TEST(ModuleReader, TextsAreNotShared) {
  Maker maker;
  const auto texts = maker.builder.CreateVectorOfStrings(std::vector<std::string>(20000, "int"));
  for (int i = 0; i < 2000; ++i) maker.add_function({}, texts);
  refused(opened(maker.file()).status(), "tables share their texts");

  Maker of_classes;
  const auto class_name = of_classes.builder.CreateString("__torch__.M");
  const auto names = of_classes.builder.CreateVectorOfStrings(std::vector<std::string>(20000, "a"));
  for (int i = 0; i < 2000; ++i) {
    of_classes.classes.push_back(form::CreateObjectType(of_classes.builder, class_name,
                                                        form::ClassKind::CLASS_WITH_FIELD, names));
  }
  refused(opened(of_classes.file()).status(), "tables share their texts");
}

TEST(ModuleReader, FunctionsHaveKnownOpcodes) {
  const auto program = [](const std::vector<form::Instruction>& instructions, uint32_t method) {
    Maker maker;
    maker.add_function(instructions);
    maker.methods = {method};
    const std::vector<std::byte> file = maker.file();
    ModuleReader reader = must(opened(file));
    EXPECT_TRUE(reader.read_values(nullptr, nullptr).is_ok());
    return reader.program();
  };
  bytecode::Program good = must(program({form::Instruction(12, 0, 0)}, 1));
  EXPECT_EQ(good.functions[0].instructions[0].opcode, bytecode::Opcode::kRet);
  refused(program({form::Instruction(99, 0, 0)}, 1).status(), "has the opcode 99");
  refused(program({form::Instruction(-1, 0, 0)}, 1).status(), "has the opcode 255");
  refused(program({}, 0).status(), "is the value 0, which is no function");
  refused(program({}, 9).status(), "is the value 9, which is no function");
}

TEST(ModuleReader, MethodsAreFunctionsWithASchema) {
  const auto program =
      [](const std::function<void(Maker & maker)>& make) -> Result<bytecode::Program> {
    Maker maker;
    make(maker);
    const std::vector<std::byte> file = maker.file();
    TENON_ASSIGN(ModuleReader reader, opened(file));
    TENON_TRY(reader.read_values(nullptr, nullptr));
    return reader.program();
  };
  const auto function = [&](const char* name, int32_t registers, bool has_schema,
                            int32_t arguments) {
    return program([=](Maker& maker) {
      const auto name_text = maker.builder.CreateString(name);
      const std::vector<Offset<form::Operator>> called{form::CreateOperator(
          maker.builder, maker.builder.CreateString("aten::relu"), 0, arguments)};
      const auto operators = maker.builder.CreateVector(called);
      const auto schema = has_schema ? form::CreateSchema(maker.builder) : Offset<form::Schema>();
      maker.methods = {maker.add(
          IValueUnion::Function,
          form::CreateFunction(maker.builder, name_text, 0, operators, 0, 0, registers, schema)
              .Union())};
    });
  };
  EXPECT_TRUE(function("f", 1, true, 1).is_ok());
  refused(function("", 1, true, 1).status(), "method 0 has an empty name");
  refused(function("f", -1, true, 1).status(), "function f has fewer than 0 registers");
  refused(function("f", 1, false, 1).status(), "function f has no schema");
  refused(function("f", 1, true, -2).status(), "gives -2 arguments to the operator 0");
  const auto twice = [](Maker& maker) { maker.methods.assign(2, maker.add_function({})); };
  refused(program(twice).status(), "method 1 stands in the list twice");
}

// The parts that matter lie behind each other, so a file that was cut short has lost some of them.
TEST(ModuleReader, ACutFileIsRefused) {
  Maker maker;
  maker.add_storage(16);
  maker.root = maker.add_tuple({maker.add_int(7), maker.add_tensor(0, {2})});
  const std::vector<std::byte> whole = maker.file();
  for (size_t nbytes = 0; nbytes < whole.size(); ++nbytes) {
    const std::vector<std::byte> cut(whole.begin(),
                                     whole.begin() + static_cast<std::ptrdiff_t>(nbytes));
    EXPECT_EQ(root_of(cut).status().code(), Code::kCorrupt) << nbytes;
  }
}

TEST(ModuleReader, WhatIsBesideTheStoragesIsBounded) {
  Maker of_storages;
  of_storages.add_storage(size_t{2} << 20);
  EXPECT_TRUE(opened(of_storages.file()).is_ok());
  Maker of_text;
  of_text.add(IValueUnion::String,
              form::CreateString(of_text.builder,
                                 of_text.builder.CreateString(std::string(size_t{2} << 20, 'x')))
                  .Union());
  refused(opened(of_text.file()).status(), "the limit max_nbytes is 1048576",
          Code::kResourceExhausted);
}

// Counts how often the source is read.
class CountingSource : public archive::ZipSource {
 public:
  explicit CountingSource(const std::vector<std::byte>& bytes)
      : ZipSource("counting", bytes.data(), bytes.size()) {}
  Status read(uint64_t offset, void* to, uint64_t nbytes) const override {
    ++reads_;
    if (nbytes > 0) std::memcpy(to, base() + offset, nbytes);
    return Status::ok();
  }
  uint64_t reads() const { return reads_; }

 private:
  mutable uint64_t reads_ = 0;
};

// The reader looks up the storages before it can check the limit. Without a bound, a file with a
// long list of storages would take four times its size of memory, and minutes, before it is
// refused.
TEST(ModuleReader, ALongListOfStoragesIsRefusedSoon) {
  Maker maker;
  const auto data = maker.builder.CreateVector(std::vector<uint8_t>(64));
  maker.storages.assign(1 << 20, form::CreateStorageData(maker.builder, data));
  const std::vector<std::byte> file = maker.file();
  pickle::PickleLimits limits;
  limits.max_nbytes = 4096;
  const auto source = Ref<CountingSource>::adopt(new CountingSource(file));
  refused(ModuleReader::open(*source, limits).status(), "the limit max_nbytes is 4096",
          Code::kResourceExhausted);
  EXPECT_LT(source->reads(), 16 * limits.max_nbytes);
}

TEST(ModuleReader, StoragesAreBounded) {
  Maker maker;
  const auto none = maker.builder.CreateVector(std::vector<uint8_t>());
  maker.storages.assign((1 << 20) + 1, form::CreateStorageData(maker.builder, none));
  pickle::PickleLimits limits;
  const Status status =
      ModuleReader::open(*archive::MemorySource::create(maker.file()), limits).status();
  refused(status, "has 1048577 storages, and the limit is 1048576", Code::kResourceExhausted);
  EXPECT_EQ(status.detail("limit"), "storages");
}

}  // namespace
}  // namespace tenon::flatbuffer

#endif
