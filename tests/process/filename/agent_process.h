// The common part of all agents: a process of this program, started with exec, that does what the
// test requests over a socket.
#pragma once

#include <poll.h>
#include <sys/syscall.h>

#include <thread>

#include "process/filename/kit.h"
#include "support/die_with_parent.h"
#include "support/packet.h"
#include "support/run_tests.h"

namespace names {

using packets::put_packet;
using packets::take_packet;

// Serves requests until the exit request. `answer(request, fd, &reply, &out)` makes the call: it
// owns `fd`, and `out` travels with the reply. This function never returns. The process ends with 0
// if all checks passed, with 1 if one failed, and with 3 if the socket closed without an exit
// request.
template <typename Request, typename Reply, typename Answer>
[[noreturn]] void serve(int socket, Answer&& answer) {
  Request request;
  int fd = -1;
  while (take_packet(socket, &request, sizeof request, &fd)) {
    Reply reply;
    int out = -1;
    const Outcome outcome = answer(request, fd, &reply, &out);
    reply.status = outcome.status;
    std::snprintf(reply.message, sizeof reply.message, "%s", outcome.message.c_str());
    std::string details;
    for (const auto& [key, value] : outcome.details)
      details.append(key).push_back('\0'), details.append(value).push_back('\0');
    REQUIRE(details.size() < sizeof reply.details);
    std::memcpy(reply.details, details.data(), details.size());
    if (!put_packet(socket, &reply, sizeof reply, out)) break;
    if (out >= 0) close(out);
    if (request.op != decltype(request.op)::kExit) continue;
    std::fflush(nullptr);
    close(socket);
    exit(fault::g_failures == 0 ? 0 : 1);
  }
  std::fflush(nullptr);
  _exit(3);
}

class AgentProcess {
 public:
  AgentProcess(const AgentProcess&) = delete;
  AgentProcess& operator=(const AgentProcess&) = delete;

  pid_t pid() const { return pid_; }
  void kill() {
    signal(SIGKILL);
    end(SIGKILL);
  }
  void signal(int number) const { CHECK(::kill(pid_, number) == 0); }
  // Stops the process and waits until the kernel says that it is stopped.
  void stop() const {
    signal(SIGSTOP);
    REQUIRE(wait_until([this] { return state() == 'T'; }));
  }
  void go_on() const { signal(SIGCONT); }

 protected:
  AgentProcess() {
    const auto ends = fault::socket_ends();
    std::fflush(nullptr);
    const pid_t parent = getpid();
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      tenon::test::die_with_parent(parent);
      const std::string number = std::to_string(dup(ends[1]));
      execl("/proc/self/exe", "agent", "--agent", number.c_str(), nullptr);
      _exit(127);
    }
    close(ends[1]);
    socket_ = ends[0];
  }
  // A process that another agent forked.
  AgentProcess(pid_t pid, int socket) : pid_(pid), socket_(socket), child_(false) {}
  AgentProcess(AgentProcess&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), socket_(other.socket_), child_(other.child_) {}
  ~AgentProcess() = default;

  bool is_there() const { return pid_ > 0; }

  template <typename Request, typename Reply>
  Outcome exchange(const Request& request, int fd, Reply* reply, int* received) {
    int came = -1;
    REQUIRE(put_packet(socket_, &request, sizeof request, fd));
    REQUIRE(take_packet(socket_, reply, sizeof *reply, &came));
    if (received != nullptr) *received = came;
    Outcome outcome;
    outcome.status = reply->status;
    outcome.message = reply->message;
    for (const char* at = reply->details; *at != '\0';) {
      const std::string key = at;
      at += key.size() + 1;
      outcome.details[key] = at;
      at += std::strlen(at) + 1;
    }
    return outcome;
  }

  // Closes the socket and waits for the end of the process, which must have the wait status
  // `status`.
  void end(int status) {
    close(socket_);
    if (child_) {
      const int how = fault::wait_for_child(pid_);
      CHECK_SAYING(how == status, fault::describe_status(how));
    } else {
      // Another agent forked this process, and that agent may be dead. So waitpid cannot wait for
      // it.
      const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
      if (pidfd >= 0) {
        pollfd waiting{pidfd, POLLIN, 0};
        REQUIRE(poll(&waiting, 1, kPatienceMs * 2) == 1);
        close(pidfd);
      }
    }
    pid_ = -1;
  }

 private:
  char state() const {
    std::ifstream file("/proc/" + std::to_string(pid_) + "/stat");
    std::string text;
    std::getline(file, text);
    const size_t at = text.rfind(") ");
    return at == std::string::npos ? '?' : text[at + 2];
  }

  pid_t pid_ = -1;
  int socket_ = -1;
  bool child_ = true;
};

// An agent calls this to fork a child that serves requests too. `out` is the other end of the
// child's socket. In the child `socket` becomes the child's end, and `run` never returns.
template <typename Run>
uint64_t fork_agent(int* socket, int* out, Run run) {
  const auto ends = fault::socket_ends();
  std::signal(SIGCHLD, SIG_IGN);  // no waitpid is needed
  std::fflush(nullptr);
  // AddressSanitizer's allocator has locks that fork does not handle, so no other thread may be
  // inside it now.
  if (TENON_TEST_ASAN) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(fault::kWatchdogSeconds);
    close(ends[0]);
    close(*socket);
    *socket = ends[1];
    run();
  }
  close(ends[1]);
  *out = ends[0];
  return static_cast<uint64_t>(child);
}

// The main function of a test with agents. It runs a Served in an agent, and the tests otherwise.
template <typename Served>
int main_with_agents(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--agent") == 0) {
    alarm(fault::kWatchdogSeconds);
    const int socket = std::atoi(argv[2]);
    fcntl(socket, F_SETFD, FD_CLOEXEC);
    Served(socket).run();
  }
  return support::run_tests(argc, argv);
}

}  // namespace names
