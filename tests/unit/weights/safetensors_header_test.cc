// These tests read headers of safetensors files, good and hostile ones.
#include "modules/weights/safetensors_header.h"

#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace tenon::weights {
namespace {

// A file with this header and `nbytes` bytes of tensors.
std::string safetensors_file(const std::string& header, size_t nbytes) {
  const uint64_t length = header.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file + header + std::string(nbytes, 'x');
}

class SafetensorsFile : public testing::Test {
 protected:
  void SetUp() override {
    if (read(safetensors_file("{}", 0)).status().code() == Code::kUnsupported)
      GTEST_SKIP() << "this build has no JSON";
  }
  static Result<SafetensorsHeader> read(const std::string& file, uint64_t max_nbytes = 1 << 20) {
    const std::span<const char> chars(file);
    return read_safetensors_header(*archive::MemorySource::create(std::as_bytes(chars)),
                                   max_nbytes);
  }
};

TEST_F(SafetensorsFile, TellsItsTensorsInTheOrderOfTheirBytes) {
  const std::string header =
      R"({"b": {"dtype": "U8", "shape": [3], "data_offsets": [24, 27]},
          "__metadata__": {"format": "pt", "": "x"},
          "none": {"dtype": "F16", "shape": [0, 4], "data_offsets": [24, 24]},
          "a": {"new": {"deep": [1, null, -1.5]}, "shape": [2, 3], "dtype": "F32",
                "data_offsets": [0, 24]},
          "two": {"dtype": "F4", "shape": [2], "data_offsets": [27, 28]}}  )";
  Result<SafetensorsHeader> found = read(safetensors_file(header, 28));
  ASSERT_TRUE(found.is_ok()) << found.status().message();
  const std::vector<SafetensorsEntry>& entries = found.value().entries;
  ASSERT_EQ(entries.size(), 4U);
  EXPECT_EQ(entries[0].name, "a");
  EXPECT_EQ(entries[0].type, tensor::ScalarType::kFloat);
  EXPECT_EQ(entries[0].sizes, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(entries[0].offset, 8 + header.size());
  EXPECT_EQ(entries[0].nbytes, 24U);
  EXPECT_EQ(entries[1].name, "none");
  EXPECT_EQ(entries[2].name, "b");
  EXPECT_EQ(entries[2].offset, 8 + header.size() + 24);
  EXPECT_EQ(entries[3].type, std::nullopt);
  EXPECT_EQ(entries[3].dtype, "F4");
  EXPECT_EQ(found.value().metadata,
            (std::map<std::string, std::string>{{"", "x"}, {"format", "pt"}}));
  EXPECT_TRUE(read(safetensors_file("{}", 0)).value().entries.empty());
}

TEST_F(SafetensorsFile, EveryOtherHeaderIsCorrupt) {
  const auto with = [](const std::string& fields) { return "{\"w\": {" + fields + "}}"; };
  const std::string dtype = R"("dtype": "F32", )", shape = R"("shape": [2], )",
                    offsets = R"("data_offsets": [0, 8])";
  std::string many = R"("shape": [1)";
  for (int i = 0; i < 64; ++i) many += ", 1";
  struct Row {
    const char* what;
    std::string header;
    const char* says;
  };
  const Row rows[] = {
      {"no JSON", "{", "is no JSON"},
      {"a text after it", "{} x", "is no JSON"},
      {"not UTF-8", "{\"\xff\": 1}", "is no JSON"},
      {"a list", "[]", "does not begin with {"},
      {"a number for a tensor", R"({"w": 1})", "a number where"},
      {"a list for a tensor", R"({"w": []})", "a list where"},
      {"null for a tensor", R"({"w": null})", "null where"},
      {"metadata of numbers", R"({"__metadata__": {"a": 1}})", "a number where"},
      {"metadata twice", R"({"__metadata__": {}, "__metadata__": {}})", "twice"},
      {"a key of the metadata twice", R"({"__metadata__": {"a": "", "a": ""}})", "twice"},
      {"no dtype", with(shape + offsets), "lacks"},
      {"no shape", with(dtype + offsets), "lacks"},
      {"no offsets", with(dtype + R"("shape": [2])"), "lacks"},
      {"a field twice", with(dtype + shape + shape + offsets), "a field twice"},
      {"another dtype", with(R"("dtype": "F33", )" + shape + offsets), "\"F33\""},
      {"a number as dtype", with(R"("dtype": 32, )" + shape + offsets), "a number where"},
      {"a negative size", with(dtype + R"("shape": [-2], )" + offsets), "a negative number"},
      {"half a size", with(dtype + R"("shape": [2.0], )" + offsets), "no integer"},
      {"a list in the shape", with(dtype + R"("shape": [[2]], )" + offsets), "a list where"},
      {"65 dimensions", with(dtype + many + "], " + offsets), "64 dimensions"},
      {"too large a size", with(dtype + R"("shape": [18446744073709551615], )" + offsets),
       "too large"},
      {"too many elements",
       with(dtype + R"("shape": [4611686018427387904, 4611686018427387904], )" + offsets),
       "too many elements"},
      {"a wrong number of bytes", with(dtype + R"("shape": [3], )" + offsets), "bytes than"},
      {"half a byte", with(R"("dtype": "F4", "shape": [3], "data_offsets": [0, 1])"), "bytes than"},
      {"one offset", with(dtype + shape + R"("data_offsets": [0])"), "no range"},
      {"three offsets", with(dtype + shape + R"("data_offsets": [0, 8, 9])"), "more than two"},
      {"offsets backwards", with(dtype + shape + R"("data_offsets": [8, 0])"), "no range"},
      {"a gap before it", with(dtype + shape + R"("data_offsets": [8, 16])"), "does not begin"},
      {"an overlap",
       R"({"v": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},
           "w": {"dtype": "U8", "shape": [5], "data_offsets": [3, 8]}})",
       "does not begin"},
      {"a list that is too deep", R"({"w": {"x": )" + std::string(100'000, '['), "too deep"},
      {"bytes behind it", with(R"("dtype": "U8", "shape": [7], "data_offsets": [0, 7])"),
       "describes 7 bytes"},
      {"a file that is cut short", with(R"("dtype": "U8", "shape": [9], "data_offsets": [0, 9])"),
       "cut short"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    const Status status = read(safetensors_file(row.header, 8)).status();
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_NE(status.message().find(row.says), std::string::npos) << status.message();
  }
}

// A header of plain texts and numbers is read by PlainJson, and one with an escape by the parser of
// nlohmann.
TEST_F(SafetensorsFile, BothParsersReadTheSame) {
  const std::string rest =
      R"(": {"dtype": "U8", "shape": [], "data_offsets": [0, 1]} , "__metadata__":{"k":"v"},)"
      "\r\n\t"
      R"("b":{"new":[[],{},[{"x":0}]],"dtype":"F32","shape":[0,999999999999999999],)"
      R"("data_offsets":[1,1]}} )";
  const std::string plain = "{\"ab" + rest;
  const std::string escaped = R"({"\u0061b)" + rest;
  Result<SafetensorsHeader> quick = read(safetensors_file(plain, 1));
  Result<SafetensorsHeader> slow = read(safetensors_file(escaped, 1));
  ASSERT_TRUE(quick.is_ok()) << quick.status().message();
  ASSERT_TRUE(slow.is_ok()) << slow.status().message();
  EXPECT_EQ(quick.value().metadata, slow.value().metadata);
  ASSERT_EQ(quick.value().entries.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    const SafetensorsEntry& one = quick.value().entries[i];
    const SafetensorsEntry& other = slow.value().entries[i];
    EXPECT_EQ(one.name, other.name);
    EXPECT_EQ(one.dtype, other.dtype);
    EXPECT_EQ(one.type, other.type);
    EXPECT_EQ(one.sizes, other.sizes);
    EXPECT_EQ(one.offset - plain.size(), other.offset - escaped.size());
    EXPECT_EQ(one.nbytes, other.nbytes);
  }
  EXPECT_EQ(quick.value().entries[0].name, "ab");
  EXPECT_EQ(quick.value().entries[1].sizes, (std::vector<int64_t>{0, 999999999999999999}));
}

TEST_F(SafetensorsFile, WhatIsNoPlainJsonIsReadByTheOtherParser) {
  const auto with_size = [](const std::string& size) {
    return safetensors_file(
        R"({"w": {"dtype": "U8", "shape": [0, )" + size + R"(], "data_offsets": [0, 0]}})", 0);
  };
  for (const char* const size : {"0", "10", "9223372036854775807"})
    EXPECT_TRUE(read(with_size(size)).is_ok()) << size;
  for (const char* const size : {"007", "1.0", "1e3", "+1", "0x1", "1 2", "", "1,", "true", "9a"})
    EXPECT_EQ(read(with_size(size)).status().code(), Code::kCorrupt) << size;
  Result<SafetensorsHeader> named =
      read(safetensors_file("{\"\xc3\xa4\\\"\": {\"dtype\": \"U8\", \"shape\": [1], "
                            "\"data_offsets\": [0, 1], \"x\": -1.5}}",
                            1));
  ASSERT_TRUE(named.is_ok()) << named.status().message();
  EXPECT_EQ(named.value().entries[0].name, "\xc3\xa4\"");
  for (const char* const text :
       {"{\"a\":{}", "{\"a\" {}}", "{\"a\":{}},", "{,}", "{\"a\":{},}", "{a:1}"})
    EXPECT_EQ(read(safetensors_file(text, 0)).status().code(), Code::kCorrupt) << text;
}

TEST_F(SafetensorsFile, AHeaderOfTheWrongLengthIsRefused) {
  const std::string file = safetensors_file("{}", 0);
  for (size_t nbytes = 0; nbytes < file.size(); ++nbytes)
    EXPECT_EQ(read(file.substr(0, nbytes)).status().code(), Code::kCorrupt) << nbytes;
  EXPECT_EQ(read(std::string(16, '\xff')).status().code(), Code::kCorrupt);
  const Status status = read(safetensors_file("{" + std::string(100, ' ') + "}", 0), 100).status();
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_EQ(status.detail("limit"), "max_nbytes");
}

}  // namespace
}  // namespace tenon::weights
