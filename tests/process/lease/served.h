// The agent's side of agent.h: a process that takes requests over a socket, calls the library, and
// replies with the outcome. It can also write to memory and sockets of leases past the library, as
// a hostile borrower does.
#pragma once

#include "process/lease/kit.h"
#include "support/lease_pages.h"
#include "support/sized.h"

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

class Served {
 public:
  explicit Served(int socket) : socket_(socket) {}

  [[noreturn]] void run() {
    names::serve<Request, Reply>(socket_,
                                 [this](const Request& request, int fd, Reply* reply, int* out) {
                                   return answer(request, fd, reply, out);
                                 });
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
        outcome = try_new(at(request.object)->arena, request.nbytes, &made.storage,
                          static_cast<int64_t>(request.limit));
        if (outcome.ok()) names::put_pattern(made.storage, request.seed);
        break;
      }
      case Op::kConnect: {
        auto options = tenon::test::sized<tenon_connection_options>();
        options.flags = TENON_CONNECTION_ADOPT_SOCKET;
        if (n_connections_++ % 2 == 0) options.flags |= TENON_CONNECTION_RING;
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
        reply->value = object->message != nullptr
                           ? shows(object->message, request.seed, request.flags != 0)
                           : names::shows_pattern(object->storage, request.seed);
        break;
      }
      case Op::kPass: {
        std::vector<tenon_storage*> storages;
        const tenon_message* message = at(request.other)->message;
        for (size_t i = 0; i < tenon_message_count(message); ++i)
          storages.push_back(tenon_tensor_storage(tenon_message_tensor(message, i)));
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
      case Op::kFork: reply->value = names::fork_agent(&socket_, out, [this] { run(); }); break;
      case Op::kSpawn: reply->value = spawn_one(); break;
      case Op::kScribble: reply->value = scribble(request); break;
      case Op::kRing: reply->value = ring(request); break;
      case Op::kCloseBell: {
        for (const int bell : bells()) close(bell);
        break;
      }
      case Op::kAskRenewal: {
        for (unsigned char* page : tenon::test::lease_pages())
          __atomic_store_n(reinterpret_cast<uint32_t*>(page + 128), 1U, __ATOMIC_RELAXED);
        break;
      }
      case Op::kFlood: flood(); break;
      case Op::kStats: reply->stats = stats(at(request.object)->arena); break;
      case Op::kExit: break;
    }
    if (outcome.ok() && (made.arena != nullptr || made.storage != nullptr ||
                         made.connection != nullptr || made.message != nullptr))
      reply->object = keep(made);
    return outcome;
  }

  // Starts a program that knows nothing of Tenon and outlives the agent.
  static uint64_t spawn_one() {
    std::signal(SIGCHLD, SIG_IGN);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      execlp("sleep", "sleep", "60", nullptr);
      _exit(127);
    }
    // Wait until exec has closed the fds that are close-on-exec.
    REQUIRE(wait_until([&] {
      std::ifstream file("/proc/" + std::to_string(child) + "/comm");
      std::string name;
      return std::getline(file, name) && name == "sleep";
    }));
    return static_cast<uint64_t>(child);
  }

  // ---- what a hostile borrower can reach

  // The agent's own sockets are SOCK_SEQPACKET, so every stream socket is a bell.
  static std::vector<int> bells() {
    std::vector<int> found;
    for (int fd = 0; fd < 1024; ++fd) {
      int type = 0;
      socklen_t length = sizeof type;
      if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_STREAM)
        found.push_back(fd);
    }
    return found;
  }

  static uint64_t scribble(const Request& request) {
    std::mt19937_64 random(request.seed);
    const std::vector<unsigned char*> all = tenon::test::lease_pages();
    for (unsigned char* page : all) {
      for (uint64_t round = 0; round < request.count; ++round) {
        // First single words, so that the lender can write in between. Then the whole page.
        for (int i = 0; i < 1000; ++i) {
          const uint64_t value = random();
          std::memcpy(page + random() % (tenon::test::kLeasePageNbytes / 8) * 8, &value,
                      sizeof value);
        }
        for (size_t i = 0; i < tenon::test::kLeasePageNbytes; i += 8) {
          const uint64_t value = random();
          std::memcpy(page + i, &value, sizeof value);
        }
      }
    }
    return all.size();
  }

  // Rings every bell `count` times: with one byte and an fd if the flags are set, otherwise with 64
  // KiB.
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

  // Starts a thread that rings and overwrites the lease pages for as long as the agent lives.
  static void flood() {
    std::thread([] {
      const std::vector<int> all = bells();
      const std::vector<unsigned char*> all_pages = tenon::test::lease_pages();
      const std::string noise(4096, 'x');
      std::mt19937_64 random(7);
      while (true) {
        for (const int bell : all)
          (void)send(bell, noise.data(), noise.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        for (unsigned char* page : all_pages) {
          for (int i = 0; i < 64; ++i) {
            // The stores are atomic, so that a race detector does not report the agent's own
            // threads.
            __atomic_store_n(reinterpret_cast<uint64_t*>(page + 4096 + random() % 2048 * 8),
                             random(), __ATOMIC_RELAXED);
          }
        }
      }
    }).detach();
  }

  int socket_;
  // Every other connection sends through a ring. Both ways keep the rules of leases.
  int n_connections_ = 0;
  std::vector<Object> objects_;
};

}  // namespace leases
