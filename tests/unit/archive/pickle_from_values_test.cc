// These tests check the pickles that pickle_from_values.h writes, opcode by opcode.
#include "modules/archive/pickle_from_values.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "modules/value/compare.h"
#include "modules/value/walk.h"
#include "support/must.h"
#include "unit/archive/pickle_support.h"

namespace tenon::archive {
namespace {

using namespace test;
using tensor::ScalarType;
using value::Type;
using value::TypeRef;
using value::Value;
using value::ValueRef;

value::StorageValueRef floats(uint64_t numel) {
  storage::StorageOptions options;
  options.is_private = true;
  options.zeroed = true;
  Ref<storage::Storage> made = must(storage::Storage::create(options, numel * 4));
  return must(value::StorageValue::create(ScalarType::kFloat, numel, std::move(made)));
}

value::TensorValueRef vector_over(const value::StorageValueRef& storage, int64_t numel) {
  value::StridedSpec spec;
  spec.storage = storage;
  spec.sizes = {numel};
  spec.strides = {1};
  return must(value::TensorValue::create(spec));
}

TypeRef type(std::string_view text) { return must(Type::parse(text)); }

std::string written(const ValueRef& value, SequentialKeys* keys = nullptr) {
  SequentialKeys own;
  FromValuesOptions options;
  options.name_storage = (keys != nullptr ? keys : &own)->namer();
  Result<std::vector<std::byte>> result = values_to_pickle(value, options);
  EXPECT_TRUE(result.is_ok()) << result.status().message();
  return result.is_ok() ? text_of(result.value()) : "";
}

TEST(PickleFromValues, Numbers) {
  EXPECT_EQ(written(Value::none()), proto2("N"));
  EXPECT_EQ(written(Value::of_bool(true)), proto2("\x88"));
  EXPECT_EQ(written(Value::of_int(255)), proto2("K\xff"));
  EXPECT_EQ(written(Value::of_int(256)), proto2("M" + std::string("\0\1", 2)));
  EXPECT_EQ(written(Value::of_int(65535)), proto2("M\xff\xff"));
  EXPECT_EQ(written(Value::of_int(65536)), proto2("J" + u32(65536)));
  EXPECT_EQ(written(Value::of_int(-1)), proto2("J\xff\xff\xff\xff"));
  EXPECT_EQ(written(Value::of_int(int64_t{1} << 31)), proto2("\x8a\x08" + u64(uint64_t{1} << 31)));
  EXPECT_EQ(written(Value::of_int(std::numeric_limits<int64_t>::min())),
            proto2("\x8a\x08" + u64(uint64_t{1} << 63)));
  EXPECT_EQ(written(Value::of_float(1.5)), proto2("G\x3f\xf8" + std::string(6, '\0')));
}

TEST(PickleFromValues, TextsAndDevicesByTheirText) {
  const ValueRef root = Value::tuple(
      {Value::of_str("a"), Value::of_device("a"), Value::of_str("a"), Value::of_device("a")});
  EXPECT_EQ(written(root),
            proto2("(" + str("a") + memo_put(0) + "ctorch\ndevice\n" + memo_put(1) + memo_get(0) +
                   "\x85R" + memo_put(2) + memo_get(0) + memo_get(2) + "t"));
}

TEST(PickleFromValues, OthersByIdentity) {
  const ValueRef inner = Value::tuple({});
  EXPECT_EQ(written(Value::tuple({inner, Value::tuple({})})), proto2("))\x86"));
  EXPECT_EQ(written(Value::tuple({inner, inner})),
            proto2(")" + memo_put(0) + memo_get(0) + "\x86"));
  const ValueRef complex = Value::of_complex({1, 2});
  const ValueRef twice = Value::tuple({complex, complex, Value::of_complex({1, 2})});
  const std::string numbers =
      "G\x3f\xf0" + std::string(6, '\0') + "G\x40" + std::string(7, '\0') + "\x86R";
  EXPECT_EQ(written(twice), proto2("cbuiltins\ncomplex\n" + memo_put(0) + numbers + memo_put(1) +
                                   memo_get(1) + memo_get(0) + numbers + "\x87"));
}

TEST(PickleFromValues, WhatTheSourceHadInItsMemo) {
  const ValueRef inner = Value::tuple({});
  const ValueRef root = Value::tuple({inner, Value::of_int(1)});
  const std::vector<ValueRef> memoised = {inner, root};
  FromValuesOptions options;
  options.memoised = &memoised;
  std::vector<std::byte> result = must(values_to_pickle(root, options));
  EXPECT_EQ(text_of(result), proto2(")" + memo_put(0) + "K\x01\x86" + memo_put(1)));
}

TEST(PickleFromValues, ListsAndDicts) {
  const std::string module = "ctorch.jit._pickle\n";
  const ValueRef one = Value::of_int(1);
  EXPECT_EQ(written(Value::list(type("List[int]"), {one})),
            proto2(module + "build_intlist\n" + memo_put(0) + "(](K\x01" + "etR"));
  EXPECT_EQ(written(Value::list(type("List[float]"), {})),
            proto2(module + "build_doublelist\n" + memo_put(0) + "(](etR"));
  EXPECT_EQ(written(Value::list(type("List[Optional[int]]"), {one})),
            proto2(module + "restore_type_tag\n" + memo_put(0) + "](K\x01" + "e" +
                   str("List[Optional[int]]") + memo_put(1) + "\x86R"));
  EXPECT_EQ(written(Value::list(nullptr, {one})), proto2("](K\x01"
                                                         "e"));
  ValueRef dict = must(Value::dict(type("Dict[str, int]"), {{Value::of_str("a"), one}}));
  EXPECT_EQ(written(dict),
            proto2(module + "restore_type_tag\n" + memo_put(0) + "}(" + str("a") + memo_put(1) +
                   "K\x01u" + str("Dict[str, int]") + memo_put(2) + "\x86R"));
  FromValuesOptions options;
  const Status wrong =
      values_to_pickle(Value::list(type("List[int]"), {Value::of_float(1)}), options).status();
  EXPECT_EQ(wrong.code(), Code::kInvalidArgument);
  EXPECT_NE(wrong.message().find("a List[int] holds a float"), std::string::npos)
      << wrong.message();
}

// The smallest modules need 22 bytes.
TEST(PickleFromValues, TheSmallestModule) {
  EXPECT_EQ(written(Value::object("__torch__.M")),
            proto2("c__torch__\nM\n" + memo_put(0) + ")\x81}(ub"));
  const ValueRef packed =
      Value::object_with_state("__torch__.torch.classes.quantized.P", Value::none());
  EXPECT_EQ(written(packed),
            proto2("c__torch__.torch.classes.quantized\nP\n" + memo_put(0) + ")\x81Nb"));
  EXPECT_EQ(written(Value::enumeration("__torch__.E", Value::of_int(2))),
            proto2("c__torch__\nE\n" + memo_put(0) + "K\x02R"));
}

TEST(PickleFromValues, StoragesOnceAndInOrder) {
  const value::StorageValueRef first = floats(6);
  const value::StorageValueRef second = floats(2);
  const ValueRef root = Value::tuple({Value::of_tensor(vector_over(second, 2)),
                                      Value::of_tensor(vector_over(first, 6)),
                                      Value::of_tensor(vector_over(second, 1))});
  SequentialKeys keys;
  const std::string pickle = written(root, &keys);
  ASSERT_EQ(keys.storages().size(), 2U);
  EXPECT_EQ(keys.storages()[0].get(), second.get());
  EXPECT_EQ(keys.storages()[1].get(), first.get());
  ToValuesOptions options;
  options.find_storage = [&](const PickledStorage& wanted) -> Result<value::StorageValueRef> {
    return keys.storages().at(std::stoul(std::string(wanted.key)));
  };
  UnpickledValue again = must(unpickle(pickle, nullptr, options));
  EXPECT_EQ(value::difference(*root, *again.root), std::nullopt);
}

// A memo number above 255 needs the long opcodes.
TEST(PickleFromValues, LongMemo) {
  std::vector<ValueRef> items(600);
  for (size_t i = 0; i < items.size(); ++i)
    items[i] = Value::of_str("text " + std::to_string(i % 300));
  const ValueRef root = Value::tuple(items);
  const std::string pickle = written(root);
  EXPECT_NE(pickle.find("text 256r" + u32(256)), std::string::npos);
  EXPECT_NE(pickle.find("j" + u32(299) + "t."), std::string::npos);
  UnpickledValue again = must(unpickle(pickle));
  EXPECT_EQ(value::difference(*root, *again.root), std::nullopt);
}

TEST(PickleFromValues, WhatCannotBeWritten) {
  FromValuesOptions options;
  const auto refused = [&](const ValueRef& value, Code code, std::string_view part) {
    const Status status = values_to_pickle(value, options).status();
    EXPECT_EQ(status.code(), code) << status.message();
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  };
  refused(Value::object("M"), Code::kInvalidArgument, "no qualified name");
  refused(Value::object("a.b\nc"), Code::kInvalidArgument, "no qualified name");
  refused(Value::of_tensor(vector_over(floats(1), 1)), Code::kUnsupported,
          "a tensor where none can be");

  ValueRef deep = Value::none();
  for (size_t i = 0; i < 2 * value::kMaxWalkDepth; ++i) deep = Value::tuple({deep});
  refused(deep, Code::kInvalidArgument, "nested deeper");

  ValueRef cyclic = Value::object("__torch__.M");
  ASSERT_TRUE(cyclic->attributes().add("me", cyclic).is_ok());
  refused(cyclic, Code::kInvalidArgument, "contains itself");
  ASSERT_TRUE(cyclic->attributes().remove("me"));

  SequentialKeys keys;
  options.name_storage = keys.namer();
  value::SparseSpec spec;
  spec.layout = value::TensorLayout::kSparseCsc;
  spec.sizes = {1, 1};
  const auto longs = [](int64_t numel) {
    value::StridedSpec strided;
    strided.sizes = {numel};
    strided.strides = {1};
    value::StorageValueRef meta = must(value::StorageValue::create(
        ScalarType::kLong, static_cast<uint64_t>(numel), nullptr, 0, "meta"));
    strided.storage = std::move(meta);
    return must(value::TensorValue::create(strided));
  };
  spec.indices = longs(2);
  spec.plain_indices = longs(1);
  spec.values = longs(1);
  value::TensorValueRef csc = must(value::TensorValue::create_sparse(spec));
  refused(Value::of_tensor(std::move(csc)), Code::kUnsupported, "sparse_csc");
}

// Each of 60 tuples holds the tuple before it twice. The pickle must not repeat them.
TEST(PickleFromValues, ABombStaysSmall) {
  ValueRef value = Value::tuple({});
  for (int i = 0; i < 60; ++i) value = Value::tuple({value, value});
  EXPECT_LT(written(value).size(), 500U);
}

}  // namespace
}  // namespace tenon::archive
