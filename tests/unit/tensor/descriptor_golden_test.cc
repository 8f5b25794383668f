// These tests compare the committed bytes of tests/peers/golden/descriptor with what this version
// writes and reads.
#include <gtest/gtest.h>

#include "support/golden_files.h"
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

const tenon::test::GoldenFiles& committed() {
  static const tenon::test::GoldenFiles kFiles("descriptor");
  return kFiles;
}

// The test also expects that the folder has no other file.
TEST(DescriptorGolden, EncoderWritesTheCommittedBytes) {
  committed().expect_committed(
      golden_files(), [](const Golden& golden) { return encode_descriptor(golden.content); });
}

TEST(DescriptorGolden, DecoderReadsTheCommittedBytes) {
  for (const Golden& golden : golden_files()) {
    const Bytes bytes = committed().read(golden.file);
    Result<DescriptorContent> decoded =
        decode_descriptor(bytes, golden.n_fds, {}, golden.n_devices);
    ASSERT_TRUE(decoded.is_ok()) << golden.file << ": " << decoded.status().message();
    EXPECT_EQ(unsound(decoded.value(), golden.n_fds, golden.n_devices), "");
    EXPECT_EQ(encode_descriptor(decoded.value()), bytes);
  }
}

}  // namespace
}  // namespace tenon::tensor
