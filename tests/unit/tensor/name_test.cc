// These tests check names of tensors: well-formed UTF-8, and a limited length.
#include "tensor/name.h"

#include <gtest/gtest.h>

#include <string>

namespace tenon::tensor {
namespace {

using namespace std::string_literals;

TEST(Name, WellFormedUtf8) {
  for (const std::string& name :
       {""s, "a"s, "encoder.layers.11.attention.weight"s, "\x01\x7f"s, "\xc2\x80"s, "\xdf\xbf"s,
        "\xe0\xa0\x80"s, "\xed\x9f\xbf"s, "\xee\x80\x80"s, "\xef\xbf\xbf"s, "\xf0\x90\x80\x80"s,
        "\xf4\x8f\xbf\xbf"s, "1234567\xc3\xa4"s, "12345678\xc3\xa4"s,
        "\xc3\xa4 and then some more ASCII"s}) {
    EXPECT_TRUE(is_valid_name(name)) << testing::PrintToString(name);
  }
}

TEST(Name, IllFormedAtEveryPlace) {
  for (const std::string& wrong : {"\0"s,
                                   "\x80"s,
                                   "\xbf"s,
                                   "\xc0\x80"s,
                                   "\xc1\xbf"s,
                                   "\xc2"s,
                                   "\xc2\x41"s,
                                   "\xc2\xc2"s,
                                   "\xe0\x80\x80"s,
                                   "\xe0\x9f\xbf"s,
                                   "\xe1\x80"s,
                                   "\xe1\x80\x41"s,
                                   "\xed\xa0\x80"s,
                                   "\xed\xbf\xbf"s,
                                   "\xf0\x80\x80\x80"s,
                                   "\xf0\x8f\xbf\xbf"s,
                                   "\xf0\x90\x80"s,
                                   "\xf0\x90\x80\x41"s,
                                   "\xf4\x90\x80\x80"s,
                                   "\xf5\x80\x80\x80"s,
                                   "\xff"s}) {
    for (size_t before = 0; before < 20; ++before) {
      for (const size_t after : {size_t{0}, size_t{1}, size_t{9}}) {
        EXPECT_FALSE(is_valid_name(std::string(before, 'a') + wrong + std::string(after, 'z')))
            << testing::PrintToString(wrong) << before;
      }
    }
  }
}

TEST(Name, LengthHasALimit) {
  EXPECT_TRUE(is_valid_name(std::string(4096, 'x')));
  EXPECT_FALSE(is_valid_name(std::string(4097, 'x')));
}

TEST(Name, TextOfAnyLength) {
  EXPECT_TRUE(is_utf8(std::string(100'000, 'a') + "\xc3\xa4"));
  EXPECT_TRUE(is_utf8("1234567\0\0 89"s));
  EXPECT_TRUE(is_utf8(""));
  EXPECT_FALSE(is_utf8(std::string(100'000, 'a') + "\xc3"));
  EXPECT_FALSE(is_utf8("\xed\xa0\x80"));
}

}  // namespace
}  // namespace tenon::tensor
