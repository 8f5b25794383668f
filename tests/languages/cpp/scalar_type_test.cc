// Tests of PyTorch's element types: their names, and the DLPack types that match them.
#include "kit.h"

namespace {

using tenon::ScalarType;

TEST(ScalarTypes, NamesAndSizes) {
  EXPECT_EQ(tenon::name_of(ScalarType::kBfloat16), "bfloat16");
  EXPECT_EQ(tenon::storage_name_of(ScalarType::kFloat), "FloatStorage");
  EXPECT_EQ(tenon::nbytes_of(ScalarType::kComplexDouble), 16U);
  EXPECT_EQ(tenon::since_of(ScalarType::kLong), "1.4");
  EXPECT_NE(tenon::since_of(ScalarType::kUint16), "1.4");
  const auto none = static_cast<ScalarType>(1000);
  EXPECT_EQ(tenon::name_of(none), "");
  EXPECT_EQ(tenon::storage_name_of(none), "");
  EXPECT_EQ(tenon::since_of(none), "");
  EXPECT_EQ(tenon::nbytes_of(none), 0U);
}

TEST(ScalarTypes, EveryOneComesBackFromItsNames) {
  for (std::int32_t number = 0; number <= TENON_SCALAR_TYPE_BCOMPLEX32; ++number) {
    const auto type = static_cast<ScalarType>(number);
    EXPECT_NE(tenon::name_of(type), "") << number;
    EXPECT_EQ(tenon::scalar_type_of(tenon::name_of(type)), type) << number;
    EXPECT_EQ(tenon::scalar_type_of(tenon::storage_name_of(type)), type) << number;
    if (const std::optional<tenon::Dtype> dtype = tenon::dtype_of(type))
      EXPECT_EQ(tenon::scalar_type_of(*dtype), type) << number;
  }
  EXPECT_EQ(tenon::scalar_type_of("Float"), ScalarType::kFloat);
  EXPECT_EQ(tenon::scalar_type_of("float33"), std::nullopt);
  EXPECT_EQ(tenon::scalar_type_of(std::string_view("float32\0x", 9)), std::nullopt);
}

TEST(ScalarTypes, BesideDlpack) {
  EXPECT_EQ(tenon::dtype_of(ScalarType::kHalf), tenon::Dtype(TENON_DTYPE_FLOAT, 16));
  EXPECT_EQ(tenon::scalar_type_of(tenon::kDtypeOf<std::int64_t>), ScalarType::kLong);
  EXPECT_EQ(tenon::scalar_type_of(tenon::kDtypeOf<tenon::Bool>), ScalarType::kBool);
  EXPECT_EQ(tenon::dtype_of(ScalarType::kQint8), std::nullopt);
  EXPECT_EQ(tenon::dtype_of(static_cast<ScalarType>(-1)), std::nullopt);
  EXPECT_EQ(tenon::scalar_type_of(tenon::Dtype(TENON_DTYPE_FLOAT, 32, 4)), std::nullopt);
}

}  // namespace
