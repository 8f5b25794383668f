// Other processes that do as they are told: this program, started afresh, serving calls of the library over a socket. So a test reads from
// top to bottom in one place, and what it says of two processes is true of two that have nothing in common.
#pragma once

#include <poll.h>
#include <sys/syscall.h>

#include "filename/served.h"

namespace names {

struct Done {
  Outcome outcome;
  int slot = -1;
  uint64_t value = 0;
  tenon_filename_handle handle = blank_handle();
  tenon_fd_handle fd_handle{};
  tenon_sweep_result swept{};
  bool ok() const { return outcome.ok(); }
};

class Agent {
 public:
  // Under another user, if told so: root only.
  explicit Agent(uid_t uid = 0, gid_t gid = 0, gid_t group = 0) {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    std::fflush(nullptr);
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const std::string number = std::to_string(dup(ends[1]));
      execl("/proc/self/exe", "agent", "--agent", number.c_str(), nullptr);
      _exit(127);
    }
    close(ends[1]);
    socket_ = ends[0];
    if (uid != 0) {
      Request request;
      request.op = Op::kBecome;
      request.uid = uid;
      request.gid = gid;
      request.group = group;
      ask(request);
    }
  }
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;
  Agent(Agent&& other) noexcept : pid_(other.pid_), socket_(other.socket_), child_(other.child_) { other.pid_ = -1; }
  ~Agent() {
    if (pid_ > 0) quit();
  }

  pid_t pid() const { return pid_; }

  Done create(const Naming& naming, uint64_t nbytes, uint64_t seed = 1) { return named(Op::kCreate, naming, nbytes, seed); }
  // Makes and lends it: the handle is in the answer.
  Done create_shared(const Naming& naming, uint64_t nbytes, uint64_t seed = 1) {
    Done made = create(naming, nbytes, seed);
    if (!made.ok()) return made;
    Done shared = share(made.slot);
    shared.slot = made.slot;
    return shared;
  }
  Done make(tenon_mode mode, uint32_t flags, uint64_t nbytes, uint64_t seed = 1) {
    Request request;
    request.op = Op::kNew;
    request.mode = mode;
    request.flags = flags;
    request.nbytes = nbytes;
    request.seed = seed;
    return ask(request);
  }
  Done share(int slot, const Naming& naming = {}) { return named(Op::kShare, naming, 0, 0, slot); }
  Done open(const tenon_filename_handle& handle, uint32_t flags = TENON_OPEN_ALLOW_UNSEALED, tenon_access access = TENON_ACCESS_AUTO,
            int64_t timeout_ns = -1) {
    Request request;
    request.op = Op::kOpen;
    request.handle = handle;
    request.flags = flags;
    request.access = access;
    request.time_ns = timeout_ns;
    return ask(request);
  }
  Done share_fd(int slot, int* fd) { return ask(plain(Op::kShareFd, slot), -1, fd); }
  Done open_fd(int fd, uint64_t nbytes, uint64_t offset, uint32_t flags = TENON_OPEN_ALLOW_UNSEALED) {
    Request request = plain(Op::kOpenFd, -1);
    request.nbytes = nbytes;
    request.offset = offset;
    request.flags = flags;
    return ask(request, fd);
  }
  void release(int slot) { ask(plain(Op::kRelease, slot)); }
  Done read(int slot, uint64_t offset, uint64_t nbytes, uint64_t seed) { return ranged(Op::kRead, slot, offset, nbytes, seed); }
  Done write(int slot, uint64_t offset, uint64_t nbytes, uint64_t seed) { return ranged(Op::kWrite, slot, offset, nbytes, seed); }
  Outcome fill(int slot, uint64_t seed) { return ranged(Op::kFill, slot, 0, 0, seed).outcome; }
  bool shows(int slot, uint64_t seed) { return ranged(Op::kShows, slot, 0, 0, seed).value != 0; }
  bool is_read_only(int slot) { return ask(plain(Op::kReadOnly, slot)).value != 0; }
  Outcome incref(const tenon_filename_handle& handle) { return about(Op::kIncref, handle); }
  Outcome decref(const tenon_filename_handle& handle) { return about(Op::kDecref, handle); }
  Outcome unlink(const std::string& name) {
    Naming naming;
    naming.name = name;
    return named(Op::kUnlink, naming, 0, 0).outcome;
  }
  tenon_sweep_result sweep_all(const std::string& directory, uint32_t flags = 0) {
    Naming naming;
    naming.directory = directory;
    naming.flags = flags;
    return named(Op::kSweep, naming, 0, 0).swept;
  }
  Agent fork_child() {
    int socket = -1;
    const Done done = ask(plain(Op::kFork, -1), -1, &socket);
    return Agent(static_cast<pid_t>(done.value), socket);
  }

  // An orderly end, with exit().
  void quit() {
    ask(plain(Op::kExit, -1));
    end(0);
  }
  void kill() {
    CHECK(::kill(pid_, SIGKILL) == 0);
    end(SIGKILL);
  }
  void signal(int number) const { CHECK(::kill(pid_, number) == 0); }
  // Until the kernel says that it stands still.
  void stop() const {
    signal(SIGSTOP);
    REQUIRE(soon([this] { return state() == 'T'; }));
  }

 private:
  Agent(pid_t pid, int socket) : pid_(pid), socket_(socket), child_(false) {}

  static Request plain(Op op, int slot) {
    Request request;
    request.op = op;
    request.slot = slot;
    return request;
  }
  Done ranged(Op op, int slot, uint64_t offset, uint64_t nbytes, uint64_t seed) {
    Request request = plain(op, slot);
    request.offset = offset;
    request.nbytes = nbytes;
    request.seed = seed;
    return ask(request);
  }
  Done named(Op op, const Naming& naming, uint64_t nbytes, uint64_t seed, int slot = -1) {
    Request request = ranged_request(op, nbytes, seed, slot);
    request.flags = naming.flags;
    request.mode = naming.mode;
    request.group = naming.group;
    request.access = naming.access;
    copy(naming.directory, request.directory);
    copy(naming.name, request.name);
    copy(naming.prefix, request.prefix);
    return ask(request);
  }
  static Request ranged_request(Op op, uint64_t nbytes, uint64_t seed, int slot) {
    Request request = plain(op, slot);
    request.nbytes = nbytes;
    request.seed = seed;
    return request;
  }
  Outcome about(Op op, const tenon_filename_handle& handle) {
    Request request = plain(op, -1);
    request.handle = handle;
    return ask(request).outcome;
  }
  static void copy(const std::string& text, char (&place)[300]) {
    REQUIRE(text.size() < sizeof place);
    std::memcpy(place, text.c_str(), text.size() + 1);
  }

  Done ask(const Request& request, int fd = -1, int* received = nullptr) {
    Reply reply;
    int came = -1;
    REQUIRE(put_packet(socket_, &request, sizeof request, fd));
    REQUIRE(take_packet(socket_, &reply, sizeof reply, &came));
    if (received != nullptr) *received = came;
    Done done;
    done.outcome.status = reply.status;
    done.outcome.message = reply.message;
    for (const char* at = reply.details; *at != '\0';) {
      const std::string key = at;
      at += key.size() + 1;
      done.outcome.details[key] = at;
      at += std::strlen(at) + 1;
    }
    done.slot = reply.slot;
    done.value = reply.value;
    done.handle = reply.handle;
    done.fd_handle = reply.fd_handle;
    done.swept = reply.swept;
    return done;
  }

  char state() const {
    std::ifstream file("/proc/" + std::to_string(pid_) + "/stat");
    std::string text;
    std::getline(file, text);
    const size_t at = text.rfind(") ");
    return at == std::string::npos ? '?' : text[at + 2];
  }

  void end(int status) {
    close(socket_);
    if (child_) {
      const int how = fault::join(pid_);
      CHECK_SAYING(how == status, fault::how_it_ended(how));
    } else {
      // Somebody else's child, or by now a child of who knows whom.
      const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
      if (pidfd >= 0) {
        pollfd waiting{pidfd, POLLIN, 0};
        REQUIRE(poll(&waiting, 1, kPatienceMs * 2) == 1);
        close(pidfd);
      }
    }
    pid_ = -1;
  }

  pid_t pid_ = -1;
  int socket_ = -1;
  bool child_ = true;
};

inline int main_of(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--agent") == 0) {
    alarm(fault::kWatchdogSeconds);
    const int socket = std::atoi(argv[2]);
    fcntl(socket, F_SETFD, FD_CLOEXEC);
    Served(socket).run();
  }
  return fault::run_all(argc, argv);
}

#define NAMES_MAIN \
  int main(int argc, char** argv) { return ::names::main_of(argc, argv); }

}  // namespace names
