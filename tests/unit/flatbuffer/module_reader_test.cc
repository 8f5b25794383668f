// Flatbuffers that no PyTorch writes, made by the builder: each is refused for what it is.
#ifdef TENON_HAS_FLATBUFFERS

#include "flatbuffer/module_reader.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#ifdef TENON_FLATBUFFERS_GENERATED
#include <module_generated.h>
#else
#include "flatbuffer/module_generated.h"
#endif
#include "storage/storage.h"

namespace tenon::flatbuffer {
namespace {

using form::IValueUnion;
using value::Value;
using value::ValueKind;
using value::ValueRef;
template <typename T>
using Offset = ::flatbuffers::Offset<T>;

// Collects the parts of a file. Value 0 is None.
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
  uint32_t add_int(int64_t number) { return add(IValueUnion::Int, builder.CreateStruct(form::Int(number)).Union()); }
  uint32_t add_tuple(const std::vector<uint32_t>& items) {
    return add(IValueUnion::Tuple, form::CreateTuple(builder, builder.CreateVector(items)).Union());
  }
  uint32_t add_tensor(uint32_t storage, const std::vector<int32_t>& sizes, int32_t offset = 0) {
    const std::vector<int32_t> strides(sizes.size(), 1);
    const auto sizes_vector = builder.CreateVector(sizes);
    const auto strides_vector = builder.CreateVector(strides);
    constexpr int8_t kFloat = 6;
    return add(IValueUnion::TensorMetadata,
               form::CreateTensorMetadata(builder, storage, kFloat, offset, sizes_vector, strides_vector).Union());
  }
  void add_storage(size_t nbytes) {
    builder.ForceVectorAlignment(nbytes, 1, 32);
    storages.push_back(form::CreateStorageData(builder, builder.CreateVector(std::vector<uint8_t>(nbytes))));
  }
  uint32_t add_function(const std::vector<form::Instruction>& instructions,
                        Offset<::flatbuffers::Vector<Offset<::flatbuffers::String>>> types = 0) {
    const auto name = builder.CreateString("__torch__.M.forward");
    const auto code = builder.CreateVectorOfStructs(instructions);
    const auto schema = form::CreateSchema(builder);
    return add(IValueUnion::Function, form::CreateFunction(builder, name, code, 0, 0, types, 1, schema).Union());
  }

  std::vector<std::byte> file() {
    const auto value_vector = builder.CreateVector(values);
    const auto class_vector = builder.CreateVector(classes);
    const auto storage_vector = builder.CreateVector(storages);
    const auto source_vector = builder.CreateVector(sources);
    const auto method_vector = builder.CreateVector(methods);
    builder.Finish(form::CreateModule(builder, 10, 0, method_vector, root, value_vector, static_cast<int32_t>(storages.size()),
                                      storage_vector, class_vector, source_vector, 0, 10),
                   form::ModuleIdentifier());
    const auto* const begin = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
    return {begin, begin + builder.GetSize()};
  }
};

archive::PickleLimits small_limits() {
  archive::PickleLimits limits;
  limits.max_nbytes = uint64_t{1} << 20;
  return limits;
}

Result<ModuleReader> opened(const std::vector<std::byte>& file) {
  return ModuleReader::open(*archive::MemorySource::create(file), small_limits());
}

Result<ValueRef> root_of(const std::vector<std::byte>& file) {
  TENON_ASSIGN(ModuleReader reader, opened(file));
  const auto find_storage = [&reader](uint32_t index, value::ScalarType type) -> Result<value::StorageValueRef> {
    storage::StorageOptions options;
    options.is_private = true;
    const uint64_t nbytes = reader.storages()[index].nbytes;
    TENON_ASSIGN(auto bytes, storage::Storage::create(options, nbytes));
    return value::StorageValue::whole(type, std::move(bytes));
  };
  TENON_TRY(reader.read_values(find_storage, [](const std::string&) { return Status::ok(); }));
  return reader.root();
}

void refused(const Status& status, Code code, const std::string& words) {
  EXPECT_EQ(status.code(), code) << status.message();
  EXPECT_NE(status.message().find(words), std::string::npos) << words << " in: " << status.message();
}

// A file with one part that `make` adds, whose value is the root.
void root_refused(const std::function<uint32_t(Maker& maker)>& make, Code code, const std::string& words) {
  Maker maker;
  maker.root = make(maker);
  refused(root_of(maker.file()).status(), code, words);
}

TEST(ModuleReader, ReadsWhatIsGood) {
  Maker maker;
  maker.add_storage(16);
  maker.root = maker.add_tuple({maker.add_int(7), maker.add_tensor(0, {2}, 2)});
  Result<ValueRef> root = root_of(maker.file());
  ASSERT_TRUE(root.is_ok()) << root.status().message();
  EXPECT_EQ(root.value()->items()[0]->as_int(), 7);
  EXPECT_EQ(root.value()->items()[1]->as_tensor()->offset(), 2);
}

TEST(ModuleReader, ValuesNameWhatStandsBeforeThem) {
  root_refused([](Maker& maker) { return maker.add_tuple({2}); }, Code::kCorrupt, "value 1 names the value 2");
  root_refused([](Maker& maker) { return maker.add_tuple({1}); }, Code::kCorrupt, "value 1 names the value 1");
  root_refused([](Maker& maker) { return maker.add_int(3) + 1; }, Code::kCorrupt, "the root names the value 2");
  root_refused([](Maker& maker) { return maker.add_tuple({maker.add_function({})}); }, Code::kCorrupt, "names the function 1 as a value");
  root_refused([](Maker& maker) { return maker.add(static_cast<IValueUnion>(40), maker.builder.CreateString("?").Union()); },
               Code::kCorrupt, "is of the kind 40");
  root_refused([](Maker& maker) { return maker.add(IValueUnion::Tuple, 0); }, Code::kCorrupt, "has a kind and no content");
}

TEST(ModuleReader, TensorsLieInTheirStorages) {
  const auto tensor = [](uint32_t storage, int32_t size, int32_t offset) {
    return [=](Maker& maker) {
      maker.add_storage(16);
      return maker.add_tensor(storage, {size}, offset);
    };
  };
  root_refused(tensor(1, 2, 0), Code::kCorrupt, "of the storage 1, which is not there");
  root_refused(tensor(0, 5, 0), Code::kCorrupt, "value 1: ");
  root_refused(tensor(0, 2, 3), Code::kCorrupt, "value 1: ");
  root_refused(tensor(0, -1, 0), Code::kCorrupt, "value 1: ");
  root_refused(tensor(0, 1, -1), Code::kCorrupt, "value 1: ");
}

TEST(ModuleReader, StoragesLieApart) {
  Maker maker;
  const auto data = maker.builder.CreateVector(std::vector<uint8_t>(64));
  for (int i = 0; i < 2; ++i) maker.storages.push_back(form::CreateStorageData(maker.builder, data));
  refused(opened(maker.file()).status(), Code::kCorrupt, "two storages lie over each other");
}

TEST(ModuleReader, ObjectsHaveTheAttributesOfTheirClass) {
  const auto object = [](form::ClassKind kind, const std::vector<uint32_t>& attributes) {
    return [=](Maker& maker) {
      const auto name = maker.builder.CreateString("__torch__.M");
      const auto names = maker.builder.CreateVectorOfStrings(std::vector<std::string>{"a", "b"});
      maker.classes.push_back(form::CreateObjectType(maker.builder, name, kind, names));
      return maker.add(IValueUnion::Object, form::CreateObject(maker.builder, 0, 0, maker.builder.CreateVector(attributes)).Union());
    };
  };
  root_refused(object(form::ClassKind::CLASS_WITH_FIELD, {0}), Code::kCorrupt, "has 1 attributes, and its class 2");
  root_refused(object(form::ClassKind::UNSET, {0, 0}), Code::kCorrupt, "does not say how");
  root_refused([](Maker& maker) { return maker.add(IValueUnion::Object, form::CreateObject(maker.builder, 3).Union()); }, Code::kCorrupt,
               "of the class 3, which is not there");
}

TEST(ModuleReader, ValuesWithinValuesAreBounded) {
  Maker maker;
  uint32_t last = 0;
  for (int i = 0; i < 600; ++i) last = maker.add_tuple({last});
  maker.root = last;
  refused(root_of(maker.file()).status(), Code::kResourceExhausted, "more than the limit max_depth");
}

// Without the bound this file of 300 kB would take 800 MB.
TEST(ModuleReader, MemoryIsBoundedByTheFile) {
  Maker maker;
  const auto items = maker.builder.CreateVector(std::vector<uint32_t>(50000));
  for (int i = 0; i < 2000; ++i) maker.add(IValueUnion::Tuple, form::CreateTuple(maker.builder, items).Union());
  refused(root_of(maker.file()).status(), Code::kCorrupt, "64 times as much memory");
}

TEST(ModuleReader, TextsAreNotShared) {
  Maker maker;
  const auto texts = maker.builder.CreateVectorOfStrings(std::vector<std::string>(20000, "int"));
  for (int i = 0; i < 2000; ++i) maker.add_function({}, texts);
  refused(opened(maker.file()).status(), Code::kCorrupt, "tables share their texts");
}

TEST(ModuleReader, FunctionsHaveKnownOpcodes) {
  const auto program = [](const std::vector<form::Instruction>& instructions, uint32_t method) {
    Maker maker;
    maker.add_function(instructions);
    maker.methods = {method};
    const std::vector<std::byte> file = maker.file();
    Result<ModuleReader> reader = opened(file);
    EXPECT_TRUE(reader.is_ok());
    EXPECT_TRUE(reader.value().read_values(nullptr, nullptr).is_ok());
    return reader.value().program();
  };
  Result<bytecode::Program> good = program({form::Instruction(12, 0, 0)}, 1);
  ASSERT_TRUE(good.is_ok()) << good.status().message();
  EXPECT_EQ(good.value().functions[0].instructions[0].opcode, bytecode::Opcode::kRet);
  refused(program({form::Instruction(99, 0, 0)}, 1).status(), Code::kCorrupt, "has the opcode 99");
  refused(program({form::Instruction(-1, 0, 0)}, 1).status(), Code::kCorrupt, "has the opcode 255");
  refused(program({}, 0).status(), Code::kCorrupt, "is the value 0, which is no function");
  refused(program({}, 9).status(), Code::kCorrupt, "is the value 9, which is no function");
}

// The parts that matter are behind each other, so nothing of a file that was cut is left good.
TEST(ModuleReader, ACutFileIsRefused) {
  Maker maker;
  maker.add_storage(16);
  maker.root = maker.add_tuple({maker.add_int(7), maker.add_tensor(0, {2})});
  const std::vector<std::byte> whole = maker.file();
  for (size_t nbytes = 0; nbytes < whole.size(); ++nbytes) {
    const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(nbytes));
    EXPECT_EQ(root_of(cut).status().code(), Code::kCorrupt) << nbytes;
  }
}

TEST(ModuleReader, WhatIsBesideTheStoragesIsBounded) {
  Maker of_storages;
  of_storages.add_storage(size_t{2} << 20);
  EXPECT_TRUE(opened(of_storages.file()).is_ok());
  Maker of_text;
  of_text.add(IValueUnion::String,
              form::CreateString(of_text.builder, of_text.builder.CreateString(std::string(size_t{2} << 20, 'x'))).Union());
  refused(opened(of_text.file()).status(), Code::kResourceExhausted, "the limit max_nbytes is 1048576");
}

}  // namespace
}  // namespace tenon::flatbuffer

#endif
