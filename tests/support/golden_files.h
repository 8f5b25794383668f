// Compares bytes with the committed files of a folder of tests/peers/golden.
//
// TENON_REGENERATE_GOLDEN=1 writes the files again. The test then fails, so that the variable
// cannot be left on. A file that was in a release is never written again. A change of the format
// gets new files.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

namespace tenon::test {

class GoldenFiles {
 public:
  // `topic` is the name of the folder. TENON_SOURCE_DIR says where the sources are.
  explicit GoldenFiles(const std::string& topic) {
    const char* const source = std::getenv("TENON_SOURCE_DIR");
    folder_ =
        std::filesystem::path(source != nullptr ? source : ".") / "tests/peers/golden" / topic;
  }

  std::vector<std::byte> read(const std::string& file) const {
    std::ifstream in(folder_ / file, std::ios::binary);
    EXPECT_TRUE(in) << folder_ / file << " (TENON_SOURCE_DIR says where the sources are)";
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    std::vector<std::byte> bytes(text.size());
    if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
    return bytes;
  }

  // Expects that every case, which has a `file`, has the committed bytes that `encode` gives for
  // it, and that the folder has no other file.
  template <typename Cases, typename Encode>
  void expect_committed(const Cases& cases, Encode encode) const {
    const bool regenerate = std::getenv("TENON_REGENERATE_GOLDEN") != nullptr;
    std::set<std::string> known;
    for (const auto& each : cases) {
      known.insert(each.file);
      const std::vector<std::byte> bytes = encode(each);
      if (regenerate) write(each.file, bytes);
      EXPECT_TRUE(read(each.file) == bytes) << each.file << " has other bytes";
    }
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      EXPECT_TRUE(known.contains(entry.path().filename())) << entry.path() << " is nobody's";
    EXPECT_FALSE(regenerate) << "golden files written to " << folder_
                             << ": look at the difference, then run again without "
                                "TENON_REGENERATE_GOLDEN";
  }

 private:
  void write(const std::string& file, const std::vector<std::byte>& bytes) const {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / file, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }

  std::filesystem::path folder_;
};

}  // namespace tenon::test
