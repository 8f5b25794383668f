// The tests of tenon-manager share these helpers: the real program, raw clients that speak its
// messages of 68 bytes, and processes that hold files as PyTorch does.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/child_status.h"
#include "support/die_with_parent.h"
#include "support/open_fds.h"
#include "support/sanitizers.h"
#include "support/temporary_directory.h"
#include "support/unix_socket.h"
#include "support/wait_until.h"

namespace manager_test {

using tenon::test::count_open_fds;
using tenon::test::names_in;
using tenon::test::wait_until;

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
inline constexpr milliseconds kPatience{20000};

inline int64_t ms_since(Clock::time_point start) {
  return std::chrono::duration_cast<milliseconds>(Clock::now() - start).count();
}
inline double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

inline bool is_there(const std::string& path) {
  struct stat info{};
  return lstat(path.c_str(), &info) == 0;
}

inline std::string read_text(const std::string& path) {
  std::string text;
  if (FILE* file = std::fopen(path.c_str(), "re")) {
    std::array<char, 4096> buffer;
    for (size_t got = 0; (got = std::fread(buffer.data(), 1, buffer.size(), file)) > 0;)
      text.append(buffer.data(), got);
    std::fclose(file);
  }
  return text;
}

// The number after `key` in /proc/<pid>/status.
inline long status_number(pid_t pid, const std::string& key, int base = 10) {
  const std::string text = read_text("/proc/" + std::to_string(pid) + "/status");
  const size_t at = text.find("\n" + key + ":");
  return at == std::string::npos ? -1
                                 : std::strtol(text.c_str() + at + key.size() + 2, nullptr, base);
}

// A new folder, removed at the end. The test fails if anything is left in it.
class Folder : public tenon::test::TemporaryDirectory {
 public:
  explicit Folder(const std::string& in) : TemporaryDirectory(in + "/tenon-managertest-") {}
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    for (const std::string& name : names()) ADD_FAILURE() << "left in " << path() << ": " << name;
  }
  std::string file(const std::string& leaf) const { return *this / leaf; }
};

// Counts deletions in a folder as they happen.
class DeletionWatch {
 public:
  explicit DeletionWatch(const std::string& folder) : fd_(inotify_init1(IN_CLOEXEC)) {
    if (inotify_add_watch(fd_, folder.c_str(), IN_DELETE) < 0) std::abort();
  }
  DeletionWatch(const DeletionWatch&) = delete;
  DeletionWatch& operator=(const DeletionWatch&) = delete;
  ~DeletionWatch() { close(fd_); }
  // Waits until `count` names are deleted. False: not in time.
  bool wait(size_t count, milliseconds patience = kPatience) {
    const auto start = Clock::now();
    while (seen_ < count) {
      const auto left =
          std::chrono::duration_cast<milliseconds>(patience - (Clock::now() - start)).count();
      pollfd polled{fd_, POLLIN, 0};
      if (left <= 0 || poll(&polled, 1, static_cast<int>(left)) <= 0) return false;
      alignas(inotify_event) std::array<char, 65536> buffer;
      const ssize_t got = read(fd_, buffer.data(), buffer.size());
      for (ssize_t at = 0; at < got; ++seen_) {
        inotify_event event{};
        std::memcpy(&event, buffer.data() + at, sizeof event);
        at += static_cast<ssize_t>(sizeof event + event.len);
      }
    }
    return true;
  }

 private:
  int fd_;
  size_t seen_ = 0;
};

// A child process that runs `body`. It is killed at the end of the test at the latest.
class Child {
 public:
  Child() = default;
  explicit Child(const std::function<int()>& body) {
    std::fflush(nullptr);
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ == 0) {
      tenon::test::die_with_parent(parent);
      _exit(body());
    }
  }
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}
  Child& operator=(Child&& other) noexcept {
    if (this != &other) {
      end(SIGKILL);
      pid_ = std::exchange(other.pid_, 0);
    }
    return *this;
  }
  ~Child() { end(SIGKILL); }
  pid_t pid() const { return pid_; }
  void signal(int number) const {
    if (pid_ > 0) kill(pid_, number);
  }
  // Returns the child's exit status, or 1000 and the number of the signal that ended it.
  int end(int number = 0) {
    if (pid_ <= 0) return -1;
    if (number != 0) kill(pid_, number);
    const int how = tenon::test::wait_for_child(std::exchange(pid_, 0));
    return WIFSIGNALED(how) ? 1000 + WTERMSIG(how) : WEXITSTATUS(how);
  }
  bool ended_in_time(milliseconds patience = kPatience) const {
    return wait_until(
        [this] {
          siginfo_t info{};
          return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
                 info.si_pid == pid_;
        },
        patience);
  }

 private:
  pid_t pid_ = 0;
};

inline std::string program() {
  const char* path = std::getenv("TENON_TEST_MANAGER");
  return path != nullptr ? path : "";
}

// How a manager is started. An fd_limit of 0 and a stderr_fd of -1 change nothing. With
// `outlives_us` the manager does not end with the test.
struct Start {
  std::vector<std::string> arguments;
  std::vector<std::pair<std::string, std::string>> environment;
  rlim_t fd_limit = 0;
  int stderr_fd = -1;
  bool outlives_us = false;
};

// tenon-manager as a child of the test. The constructor waits until the program has printed its
// first line, which line() returns.
class Process {
 public:
  explicit Process(const Start& start) {
    int ends[2] = {-1, -1};
    if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
    child_ = Child([&] {
      if (start.fd_limit != 0) {
        const rlimit limit{start.fd_limit, start.fd_limit};
        setrlimit(RLIMIT_NOFILE, &limit);
      }
      if (start.outlives_us) prctl(PR_SET_PDEATHSIG, 0);
      for (const auto& [name, value] : start.environment) setenv(name.c_str(), value.c_str(), 1);
      dup2(ends[1], STDOUT_FILENO);
      if (start.stderr_fd >= 0) dup2(start.stderr_fd, STDERR_FILENO);
      const std::string path = program();
      std::vector<char*> words{const_cast<char*>(path.c_str())};
      for (const std::string& word : start.arguments)
        words.push_back(const_cast<char*>(word.c_str()));
      words.push_back(nullptr);
      execv(path.c_str(), words.data());
      return 127;
    });
    close(ends[1]);
    char byte = 0;
    while (read(ends[0], &byte, 1) == 1 && byte != '\n') line_.push_back(byte);
    close(ends[0]);
  }
  const std::string& line() const { return line_; }
  Child& child() { return child_; }
  pid_t pid() const { return child_.pid(); }

 private:
  Child child_;
  std::string line_;
};

// A connected socket that speaks the manager's protocol by hand.
class Client {
 public:
  explicit Client(const std::string& path) : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    error_ = tenon::test::connect_path(fd_, path) ? 0 : errno;
  }
  Client(Client&& other) noexcept : fd_(std::exchange(other.fd_, -1)), error_(other.error_) {}
  Client& operator=(Client&& other) noexcept {
    if (this != &other) {
      hang_up();
      fd_ = std::exchange(other.fd_, -1);
      error_ = other.error_;
    }
    return *this;
  }
  ~Client() { hang_up(); }
  void hang_up() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }
  int fd() const { return fd_; }
  int error() const { return error_; }

  static std::array<char, 68> message(int op, const std::string& name) {
    std::array<char, 68> bytes{};
    const int32_t pid = getpid();
    std::memcpy(bytes.data(), &pid, sizeof pid);
    bytes[4] = static_cast<char>(op);
    std::memcpy(bytes.data() + 5, name.data(), std::min<size_t>(name.size(), 60));
    return bytes;
  }
  bool send_bytes(const char* bytes, size_t nbytes) const {
    return send(fd_, bytes, nbytes, MSG_NOSIGNAL) == static_cast<ssize_t>(nbytes);
  }
  bool say(int op, const std::string& name) const {
    const auto bytes = message(op, name);
    return send_bytes(bytes.data(), bytes.size());
  }
  // "OK", "" if the manager closed the connection, or "?" if no answer came in time.
  std::string answer(milliseconds patience = kPatience) const {
    std::string text;
    while (text.size() < 2) {
      pollfd polled{fd_, POLLIN, 0};
      if (poll(&polled, 1, static_cast<int>(patience.count())) <= 0) return "?";
      char byte = 0;
      if (recv(fd_, &byte, 1, 0) != 1) return "";
      text.push_back(byte);
    }
    return text;
  }
  bool add(const std::string& name) const { return say(0, name) && answer() == "OK"; }
  bool subtract(const std::string& name) const { return say(1, name); }

 private:
  int fd_;
  int error_ = 0;
};

// A file in PyTorch's layout, held by a mapping of this process.
class File {
 public:
  File(const std::string& path, int flags, int32_t step) {
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | flags, 0600);
    if (fd < 0) return;
    if ((flags & O_CREAT) != 0 && ftruncate(fd, 4096) != 0) std::abort();
    void* at = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at != MAP_FAILED) base_ = static_cast<char*>(at);
    add(step);
  }
  File(File&& other) noexcept : base_(std::exchange(other.base_, nullptr)) {}
  File& operator=(File&&) = delete;
  ~File() { let_go(); }
  static File make(const std::string& path) { return {path, O_CREAT | O_EXCL, 1}; }
  static File reach(const std::string& path) { return {path, 0, 1}; }
  bool is_held() const { return base_ != nullptr; }
  char* data() const { return base_ + 64; }
  int32_t add(int32_t step) const { return base_ == nullptr ? 0 : count()->fetch_add(step) + step; }
  void let_go() {
    if (base_ != nullptr) munmap(std::exchange(base_, nullptr), 4096);
  }

 private:
  std::atomic<int32_t>* count() const { return reinterpret_cast<std::atomic<int32_t>*>(base_); }
  char* base_ = nullptr;
};

// A child reports its progress with give(), and the test waits for the report. It works in the
// other direction too.
class Signal {
 public:
  Signal() {
    if (pipe2(ends_, O_CLOEXEC) != 0) std::abort();
  }
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;
  ~Signal() {
    close(ends_[0]);
    close(ends_[1]);
  }
  void give() const {
    if (write(ends_[1], "x", 1) != 1) _exit(8);
  }
  bool wait(milliseconds patience = kPatience) const {
    pollfd polled{ends_[0], POLLIN, 0};
    char byte = 0;
    return poll(&polled, 1, static_cast<int>(patience.count())) == 1 &&
           read(ends_[0], &byte, 1) == 1;
  }

 private:
  int ends_[2] = {-1, -1};
};

// The last step of a child that holds something until it is killed.
inline int stay(const Signal& ready) {
  ready.give();
  pause();
  return 0;
}

// The name that PyTorch would give to a file of the calling process.
inline std::string own_name(int number = 0) {
  return "torch_" + std::to_string(getpid()) + "_7_" + std::to_string(number);
}

// The name of the file of a child that holder() made.
inline std::string name_of(const Child& child) {
  return "torch_" + std::to_string(child.pid()) + "_7_0";
}

// A child that has registered a name, and holds its file until it is killed.
inline Child holder(const std::string& socket, const std::string& folder, int32_t messages = 0) {
  const Signal ready;
  Child child([&] {
    const Client client(socket);
    const std::string leaf = own_name();
    if (!client.add("/" + leaf)) return 2;
    const File made = File::make(folder + "/" + leaf);
    made.add(messages);
    return stay(ready);
  });
  EXPECT_TRUE(ready.wait());
  return child;
}

// Sends some bytes, with fds that the receiver did not ask for. Returns whether all bytes went.
inline bool send_with_fds(int socket, std::string_view bytes, const std::vector<int>& fds) {
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(8 * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
  if (message.msg_controllen > control.size()) return false;
  cmsghdr* rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
  std::memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
  return sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

// A manager with folders of its own. When a test ends, the manager's last client must be gone. Then
// the manager must end by itself and leave nothing.
class ManagerTest : public testing::Test {
 protected:
  void SetUp() override {
    alarm(300);
    if (program().empty()) FAIL() << "TENON_TEST_MANAGER must name tenon-manager";
  }
  void TearDown() override {
    if (manager_ && manager_->pid() > 0) {
      EXPECT_TRUE(manager_->child().ended_in_time()) << "the manager has no client and lives";
      EXPECT_EQ(manager_->child().end(SIGKILL), 0);
    }
  }
  void start(Start start = {}) {
    start.arguments.insert(start.arguments.begin(),
                           {"--socket", socket(), "--foreground", "--directory", objects_.path()});
    manager_ = std::make_unique<Process>(start);
    ASSERT_EQ(manager_->line(), socket());
  }
  // Starts a manager, which lives as long as this client, and longer if there are others.
  Client start_with_client() {
    start();
    Client client(socket());
    EXPECT_TRUE(client.add("/torch_1_2_3"));
    return client;
  }
  Child holder(int32_t messages = 0) const {
    return manager_test::holder(socket(), objects_.path(), messages);
  }
  std::string socket() const { return place_.file("manager.sock"); }
  std::string file(const std::string& leaf) const { return objects_.file(leaf); }

  Folder place_{"/tmp"};
  Folder objects_{"/dev/shm"};
  std::unique_ptr<Process> manager_;
};

}  // namespace manager_test
