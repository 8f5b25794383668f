// These tests check values that are sparse tensors.
#include <gtest/gtest.h>

#include <limits>
#include <optional>

#include "modules/value/tensor_value.h"
#include "unit/value/value_kit.h"

namespace tenon::value {
namespace {

TensorValueRef dense(ScalarType type, Dims sizes) {
  Dims strides(sizes.size());
  int64_t next = 1;
  for (size_t i = sizes.size(); i > 0; --i) {
    strides[i - 1] = next;
    next *= sizes[i - 1];
  }
  return must(TensorValue::create(spec_of(storage_of(type, static_cast<uint64_t>(next)),
                                          std::move(sizes), std::move(strides))));
}

SparseSpec sparse(TensorLayout layout, Dims sizes, std::optional<Dims> indices,
                  std::optional<Dims> plain, Dims values) {
  SparseSpec spec;
  spec.layout = layout;
  spec.sizes = std::move(sizes);
  if (indices) spec.indices = dense(ScalarType::kLong, *std::move(indices));
  if (plain) spec.plain_indices = dense(ScalarType::kLong, *std::move(plain));
  spec.values = dense(ScalarType::kFloat, std::move(values));
  return spec;
}

bool sparse_fits(TensorLayout layout, Dims sizes, Dims indices, std::optional<Dims> plain,
                 Dims values) {
  const Result<TensorValueRef> made = TensorValue::create_sparse(
      sparse(layout, std::move(sizes), std::move(indices), std::move(plain), std::move(values)));
  if (!made.is_ok())
    EXPECT_EQ(made.status().code(), Code::kInvalidArgument) << made.status().message();
  return made.is_ok();
}

TEST(Sparse, Coo) {
  const auto coo = [](Dims sizes, Dims indices, Dims values) {
    return sparse_fits(TensorLayout::kSparseCoo, sizes, indices, std::nullopt, values);
  };
  EXPECT_TRUE(coo({3, 4}, {2, 5}, {5}));
  EXPECT_TRUE(coo({3, 4}, {1, 5}, {5, 4}));
  EXPECT_TRUE(coo({3, 4}, {2, 0}, {0}));
  EXPECT_TRUE(coo({}, {0, 1}, {1}));
  EXPECT_FALSE(coo({3, 4}, {2, 5}, {6}));
  EXPECT_FALSE(coo({3, 4}, {3, 5}, {5}));
  EXPECT_FALSE(coo({3, 4}, {1, 5}, {5, 3}));
  EXPECT_FALSE(coo({3, 4}, {1, 5}, {5}));
  EXPECT_FALSE(coo({3, 4}, {10}, {5}));
  EXPECT_FALSE(coo({3, 4}, {2, 5}, {}));
  EXPECT_FALSE(coo({3, -4}, {2, 5}, {5}));
  EXPECT_FALSE(coo({std::numeric_limits<int64_t>::max(), 2}, {2, 5}, {5}));
  EXPECT_FALSE(sparse_fits(TensorLayout::kSparseCoo, {3, 4}, {2, 5}, Dims{5}, {5}));
}

TEST(Sparse, CompressedRowsAndColumns) {
  const auto of = [](TensorLayout layout, Dims sizes, Dims compressed, Dims plain, Dims values) {
    return sparse_fits(layout, sizes, compressed, plain, values);
  };
  EXPECT_TRUE(of(TensorLayout::kSparseCsr, {3, 4}, {4}, {5}, {5}));
  EXPECT_FALSE(of(TensorLayout::kSparseCsr, {3, 4}, {5}, {5}, {5}));
  EXPECT_TRUE(of(TensorLayout::kSparseCsc, {3, 4}, {5}, {5}, {5}));
  EXPECT_FALSE(of(TensorLayout::kSparseCsc, {3, 4}, {4}, {5}, {5}));
  EXPECT_TRUE(of(TensorLayout::kSparseCsr, {2, 3, 4}, {2, 4}, {2, 5}, {2, 5}));
  EXPECT_FALSE(of(TensorLayout::kSparseCsr, {2, 3, 4}, {1, 4}, {2, 5}, {2, 5}));
  EXPECT_TRUE(of(TensorLayout::kSparseCsr, {3, 4, 7}, {4}, {5}, {5, 7}));
  EXPECT_FALSE(of(TensorLayout::kSparseCsr, {3, 4, 7}, {4}, {5}, {5, 8}));
  EXPECT_FALSE(of(TensorLayout::kSparseCsr, {3, 4}, {4}, {5}, {6}));
  EXPECT_FALSE(of(TensorLayout::kSparseCsr, {3, 4}, {4}, {1, 5}, {5}));
  EXPECT_FALSE(of(TensorLayout::kSparseCsr, {3}, {4}, {5}, {5}));
  EXPECT_FALSE(of(TensorLayout::kSparseCsr, {0, 4}, {0}, {0}, {0}));
  EXPECT_TRUE(of(TensorLayout::kSparseCsr, {0, 4}, {1}, {0}, {0}));
}

TEST(Sparse, Blocks) {
  EXPECT_TRUE(sparse_fits(TensorLayout::kSparseBsr, {4, 6}, {3}, Dims{5}, {5, 2, 3}));
  EXPECT_FALSE(sparse_fits(TensorLayout::kSparseBsr, {4, 6}, {5}, Dims{5}, {5, 2, 3}));
  EXPECT_FALSE(sparse_fits(TensorLayout::kSparseBsr, {4, 6}, {3}, Dims{5}, {5, 2, 4}));
  EXPECT_FALSE(sparse_fits(TensorLayout::kSparseBsr, {4, 6}, {3}, Dims{5}, {5, 0, 3}));
  EXPECT_FALSE(sparse_fits(TensorLayout::kSparseBsr, {4, 6}, {3}, Dims{5}, {5}));
  EXPECT_TRUE(sparse_fits(TensorLayout::kSparseBsc, {4, 6}, {3}, Dims{5}, {5, 2, 3}));
  EXPECT_TRUE(sparse_fits(TensorLayout::kSparseBsc, {4, 6}, {7}, Dims{5}, {5, 2, 1}));
}

TEST(Sparse, PartsMustBeThere) {
  EXPECT_FALSE(TensorValue::create_sparse({}).is_ok());
  SparseSpec spec = sparse(TensorLayout::kSparseCsr, {3, 4}, Dims{4}, std::nullopt, {5});
  EXPECT_FALSE(TensorValue::create_sparse(spec).is_ok());
  spec = sparse(TensorLayout::kSparseCoo, {3, 4}, std::nullopt, std::nullopt, {5});
  EXPECT_FALSE(TensorValue::create_sparse(spec).is_ok());
  spec = sparse(TensorLayout::kStrided, {3, 4}, Dims{2, 5}, std::nullopt, {5});
  EXPECT_FALSE(TensorValue::create_sparse(spec).is_ok());
  spec = sparse(TensorLayout::kSparseCoo, {3, 4}, Dims{2, 5}, std::nullopt, {5});
  spec.indices = dense(ScalarType::kFloat, {2, 5});
  EXPECT_FALSE(TensorValue::create_sparse(spec).is_ok());
  spec = sparse(TensorLayout::kSparseCoo, {3, 4}, Dims{2, 5}, std::nullopt, {5});
  spec.indices = must(TensorValue::create(spec_of(
      must(StorageValue::create(ScalarType::kLong, 10, nullptr, 0, "meta")), {2, 5}, {5, 1})));
  EXPECT_FALSE(TensorValue::create_sparse(spec).is_ok());
  spec = sparse(TensorLayout::kSparseCsr, {3, 4}, Dims{4}, Dims{5}, {5});
  spec.is_coalesced = true;
  EXPECT_FALSE(TensorValue::create_sparse(spec).is_ok());
}

TEST(Sparse, SaysWhatItIs) {
  SparseSpec spec = sparse(TensorLayout::kSparseCoo, {3, 4}, Dims{2, 5}, std::nullopt, {5});
  spec.is_coalesced = true;
  spec.requires_grad = true;
  const TensorValueRef tensor = must(TensorValue::create_sparse(spec));
  EXPECT_EQ(tensor->type(), ScalarType::kFloat);
  EXPECT_EQ(tensor->device(), "cpu");
  EXPECT_EQ(tensor->numel(), 12u);
  EXPECT_TRUE(tensor->requires_grad());
  EXPECT_EQ(tensor->is_coalesced(), std::optional<bool>(true));
  EXPECT_FALSE(tensor->is_contiguous());
  EXPECT_EQ(tensor->to_tensor().status().code(), Code::kUnsupported);
}

TEST(Sparse, NamesAndNumbers) {
  for (const int64_t number : {0, 1, 2, 4, 5, 6}) {
    const std::optional<TensorLayout> layout = tensor_layout_from_number(number);
    ASSERT_TRUE(layout) << number;
    EXPECT_EQ(tensor_layout_from_name(tensor_layout_name(*layout)), layout);
  }
  for (const int64_t number : {int64_t{-1}, int64_t{3}, int64_t{7}, int64_t{256}, INT64_MAX})
    EXPECT_FALSE(tensor_layout_from_number(number));
  EXPECT_STREQ(tensor_layout_name(TensorLayout::kSparseBsc), "sparse_bsc");
  for (const char* name :
       {"per_tensor_affine", "per_channel_affine", "per_channel_affine_float_qparams"}) {
    ASSERT_TRUE(qscheme_from_name(name)) << name;
    EXPECT_STREQ(qscheme_name(*qscheme_from_name(name)), name);
  }
  EXPECT_FALSE(qscheme_from_name("per_tensor_symmetric"));
}

}  // namespace
}  // namespace tenon::value
