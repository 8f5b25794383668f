// Files that a benchmark writes, in TMPDIR or /tmp: their paths, checks for room, and pwrite as the
// comparison. No file stays.
#pragma once

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "bench/bench.h"

namespace bench {

inline std::string file_folder() {
  const char* const chosen = std::getenv("TMPDIR");
  return chosen != nullptr && *chosen != '\0' ? chosen : "/tmp";
}

inline std::string file_path() {
  return file_folder() + "/tenon-bench-" + std::to_string(getpid()) + ".pt";
}

// Writes earlier data to disk, so that every round begins without dirty pages in the page cache.
inline void settle_files() {
  const int folder = open(file_folder().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  BENCH_CHECK(folder >= 0 && syncfs(folder) == 0);
  close(folder);
}

inline uint64_t available_memory() {
  std::ifstream figures("/proc/meminfo");
  unsigned long long kib = 0;
  for (std::string line; std::getline(figures, line);) {
    if (std::sscanf(line.c_str(), "MemAvailable: %llu kB", &kib) == 1) break;
  }
  return uint64_t{kib} << 10;
}

// Returns why this machine cannot hold tensors of `nbytes` bytes together with that many files of
// them, all in the page cache. Empty: it can.
inline std::string lack_of_room(uint64_t nbytes, uint64_t files) {
  constexpr uint64_t kSpare = uint64_t{1} << 30;
  struct statvfs info{};
  BENCH_CHECK(statvfs(file_folder().c_str(), &info) == 0);
  const uint64_t on_disk = uint64_t{info.f_bavail} * info.f_frsize;
  if (on_disk < files * nbytes + kSpare)
    return file_folder() + " has room for " + size_text(on_disk);
  if (available_memory() < (files + 1) * nbytes + kSpare)
    return size_text(available_memory()) + " of memory are available";
  return {};
}

// Returns the nanoseconds that `calls` calls of pwrite need to put `nbytes` bytes into a new file.
// The file is removed afterwards.
inline int64_t pwrite_ns(const std::byte* bytes, uint64_t nbytes, size_t calls, bool durable) {
  const std::string path = file_path();
  const int64_t begin = now_ns();
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  BENCH_CHECK(fd >= 0);
  const uint64_t each = (nbytes + calls - 1) / calls;
  bool good = true;
  for (uint64_t done = 0; good && done < nbytes;) {
    const ssize_t now = pwrite(fd, bytes + done, std::min(each - done % each, nbytes - done),
                               static_cast<off_t>(done));
    good = now > 0;
    done += good ? static_cast<uint64_t>(now) : 0;
  }
  good = good && (!durable || fsync(fd) == 0);
  good = close(fd) == 0 && good;
  const int64_t end = now_ns();
  unlink(path.c_str());
  BENCH_CHECK(good);
  return end - begin;
}

}  // namespace bench
