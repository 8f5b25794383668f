// Runs libFuzzer targets over files, so that a compiler without libFuzzer can replay a corpus too.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

// One function for each target, which CMakeLists.txt names.
#define FUZZ_TARGET(topic) extern "C" int fuzz_##topic(const uint8_t* data, size_t size);
#include "targets.inc"
#undef FUZZ_TARGET

namespace {

using Target = int (*)(const uint8_t* data, size_t size);

struct NamedTarget {
  std::string_view topic;
  Target target;
};

constexpr NamedTarget kTargets[] = {
#define FUZZ_TARGET(topic) {#topic, fuzz_##topic},
#include "targets.inc"
#undef FUZZ_TARGET
};

Target find_target(std::string_view topic) {
  const auto* const at =
      std::find_if(std::begin(kTargets), std::end(kTargets),
                   [topic](const NamedTarget& each) { return each.topic == topic; });
  return at == std::end(kTargets) ? nullptr : at->target;
}

std::vector<std::filesystem::path> files_in(const std::filesystem::path& place) {
  if (!std::filesystem::is_directory(place)) return {place};
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(place)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

int replay(Target target, int count, char** places) {
  size_t replayed = 0;
  for (int i = 0; i < count; ++i) {
    const std::vector<std::filesystem::path> files = files_in(places[i]);
    if (files.empty()) {
      std::fprintf(stderr, "%s has no files\n", places[i]);
      return 1;
    }
    for (const std::filesystem::path& file : files) {
      std::ifstream stream(file, std::ios::binary);
      if (!stream) {
        std::fprintf(stderr, "%s cannot be read\n", file.c_str());
        return 1;
      }
      const std::vector<char> text{std::istreambuf_iterator<char>(stream),
                                   std::istreambuf_iterator<char>()};
      // The input is copied to a heap block of its own length, as libFuzzer does, so that a
      // sanitizer sees a read past the end.
      const std::vector<uint8_t> bytes(text.begin(), text.end());
      target(bytes.data(), bytes.size());
      ++replayed;
    }
  }
  std::printf("%zu inputs replayed\n", replayed);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s TOPIC FILE-OR-FOLDER...\n", argv[0]);
    return 2;
  }
  const Target target = find_target(argv[1]);
  if (target == nullptr) {
    std::fprintf(stderr, "there is no target %s: a topic is the name of a file <topic>_fuzz.cc\n",
                 argv[1]);
    return 2;
  }
  try {
    return replay(target, argc - 2, argv + 2);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
