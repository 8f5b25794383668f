// These tests check element types: their names, their widths, and which types are refused.
#include "tensor/dtype.h"

#include <gtest/gtest.h>
#include <tenon/tensor.h>

#include <cstring>
#include <set>
#include <string>

namespace tenon::tensor {
namespace {

struct Known {
  DType dtype;
  const char* name;
};

const Known kKnown[] = {
    {{TENON_DTYPE_INT, 8, 1}, "int8"},
    {{TENON_DTYPE_INT, 64, 1}, "int64"},
    {{TENON_DTYPE_INT, 4, 1}, "int4"},
    {{TENON_DTYPE_INT, 32, 4}, "int32x4"},
    {{TENON_DTYPE_UINT, 16, 1}, "uint16"},
    {{TENON_DTYPE_UINT, 1, 1}, "uint1"},
    {{TENON_DTYPE_FLOAT, 16, 1}, "float16"},
    {{TENON_DTYPE_FLOAT, 32, 1}, "float32"},
    {{TENON_DTYPE_FLOAT, 64, 1}, "float64"},
    {{TENON_DTYPE_FLOAT, 128, 1}, "float128"},
    {{TENON_DTYPE_BFLOAT, 16, 1}, "bfloat16"},
    {{TENON_DTYPE_COMPLEX, 32, 1}, "complex32"},
    {{TENON_DTYPE_COMPLEX, 64, 1}, "complex64"},
    {{TENON_DTYPE_COMPLEX, 128, 1}, "complex128"},
    {{TENON_DTYPE_BOOL, 8, 1}, "bool"},
    {{TENON_DTYPE_FLOAT8_E3M4, 8, 1}, "float8_e3m4"},
    {{TENON_DTYPE_FLOAT8_E4M3, 8, 1}, "float8_e4m3"},
    {{TENON_DTYPE_FLOAT8_E4M3B11FNUZ, 8, 1}, "float8_e4m3b11fnuz"},
    {{TENON_DTYPE_FLOAT8_E4M3FN, 8, 1}, "float8_e4m3fn"},
    {{TENON_DTYPE_FLOAT8_E4M3FNUZ, 8, 1}, "float8_e4m3fnuz"},
    {{TENON_DTYPE_FLOAT8_E5M2, 8, 1}, "float8_e5m2"},
    {{TENON_DTYPE_FLOAT8_E5M2FNUZ, 8, 1}, "float8_e5m2fnuz"},
    {{TENON_DTYPE_FLOAT8_E8M0FNU, 8, 1}, "float8_e8m0fnu"},
    {{TENON_DTYPE_FLOAT6_E2M3FN, 6, 1}, "float6_e2m3fn"},
    {{TENON_DTYPE_FLOAT6_E3M2FN, 6, 1}, "float6_e3m2fn"},
    {{TENON_DTYPE_FLOAT4_E2M1FN, 4, 1}, "float4_e2m1fn"},
    {{TENON_DTYPE_FLOAT4_E2M1FN, 4, 2}, "float4_e2m1fnx2"},
};

TEST(DType, KnownTypesPassAndHaveTheirNames) {
  std::set<std::string> names;
  for (const Known& known : kKnown) {
    EXPECT_TRUE(check_dtype(known.dtype).is_ok()) << known.name;
    EXPECT_STREQ(dtype_name(known.dtype).text, known.name);
    EXPECT_EQ(dtype_name(known.dtype).nbytes, std::string(known.name).size());
    EXPECT_TRUE(names.insert(known.name).second);
  }
}

// Every code and width has a name of its own, with a few numbers of lanes. The name fits into its
// buffer, and leads back to the type. (A type of 0 lanes has a name too, but is not valid.)
TEST(DType, NamesAndTypesAreOneToOne) {
  std::set<std::string> names;
  for (unsigned code = 0; code < 256; ++code) {
    for (unsigned bits = 0; bits < 256; ++bits) {
      for (const unsigned lanes : {1U, 2U, 65535U}) {
        const DType dtype{static_cast<uint8_t>(code), static_cast<uint8_t>(bits),
                          static_cast<uint16_t>(lanes)};
        const DTypeName name = dtype_name(dtype);
        ASSERT_LT(name.nbytes, sizeof name.text);
        ASSERT_EQ(std::strlen(name.text), name.nbytes);
        ASSERT_TRUE(names.insert(name.text).second) << name.text;
        Result<DType> back = parse_dtype(name.text);
        ASSERT_TRUE(back.is_ok()) << name.text;
        ASSERT_EQ(back.value(), dtype) << name.text;
      }
    }
  }
}

TEST(DType, WhatIsNoName) {
  for (const char* text : {"",
                           "float",
                           "float8",
                           "float032",
                           "float 32",
                           "float32 ",
                           "+float32",
                           "float32x",
                           "float32x0",
                           "float32x1",
                           "float32x01",
                           "float32x-2",
                           "float32x65536",
                           "x4",
                           "xfloat32",
                           "dtype_",
                           "dtype_3",
                           "dtype_3_",
                           "dtype_256_1",
                           "dtype_2_32",
                           "dtype_03_64",
                           "dtype_3_64x1",
                           "FLOAT32",
                           "complex",
                           "complex64x",
                           "bool8",
                           "opaque64"}) {
    EXPECT_EQ(parse_dtype(text).status().code(), Code::kInvalidArgument) << text;
  }
}

TEST(DType, ElementBitsCountAllLanes) {
  EXPECT_EQ((DType{TENON_DTYPE_FLOAT, 32, 1}).element_bits(), 32U);
  EXPECT_EQ((DType{TENON_DTYPE_FLOAT4_E2M1FN, 4, 2}).element_bits(), 8U);
  EXPECT_EQ((DType{TENON_DTYPE_COMPLEX, 128, 65535}).element_bits(), 128U * 65535U);
}

TEST(DType, WrongOnesAreInvalidAndNamed) {
  const DType wrong[] = {
      {3, 64, 1},  // DLPack's opaque handle
      {18, 8, 1},
      {255, 8, 1},
      {TENON_DTYPE_FLOAT, 8, 1},
      {TENON_DTYPE_FLOAT, 0, 1},
      {TENON_DTYPE_BOOL, 1, 1},
      {TENON_DTYPE_BFLOAT, 32, 1},
      {TENON_DTYPE_COMPLEX, 16, 1},
      {TENON_DTYPE_INT, 24, 1},
      {TENON_DTYPE_INT, 128, 1},
      {TENON_DTYPE_FLOAT4_E2M1FN, 8, 1},
      {TENON_DTYPE_FLOAT6_E3M2FN, 8, 1},
      {TENON_DTYPE_FLOAT8_E5M2, 16, 1},
      {TENON_DTYPE_FLOAT, 32, 0},
  };
  for (const DType dtype : wrong) {
    const Status status = check_dtype(dtype);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << dtype_name(dtype).text;
    EXPECT_FALSE(status.message().empty());
    EXPECT_EQ(status.message().find('\n'), std::string::npos);
    EXPECT_TRUE(std::string(dtype_name(dtype).text)
                    .starts_with(check_dtype({dtype.code, dtype.bits, 1}).is_ok() ? "" : "dtype_"));
  }
}

// Every code, width and number of lanes is refused, or is good enough to compute with.
TEST(DType, NothingThatPassesHasNoBits) {
  size_t passed = 0;
  for (unsigned code = 0; code < 256; ++code) {
    for (unsigned bits = 0; bits < 256; ++bits) {
      for (const uint16_t lanes : {uint16_t{0}, uint16_t{1}, uint16_t{65535}}) {
        const DType dtype{static_cast<uint8_t>(code), static_cast<uint8_t>(bits), lanes};
        if (!check_dtype(dtype).is_ok()) continue;
        ++passed;
        EXPECT_GT(dtype.element_bits(), 0U);
        EXPECT_LE(code, 17U);
      }
    }
  }
  EXPECT_EQ(passed, 2U * (11 + 11 + 4 + 1 + 3 + 1 + 8 + 2 + 1));
}

}  // namespace
}  // namespace tenon::tensor
