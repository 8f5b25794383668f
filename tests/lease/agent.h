// Other processes that lend and borrow as they are told: this program, started afresh. The test's own process is one of the sides, so a
// test reads from top to bottom in one place.
#pragma once

#include <poll.h>
#include <sys/syscall.h>

#include <map>

#include "lease/kit.h"

namespace leases {

enum class Op : uint32_t {
  kArena,
  kNew,
  kConnect,
  kSend,
  kReceive,
  kShows,
  kPass,
  kRelease,
  kFork,
  kSpawn,
  kScribble,
  kRing,
  kCloseBell,
  kAskRenewal,
  kFlood,
  kStats,
  kExit
};

struct Request {
  Op op = Op::kExit;
  int32_t object = -1;
  int32_t other = -1;
  uint32_t flags = 0;
  uint64_t nbytes = 0;
  uint64_t seed = 0;
  uint64_t count = 0;
  uint64_t limit = 0;
};

struct Reply {
  int32_t status = 0;
  int32_t object = -1;
  uint64_t value = 0;
  tenon_arena_stats stats{};
  char message[600] = {};
  char details[1400] = {};  // key, NUL, value, NUL, ...
};

struct Done {
  Outcome outcome;
  int object = -1;
  uint64_t value = 0;
  tenon_arena_stats stats{};
  bool ok() const { return outcome.ok(); }
};

// What a connection of an agent accepts.
struct Accepts {
  uint32_t open_flags = 0;
  uint64_t max_tensors = 0;
  uint64_t max_message_nbytes = 0;
  uint64_t max_segments = 0;
};

class Served {
 public:
  explicit Served(int socket) : socket_(socket) {}

  [[noreturn]] void run() {
    Request request;
    int fd = -1;
    while (names::take_packet(socket_, &request, sizeof request, &fd)) {
      Reply reply;
      int out = -1;
      const Outcome outcome = answer(request, fd, &reply, &out);
      reply.status = outcome.status;
      std::snprintf(reply.message, sizeof reply.message, "%s", outcome.message.c_str());
      std::string details;
      for (const auto& [key, value] : outcome.details) details.append(key).push_back('\0'), details.append(value).push_back('\0');
      REQUIRE(details.size() < sizeof reply.details);
      std::memcpy(reply.details, details.data(), details.size());
      if (!names::put_packet(socket_, &reply, sizeof reply, out)) break;
      if (out >= 0) close(out);
      if (request.op == Op::kExit) {
        std::fflush(nullptr);
        close(socket_);
        exit(fault::g_failures == 0 ? 0 : 1);
      }
    }
    std::fflush(nullptr);
    _exit(3);  // the test is over, and was so without a word
  }

 private:
  struct Object {
    tenon_arena* arena = nullptr;
    tenon_storage* storage = nullptr;
    tenon_connection* connection = nullptr;
    tenon_message* message = nullptr;
  };

  int keep(const Object& object) {
    objects_.push_back(object);
    return static_cast<int>(objects_.size()) - 1;
  }
  Object* at(int index) {
    REQUIRE(index >= 0 && static_cast<size_t>(index) < objects_.size());
    return &objects_[static_cast<size_t>(index)];
  }

  Outcome answer(const Request& request, int fd, Reply* reply, int* out) {
    Object made;
    Outcome outcome;
    switch (request.op) {
      case Op::kArena: made.arena = new_arena(request.nbytes, request.flags); break;
      case Op::kNew: {
        outcome = try_new(at(request.object)->arena, request.nbytes, &made.storage, static_cast<int64_t>(request.limit));
        if (outcome.ok()) names::put_pattern(made.storage, request.seed);
        break;
      }
      case Op::kConnect: {
        tenon_connection_options options{};
        options.struct_size = sizeof options;
        options.flags = TENON_CONNECTION_ADOPT_SOCKET;
        options.open_flags = request.flags;
        options.max_tensors = request.count;
        options.max_message_nbytes = request.limit;
        options.max_segments = request.nbytes;
        outcome = CALL(tenon_connection_new(fd, &options, &made.connection, err));
        break;
      }
      case Op::kSend: lend(at(request.object)->connection, {at(request.other)->storage}); break;
      case Op::kReceive:
        for (uint64_t i = 0; i < std::max<uint64_t>(request.count, 1) && outcome.ok(); ++i) {
          tenon_message_release(made.message);
          made.message = nullptr;
          outcome = try_receive(at(request.object)->connection, &made.message);
        }
        if (outcome.ok()) reply->value = tenon_message_count(made.message);
        break;
      case Op::kShows: {
        const Object* object = at(request.object);
        reply->value = object->message != nullptr ? shows(object->message, request.seed, request.flags != 0)
                                                  : names::shows_pattern(object->storage, request.seed);
        break;
      }
      case Op::kPass: {
        std::vector<tenon_storage*> storages;
        const tenon_message* message = at(request.other)->message;
        for (size_t i = 0; i < tenon_message_count(message); ++i) storages.push_back(tenon_tensor_storage(tenon_message_tensor(message, i)));
        tenon_message* passed = message_of(storages);
        outcome = try_send(at(request.object)->connection, passed);
        tenon_message_release(passed);
        break;
      }
      case Op::kRelease: {
        Object* object = at(request.object);
        tenon_message_release(object->message);
        tenon_storage_release(object->storage);
        tenon_connection_release(object->connection);
        tenon_arena_release(object->arena);
        *object = {};
        break;
      }
      case Op::kFork: reply->value = fork_one(out); break;
      case Op::kSpawn: reply->value = spawn_one(); break;
      case Op::kScribble: reply->value = scribble(request); break;
      case Op::kRing: reply->value = ring(request); break;
      case Op::kCloseBell: {
        for (const int bell : bells()) close(bell);
        break;
      }
      case Op::kAskRenewal: {
        for (unsigned char* page : pages()) __atomic_store_n(reinterpret_cast<uint32_t*>(page + 128), 1U, __ATOMIC_RELAXED);
        break;
      }
      case Op::kFlood: flood(); break;
      case Op::kStats: reply->stats = stats(at(request.object)->arena); break;
      case Op::kExit: break;
    }
    if (outcome.ok() && (made.arena != nullptr || made.storage != nullptr || made.connection != nullptr || made.message != nullptr))
      reply->object = keep(made);
    return outcome;
  }

  uint64_t fork_one(int* out) {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    std::signal(SIGCHLD, SIG_IGN);  // nobody waits for it
    std::fflush(nullptr);
    // AddressSanitizer's allocator has locks that fork does not know: no other thread may be in it just now.
    if (FAULT_ASAN) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      alarm(fault::kWatchdogSeconds);
      close(ends[0]);
      close(socket_);
      socket_ = ends[1];
      run();
    }
    close(ends[1]);
    *out = ends[0];
    return static_cast<uint64_t>(child);
  }

  // A program that knows nothing of Tenon, and outlives the agent.
  static uint64_t spawn_one() {
    std::signal(SIGCHLD, SIG_IGN);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      execlp("sleep", "sleep", "60", nullptr);
      _exit(127);
    }
    // Until exec has closed what is close-on-exec.
    REQUIRE(soon([&] {
      std::ifstream file("/proc/" + std::to_string(child) + "/comm");
      std::string name;
      return std::getline(file, name) && name == "sleep";
    }));
    return static_cast<uint64_t>(child);
  }

  // ---- what a hostile borrower can reach

  // The lease pages, by their size: 4,194,304 slots.
  static std::vector<unsigned char*> pages() {
    constexpr uint64_t kNbytes = 4096 + 8192 + (uint64_t{4} << 20) / 8;
    std::vector<unsigned char*> found;
    std::ifstream file("/proc/self/maps");
    for (std::string line; std::getline(file, line);) {
      uint64_t begin = 0;
      uint64_t end = 0;
      if (line.find("rw-s") == std::string::npos || std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) != 2) continue;
      if (end - begin == kNbytes) found.push_back(reinterpret_cast<unsigned char*>(begin));
    }
    return found;
  }
  static constexpr size_t kPageNbytes = 4096 + 8192 + (size_t{4} << 20) / 8;

  // The agent's own sockets are packets, so every stream is a bell.
  static std::vector<int> bells() {
    std::vector<int> found;
    for (int fd = 0; fd < 1024; ++fd) {
      int type = 0;
      socklen_t length = sizeof type;
      if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_STREAM) found.push_back(fd);
    }
    return found;
  }

  static uint64_t scribble(const Request& request) {
    std::mt19937_64 random(request.seed);
    const std::vector<unsigned char*> all = pages();
    for (unsigned char* page : all) {
      for (uint64_t round = 0; round < request.count; ++round) {
        // Single words, so that the lender's own are between; and then all of it.
        for (int i = 0; i < 1000; ++i) {
          const uint64_t value = random();
          std::memcpy(page + random() % (kPageNbytes / 8) * 8, &value, sizeof value);
        }
        for (size_t i = 0; i < kPageNbytes; i += 8) {
          const uint64_t value = random();
          std::memcpy(page + i, &value, sizeof value);
        }
      }
    }
    return all.size();
  }

  // With an fd each, if told so.
  static uint64_t ring(const Request& request) {
    const std::vector<int> all = bells();
    const std::string noise(65536, 'x');
    for (const int bell : all) {
      for (uint64_t i = 0; i < request.count; ++i) {
        if (request.flags != 0) {
          (void)names::put_packet(bell, noise.data(), 1, 0);
        } else {
          (void)send(bell, noise.data(), noise.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        }
      }
    }
    return all.size();
  }

  // Rings and scribbles for as long as the agent lives.
  static void flood() {
    std::thread([] {
      const std::vector<int> all = bells();
      const std::vector<unsigned char*> all_pages = pages();
      const std::string noise(4096, 'x');
      std::mt19937_64 random(7);
      while (true) {
        for (const int bell : all) (void)send(bell, noise.data(), noise.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        for (unsigned char* page : all_pages) {
          for (int i = 0; i < 64; ++i) {
            const uint64_t value = random();
            std::memcpy(page + 4096 + random() % 2048 * 8, &value, sizeof value);
          }
        }
      }
    }).detach();
  }

  int socket_;
  std::vector<Object> objects_;
};

class Agent {
 public:
  Agent() {
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
  }
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;
  Agent(Agent&& other) noexcept : pid_(other.pid_), socket_(other.socket_), child_(other.child_) { other.pid_ = -1; }
  ~Agent() {
    if (pid_ > 0) quit();
  }

  pid_t pid() const { return pid_; }

  int arena(uint64_t capacity, tenon_mode mode = TENON_MODE_SHARED) {
    return ask({.op = Op::kArena, .flags = mode, .nbytes = capacity}).object;
  }
  Done make(int arena, uint64_t nbytes, uint64_t seed, int64_t wait_ns = 0) {
    return ask({.op = Op::kNew, .object = arena, .nbytes = nbytes, .seed = seed, .limit = static_cast<uint64_t>(wait_ns)});
  }
  tenon_arena_stats stats_of(int arena) { return ask({.op = Op::kStats, .object = arena}).stats; }
  // The fd is the agent's from now on.
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
  void send(int connection, int storage) { ask({.op = Op::kSend, .object = connection, .other = storage}); }
  // The last of `count` messages; those before are released.
  Done receive(int connection, uint64_t count = 1) { return ask({.op = Op::kReceive, .object = connection, .count = count}); }
  bool shows(int object, uint64_t seed, bool same = false) {
    return ask({.op = Op::kShows, .object = object, .flags = same ? 1U : 0U, .seed = seed}).value != 0;
  }
  Done pass(int connection, int message) { return ask({.op = Op::kPass, .object = connection, .other = message}); }
  void release(int object) { ask({.op = Op::kRelease, .object = object}); }
  Agent fork_child() {
    int socket = -1;
    const Done done = ask({.op = Op::kFork}, -1, &socket);
    return Agent(static_cast<pid_t>(done.value), socket);
  }
  pid_t spawn_sleep() { return static_cast<pid_t>(ask({.op = Op::kSpawn}).value); }
  uint64_t scribble(uint64_t seed, uint64_t rounds) { return ask({.op = Op::kScribble, .seed = seed, .count = rounds}).value; }
  uint64_t ring(uint64_t count, bool with_fds = false) {
    return ask({.op = Op::kRing, .flags = with_fds ? 1U : 0U, .count = count}).value;
  }
  void close_bell() { ask({.op = Op::kCloseBell}); }
  void ask_renewal() { ask({.op = Op::kAskRenewal}); }
  void flood() { ask({.op = Op::kFlood}); }

  // An orderly end, with exit().
  void quit() {
    ask({.op = Op::kExit});
    end(0);
  }
  void kill() {
    CHECK(::kill(pid_, SIGKILL) == 0);
    end(SIGKILL);
  }
  void stop() const {
    CHECK(::kill(pid_, SIGSTOP) == 0);
    REQUIRE(soon([this] { return state() == 'T'; }));
  }
  void go_on() const { CHECK(::kill(pid_, SIGCONT) == 0); }

 private:
  Agent(pid_t pid, int socket) : pid_(pid), socket_(socket), child_(false) {}

  Done ask(const Request& request, int fd = -1, int* received = nullptr) {
    Reply reply;
    int came = -1;
    REQUIRE(names::put_packet(socket_, &request, sizeof request, fd));
    REQUIRE(names::take_packet(socket_, &reply, sizeof reply, &came));
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
    done.object = reply.object;
    done.value = reply.value;
    done.stats = reply.stats;
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

// A connection of this process, and its other end in the agent.
struct Link {
  tenon_connection* here = nullptr;
  int there = -1;
  explicit Link(Agent* agent, const Accepts& accepts = {}) {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    here = fault::new_connection(ends[0]);
    there = agent->connect(ends[1], accepts);
  }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  ~Link() { close_here(); }
  void close_here() { tenon_connection_release(std::exchange(here, nullptr)); }
};

// Between two agents.
struct Between {
  int left = -1;
  int right = -1;
  Between(Agent* from, Agent* to) {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    left = from->connect(ends[0]);
    right = to->connect(ends[1]);
  }
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

#define LEASES_MAIN \
  int main(int argc, char** argv) { return ::leases::main_of(argc, argv); }

}  // namespace leases
