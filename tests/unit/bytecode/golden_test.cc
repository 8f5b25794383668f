// These tests read records that PyTorch wrote (tests/peers/golden/bytecode_golden.py). Each record
// is verified, and written again with the same bytes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "support/must.h"
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
  Record record = must(read_record(bytes));
  Program program = must(read_program(record.pickled.root));
  const Status verified = verify(program, with_arities());
  EXPECT_TRUE(verified.is_ok()) << verified.message();
  const Status without_schemas = verify(program, {});
  EXPECT_TRUE(without_schemas.is_ok()) << without_schemas.message();

  Result<ValueRef> value = program_value(program);
  ASSERT_TRUE(value.is_ok()) << value.status().message();
  archive::FromValuesOptions options = record.writing();
  std::vector<std::byte> written = must(archive::values_to_pickle(value.value(), options));
  EXPECT_TRUE(written == bytes) << written.size() << " bytes of " << bytes.size();
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
