// These tests read records that PyTorch wrote (tests/peers/golden/bytecode_golden.py). Each record
// is verified, and written again with the same bytes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "unit/bytecode/bytecode_kit.h"

namespace tenon::bytecode::test {
namespace {

std::filesystem::path golden_folder() {
  const char* const source = std::getenv("TENON_SOURCE_DIR");
  return std::filesystem::path(source != nullptr ? source : ".") / "tests/peers/golden/bytecode";
}

std::vector<std::byte> bytes_of_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto* const first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

void check_golden(const std::filesystem::path& path) {
  SCOPED_TRACE(path.string());
  const std::vector<std::byte> bytes = bytes_of_file(path);
  Result<Record> record = read_record(bytes);
  ASSERT_TRUE(record.is_ok()) << record.status().message();
  Result<Program> program = read_program(record.value().pickled.root);
  ASSERT_TRUE(program.is_ok()) << program.status().message();
  const Status verified = verify(program.value(), with_arities());
  EXPECT_TRUE(verified.is_ok()) << verified.message();
  const Status without_schemas = verify(program.value(), {});
  EXPECT_TRUE(without_schemas.is_ok()) << without_schemas.message();

  Result<ValueRef> value = program_value(program.value());
  ASSERT_TRUE(value.is_ok()) << value.status().message();
  archive::FromValuesOptions options = record.value().writing();
  Result<std::vector<std::byte>> written = archive::values_to_pickle(value.value(), options);
  ASSERT_TRUE(written.is_ok()) << written.status().message();
  EXPECT_TRUE(written.value() == bytes) << written.value().size() << " bytes of " << bytes.size();
}

TEST(BytecodeGolden, records_of_pytorch_come_back_byte_for_byte) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(golden_folder())) {
    if (!entry.is_regular_file()) continue;
    ++count;
    check_golden(entry.path());
  }
  EXPECT_GE(count, 10U) << golden_folder() << " (TENON_SOURCE_DIR says where the sources are)";
}

}  // namespace
}  // namespace tenon::bytecode::test
