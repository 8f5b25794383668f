// These tests check whether the elements of a tensor lie inside its storage, whatever its sizes,
// strides and offset are.
#include "tensor/layout.h"

#include <gtest/gtest.h>
#include <tenon/tensor.h>

#include <limits>
#include <random>
#include <string>

namespace tenon::tensor {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr uint64_t kMaxU = std::numeric_limits<uint64_t>::max();
constexpr DType kByte{TENON_DTYPE_UINT, 8, 1};
constexpr DType kFloat{TENON_DTYPE_FLOAT, 32, 1};
constexpr DType kFp4{TENON_DTYPE_FLOAT4_E2M1FN, 4, 1};
constexpr DType kFp6{TENON_DTYPE_FLOAT6_E2M3FN, 6, 1};

using Dims = std::vector<int64_t>;

bool fits(DType dtype, const Dims& sizes, const Dims& strides, uint64_t offset, uint64_t nbytes) {
  const Status status = check_layout({dtype, sizes, strides, offset}, nbytes);
  if (!status.is_ok()) {
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.message();
    EXPECT_FALSE(status.message().empty());
    EXPECT_EQ(status.message().find('\n'), std::string::npos);
  }
  return status.is_ok();
}

TEST(Layout, ContiguousFitsExactly) {
  EXPECT_TRUE(fits(kFloat, {2, 3}, {3, 1}, 0, 24));
  EXPECT_FALSE(fits(kFloat, {2, 3}, {3, 1}, 0, 23));
  EXPECT_TRUE(fits(kFloat, {2, 3}, {3, 1}, 2, 32));
  EXPECT_FALSE(fits(kFloat, {2, 3}, {3, 1}, 3, 32));
}

TEST(Layout, ScalarsNeedOneElement) {
  EXPECT_TRUE(fits(kFloat, {}, {}, 0, 4));
  EXPECT_FALSE(fits(kFloat, {}, {}, 0, 3));
  EXPECT_FALSE(fits(kFloat, {}, {}, 1, 4));
}

TEST(Layout, NegativeStridesReachBelowTheOffset) {
  EXPECT_TRUE(fits(kFloat, {4}, {-1}, 3, 16));
  EXPECT_FALSE(fits(kFloat, {4}, {-1}, 2, 16));
  EXPECT_TRUE(fits(kFloat, {2, 4}, {4, -1}, 3, 32));
  EXPECT_FALSE(fits(kFloat, {2, 4}, {4, -1}, 3, 31));
}

TEST(Layout, ZeroStridesRepeatElements) {
  EXPECT_TRUE(fits(kFloat, {1000, 1000}, {0, 0}, 0, 4));
  EXPECT_TRUE(fits(kByte, {kMax}, {0}, 0, 1));
  EXPECT_FALSE(fits(kByte, {kMax, 3}, {0, 0}, 0, 1)) << "the number of elements overflows";
}

TEST(Layout, WithoutElementsOnlyTheOffsetCounts) {
  EXPECT_TRUE(fits(kFloat, {0}, {1}, 0, 0));
  EXPECT_TRUE(fits(kFloat, {5, 0, kMax, kMax}, {kMax, kMin, 7, -7}, 4, 16));
  EXPECT_FALSE(fits(kFloat, {0}, {1}, 5, 16));
  EXPECT_FALSE(fits(kFloat, {0}, {1}, kMaxU, 16));
  EXPECT_FALSE(fits(kFloat, {0}, {1}, kMaxU / 4 + 1, 16)) << "offset * 4 wraps to 0";
}

TEST(Layout, OverflowIsAnErrorAndNotAWrap) {
  const int64_t half = int64_t{1} << 32;
  EXPECT_FALSE(fits(kByte, {half, half}, {half, 1}, 0, kMaxU));
  EXPECT_FALSE(fits(kByte, {half, half, 2}, {1, 1, 1}, 0, 100)) << "the product wraps to 0";
  EXPECT_FALSE(fits(kByte, {2}, {kMax}, kMaxU, 100));
  EXPECT_FALSE(fits(kByte, {3}, {kMax}, 2, 100));
  EXPECT_FALSE(fits(kByte, {5}, {int64_t{1} << 62}, 0, 100)) << "(size - 1) * stride wraps to 0";
  EXPECT_FALSE(fits(kByte, {2}, {kMin}, 0, 100));
  EXPECT_FALSE(fits(kByte, {3}, {kMin}, 0, 100)) << "(size - 1) * |stride| wraps to 0";
  EXPECT_FALSE(fits(kByte, {2, 3}, {kMin, kMin}, 0, kMaxU));
  EXPECT_FALSE(fits(kByte, {3, 3, 3}, {kMax, kMax, 1}, 0, kMaxU));
  EXPECT_FALSE(fits(kByte, {}, {}, kMaxU, kMaxU));
  EXPECT_FALSE(fits(kFloat, {1}, {1}, uint64_t{1} << 62, 16)) << "offset * 4 wraps to 0";
  EXPECT_FALSE(fits(kFloat, {(int64_t{1} << 62) + 1}, {1}, 0, 4)) << "count * 4 wraps to 4";
  EXPECT_FALSE(fits({TENON_DTYPE_COMPLEX, 128, 65535}, {kMax}, {1}, 0, kMaxU));
  EXPECT_TRUE(fits(kByte, {2}, {kMin}, uint64_t{1} << 63, (uint64_t{1} << 63) + 1));
}

TEST(Layout, StridesOfSizeOneDoNotMatter) {
  EXPECT_TRUE(fits(kFloat, {1, 2, 1}, {kMin, 1, kMax}, 0, 8));
}

TEST(Layout, ShapesThatAreNone) {
  EXPECT_FALSE(fits(kFloat, {-1}, {1}, 0, 100));
  EXPECT_FALSE(fits(kFloat, {0, -1}, {1, 1}, 0, 100));
  EXPECT_FALSE(fits(kFloat, {kMin}, {1}, 0, 100));
  EXPECT_FALSE(fits(kFloat, {2, 3}, {1}, 0, 100));
  EXPECT_FALSE(fits(kFloat, {2}, {1, 1}, 0, 100));
  EXPECT_FALSE(fits({3, 64, 1}, {2}, {1}, 0, 100));
  EXPECT_FALSE(fits({TENON_DTYPE_FLOAT, 32, 0}, {2}, {1}, 0, 100));
}

TEST(Layout, SixtyFourDimensionsAndNoMore) {
  EXPECT_TRUE(fits(kByte, Dims(64, 1), Dims(64, 1), 0, 1));
  EXPECT_FALSE(fits(kByte, Dims(65, 1), Dims(65, 1), 0, 1));
  EXPECT_TRUE(fits(kByte, Dims(62, 2), Dims(62, 0), 0, 1));
  EXPECT_FALSE(fits(kByte, Dims(63, 2), Dims(63, 0), 0, 1)) << "2^63 elements";
}

TEST(Layout, SubByteElementsArePackedAndBeginOnAByte) {
  EXPECT_TRUE(fits(kFp4, {3, 5}, {5, 1}, 0, 8));
  EXPECT_FALSE(fits(kFp4, {3, 5}, {5, 1}, 0, 7));
  EXPECT_TRUE(fits(kFp4, {3, 5}, {5, 1}, 2, 9));
  EXPECT_FALSE(fits(kFp4, {3, 5}, {5, 1}, 1, 100)) << "begins in the middle of a byte";
  EXPECT_FALSE(fits(kFp4, {3, 5}, {1, 3}, 0, 100)) << "not contiguous";
  EXPECT_FALSE(fits(kFp4, {3}, {-1}, 2, 100));
  EXPECT_FALSE(fits(kFp4, {3}, {0}, 0, 100));
  EXPECT_TRUE(fits(kFp6, {4}, {1}, 4, 6));
  EXPECT_FALSE(fits(kFp6, {5}, {1}, 4, 6));
  EXPECT_FALSE(fits(kFp6, {4}, {1}, 2, 100));
  EXPECT_TRUE(fits(kFp4, {0, 3}, {-9, 2}, 2, 1));
  EXPECT_FALSE(fits(kFp4, {0, 3}, {-9, 2}, 4, 1));
  EXPECT_FALSE(fits(kFp4, {kMax}, {1}, 0, 100)) << "the number of bits overflows";
  EXPECT_FALSE(fits(kFp4, {2}, {1}, uint64_t{1} << 62, 1)) << "offset * 4 wraps to 0";
  EXPECT_FALSE(fits(kFp6, {2}, {1}, kMaxU, 100));
}

TEST(Layout, LanesThatFillBytesMayBeStrided) {
  EXPECT_TRUE(fits({TENON_DTYPE_FLOAT4_E2M1FN, 4, 2}, {3}, {-2}, 4, 5));
  EXPECT_FALSE(fits({TENON_DTYPE_FLOAT6_E2M3FN, 6, 2}, {3}, {2}, 0, 100))
      << "12 bits are no whole bytes";
}

// The test compares with the definition: it computes the place of every element, one by one.
TEST(Layout, AgreesWithBruteForce) {
  std::mt19937_64 random(20261121);
  size_t good = 0;
  size_t bad = 0;
  for (int round = 0; round < 20000; ++round) {
    Dims sizes(random() % 4);
    Dims strides(sizes.size());
    for (size_t i = 0; i < sizes.size(); ++i) {
      sizes[i] = static_cast<int64_t>(random() % 5);
      strides[i] = static_cast<int64_t>(random() % 11) - 5;
    }
    const uint64_t offset = random() % 20;
    const uint64_t nbytes = random() % 120;
    bool inside = true;
    Dims index(sizes.size(), 0);
    const uint64_t count = element_count(sizes);
    for (uint64_t n = 0; n < count; ++n) {
      auto position = static_cast<int64_t>(offset);
      uint64_t rest = n;
      for (size_t i = 0; i < sizes.size(); ++i) {
        position += static_cast<int64_t>(rest % static_cast<uint64_t>(sizes[i])) * strides[i];
        rest /= static_cast<uint64_t>(sizes[i]);
      }
      if (position < 0 || (position + 1) * 4 > static_cast<int64_t>(nbytes)) inside = false;
    }
    if (count == 0) inside = offset * 4 <= nbytes;
    ASSERT_EQ(fits(kFloat, sizes, strides, offset, nbytes), inside) << "round " << round;
    ++(inside ? good : bad);
  }
  EXPECT_GT(good, 2000U);
  EXPECT_GT(bad, 2000U);
}

TEST(ContiguousStrides, LastDimensionFastest) {
  EXPECT_EQ(contiguous_strides(Dims{2, 3, 4}).value(), (Dims{12, 4, 1}));
  EXPECT_EQ(contiguous_strides(Dims{}).value(), Dims{});
  EXPECT_EQ(contiguous_strides(Dims{7}).value(), Dims{1});
  EXPECT_EQ(contiguous_strides(Dims{2, 0, 3}).value(), (Dims{3, 3, 1}));
}

TEST(ContiguousStrides, OverflowAndNegativeSizesFail) {
  EXPECT_EQ(contiguous_strides(Dims{1, int64_t{1} << 32, int64_t{1} << 32}).status().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(contiguous_strides(Dims{2, -1}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(contiguous_strides(Dims{-1, 2}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(contiguous_strides(Dims{kMax, kMax}).value(), (Dims{kMax, 1}))
      << "the strides fit, though the product does not";
}

TEST(IsContiguous, PackedLastDimensionFastest) {
  EXPECT_TRUE(is_contiguous(Dims{2, 3}, Dims{3, 1}));
  EXPECT_FALSE(is_contiguous(Dims{2, 3}, Dims{1, 2}));
  EXPECT_FALSE(is_contiguous(Dims{2, 3}, Dims{4, 1}));
  EXPECT_FALSE(is_contiguous(Dims{2}, Dims{-1}));
  EXPECT_FALSE(is_contiguous(Dims{2}, Dims{0}));
  EXPECT_TRUE(is_contiguous(Dims{}, Dims{}));
  EXPECT_TRUE(is_contiguous(Dims{1, 3, 1}, Dims{99, 1, -5}));
  EXPECT_TRUE(is_contiguous(Dims{0, 3}, Dims{-7, 22}));
  EXPECT_FALSE(is_contiguous(Dims{2, kMax, kMax}, Dims{1, kMax, 1}));
}

TEST(ElementCount, IsTheProduct) {
  EXPECT_EQ(element_count(Dims{}), 1U);
  EXPECT_EQ(element_count(Dims{2, 3, 4}), 24U);
  EXPECT_EQ(element_count(Dims{2, 0, 4}), 0U);
}

TEST(Layout, PackedBytes) {
  const DType float32{TENON_DTYPE_FLOAT, 32, 1};
  const auto nbytes = [](DType dtype, std::vector<int64_t> sizes) {
    return packed_nbytes(dtype, sizes);
  };
  EXPECT_EQ(nbytes(float32, {}).value(), 4U);
  EXPECT_EQ(nbytes(float32, {3, 5}).value(), 60U);
  EXPECT_EQ(nbytes(float32, {INT64_MAX, 0, INT64_MAX}).value(), 0U);
  EXPECT_EQ(nbytes({TENON_DTYPE_INT, 4, 1}, {3}).value(), 2U);
  EXPECT_EQ(nbytes({TENON_DTYPE_UINT, 8, 1}, {INT64_MAX}).value(), uint64_t{INT64_MAX});
  EXPECT_EQ(nbytes({TENON_DTYPE_UINT, 16, 1}, {INT64_MAX / 2}).value(), uint64_t{INT64_MAX} - 1);
  EXPECT_EQ(nbytes({TENON_DTYPE_UINT, 1, 1}, {INT64_MAX}).value(), uint64_t{1} << 60);
  for (const auto& sizes : {std::vector<int64_t>{-1},
                            {0, -1},
                            {INT64_MAX},
                            {int64_t{1} << 32, int64_t{1} << 32},
                            {INT64_MAX / 4 + 1}}) {
    EXPECT_EQ(nbytes(float32, sizes).status().code(), Code::kInvalidArgument);
  }
  EXPECT_EQ(nbytes({3, 64, 1}, {1}).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace tenon::tensor
