// These tests check storages and tensors as values, and that hostile numbers are refused.
#include "modules/value/tensor_value.h"

#include <gtest/gtest.h>

#include <limits>

#include "unit/value/value_kit.h"

namespace tenon::value {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

template <typename T>
void expect_invalid(const Result<T>& result, const char* part) {
  ASSERT_FALSE(result.is_ok()) << part;
  EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
  EXPECT_NE(result.status().message().find(part), std::string::npos) << result.status().message();
}

bool fits(ScalarType type, uint64_t numel, Dims sizes, Dims strides, int64_t offset) {
  return TensorValue::create(
             spec_of(storage_of(type, numel), std::move(sizes), std::move(strides), offset))
      .is_ok();
}

TEST(StorageValue, LiesInItsBytes) {
  const Ref<storage::Storage> bytes = bytes_of(64);
  EXPECT_TRUE(StorageValue::create(ScalarType::kFloat, 16, bytes).is_ok());
  EXPECT_TRUE(StorageValue::create(ScalarType::kFloat, 15, bytes, 4).is_ok());
  expect_invalid(StorageValue::create(ScalarType::kFloat, 17, bytes), "leave the 64 bytes");
  expect_invalid(StorageValue::create(ScalarType::kFloat, 16, bytes, 4), "leave the 64 bytes");
  expect_invalid(
      StorageValue::create(ScalarType::kFloat, 1, bytes, std::numeric_limits<uint64_t>::max()),
      "leave the 64 bytes");
  expect_invalid(StorageValue::create(ScalarType::kFloat, uint64_t{1} << 62, bytes), "2^63");
  expect_invalid(
      StorageValue::create(ScalarType::kFloat, std::numeric_limits<uint64_t>::max(), bytes),
      "2^63");
  expect_invalid(StorageValue::create(ScalarType::kFloat, 1, nullptr), "no bytes");
  EXPECT_EQ(must(StorageValue::whole(ScalarType::kDouble, bytes_of(20)))->numel(), 2u);
}

TEST(StorageValue, EmptyAndMeta) {
  const StorageValueRef empty = must(StorageValue::create(ScalarType::kFloat, 0, nullptr));
  EXPECT_EQ(empty->data(), nullptr);
  EXPECT_TRUE(empty->bytes());
  const StorageValueRef meta =
      must(StorageValue::create(ScalarType::kFloat, 1000, nullptr, 0, "meta"));
  EXPECT_TRUE(meta->is_meta());
  EXPECT_EQ(meta->nbytes(), 4000u);
  EXPECT_EQ(meta->data(), nullptr);
  expect_invalid(StorageValue::create(ScalarType::kFloat, 1, bytes_of(4), 0, "meta"),
                 "has no bytes");
  expect_invalid(StorageValue::create(ScalarType::kFloat, uint64_t{1} << 61, nullptr, 0, "meta"),
                 "2^63");
}

TEST(StorageValue, OtherDevicesAreRefusedByName) {
  for (const char* device : {"cuda:0", "cuda", "mps", "", "cpu:0"}) {
    const Result<StorageValueRef> storage =
        StorageValue::create(ScalarType::kFloat, 1, bytes_of(4), 0, device);
    ASSERT_FALSE(storage.is_ok()) << device;
    EXPECT_EQ(storage.status().code(), Code::kUnsupported);
    EXPECT_NE(storage.status().message().find("'" + std::string(device) + "'"), std::string::npos)
        << storage.status().message();
  }
}

TEST(StorageValue, KeysTellStoragesApart) {
  const Ref<storage::Storage> bytes = bytes_of(64);
  const StorageValueRef a = must(StorageValue::whole(ScalarType::kFloat, bytes));
  const StorageValueRef b = must(StorageValue::whole(ScalarType::kFloat, bytes));
  EXPECT_EQ(a->key(), b->key());
  EXPECT_NE(a->key(), must(StorageValue::whole(ScalarType::kInt, bytes))->key());
  EXPECT_NE(a->key(), must(StorageValue::create(ScalarType::kFloat, 15, bytes))->key());
  EXPECT_NE(a->key(), must(StorageValue::whole(ScalarType::kFloat, bytes_of(64)))->key());
  const StorageValueRef meta =
      must(StorageValue::create(ScalarType::kFloat, 4, nullptr, 0, "meta"));
  EXPECT_EQ(meta->key(), meta->key());
  EXPECT_NE(meta->key(),
            must(StorageValue::create(ScalarType::kFloat, 4, nullptr, 0, "meta"))->key());
}

TEST(TensorValue, LiesInItsStorage) {
  EXPECT_TRUE(fits(ScalarType::kFloat, 6, {2, 3}, {3, 1}, 0));
  EXPECT_FALSE(fits(ScalarType::kFloat, 5, {2, 3}, {3, 1}, 0));
  EXPECT_TRUE(fits(ScalarType::kFloat, 6, {3, 2}, {1, 3}, 0));
  EXPECT_TRUE(fits(ScalarType::kFloat, 7, {2, 3}, {3, 1}, 1));
  EXPECT_FALSE(fits(ScalarType::kFloat, 7, {2, 3}, {3, 1}, 2));
  EXPECT_TRUE(fits(ScalarType::kFloat, 1, {1000, 1000}, {0, 0}, 0));
  EXPECT_TRUE(fits(ScalarType::kFloat, 1, {}, {}, 0));
  EXPECT_FALSE(fits(ScalarType::kFloat, 0, {}, {}, 0));
  EXPECT_TRUE(fits(ScalarType::kFloat, 1, {1}, {kMax}, 0));
}

TEST(TensorValue, WithoutElementsItMayLieAnywhere) {
  EXPECT_TRUE(fits(ScalarType::kFloat, 0, {0}, {1}, 0));
  EXPECT_TRUE(fits(ScalarType::kFloat, 0, {3, 0}, {1, 1}, 5));
  EXPECT_TRUE(fits(ScalarType::kFloat, 0, {kMax, 0, kMax}, {kMax, 1, kMax}, kMax));
}

TEST(TensorValue, HostileNumbersAreRefused) {
  EXPECT_FALSE(fits(ScalarType::kFloat, 6, {-1}, {1}, 0));
  EXPECT_FALSE(fits(ScalarType::kFloat, 6, {kMin}, {1}, 0));
  EXPECT_FALSE(fits(ScalarType::kFloat, 6, {0, -1}, {1, 1}, 0));
  EXPECT_FALSE(fits(ScalarType::kFloat, 6, {2}, {-1}, 1));
  EXPECT_FALSE(fits(ScalarType::kFloat, 6, {2}, {kMin}, 1));
  EXPECT_FALSE(fits(ScalarType::kFloat, 6, {2}, {1}, -1));
  EXPECT_FALSE(fits(ScalarType::kFloat, 6, {2}, {1}, kMin));
  EXPECT_FALSE(fits(ScalarType::kFloat, 6, {2}, {1}, kMax));
  EXPECT_FALSE(fits(ScalarType::kFloat, 6, {2}, {kMax}, kMax));
  EXPECT_FALSE(fits(ScalarType::kFloat, 6, {2, 2, 2}, {kMax, kMax, kMax}, 0));
  EXPECT_FALSE(fits(ScalarType::kFloat, 6, {kMax}, {1}, 0));
  EXPECT_FALSE(fits(ScalarType::kFloat, 6, {kMax}, {kMax}, 0));
  EXPECT_FALSE(fits(ScalarType::kFloat, 6, {int64_t{1} << 62, 4}, {0, 0}, 0));
  EXPECT_FALSE(fits(ScalarType::kFloat, 6, {int64_t{1} << 32, int64_t{1} << 32}, {0, 0}, 0));
  EXPECT_FALSE(fits(ScalarType::kFloat, 6, {2, 3}, {1}, 0));
  EXPECT_FALSE(fits(ScalarType::kFloat, 6, {}, {1}, 0));
  EXPECT_TRUE(fits(ScalarType::kFloat, 6, Dims(64, 1), Dims(64, 1), 0));
  EXPECT_FALSE(fits(ScalarType::kFloat, 6, Dims(65, 1), Dims(65, 1), 0));
  expect_invalid(TensorValue::create(spec_of(nullptr, {1}, {1})), "without a storage");
  expect_invalid(TensorValue::create(spec_of(storage_of(ScalarType::kFloat, 3), {2, 2}, {2, 1}, 1)),
                 "sizes [2, 2], strides [2, 1] and offset 1 leave a storage of 3 elements");
}

TEST(TensorValue, MetaNeedsNoStorageButSizesThatCount) {
  const StorageValueRef meta =
      must(StorageValue::create(ScalarType::kFloat, 0, nullptr, 0, "meta"));
  EXPECT_TRUE(TensorValue::create(spec_of(meta, {1000, 1000}, {1000, 1})).is_ok());
  expect_invalid(TensorValue::create(spec_of(meta, {kMax, 2}, {1, 1})), "overflow");
  expect_invalid(TensorValue::create(spec_of(meta, {-1}, {1})), "negative sizes");
}

TEST(TensorValue, FlagsFitTheElementType) {
  const auto with = [](ScalarType type, bool grad, bool conj, bool neg) {
    StridedSpec spec = spec_of(storage_of(type, 1), {1}, {1});
    spec.requires_grad = grad;
    spec.is_conj = conj;
    spec.is_neg = neg;
    return TensorValue::create(spec).is_ok();
  };
  EXPECT_TRUE(with(ScalarType::kFloat, true, false, true));
  EXPECT_TRUE(with(ScalarType::kComplexFloat, true, true, true));
  EXPECT_FALSE(with(ScalarType::kLong, true, false, false));
  EXPECT_FALSE(with(ScalarType::kBool, true, false, false));
  EXPECT_FALSE(with(ScalarType::kFloat, false, true, false));
  EXPECT_FALSE(with(ScalarType::kBool, false, false, true));
}

Quantizer per_channel(TensorValueRef scales, TensorValueRef zero_points, int64_t axis) {
  Quantizer quantizer;
  quantizer.scheme = QScheme::kPerChannelAffine;
  quantizer.scales = std::move(scales);
  quantizer.zero_points = std::move(zero_points);
  quantizer.axis = axis;
  return quantizer;
}

Result<TensorValueRef> quantized(ScalarType type, std::optional<Quantizer> quantizer) {
  StridedSpec spec = spec_of(storage_of(type, 6), {2, 3}, {3, 1});
  spec.quantizer = std::move(quantizer);
  return TensorValue::create(spec);
}

TEST(TensorValue, QuantizersFit) {
  EXPECT_TRUE(quantized(ScalarType::kQInt8, Quantizer()).is_ok());
  expect_invalid(quantized(ScalarType::kQInt8, std::nullopt), "type QInt8 without a quantizer");
  expect_invalid(quantized(ScalarType::kChar, Quantizer()), "a quantizer on elements of type Char");
  const TensorValueRef scales = tensor_of(ScalarType::kDouble, 3);
  const TensorValueRef zeros = tensor_of(ScalarType::kLong, 3);
  const Result<TensorValueRef> good = quantized(ScalarType::kQInt32, per_channel(scales, zeros, 1));
  ASSERT_TRUE(good.is_ok()) << good.status().message();
  expect_invalid(quantized(ScalarType::kQInt8, per_channel(scales, zeros, 0)),
                 "there are 2 channels");
  expect_invalid(quantized(ScalarType::kQInt8, per_channel(scales, zeros, 2)), "axis 2");
  expect_invalid(quantized(ScalarType::kQInt8, per_channel(scales, zeros, -1)), "axis -1");
  expect_invalid(quantized(ScalarType::kQInt8, per_channel(nullptr, zeros, 1)), "without scales");
  expect_invalid(quantized(ScalarType::kQInt8, per_channel(scales, nullptr, 1)),
                 "without zero points");
  expect_invalid(quantized(ScalarType::kQInt8, per_channel(zeros, zeros, 1)),
                 "scales are of type Long");
  expect_invalid(
      quantized(ScalarType::kQInt8, per_channel(scales, tensor_of(ScalarType::kLong, 4), 1)),
      "zero points have sizes [4]");
}

// Several elements share a byte, and each row begins at a byte.
TEST(TensorValue, PackedQuantizedTypesTakeFewerBytes) {
  const auto fits_in = [](ScalarType type, uint64_t numel, Dims sizes, Dims strides,
                          int64_t offset = 0) {
    StridedSpec spec =
        spec_of(storage_of(type, numel), std::move(sizes), std::move(strides), offset);
    spec.quantizer = Quantizer();
    return TensorValue::create(spec).is_ok();
  };
  EXPECT_TRUE(fits_in(ScalarType::kQUInt4x2, 2, {4}, {1}));
  EXPECT_FALSE(fits_in(ScalarType::kQUInt4x2, 1, {4}, {1}));
  EXPECT_TRUE(fits_in(ScalarType::kQUInt4x2, 6, {3, 3}, {3, 1}));
  EXPECT_FALSE(fits_in(ScalarType::kQUInt4x2, 5, {3, 3}, {3, 1}));
  EXPECT_TRUE(fits_in(ScalarType::kQUInt2x4, 1, {4}, {1}));
  EXPECT_FALSE(fits_in(ScalarType::kQUInt2x4, 1, {5}, {1}));
  EXPECT_TRUE(fits_in(ScalarType::kQUInt2x4, 1, {}, {}));
  EXPECT_FALSE(fits_in(ScalarType::kQUInt2x4, 0, {}, {}));
  EXPECT_FALSE(fits_in(ScalarType::kQUInt4x2, 2, {4}, {1}, 1));
}

TEST(TensorValue, ComesFromAndGoesToATensor) {
  const Ref<storage::Storage> bytes = bytes_of(64);
  const int64_t sizes[] = {2, 3};
  const int64_t strides[] = {1, 2};
  const auto tensor =
      must(tensor::Tensor::create(bytes, {{5, 64, 1}, sizes, strides, 1}, tensor::kTensorFlags));
  const TensorValueRef value = must(TensorValue::from_tensor(*tensor));
  EXPECT_EQ(value->type(), ScalarType::kComplexFloat);
  EXPECT_EQ(value->storage()->numel(), 8u);
  EXPECT_EQ(value->storage()->bytes().get(), bytes.get());
  EXPECT_EQ(value->offset(), 1);
  EXPECT_EQ(value->numel(), 6u);
  EXPECT_TRUE(value->requires_grad() && value->is_conj() && value->is_neg());
  const auto back = must(value->to_tensor());
  EXPECT_EQ(back->storage().get(), bytes.get());
  EXPECT_EQ(back->dtype(), tensor->dtype());
  EXPECT_TRUE(std::equal(back->strides().begin(), back->strides().end(), strides));
  EXPECT_EQ(back->offset(), 1u);
  EXPECT_EQ(back->flags(), tensor::kFlagRequiresGrad | tensor::kFlagConj | tensor::kFlagNeg);

  const TensorValueRef other = must(TensorValue::from_tensor(*tensor, value->storage()));
  EXPECT_EQ(other->storage().get(), value->storage().get());
  expect_invalid(TensorValue::from_tensor(*tensor, storage_of(ScalarType::kComplexFloat, 8)),
                 "not the tensor's");
  expect_invalid(
      TensorValue::from_tensor(*tensor, must(StorageValue::whole(ScalarType::kDouble, bytes))),
      "over a storage of type Double");
}

TEST(TensorValue, RefusesTensorsThatPyTorchHasNot) {
  const int64_t four[] = {4};
  const int64_t one[] = {1};
  const int64_t back[] = {-1};
  const auto fp6 = must(tensor::Tensor::create(bytes_of(64), {{15, 6, 1}, four, one, 0}, 0));
  const Result<TensorValueRef> refused = TensorValue::from_tensor(*fp6);
  ASSERT_FALSE(refused.is_ok());
  EXPECT_EQ(refused.status().code(), Code::kUnsupported);
  EXPECT_NE(refused.status().message().find("float6_e2m3fn"), std::string::npos);
  const auto reversed = must(tensor::Tensor::create(bytes_of(64), {{2, 32, 1}, four, back, 3}, 0));
  expect_invalid(TensorValue::from_tensor(*reversed), "negative strides [-1]");
  const auto pairs = must(tensor::Tensor::create(bytes_of(64), {{17, 4, 2}, four, one, 0}, 0));
  EXPECT_EQ(must(TensorValue::from_tensor(*pairs))->type(), ScalarType::kFloat4E2m1fnX2);
}

TEST(TensorValue, APartOfItsBytesGoesToATensorToo) {
  const Ref<storage::Storage> bytes = bytes_of(64);
  const StorageValueRef part = must(StorageValue::create(ScalarType::kInt, 4, bytes, 32));
  const auto tensor = must(must(TensorValue::create(spec_of(part, {3}, {1}, 1)))->to_tensor());
  EXPECT_EQ(tensor->offset(), 9u);
  EXPECT_EQ(tensor->data(), bytes->data() + 36);
  const auto empty = must(must(TensorValue::create(spec_of(part, {0}, {1}, 1000)))->to_tensor());
  EXPECT_EQ(empty->offset(), 8u);
  const StorageValueRef odd = must(StorageValue::create(ScalarType::kInt, 4, bytes, 33));
  EXPECT_EQ(must(TensorValue::create(spec_of(odd, {3}, {1})))->to_tensor().status().code(),
            Code::kUnsupported);
}

TEST(TensorValue, WhatDLPackCannotSayIsNoTensor) {
  const auto refused = [](const TensorValueRef& value) {
    return value->to_tensor().status().code() == Code::kUnsupported;
  };
  EXPECT_TRUE(refused(must(quantized(ScalarType::kQInt8, Quantizer()))));
  EXPECT_TRUE(refused(tensor_of(ScalarType::kBits8, 4)));
  EXPECT_TRUE(refused(tensor_of(ScalarType::kUInt4, 4)));
  EXPECT_TRUE(refused(must(TensorValue::create(
      spec_of(must(StorageValue::create(ScalarType::kFloat, 4, nullptr, 0, "meta")), {4}, {1})))));
}

}  // namespace
}  // namespace tenon::value
