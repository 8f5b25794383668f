// These tests scan numbers, strings and identifiers in source text.
#include "modules/script/scan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "modules/script/token.h"

namespace tenon::script {
namespace {

TEST(Scan, Numbers) {
  EXPECT_EQ(number_nbytes("12+3"), 2U);
  EXPECT_EQ(number_nbytes("1.5e-3x"), 6U);
  EXPECT_EQ(number_nbytes("1e"), 1U);
  EXPECT_EQ(number_nbytes("1e+"), 1U);
  EXPECT_EQ(number_nbytes("1."), 2U);
  EXPECT_EQ(number_nbytes(".5.5"), 2U);
  EXPECT_EQ(number_nbytes("."), 0U);
  EXPECT_EQ(number_nbytes("..."), 0U);
  EXPECT_EQ(number_nbytes("-1"), 0U);
  EXPECT_EQ(number_nbytes("inf"), 0U);
  EXPECT_EQ(number_nbytes(""), 0U);
  EXPECT_EQ(number_nbytes("0x1fg"), 4U);
  EXPECT_EQ(number_nbytes("0x"), 1U);
  EXPECT_EQ(number_nbytes("0x.8p-3"), 7U);
  EXPECT_EQ(number_nbytes("1_000"), 1U);
  EXPECT_EQ(number_nbytes("2.5j+1"), 4U);
  EXPECT_EQ(number_nbytes("2J"), 1U);
}

TEST(Scan, KindsOfNumbers) {
  EXPECT_EQ(number_kind("17"), ExprKind::kInt);
  EXPECT_EQ(number_kind("0x1F"), ExprKind::kInt);
  EXPECT_EQ(number_kind("0x1E"), ExprKind::kFloat);  // PyTorch decides by the letter
  EXPECT_EQ(number_kind("1e5"), ExprKind::kFloat);
  EXPECT_EQ(number_kind("1.j"), ExprKind::kComplex);
}

TEST(Scan, IntValues) {
  EXPECT_EQ(int_value("0"), 0);
  EXPECT_EQ(int_value("-12"), -12);
  EXPECT_EQ(int_value("0x10"), 16);
  EXPECT_EQ(int_value("017"), 15);
  EXPECT_EQ(int_value("08"), 0);
  EXPECT_EQ(int_value("9223372036854775807"), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(int_value("-9223372036854775808"), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(int_value("9223372036854775808"), std::nullopt);
  EXPECT_EQ(int_value("99999999999999999999999"), std::nullopt);
}

TEST(Scan, FloatValues) {
  EXPECT_EQ(float_value("1.5"), 1.5);
  EXPECT_EQ(float_value("-2.5e3"), -2500.0);
  EXPECT_EQ(float_value(".5"), 0.5);
  EXPECT_EQ(float_value("1."), 1.0);
  EXPECT_EQ(float_value("0x1.8p1"), 3.0);
  EXPECT_EQ(float_value("0x1E"), 30.0);
  EXPECT_EQ(float_value("2.5j"), 2.5);
  EXPECT_EQ(float_value("0.10000000000000001"), 0.1);
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(float_value("1e400"), infinity);
  EXPECT_EQ(float_value("-1e+400"), -infinity);
  EXPECT_EQ(float_value("1e99999999999999999999"), infinity);
  EXPECT_EQ(float_value("1e-400"), 0.0);
  EXPECT_EQ(float_value("1e-99999999999999999999"), 0.0);
  EXPECT_TRUE(std::signbit(float_value("-1e-400")));
  EXPECT_EQ(float_value("0x1p-5000"), 0.0);
  EXPECT_EQ(float_value("0x1p5000"), infinity);
  EXPECT_EQ(float_value(std::string(400, '9') + ".0"), infinity);
  EXPECT_EQ(float_value("0." + std::string(400, '0') + "1"), 0.0);
}

std::string value_of(std::string_view literal) {
  std::string value;
  BadEscape bad;
  return append_string_value(literal, value, bad)
             ? value
             : "bad at " + std::to_string(bad.begin) + "+" + std::to_string(bad.nbytes);
}

TEST(Scan, Strings) {
  EXPECT_EQ(string_nbytes("'a' b"), 3U);
  EXPECT_EQ(string_nbytes("''"), 2U);
  EXPECT_EQ(string_nbytes("''''''"), 6U);
  EXPECT_EQ(string_nbytes("'''a'b''c''' "), 12U);
  EXPECT_EQ(string_nbytes("'a\\'b'"), 6U);
  EXPECT_EQ(string_nbytes("'a\\\nb'"), 6U);
  EXPECT_EQ(string_nbytes("'a\nb'"), 0U);
  EXPECT_EQ(string_nbytes("'a"), 0U);
  EXPECT_EQ(string_nbytes("'"), 0U);
  EXPECT_EQ(string_nbytes("'\\'"), 0U);
  EXPECT_EQ(string_nbytes("''''"), 0U);
  EXPECT_EQ(string_nbytes("\"\"\"a\nb\"\"\""), 9U);
  EXPECT_EQ(string_nbytes("'''a\\"), 0U);
}

TEST(Scan, StringValues) {
  EXPECT_EQ(value_of("'a\\\\b'"), "a\\b");
  EXPECT_EQ(value_of("'\\'\\\"\\a\\b\\f\\n\\t\\v'"), "'\"\a\b\f\n\t\v");
  EXPECT_EQ(value_of("'\\101\\3777'"),
            "A\xff"
            "7");
  EXPECT_EQ(value_of("'a\\\nb'"), "a\nb");
  EXPECT_EQ(value_of("'''a\"'b'''"), "a\"'b");
  EXPECT_EQ(value_of("''"), "");
  EXPECT_EQ(value_of("'a\\x41'"), "bad at 2+2");
  EXPECT_EQ(value_of("'\\12'"), "bad at 1+3");
  EXPECT_EQ(value_of("'\\400'"), "bad at 1+4");
  EXPECT_EQ(value_of("'\\r'"), "bad at 1+2");
}

TEST(Scan, Identifiers) {
  EXPECT_TRUE(is_identifier("a_1"));
  EXPECT_TRUE(is_identifier("lambda"));
  EXPECT_FALSE(is_identifier(""));
  EXPECT_FALSE(is_identifier("1a"));
  EXPECT_FALSE(is_identifier("a.b"));
  EXPECT_FALSE(is_identifier("for"));
  EXPECT_FALSE(is_identifier("NoneType"));
  EXPECT_FALSE(is_identifier("\xc3\xa9"));
}

}  // namespace
}  // namespace tenon::script
