// Agents for the tests of leases: processes of this program that lend and borrow on request. The
// test's own process is one of the sides, so a test reads from top to bottom in one place.
#pragma once

#include "process/lease/served.h"

namespace leases {

// An agent's reply. `object` is the number by which the agent keeps what the request made, or -1.
// Other functions take that number. served.h has what each request does.
struct Done {
  Outcome outcome;
  int object = -1;
  uint64_t value = 0;
  tenon_arena_stats stats{};
  bool ok() const { return outcome.ok(); }
};

// The limits and open flags of an agent's connection.
struct Accepts {
  uint32_t open_flags = 0;
  uint64_t max_tensors = 0;
  uint64_t max_message_nbytes = 0;
  uint64_t max_segments = 0;
};

class Agent : public names::AgentProcess {
 public:
  Agent() = default;
  Agent(Agent&& other) noexcept = default;
  ~Agent() {
    if (is_there()) quit();
  }

  int arena(uint64_t capacity, tenon_mode mode = TENON_MODE_SHARED) {
    return ask({.op = Op::kArena, .flags = mode, .nbytes = capacity}).object;
  }
  Done make(int arena, uint64_t nbytes, uint64_t seed, int64_t wait_ns = 0) {
    return ask({.op = Op::kNew,
                .object = arena,
                .nbytes = nbytes,
                .seed = seed,
                .limit = static_cast<uint64_t>(wait_ns)});
  }
  tenon_arena_stats stats_of(int arena) { return ask({.op = Op::kStats, .object = arena}).stats; }
  // Gives the fd to the agent, and closes it in this process.
  int connect(int fd, const Accepts& accepts = {}) {
    const Done done = ask({.op = Op::kConnect,
                           .flags = accepts.open_flags,
                           .nbytes = accepts.max_segments,
                           .count = accepts.max_tensors,
                           .limit = accepts.max_message_nbytes},
                          fd);
    CHECK_SAYING(done.ok(), done.outcome.text());
    close(fd);
    return done.object;
  }
  void send(int connection, int storage) {
    ask({.op = Op::kSend, .object = connection, .other = storage});
  }
  // Receives `count` messages, and keeps only the last one.
  Done receive(int connection, uint64_t count = 1) {
    return ask({.op = Op::kReceive, .object = connection, .count = count});
  }
  bool shows(int object, uint64_t seed, bool same = false) {
    return ask({.op = Op::kShows, .object = object, .flags = same ? 1U : 0U, .seed = seed}).value !=
           0;
  }
  Done pass(int connection, int message) {
    return ask({.op = Op::kPass, .object = connection, .other = message});
  }
  void release(int object) { ask({.op = Op::kRelease, .object = object}); }
  Agent fork_child() {
    int socket = -1;
    const Done done = ask({.op = Op::kFork}, -1, &socket);
    return Agent(static_cast<pid_t>(done.value), socket);
  }
  pid_t spawn_sleep() { return static_cast<pid_t>(ask({.op = Op::kSpawn}).value); }
  uint64_t scribble(uint64_t seed, uint64_t rounds) {
    return ask({.op = Op::kScribble, .seed = seed, .count = rounds}).value;
  }
  uint64_t ring(uint64_t count, bool with_fds = false) {
    return ask({.op = Op::kRing, .flags = with_fds ? 1U : 0U, .count = count}).value;
  }
  void close_bell() { ask({.op = Op::kCloseBell}); }
  void ask_renewal() { ask({.op = Op::kAskRenewal}); }
  void flood() { ask({.op = Op::kFlood}); }

  // Ends the agent with exit().
  void quit() {
    ask({.op = Op::kExit});
    end(0);
  }

 private:
  Agent(pid_t pid, int socket) : AgentProcess(pid, socket) {}

  Done ask(const Request& request, int fd = -1, int* received = nullptr) {
    Reply reply;
    Done done;
    done.outcome = exchange(request, fd, &reply, received);
    done.object = reply.object;
    done.value = reply.value;
    done.stats = reply.stats;
    return done;
  }
};

// A connection of this process, and its other end in the agent.
struct Link {
  tenon_connection* here = nullptr;
  int there = -1;
  explicit Link(Agent* agent, const Accepts& accepts = {}) {
    const auto ends = fault::socket_ends();
    here = fault::new_connection(ends[0]);
    there = agent->connect(ends[1], accepts);
  }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  ~Link() { close_here(); }
  void close_here() { tenon_connection_release(std::exchange(here, nullptr)); }
};

// A connection between two agents.
struct Between {
  int left = -1;
  int right = -1;
  Between(Agent* from, Agent* to) {
    const auto ends = fault::socket_ends();
    left = from->connect(ends[0]);
    right = to->connect(ends[1]);
  }
};

}  // namespace leases
