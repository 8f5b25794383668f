// What the tests of CUDA share: a case runs in a child of its own, since a process starts the driver once, with an empty world of the fake.
#pragma once

#include <dlfcn.h>
#include <ftw.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "fake_cuda/ledger.h"

namespace cuda_test {

class World {
 public:
  World() {
    const char* place = std::getenv("TMPDIR");
    path_ = std::string(place != nullptr ? place : "/tmp") + "/tenon-cuda-XXXXXX";
    EXPECT_NE(mkdtemp(path_.data()), nullptr);
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World() {
    nftw(path_.c_str(), [](const char* path, const struct stat*, int, FTW*) { return std::remove(path); }, 16, FTW_DEPTH | FTW_PHYS);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline int wait_for(pid_t child) {
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// Forks; the child's failures are the test's.
inline pid_t start(const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child != 0) return child;
  body();
  std::fflush(nullptr);
  std::exit(::testing::Test::HasFailure() ? 1 : 0);
}

// In a child with a world, and with these variables; "NAME" alone takes one away.
inline void in_child(const std::vector<std::string>& environment, const std::function<void()>& body) {
  const World world;
  const pid_t child = start([&] {
    setenv("FAKE_CUDA_WORLD", world.path().c_str(), 1);
    for (const std::string& entry : environment) {
      const size_t equals = entry.find('=');
      if (equals == std::string::npos) {
        unsetenv(entry.c_str());
      } else {
        setenv(entry.substr(0, equals).c_str(), entry.c_str() + equals + 1, 1);
      }
    }
    body();
  });
  EXPECT_EQ(wait_for(child), 0);
}

// nullptr: this process has not opened it.
inline void* library() { return dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD); }

template <typename Function>
Function* ledger(Function*, const char* name) {
  void* found = library() != nullptr ? dlsym(library(), name) : nullptr;
  EXPECT_NE(found, nullptr) << name;
  return reinterpret_cast<Function*>(found);
}
#define LEDGER(function) ::cuda_test::ledger(static_cast<decltype(&function)>(nullptr), #function)

// The version that the environment asks of the fake.
inline int expected_version() {
  const char* version = std::getenv("FAKE_CUDA_DRIVER");
  if (version != nullptr) return std::atoi(version);
  const char* folder = std::getenv("LD_LIBRARY_PATH");
  return folder != nullptr && std::strstr(folder, "driver-11") != nullptr ? 11040 : 13000;
}

}  // namespace cuda_test
