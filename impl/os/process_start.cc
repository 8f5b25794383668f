// Implements run_for_line() (process.h), which starts a program and reads the first line that it
// prints.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "os/limits.h"
#include "os/process.h"

extern "C" char** environ;

namespace tenon::os {
namespace {

constexpr size_t kLineNbytes = 4096;

// The instructions for posix_spawn: stdin, stdout and stderr as run_for_line() says, and the
// default signal handling instead of the caller's.
class SpawnPlan {
 public:
  SpawnPlan() noexcept {
    error_ = ::posix_spawn_file_actions_init(&actions_);
    keep(::posix_spawnattr_init(&attributes_));
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    ::posix_spawnattr_destroy(&attributes_);
    ::posix_spawn_file_actions_destroy(&actions_);
  }

  int spawn(const std::string& program, const std::vector<std::string>& arguments, int out,
            std::span<const int> fds, pid_t* pid) {
    // `out` is duplicated first, because it can be 0 or 2 itself in a process that has closed these
    // fds.
    keep(::posix_spawn_file_actions_adddup2(&actions_, out, STDOUT_FILENO));
    keep(::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0));
    keep(::posix_spawn_file_actions_addopen(&actions_, STDERR_FILENO, "/dev/null", O_WRONLY, 0));
    // Duplicating an fd to its own number keeps it open in the program.
    for (const int fd : fds) keep(::posix_spawn_file_actions_adddup2(&actions_, fd, fd));
#if defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 34)
    if (fds.empty()) keep(::posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1));
#endif
#endif
    sigset_t signals;
    ::sigemptyset(&signals);
    keep(::posix_spawnattr_setsigmask(&attributes_, &signals));
    ::sigfillset(&signals);
    keep(::posix_spawnattr_setsigdefault(&attributes_, &signals));
    keep(::posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
    if (error_ != 0) return error_;
    // posix_spawn does not write through these pointers.
    std::vector<char*> words{const_cast<char*>(program.c_str())};
    for (const std::string& argument : arguments)
      words.push_back(const_cast<char*>(argument.c_str()));
    words.push_back(nullptr);
    return ::posix_spawn(pid, program.c_str(), &actions_, &attributes_, words.data(), environ);
  }

 private:
  void keep(int error) noexcept {
    if (error_ == 0) error_ = error;
  }
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
  int error_ = 0;
};

// A child process that is not waited for yet. The destructor kills its process group with SIGKILL
// and waits for the child.
class Child {
 public:
  explicit Child(pid_t pid) noexcept : pid_(pid), pidfd_(open_pidfd(pid)) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ == 0) return;
    // Other code in this process can have waited for the child already (SIGCHLD ignored, a wait for
    // any child). Then the pid may belong to another process.
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0)
      ::kill(-pid_, SIGKILL);
    reap();
  }

  // Waits until the child has ended, and describes in words how it ended.
  Result<std::string> wait(Waiter* waiter) {
    if (pidfd_.is_open())
      TENON_TRY(waiter->until_ready(pidfd_.get(), POLLIN, "the end of a program"));
    return reap();
  }

 private:
  std::string reap() noexcept {
    int how = 0;
    pid_t got = 0;
    while ((got = ::waitpid(pid_, &how, 0)) < 0 && errno == EINTR) {
    }
    pid_ = 0;
    if (got < 0) return "ended";
    if (WIFSIGNALED(how)) return format("was killed by signal %d", WTERMSIG(how));
    return format("ended with exit status %d", WEXITSTATUS(how));
  }
  pid_t pid_;
  Fd pidfd_;
};

// Reads the first line, and returns it without its newline. No value: the pipe ended before.
Result<std::optional<std::string>> read_line(const Fd& reader, const std::string& program,
                                             Waiter* waiter) {
  std::string line;
  std::array<char, kLineNbytes> buffer;
  for (;;) {
    TENON_TRY(waiter->until_ready(reader.get(), POLLIN, "the first line of a program"));
    const ssize_t got = ::read(reader.get(), buffer.data(), buffer.size() - line.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return errno_status(errno, format("reading what %s prints", program.c_str()));
    if (got == 0) return std::optional<std::string>();
    line.append(buffer.data(), static_cast<size_t>(got));
    if (const size_t newline = line.find('\n'); newline != std::string::npos) {
      line.resize(newline);
      return std::optional<std::string>(std::move(line));
    }
    if (line.size() == kLineNbytes)
      return Status(Code::kCorrupt, format("%s prints more than %zu bytes without a newline",
                                           program.c_str(), kLineNbytes));
  }
}

// Rewords a status of the waiter, whose message names an fd that the caller never saw.
Status about(const std::string& program, Status status) {
  const Code code = status.code();
  if (code == Code::kTimeout || code == Code::kWouldBlock)
    status = Status(code, format("the time is over and %s has not %s", program.c_str(),
                                 "printed its line and gone to the background"));
  return std::move(status).with("path", program);
}

}  // namespace

Result<std::string> run_for_line(const std::string& program,
                                 const std::vector<std::string>& arguments, Waiter* waiter,
                                 std::span<const int> fds) {
  TENON_TRY(waiter->check_cancel());
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return with_fd_limit(
        errno_status(errno, format("a pipe to start %s", program.c_str())).with("path", program));
  const Fd reader(ends[0]);
  Fd writer(ends[1]);
  // Only the reading end becomes non-blocking, because the program expects an ordinary stdout.
  if (::fcntl(reader.get(), F_SETFL, O_NONBLOCK) != 0)
    return errno_status(errno, "a pipe that does not block").with("path", program);

  pid_t pid = 0;
  if (const int error = SpawnPlan().spawn(program, arguments, writer.get(), fds, &pid);
      error != 0) {
    Status status = errno_status(error, format("starting %s", program.c_str()));
    if (error == EAGAIN)
      status = Status(Code::kResourceExhausted, status.message())
                   .with("errno", error)
                   .with("limit", std::string("processes"));
    return std::move(status).with("path", program);
  }
  Child child(pid);
  writer.reset();
  Result<std::optional<std::string>> line = read_line(reader, program, waiter);
  if (!line.is_ok()) return about(program, std::move(line).status());
  Result<std::string> how = child.wait(waiter);
  if (!how.is_ok()) return about(program, std::move(how).status());
  if (!line.value().has_value())
    return Status(Code::kPeerGone,
                  format("%s %s before it printed a line", program.c_str(), how.value().c_str()))
        .with("path", program)
        .with("pid", pid);
  return *std::move(line).value();
}

}  // namespace tenon::os
