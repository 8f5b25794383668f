// Counts the threads of the test's own process.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>

// Returns how many threads have this name.
inline size_t count_threads(const std::string& name) {
  size_t count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string found;
    std::getline(std::ifstream(task.path() / "comm"), found);
    count += found == name ? 1 : 0;
  }
  return count;
}
