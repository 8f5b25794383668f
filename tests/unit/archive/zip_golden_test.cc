// These tests read complete archives that Python's zipfile and PyTorch wrote
// (tests/peers/golden/zip_golden.py).
#include <gtest/gtest.h>

#include <map>

#include "modules/archive/file_mapping.h"
#include "unit/archive/zip_kit.h"

namespace tenon::archive {
namespace {

using namespace test;

std::string golden(const std::string& name) {
  const char* const source = std::getenv("TENON_SOURCE_DIR");
  return std::string(source != nullptr ? source : ".") + "/tests/peers/golden/zip/" + name;
}

Result<Ref<ZipReader>> open_golden(const std::string& name) {
  TENON_ASSIGN(Ref<ZipSource> source, FileMapping::open(golden(name)));
  return ZipReader::open(std::move(source), Check::kAll);
}

std::string python_code() {
  std::string text;
  for (int i = 0; i < 20; ++i) text += "def forward(self, x):\n  return x\n";
  return text;
}

void expect_python_records(const ZipReader& reader) {
  EXPECT_EQ(reader.prefix(), "m");
  ASSERT_EQ(reader.records().size(), 5U);
  EXPECT_EQ(read_or_error(reader, "data.pkl"), "\x80\x02).");
  EXPECT_EQ(read_or_error(reader, "code/a.py"), python_code());
  EXPECT_TRUE(reader.find("code/a.py")->deflated);
  EXPECT_EQ(read_or_error(reader, "empty"), "");
  EXPECT_EQ(read_or_error(reader, "ünïcode/名"), "1");
  const std::string wide = read_or_error(reader, "wide");
  ASSERT_EQ(wide.size(), 256U);
  for (size_t i = 0; i < 256; ++i) EXPECT_EQ(wide[i], static_cast<char>(i));
  EXPECT_EQ(reader.oddities().without_crc, 0U);
}

TEST(ZipGolden, PythonsZipfile) {
  for (const char* name : {"python.zip", "python_pipe.zip", "python_odd.zip"}) {
    SCOPED_TRACE(name);
    Result<Ref<ZipReader>> opened = open_golden(name);
    ASSERT_OK(opened.status());
    expect_python_records(*opened.value());
    const bool odd = std::string(name) == "python_odd.zip";
    const ZipOddities& oddities = opened.value()->oddities();
    EXPECT_EQ(oddities.folders, odd ? 1U : 0U);
    EXPECT_EQ(oddities.outside_prefix, odd ? 2U : 0U);
    EXPECT_EQ(oddities.first_outside_prefix, odd ? "other/file" : "");
  }
}

TEST(ZipGolden, PyTorchs) {
  struct Case {
    const char* name;
    std::map<std::string, uint64_t> records;
    bool has_crc = true;
  };
  const Case cases[] = {
      {"torch_1.13_jit",
       {{"data/0", 12},
        {"data/1", 0},
        {"data.pkl", 287},
        {"code/__torch__.py", 370},
        {"constants.pkl", 4},
        {"version", 2}}},
      {"torch_2.15_jit",
       {{"data/0", 12},
        {"data/1", 0},
        {"data.pkl", 287},
        {"code/__torch__.py", 370},
        {"constants.pkl", 4},
        {"version", 2},
        {"byteorder", 6}}},
      {"torch_1.13_save", {{"data.pkl", 161}, {"data/0", 32}, {"version", 2}}},
      {"torch_2.15_save", {{"data.pkl", 161}, {"data/0", 32}, {"version", 2}, {"byteorder", 6}}},
      {"torch_2.15_no_crc",
       {{"data.pkl", 161}, {"data/0", 32}, {"version", 2}, {"byteorder", 6}},
       false},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    Result<Ref<ZipReader>> opened = open_golden(each.name + std::string(".zip"));
    ASSERT_OK(opened.status());
    const ZipReader& reader = *opened.value();
    EXPECT_EQ(reader.prefix(), each.name);
    EXPECT_EQ(read_or_error(reader, "version"), "3\n");
    EXPECT_EQ(reader.oddities().without_crc, each.has_crc ? 0U : reader.records().size());
    EXPECT_EQ(reader.oddities().first_without_crc, each.has_crc ? "" : "data.pkl");
    for (const auto& [name, nbytes] : each.records) {
      const ZipRecord* record = reader.find(name);
      ASSERT_NE(record, nullptr) << name;
      EXPECT_EQ(record->nbytes, nbytes) << name;
      EXPECT_EQ(record->data_offset % 64, 0U) << name;
      EXPECT_EQ(record->deflated, name == "code/__torch__.py");
      if (nbytes > 0) EXPECT_EQ(record->has_crc(), each.has_crc) << name;
    }
  }
}

}  // namespace
}  // namespace tenon::archive
