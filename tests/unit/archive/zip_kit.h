// The tests of the zip container share these helpers.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "modules/archive/zip_reader.h"
#include "modules/archive/zip_writer.h"
#include "unit/os/guards.h"

namespace tenon::archive::test {

using Bytes = std::vector<std::byte>;

inline std::span<const std::byte> view_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

inline Bytes noise(size_t nbytes, uint32_t seed = 1) {
  Bytes bytes(nbytes);
  for (std::byte& byte : bytes) {
    seed = seed * 1664525 + 1013904223;
    byte = static_cast<std::byte>(seed >> 24);
  }
  return bytes;
}

inline std::string text_of(const Status& status) {
  std::string text = std::string(code_name(status.code())) + ": " + status.message();
  if (status.info() == nullptr) return text;
  for (const Detail& each : status.info()->details)
    text += " [" + each.key + "=" + each.value + "]";
  return text;
}

#define ASSERT_OK(expression)                               \
  do {                                                      \
    const ::tenon::Status kit_status = (expression);        \
    ASSERT_TRUE(kit_status.is_ok()) << text_of(kit_status); \
  } while (false)
#define EXPECT_OK(expression)                               \
  do {                                                      \
    const ::tenon::Status kit_status = (expression);        \
    EXPECT_TRUE(kit_status.is_ok()) << text_of(kit_status); \
  } while (false)

// Owns a copy of the bytes, so that a test can open an archive that is a temporary object.
class OwnedBytes : public ZipSource {
 public:
  explicit OwnedBytes(Bytes bytes)
      : ZipSource("the archive", bytes.data(), bytes.size()), bytes_(std::move(bytes)) {}
  Status read(uint64_t offset, void* to, uint64_t nbytes) const override {
    if (nbytes > 0) std::memcpy(to, bytes_.data() + offset, nbytes);
    return Status::ok();
  }

 private:
  Bytes bytes_;
};

inline Result<Ref<ZipReader>> open_bytes(Bytes bytes, Check check = Check::kStructure,
                                         const ZipLimits& limits = {}) {
  return ZipReader::open(Ref<ZipSource>::adopt(new OwnedBytes(std::move(bytes))), check, limits);
}

inline std::string read_or_error(const ZipReader& reader, std::string_view name) {
  const ZipRecord* record = reader.find(name);
  if (record == nullptr) return "no record";
  Result<std::string> text = reader.read_text(*record);
  return text.is_ok() ? text.value() : text_of(text.status());
}

inline Bytes read_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  EXPECT_TRUE(stream) << path;
  const std::vector<char> text{std::istreambuf_iterator<char>(stream),
                               std::istreambuf_iterator<char>()};
  Bytes bytes(text.size());
  if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

inline std::string content_of(const std::string& path) {
  const Bytes bytes = read_file(path);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Makes an empty directory for one test, and removes the directory with its contents at the end.
class Folder {
 public:
  Folder() {
    std::string name = "/tmp/tenon-test-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& leaf) const { return path_ + "/" + leaf; }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      all.push_back(entry.path().filename());
    std::ranges::sort(all);
    return all;
  }

 private:
  std::string path_;
};

}  // namespace tenon::archive::test
