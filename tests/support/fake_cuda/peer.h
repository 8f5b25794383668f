// Helpers for rule tests with more than one process. Each other process is this program, started
// again with exec, with a socket to the process that started it.
#pragma once

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "driver.h"
#include "support/packet.h"

namespace rules {

inline int failures = 0;

inline constexpr auto kFd = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
inline constexpr size_t kSize = size_t{4} << 20;
inline constexpr unsigned kLazy = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS;
inline constexpr unsigned kInterprocess = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;

struct Sent {
  CUipcMemHandle memory{};
  CUipcEventHandle event{};
};

#define CHECK(condition)                                                                     \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      std::fprintf(stderr, "%s:%d: pid %d: %s\n", __FILE__, __LINE__, getpid(), #condition); \
      ++::rules::failures;                                                                   \
    }                                                                                        \
  } while (false)

template <typename One, typename Other>
void check_equal(const One& one, const Other& other, const char* what, const char* file, int line) {
  if (one == static_cast<One>(other)) return;
  std::fprintf(stderr, "%s:%d: pid %d: %s: %lld, not %lld\n", file, line, getpid(), what,
               static_cast<long long>(one), static_cast<long long>(other));
  ++failures;
}
#define EQUAL(one, other) \
  ::rules::check_equal((one), (other), #one " == " #other, __FILE__, __LINE__)
#define OK(call) EQUAL(call, CUDA_SUCCESS)
// cuda.h names no error for this case. The fake must return `of_the_fake`. A real driver may return
// any error.
inline void check_refused(CUresult result, CUresult of_the_fake, const char* what, const char* file,
                          int line) {
  if (cu.fake || result == CUDA_SUCCESS) check_equal(result, of_the_fake, what, file, line);
}
#define REFUSED(call, of_the_fake) \
  ::rules::check_refused((call), (of_the_fake), #call, __FILE__, __LINE__)

// The reason why this machine cannot run the test. The test sets it and returns.
inline std::string lacking;

// A socket that keeps the bounds of messages. An fd can travel with the bytes.
class Channel {
 public:
  explicit Channel(int fd) : fd_(fd) {}

  template <typename Value>
  void send(const Value& value, int fd = -1) {
    CHECK(packets::put_packet(fd_, &value, sizeof value, fd));
  }

  template <typename Value>
  Value receive(int* fd = nullptr) {
    Value value{};
    int none = -1;
    // The other process is gone, so later checks would mean nothing.
    if (!packets::take_packet(fd_, &value, sizeof value, fd != nullptr ? fd : &none)) {
      std::fprintf(stderr, "pid %d: no message came\n", getpid());
      _exit(3);
    }
    return value;
  }

 private:
  int fd_;
};

using Function = void (*)(Channel&);
struct Test {
  Function run;
  // Settings for the fake. A real driver cannot have them, so the test is `fake_only`.
  std::vector<std::string> environment;
  bool fake_only;
};
inline std::map<std::string, Test>& tests() {
  static std::map<std::string, Test> all;
  return all;
}
inline std::map<std::string, Function>& peers() {
  static std::map<std::string, Function> all;
  return all;
}

#define PEER(name)                                                                              \
  static void peer_##name(Channel& parent);                                                     \
  static const bool peer_##name##_known = ::rules::peers().emplace(#name, &peer_##name).second; \
  static void peer_##name([[maybe_unused]] Channel& parent)
#define RULES_TEST(name, fake_only, ...)                                                          \
  static void test_##name(Channel&);                                                              \
  static const bool test_##name##_known =                                                         \
      ::rules::tests()                                                                            \
          .emplace(#name,                                                                         \
                   ::rules::Test{&test_##name, std::vector<std::string>{__VA_ARGS__}, fake_only}) \
          .second;                                                                                \
  static void test_##name(Channel&)
#define TEST(name) RULES_TEST(name, false, )
#define FAKE_TEST(name, ...) RULES_TEST(name, true, __VA_ARGS__)

class Peer : public Channel {
 public:
  explicit Peer(const char* role, const std::vector<std::string>& environment = {})
      : Peer(role, environment, make_pair()) {}
  ~Peer() {
    if (pid_ > 0) EQUAL(join(), 0);
    close(fd_);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  pid_t pid() const { return pid_; }
  int join() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  void kill() {
    ::kill(pid_, SIGKILL);
    EQUAL(join(), -SIGKILL);
  }

 private:
  struct Pair {
    int here;
    int there;
  };
  static Pair make_pair() {
    int ends[2] = {-1, -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    return {ends[0], ends[1]};
  }
  Peer(const char* role, const std::vector<std::string>& environment, Pair pair)
      : Channel(pair.here), fd_(pair.here) {
    pid_ = fork();
    if (pid_ == 0) {
      for (const std::string& entry : environment) putenv(::strdup(entry.c_str()));
      const std::string fd = std::to_string(dup(pair.there));
      execl("/proc/self/exe", "rules_test", "--peer", role, fd.c_str(), nullptr);
      _exit(4);
    }
    close(pair.there);
  }

  int fd_;
  pid_t pid_ = 0;
};

// The usual start of a test: cuInit and a current context.
struct Started {
  CUdevice device = 0;
  CUcontext context = nullptr;
  explicit Started(int ordinal = 0) {
    OK(cu.cuInit(0));
    OK(cu.cuDeviceGet(&device, ordinal));
    OK(cu.cuDevicePrimaryCtxRetain(&context, device));
    OK(cu.cuCtxSetCurrent(context));
  }
};

inline unsigned char first_byte(CUdeviceptr pointer) {
  unsigned char byte = 0;
  OK(cu.cuMemcpyDtoH(&byte, pointer, 1));
  return byte;
}

}  // namespace rules
