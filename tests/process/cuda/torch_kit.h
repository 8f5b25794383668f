// Helpers for tests that play PyTorch: the counter file that PyTorch makes for device memory that
// it sends.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace cuda_test {

constexpr size_t kFileNbytes = 80064;

// PyTorch's counter file, made and mapped as PyTorch does it. PyTorch's RefcountedMapAllocator
// counts the processes that have the file open.
class TorchFile {
 public:
  // Makes a new file.
  TorchFile() : TorchFile("/torch_" + std::to_string(getpid()) + "_1000_0", O_CREAT | O_EXCL) {}
  explicit TorchFile(const std::string& name, int more = 0) : name_(name) {
    // The fd stays open until the file is mapped. A sweep removes a file that no process holds.
    const int fd = shm_open(name.c_str(), O_RDWR | more, 0600);
    EXPECT_GE(fd, 0) << name;
    if (more != 0) EXPECT_EQ(ftruncate(fd, kFileNbytes), 0);
    struct stat info{};
    EXPECT_EQ(fstat(fd, &info), 0);
    EXPECT_EQ(info.st_size, static_cast<off_t>(kFileNbytes));
    base_ =
        static_cast<char*>(mmap(nullptr, kFileNbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    EXPECT_NE(base_, MAP_FAILED);
    close(fd);
    count().fetch_add(1);
  }
  TorchFile(const TorchFile&) = delete;
  TorchFile& operator=(const TorchFile&) = delete;
  ~TorchFile() {
    if (count().fetch_sub(1) == 1) shm_unlink(name_.c_str());
    munmap(base_, kFileNbytes);
  }
  const std::string& name() const { return name_; }
  // PyTorch does not use atomics here: every version reads and writes plainly.
  volatile int64_t& counter(uint64_t slot) {
    return *reinterpret_cast<volatile int64_t*>(base_ + 64 + 8 * slot);
  }

 private:
  std::atomic<int32_t>& count() { return *reinterpret_cast<std::atomic<int32_t>*>(base_); }
  std::string name_;
  char* base_ = nullptr;
};

}  // namespace cuda_test
