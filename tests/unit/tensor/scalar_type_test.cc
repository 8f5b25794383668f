// These tests check the table of PyTorch's element types.
#include "tensor/scalar_type.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace tenon::tensor {
namespace {

TEST(ScalarType, EveryLookupFindsItsWayBack) {
  std::set<std::string_view> names;
  for (int64_t number = 0; number < static_cast<int64_t>(kScalarTypeCount); ++number) {
    const std::optional<ScalarType> type = scalar_type_from_number(number);
    ASSERT_TRUE(type);
    const ScalarTypeInfo& info = scalar_type_info(*type);
    EXPECT_EQ(static_cast<int64_t>(info.type), number);
    EXPECT_EQ(scalar_type_from_name(info.name), type) << info.name;
    EXPECT_EQ(scalar_type_from_storage_name(info.storage_name), type) << info.storage_name;
    EXPECT_EQ(scalar_type_from_dtype_name(info.dtype_name), type) << info.dtype_name;
    EXPECT_EQ(info.storage_name, std::string(info.name) + "Storage");
    if (info.has_dtype()) {
      EXPECT_EQ(scalar_type_from_dtype(info.dtype), type) << info.name;
      EXPECT_TRUE(check_dtype(info.dtype).is_ok()) << info.name;
      EXPECT_EQ(info.dtype.element_bits(), info.nbytes * 8u) << info.name;
    }
    EXPECT_GE(info.nbytes, 1) << info.name;
    EXPECT_STRNE(info.since, "");
    names.insert(info.name);
    names.insert(info.dtype_name);
  }
  EXPECT_EQ(names.size(), 2 * kScalarTypeCount);
}

TEST(ScalarType, WhatIsNoneIsNone) {
  for (const int64_t number : {int64_t{-1}, int64_t{47}, int64_t{256}, INT64_MAX, INT64_MIN})
    EXPECT_FALSE(scalar_type_from_number(number));
  for (const char* name : {"", "float", "FloatStorage", "Float ", "Undefined"})
    EXPECT_FALSE(scalar_type_from_name(name)) << name;
  for (const char* name : {"", "Storage", "UntypedStorage", "Float", "floatstorage"})
    EXPECT_FALSE(scalar_type_from_storage_name(name)) << name;
  for (const char* name : {"", "float", "Float", "int"})
    EXPECT_FALSE(scalar_type_from_dtype_name(name)) << name;
  EXPECT_FALSE(scalar_type_from_dtype({2, 32, 4}));
  EXPECT_FALSE(scalar_type_from_dtype({1, 4, 1}));
  EXPECT_FALSE(scalar_type_from_dtype({0, 0, 0}));
}

// The rows are copied by hand from PyTorch's own table, because files contain these numbers.
TEST(ScalarType, NumbersAndSizes) {
  struct Row {
    int64_t number;
    const char* name;
    const char* dtype_name;
    int nbytes;
  };
  for (const Row& row :
       {Row{0, "Byte", "uint8", 1}, Row{4, "Long", "int64", 8}, Row{6, "Float", "float32", 4},
        Row{8, "ComplexHalf", "complex32", 4}, Row{10, "ComplexDouble", "complex128", 16},
        Row{11, "Bool", "bool", 1}, Row{14, "QInt32", "qint32", 4},
        Row{15, "BFloat16", "bfloat16", 2}, Row{16, "QUInt4x2", "quint4x2", 1},
        Row{22, "Bits16", "bits16", 2}, Row{23, "Float8_e5m2", "float8_e5m2", 1},
        Row{26, "Float8_e4m3fnuz", "float8_e4m3fnuz", 1}, Row{29, "UInt64", "uint64", 8},
        Row{36, "UInt7", "uint7", 1}, Row{43, "Int7", "int7", 1},
        Row{44, "Float8_e8m0fnu", "float8_e8m0fnu", 1},
        Row{45, "Float4_e2m1fn_x2", "float4_e2m1fn_x2", 1},
        Row{46, "BComplex32", "bcomplex32", 4}}) {
    const ScalarTypeInfo& info = scalar_type_info(*scalar_type_from_number(row.number));
    EXPECT_STREQ(info.name, row.name);
    EXPECT_STREQ(info.dtype_name, row.dtype_name);
    EXPECT_EQ(info.nbytes, row.nbytes) << row.name;
  }
  EXPECT_EQ(scalar_type_info(ScalarType::kQUInt4x2).packed, 2);
  EXPECT_EQ(scalar_type_info(ScalarType::kQUInt2x4).packed, 4);
  EXPECT_EQ(scalar_type_info(ScalarType::kQUInt8).packed, 1);
}

TEST(ScalarType, FamiliesAreApart) {
  size_t counts[4] = {0, 0, 0, 0};
  for (size_t number = 0; number < kScalarTypeCount; ++number) {
    const auto type = static_cast<ScalarType>(number);
    const bool in[4] = {is_floating_point(type), is_complex(type), is_quantized(type),
                        is_integral(type)};
    EXPECT_LE(in[0] + in[1] + in[2] + in[3], 1) << scalar_type_info(type).name;
    for (size_t i = 0; i < 4; ++i) counts[i] += in[i] ? 1 : 0;
  }
  EXPECT_EQ(counts[0], 10u);
  EXPECT_EQ(counts[1], 4u);
  EXPECT_EQ(counts[2], 5u);
  EXPECT_EQ(counts[3], 8u);
}

}  // namespace
}  // namespace tenon::tensor
