// Helpers of all C++ wrapper tests: child processes, a folder of their own in shared memory, and
// checks for leaks.
#pragma once

#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <tenon/tenon.hpp>
#include <thread>
#include <vector>

#include "support/die_with_parent.h"
#include "support/open_fds.h"
#include "support/wait_until.h"

// Expects that a result of a try_ function, or an error, has a code: EXPECT_CODE(kNotFound,
// result).
#define EXPECT_CODE(name, ...) EXPECT_EQ((__VA_ARGS__).code(), tenon::Code::name)

namespace kit {

using namespace std::chrono_literals;

// No machine needs that long. A wait of that length has failed.
inline constexpr auto kPatience = 60s;
inline constexpr std::uint64_t kMiB = 1U << 20;

/// Returns the text of the exception that `function` throws. The test fails if `function` throws
/// nothing, or another type.
template <class Thrown, class Function>
std::string thrown_by(Function&& function) {
  try {
    function();
  } catch (const Thrown& error) {
    return error.what();
  } catch (const tenon::Error& error) {
    ADD_FAILURE() << "threw " << tenon::name_of(error.code()) << ": " << error.what();
    return "";
  }
  ADD_FAILURE() << "threw nothing";
  return "";
}

// Runs `function` in a child process, whose exit status is 0 if the function returned true. The
// child dies with this process.
class Child {
 public:
  explicit Child(const std::function<bool()>& function) {
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ != 0) return;
    tenon::test::die_with_parent(parent);
    bool good = false;
    try {
      good = function();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "[child %d] %s\n", static_cast<int>(getpid()), error.what());
    }
    _exit(good ? 0 : 1);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }
  pid_t pid() const { return pid_; }
  // Waits for the child and returns its status as from waitpid. 0: success.
  int wait() {
    int status = -1;
    if (waitpid(pid_, &status, 0) != pid_) return -1;
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_ = -1;
};

// Both ends of a socket. Each process closes the other's end, so that it notices the other's death.
struct Sockets {
  int here = -1;
  int there = -1;
  Sockets() {
    int ends[2] = {-1, -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    here = ends[0];
    there = ends[1];
  }
  Sockets(const Sockets&) = delete;
  Sockets& operator=(const Sockets&) = delete;
  int keep_here() {
    close(std::exchange(there, -1));
    return here;
  }
  int keep_there() {
    close(std::exchange(here, -1));
    return there;
  }
  ~Sockets() {
    if (here >= 0) close(here);
    if (there >= 0) close(there);
  }
};

// A connection between two processes. The tests use it to agree on the next step.
class Steps {
 public:
  explicit Steps(int socket) : connection_(tenon::Connection::make(socket)) {}
  tenon::Connection& connection() { return connection_; }
  void tell() { connection_.send(tenon::Message::make(), {.timeout = kPatience}); }
  void await() { (void)connection_.recv({.timeout = kPatience}); }

 private:
  tenon::Connection connection_;
};

// A message of one tensor, whose last element is the number.
inline tenon::Message numbered(float number) {
  tenon::Tensor tensor = tenon::zeros<float>({8});
  tensor.view_mut<float>()[7] = number;
  return tenon::Message::of({{"x", tensor}});
}

inline float number_in(const tenon::Message& message) {
  const tenon::Tensor tensor = message["x"];
  return tensor.view<float>()[7];
}

// A folder in shared memory for this program alone, which must be empty at the end. All tests use
// one folder, because the library's thread keeps a few fds for each folder in which it saw a name.
class Folder : public testing::Environment {
 public:
  static const std::string& path() { return instance().path_; }
  static std::string at(const std::string& leaf) { return path() + "/" + leaf; }

  void SetUp() override {
    char path[] = "/dev/shm/tenon-cpp-XXXXXX";
    ASSERT_NE(mkdtemp(path), nullptr);
    path_ = path;
    const tenon::Storage storage = tenon::make_filename(8, {.directory = path_});
    (void)tenon::share_filename(storage);
    (void)tenon::try_open_filename({.name = "/tenon-cpp-no-such-name", .nbytes = 8});
  }
  void TearDown() override {
    // The library's thread may still be removing the last files.
    int failed = rmdir(path_.c_str());
    for (int tries = 0; failed != 0 && tries < 2000; ++tries) {
      std::this_thread::sleep_for(5ms);
      failed = rmdir(path_.c_str());
    }
    EXPECT_EQ(failed, 0) << path_ << " is not empty";
  }

 private:
  static Folder& instance() {
    static auto* folder = static_cast<Folder*>(testing::AddGlobalTestEnvironment(new Folder));
    return *folder;
  }
  // Registers the folder before any test runs.
  inline static const bool kRegistered = (instance(), true);
  std::string path_;
};

// Fixture that checks for leaks: each test leaves as many fds, storages and segments as it found.
class Leaves : public testing::Test {
 protected:
  void SetUp() override {
    tenon::trim();
    fds_ = tenon::test::count_open_fds();
    before_ = tenon::stats();
  }
  void TearDown() override {
    tenon::trim();
    // The library's thread may just be examining a name through an fd of its own, now or at the
    // first count.
    EXPECT_TRUE(tenon::test::wait_until([this] { return tenon::test::count_open_fds() <= fds_; }))
        << tenon::test::count_open_fds() << " fds are open and not " << fds_;
    const tenon::Stats after = tenon::stats();
    EXPECT_EQ(after.storages, before_.storages);
    EXPECT_EQ(after.segments, before_.segments);
    EXPECT_EQ(after.bytes_live, before_.bytes_live);
  }

 private:
  long fds_ = 0;
  tenon::Stats before_{};
};

template <class T>
std::vector<T> copy_of(std::span<const T> values) {
  return {values.begin(), values.end()};
}

}  // namespace kit
