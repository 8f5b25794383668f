// Agents for the tests of names: processes of this program, started with exec, that call the
// library on request. A test reads from top to bottom in one place, and its two processes share no
// memory from before.
#pragma once

#include "process/filename/served.h"

namespace names {

// An agent's reply. `slot` is the number by which the agent keeps the storage that the request
// made, or -1. Other functions take that number. served.h has what each request does.
struct Done {
  Outcome outcome;
  int slot = -1;
  uint64_t value = 0;
  tenon_filename_handle handle = blank_handle();
  tenon_fd_handle fd_handle{};
  tenon_sweep_result swept{};
  bool ok() const { return outcome.ok(); }
};

class Agent : public AgentProcess {
 public:
  // Makes the agent run as another user, if `uid` is set. Only root can do that.
  explicit Agent(uid_t uid = 0, gid_t gid = 0, gid_t group = 0) {
    if (uid != 0) {
      Request request;
      request.op = Op::kBecome;
      request.uid = uid;
      request.gid = gid;
      request.group = group;
      ask(request);
    }
  }
  Agent(Agent&& other) noexcept = default;
  ~Agent() {
    if (is_there()) quit();
  }

  Done create(const Naming& naming, uint64_t nbytes, uint64_t seed = 1) {
    return named(Op::kCreate, naming, nbytes, seed);
  }
  // Creates a named storage and lends it. The answer has the handle.
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
  Done open(const tenon_filename_handle& handle, uint32_t flags = TENON_OPEN_ALLOW_UNSEALED,
            tenon_access access = TENON_ACCESS_AUTO, int64_t timeout_ns = -1) {
    Request request;
    request.op = Op::kOpen;
    request.handle = handle;
    request.flags = flags;
    request.access = access;
    request.time_ns = timeout_ns;
    return ask(request);
  }
  Done share_fd(int slot, int* fd) { return ask(plain(Op::kShareFd, slot), -1, fd); }
  Done open_fd(int fd, uint64_t nbytes, uint64_t offset,
               uint32_t flags = TENON_OPEN_ALLOW_UNSEALED) {
    Request request = plain(Op::kOpenFd, -1);
    request.nbytes = nbytes;
    request.offset = offset;
    request.flags = flags;
    return ask(request, fd);
  }
  void release(int slot) { ask(plain(Op::kRelease, slot)); }
  Done read(int slot, uint64_t offset, uint64_t nbytes, uint64_t seed) {
    return ranged(Op::kRead, slot, offset, nbytes, seed);
  }
  Done write(int slot, uint64_t offset, uint64_t nbytes, uint64_t seed) {
    return ranged(Op::kWrite, slot, offset, nbytes, seed);
  }
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

  // Ends the agent with exit().
  void quit() {
    ask(plain(Op::kExit, -1));
    end(0);
  }

 private:
  Agent(pid_t pid, int socket) : AgentProcess(pid, socket) {}

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
    Done done;
    done.outcome = exchange(request, fd, &reply, received);
    done.slot = reply.slot;
    done.value = reply.value;
    done.handle = reply.handle;
    done.fd_handle = reply.fd_handle;
    done.swept = reply.swept;
    return done;
  }
};

}  // namespace names
