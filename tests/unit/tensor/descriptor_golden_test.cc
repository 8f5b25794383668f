// These tests compare the committed bytes of tests/peers/golden/descriptor with what this version
// writes and reads.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "unit/tensor/descriptor_support.h"

namespace tenon::tensor {
namespace {

using namespace test;

struct Golden {
  const char* file;
  DescriptorContent content;
  uint64_t n_fds;
  uint64_t n_devices = 0;
};

DescriptorContent empty_storage() {
  DescriptorContent content;
  content.sender_pid = 1;
  content.storages = {{kNoSegment, 0, 0}};
  add_tensor(&content, 0, {TENON_DTYPE_INT, 64, 1}, {0}, {1}, 0, "nothing");
  return content;
}

DescriptorContent only_user_bytes() {
  DescriptorContent content;
  content.sender_pid = 1;
  for (int i = 0; i < 256; ++i) content.user.push_back(static_cast<std::byte>(i));
  return content;
}

DescriptorContent every_dtype() {
  DescriptorContent content;
  content.sender_pid = 1;
  content.segments = {fd_segment(4096)};
  content.storages = {{0, 0, 4096}};
  for (unsigned code = 0; code < 256; ++code) {
    for (unsigned bits = 0; bits < 256; ++bits) {
      const DType dtype{static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1};
      if (check_dtype(dtype).is_ok())
        add_tensor(&content, 0, dtype, {2, 8}, {8, 1}, 0, dtype_name(dtype).text);
    }
  }
  return content;
}

std::vector<Golden> golden_files() {
  return {
      {"nothing.bin", {}, 0},
      {"one_tensor.bin", one_tensor(), 1},
      {"empty_storage.bin", empty_storage(), 0},
      {"only_user_bytes.bin", only_user_bytes(), 0},
      {"every_dtype.bin", every_dtype(), 1},
      {"everything.bin", everything(), 2},
      {"on_devices.bin", on_devices(), 1, 3},
      {"composites.bin", composites(), 1},
  };
}

std::filesystem::path folder() {
  const char* source = std::getenv("TENON_SOURCE_DIR");
  return std::filesystem::path(source != nullptr ? source : ".") / "tests/peers/golden/descriptor";
}

Bytes read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  Bytes bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

TEST(DescriptorGolden, EncoderWritesTheCommittedBytes) {
  if (std::getenv("TENON_REGENERATE_GOLDEN") != nullptr) {
    std::filesystem::create_directories(folder());
    for (const Golden& golden : golden_files()) {
      const Bytes bytes = encode_descriptor(golden.content);
      std::ofstream(folder() / golden.file, std::ios::binary)
          .write(reinterpret_cast<const char*>(bytes.data()),
                 static_cast<std::streamsize>(bytes.size()));
    }
    FAIL() << "golden files written to " << folder()
           << ": look at the difference, then run again without TENON_REGENERATE_GOLDEN";
  }
  for (const Golden& golden : golden_files()) {
    ASSERT_TRUE(std::filesystem::exists(folder() / golden.file))
        << folder() / golden.file << " (TENON_SOURCE_DIR says where the sources are)";
    EXPECT_TRUE(read_file(folder() / golden.file) == encode_descriptor(golden.content))
        << golden.file << " has other bytes";
  }
}

TEST(DescriptorGolden, DecoderReadsTheCommittedBytes) {
  for (const Golden& golden : golden_files()) {
    const Bytes bytes = read_file(folder() / golden.file);
    Result<DescriptorContent> decoded =
        decode_descriptor(bytes, golden.n_fds, {}, golden.n_devices);
    ASSERT_TRUE(decoded.is_ok()) << golden.file << ": " << decoded.status().message();
    EXPECT_EQ(unsound(decoded.value(), golden.n_fds, golden.n_devices), "");
    EXPECT_EQ(encode_descriptor(decoded.value()), bytes);
  }
}

TEST(DescriptorGolden, NoFileIsForgotten) {
  std::set<std::string> known;
  for (const Golden& golden : golden_files()) known.insert(golden.file);
  std::set<std::string> present;
  for (const auto& entry : std::filesystem::directory_iterator(folder()))
    present.insert(entry.path().filename().string());
  EXPECT_EQ(present, known);
}

}  // namespace
}  // namespace tenon::tensor
