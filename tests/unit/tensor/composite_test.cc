// These tests check what connects the parts of a composite, and which numbers its indices may
// contain.
#include "tensor/composite.h"

#include <gtest/gtest.h>
#include <tenon/dtype.h>

#include <cstring>
#include <initializer_list>
#include <string>

#include "support/must.h"
#include "tensor/message.h"

namespace tenon::tensor {
namespace {

using memory::Mode;

constexpr DType kF32{TENON_DTYPE_FLOAT, 32, 1};
constexpr DType kF64{TENON_DTYPE_FLOAT, 64, 1};
constexpr DType kI64{TENON_DTYPE_INT, 64, 1};
constexpr DType kI32{TENON_DTYPE_INT, 32, 1};
constexpr DType kU8{TENON_DTYPE_UINT, 8, 1};

using Sizes = std::vector<int64_t>;

Ref<Tensor> tensor_of(DType dtype, const Sizes& sizes, Mode mode = Mode::kShared) {
  const uint64_t nbytes = packed_nbytes(dtype, sizes).value();
  Ref<Storage> storage = Storage::create({.mode = mode, .zeroed = true}, nbytes).value();
  return Tensor::create(std::move(storage), {dtype, sizes, contiguous_strides(sizes).value(), 0}, 0)
      .value();
}

template <typename Int>
Ref<Tensor> numbers(std::initializer_list<Int> values, Sizes sizes = {},
                    Mode mode = Mode::kShared) {
  if (sizes.empty()) sizes = {static_cast<int64_t>(values.size())};
  Ref<Storage> storage =
      Storage::create_from({.mode = mode}, values.begin(), values.size() * sizeof(Int)).value();
  const DType dtype = sizeof(Int) == 8 ? kI64 : kI32;
  return Tensor::create(std::move(storage), {dtype, sizes, contiguous_strides(sizes).value(), 0}, 0)
      .value();
}

void expect_invalid(CompositeSpec spec, const std::string& part) {
  const Status status = Composite::create(std::move(spec)).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(status.detail("part"), part) << status.message();
}

void expect_wrong_number(CompositeSpec spec, const std::string& part, const std::string& index) {
  const Result<Ref<Composite>> composite = Composite::create(std::move(spec));
  ASSERT_TRUE(composite.is_ok()) << composite.status().message();
  Result<Ref<Composite>> own = composite;
  const Status status = check_contents(own.value().get()).status();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_EQ(status.detail("part"), part) << status.message();
  EXPECT_EQ(status.detail("index"), index) << status.message();
}

void expect_right(CompositeSpec spec) {
  Ref<Composite> composite = must(Composite::create(std::move(spec)));
  const Result<Ref<Composite>> checked = check_contents(composite.get());
  EXPECT_TRUE(checked.is_ok()) << checked.status().message();
}

CompositeSpec coo(Ref<Tensor> indices, Sizes sizes = {3, 4}) {
  CompositeSpec spec;
  spec.layout = TensorLayout::kSparseCoo;
  spec.sizes = std::move(sizes);
  spec.parts = {tensor_of(kF32, {indices->sizes()[1]}), std::move(indices)};
  return spec;
}

CompositeSpec compressed(TensorLayout layout, Ref<Tensor> pointers, Ref<Tensor> plain, Sizes values,
                         Sizes sizes) {
  CompositeSpec spec;
  spec.layout = layout;
  spec.sizes = std::move(sizes);
  spec.parts = {tensor_of(kF32, values), std::move(pointers), std::move(plain)};
  return spec;
}

CompositeSpec csr(Ref<Tensor> pointers, Ref<Tensor> plain) {
  return compressed(TensorLayout::kSparseCsr, std::move(pointers), std::move(plain), {3}, {3, 4});
}

CompositeSpec jagged(Ref<Tensor> offsets, Ref<Tensor> lengths = nullptr) {
  CompositeSpec spec;
  spec.layout = TensorLayout::kJagged;
  spec.dim = 1;
  spec.parts = {tensor_of(kF32, {9, 2}), std::move(offsets)};
  if (lengths) spec.parts.push_back(std::move(lengths));
  return spec;
}

CompositeSpec nested(Ref<Tensor> sizes, Ref<Tensor> strides, Ref<Tensor> offsets) {
  CompositeSpec spec;
  spec.layout = TensorLayout::kNested;
  spec.parts = {tensor_of(kF32, {10}), std::move(sizes), std::move(strides), std::move(offsets)};
  return spec;
}

CompositeSpec per_channel(DType values, DType scales, DType zero_points, int64_t channels,
                          int32_t axis) {
  CompositeSpec spec;
  spec.layout = TensorLayout::kQuantized;
  spec.quantizer = QScheme::kPerChannelAffine;
  spec.dim = axis;
  spec.parts = {tensor_of(values, {2, 3}), tensor_of(scales, {channels}),
                tensor_of(zero_points, {channels})};
  return spec;
}

TEST(Composite, PartsThatDoNotFitAreNamed) {
  expect_invalid(coo(tensor_of(kF32, {2, 5})), "indices");
  expect_invalid(coo(tensor_of(kI64, {3, 5})), "indices");
  CompositeSpec spec = csr(numbers<int64_t>({0, 1, 2, 3}), numbers<int32_t>({0, 1, 2}));
  expect_invalid(spec, "plain_indices");
  spec = csr(numbers<int64_t>({0, 1, 2}), numbers<int64_t>({0, 1, 2}));
  expect_invalid(spec, "indices");
  spec.parts.pop_back();
  expect_invalid(spec, "");
  expect_invalid(jagged(tensor_of(kI64, {4, 1})), "offsets");
  expect_invalid(jagged(tensor_of(kI64, {0})), "offsets");
  expect_invalid(jagged(tensor_of(kF32, {4})), "offsets");
  expect_invalid(jagged(tensor_of(kI64, {4}), tensor_of(kI64, {4})), "lengths");
  expect_invalid(jagged(tensor_of(kI64, {4}), tensor_of(kI32, {3})), "lengths");
  expect_invalid(nested(tensor_of(kI64, {2, 2}), tensor_of(kI64, {2, 3}), tensor_of(kI64, {2})),
                 "component_strides");
  expect_invalid(nested(tensor_of(kI64, {3, 2}), tensor_of(kI64, {3, 2}), tensor_of(kI64, {2})),
                 "component_sizes");
  expect_invalid(nested(tensor_of(kI32, {2, 2}), tensor_of(kI64, {2, 2}), tensor_of(kI64, {2})),
                 "component_sizes");
  expect_invalid(per_channel(kF32, kF64, kI64, 3, 1), "values");
  expect_invalid(per_channel(kU8, kF64, kI64, 2, 1), "scales");
  expect_invalid(per_channel(kU8, kF32, kI64, 3, 1), "scales");
  expect_invalid(per_channel(kU8, kF64, kI32, 3, 1), "zero_points");
  expect_invalid(per_channel(kU8, kF64, kI64, 3, 2), "");
  expect_invalid({}, "");
}

TEST(Composite, MorePartsThanALayoutCanHaveAreRefused) {
  CompositeSpec spec =
      nested(tensor_of(kI64, {2, 2}), tensor_of(kI64, {2, 2}), tensor_of(kI64, {2}));
  ASSERT_TRUE(Composite::create(spec).is_ok());
  spec.parts.push_back(tensor_of(kI64, {2}));
  const Status status = Composite::create(spec).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("5 parts"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("pass the parts of the layout only"), std::string::npos)
      << status.message();
}

TEST(Composite, SizesFollowFromThePartsWhereTheyCan) {
  const auto sizes = [](CompositeSpec spec) {
    return Composite::create(std::move(spec)).value()->spec().sizes;
  };
  EXPECT_EQ(sizes(jagged(tensor_of(kI64, {4}))), (Sizes{3, -1, 2}));
  EXPECT_EQ(sizes(nested(tensor_of(kI64, {2, 2}), tensor_of(kI64, {2, 2}), tensor_of(kI64, {2}))),
            (Sizes{2, -1, -1}));
  EXPECT_EQ(sizes(per_channel(kU8, kF64, kI64, 3, 1)), (Sizes{2, 3}));
  EXPECT_EQ(sizes(csr(tensor_of(kI64, {4}), tensor_of(kI64, {3}))), (Sizes{3, 4}));
}

TEST(Composite, IndicesStayInside) {
  expect_right(coo(numbers<int64_t>({0, 2, 3, 0}, {2, 2})));
  expect_right(coo(numbers<int32_t>({0, 2, 3, 0}, {2, 2})));
  expect_right(coo(tensor_of(kI64, {2, 0})));
  expect_right(coo(tensor_of(kI64, {0, 1}), {}));
  expect_wrong_number(coo(numbers<int64_t>({0, 3, 3, 0}, {2, 2})), "indices", "1");
  expect_wrong_number(coo(numbers<int64_t>({0, 2, 4, 0}, {2, 2})), "indices", "0");
  expect_wrong_number(coo(numbers<int64_t>({0, 2, -1, 0}, {2, 2})), "indices", "0");
  expect_wrong_number(coo(numbers<int32_t>({0, INT32_MIN, 0, 0}, {2, 2})), "indices", "1");
  CompositeSpec sorted = coo(numbers<int64_t>({0, 0, 3, 3}, {2, 2}));
  expect_right(sorted);
  sorted.coalesced = Coalesced::kYes;
  expect_wrong_number(sorted, "indices", "1");
  sorted = coo(numbers<int64_t>({0, 0, 2, 3}, {2, 2}));
  sorted.coalesced = Coalesced::kYes;
  expect_right(sorted);
}

TEST(Composite, PointersLeadToTheirLines) {
  expect_right(csr(numbers<int64_t>({0, 2, 2, 3}), numbers<int64_t>({0, 3, 1})));
  expect_right(csr(numbers<int32_t>({0, 2, 2, 3}), numbers<int32_t>({0, 3, 1})));
  expect_wrong_number(csr(numbers<int64_t>({1, 2, 2, 3}), numbers<int64_t>({0, 3, 1})), "indices",
                      "0");
  expect_wrong_number(csr(numbers<int64_t>({0, 2, 1, 3}), numbers<int64_t>({0, 3, 1})), "indices",
                      "2");
  expect_wrong_number(csr(numbers<int64_t>({0, 4, 4, 4}), numbers<int64_t>({0, 3, 1})), "indices",
                      "1");
  expect_wrong_number(csr(numbers<int64_t>({0, 2, 2, 2}), numbers<int64_t>({0, 3, 1})), "indices",
                      "3");
  expect_wrong_number(csr(numbers<int64_t>({0, INT64_MIN, 2, 3}), numbers<int64_t>({0, 3, 1})),
                      "indices", "1");
  expect_wrong_number(csr(numbers<int64_t>({0, 2, 2, 3}), numbers<int64_t>({0, 4, 1})),
                      "plain_indices", "1");
  expect_wrong_number(csr(numbers<int64_t>({0, 2, 2, 3}), numbers<int64_t>({3, 0, 1})),
                      "plain_indices", "1");
  expect_wrong_number(csr(numbers<int64_t>({0, 2, 2, 3}), numbers<int64_t>({3, 3, 1})),
                      "plain_indices", "1");
  // The matrix has blocks of 2 x 3, so it has two columns of blocks.
  const auto bsr = [](int64_t column) {
    return compressed(TensorLayout::kSparseBsr, numbers<int64_t>({0, 1, 2}),
                      numbers<int64_t>({1, column}), {2, 2, 3}, {4, 6});
  };
  expect_right(bsr(1));
  expect_wrong_number(bsr(2), "plain_indices", "1");
  // The given index lies in the second matrix of the batch.
  const auto batch = [](int64_t column) {
    return compressed(TensorLayout::kSparseCsc, numbers<int64_t>({0, 1, 1, 0, 0, 1}, {2, 3}),
                      numbers<int64_t>({2, column}, {2, 1}), {2, 1}, {2, 3, 2});
  };
  expect_right(batch(2));
  expect_wrong_number(batch(3), "plain_indices", "0");
}

TEST(Composite, ComponentsLieInTheValues) {
  expect_right(jagged(numbers<int64_t>({0, 4, 4, 9})));
  expect_wrong_number(jagged(numbers<int64_t>({0, 4, 3, 9})), "offsets", "2");
  expect_wrong_number(jagged(numbers<int64_t>({0, 4, 5, 10})), "offsets", "3");
  expect_wrong_number(jagged(numbers<int64_t>({-1, 4, 5, 9})), "offsets", "0");
  expect_right(jagged(numbers<int32_t>({0, 4, 5, 9}), numbers<int32_t>({3, 0, 4})));
  expect_wrong_number(jagged(numbers<int32_t>({0, 4, 5, 9}), numbers<int32_t>({3, 0, 5})),
                      "lengths", "2");
  expect_wrong_number(jagged(numbers<int32_t>({0, 4, 5, 9}), numbers<int32_t>({-1, 0, 4})),
                      "lengths", "0");
  const auto two = [](int64_t rows, int64_t stride, int64_t offset) {
    return nested(numbers<int64_t>({2, 2, rows, 3}, {2, 2}),
                  numbers<int64_t>({2, 1, stride, 1}, {2, 2}), numbers<int64_t>({0, offset}));
  };
  expect_right(two(2, 3, 4));
  expect_wrong_number(two(3, 3, 4), "component_sizes", "1");
  expect_wrong_number(two(2, 3, 5), "component_sizes", "1");
  expect_wrong_number(two(-1, 3, 4), "component_sizes", "1");
  expect_wrong_number(two(2, INT64_MAX, 4), "component_sizes", "1");
  expect_wrong_number(two(2, 3, -1), "offsets", "1");
}

TEST(Composite, WhatOthersCanWriteIsCopiedBeforeItIsChecked) {
  const auto checked = [](Mode mode) {
    Ref<Composite> composite = Composite::create(csr(numbers<int64_t>({0, 2, 2, 3}, {}, mode),
                                                     numbers<int64_t>({0, 3, 1}, {}, mode)))
                                   .value();
    Ref<Composite> result = check_contents(composite.get()).value();
    EXPECT_EQ(result->part(Part::kValues), composite->part(Part::kValues));
    return std::pair(composite, result);
  };
  const auto [frozen, same] = checked(Mode::kFrozen);
  EXPECT_EQ(frozen.get(), same.get());
  const auto [shared, copied] = checked(Mode::kShared);
  EXPECT_NE(shared.get(), copied.get());
  Tensor* const column = shared->part(Part::kPlainIndices);
  const int64_t far = 1 << 30;
  ASSERT_TRUE(column->storage()->write(0, &far, sizeof far).is_ok());
  EXPECT_TRUE(copied->part(Part::kPlainIndices)->storage()->is_private());
  EXPECT_TRUE(check_contents(copied.get()).is_ok());
  EXPECT_EQ(check_contents(copied.get()).value().get(), copied.get()) << "nobody else can write it";
  EXPECT_FALSE(check_contents(shared.get()).is_ok());
}

TEST(Composite, IndicesOfAnyStridesAreRead) {
  // The indices are the transpose of [[0, 3], [2, 0]], and every second number of a longer list.
  Ref<Tensor> pairs = numbers<int64_t>({0, 3, 2, 0}, {2, 2});
  const Sizes sizes{2, 2};
  const Sizes strides{1, 2};
  Ref<Tensor> turned = Tensor::create(pairs->storage(), {kI64, sizes, strides, 0}, 0).value();
  expect_right(coo(turned));
  expect_wrong_number(coo(turned, {3, 3}), "indices", "0");
  Ref<Tensor> list = numbers<int32_t>({0, 99, 2, 99, 2, 99, 3, 99});
  const Sizes four{4};
  const Sizes second{2};
  expect_right(csr(Tensor::create(list->storage(), {kI32, four, second, 0}, 0).value(),
                   numbers<int32_t>({0, 3, 1})));
}

TEST(Composite, InAMessage) {
  Message message;
  Ref<Composite> named = Composite::create(coo(tensor_of(kI64, {2, 5}))).value();
  Ref<Composite> other = Composite::create(csr(tensor_of(kI64, {4}), tensor_of(kI64, {3}))).value();
  Ref<Tensor> dense = tensor_of(kF32, {2});
  Tensor* const tensors[] = {dense.get()};
  ASSERT_TRUE(message.add(tensors, nullptr, memory::Access::kAuto).is_ok());
  Composite* const both[] = {named.get(), other.get()};
  const char* const names[] = {"features", nullptr};
  ASSERT_TRUE(message.add(both, names, memory::Access::kAuto).is_ok());
  EXPECT_EQ(message.items().size(), 6U);
  ASSERT_EQ(message.composites().size(), 2U);
  EXPECT_EQ(message.composites()[0].first_part, 1U);
  EXPECT_EQ(message.composites()[1].first_part, 3U);
  EXPECT_EQ(message.find_composite("features"), message.composites().data());
  EXPECT_EQ(message.find("features"), nullptr);
  EXPECT_EQ(message.items()[1].tensor.get(), named->part(Part::kValues));

  // If one composite cannot be added, none is added.
  CompositeSpec spec = coo(tensor_of(kI64, {2, 5}));
  Ref<Storage> storage = Storage::create({.is_private = true}, 20).value();
  const Sizes five{5};
  const Sizes one{1};
  spec.parts[0] = Tensor::create(storage, {kF32, five, one, 0}, 0).value();
  Ref<Composite> unshared = Composite::create(std::move(spec)).value();
  Composite* const two[] = {named.get(), unshared.get()};
  const Status status = message.add(two, nullptr, memory::Access::kAuto);
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(status.message().find("composite 1: its values"), std::string::npos)
      << status.message();
  EXPECT_EQ(message.items().size(), 6U);
  EXPECT_EQ(message.composites().size(), 2U);
}

}  // namespace
}  // namespace tenon::tensor
