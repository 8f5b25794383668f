// Kills borrowers and lenders of leased device memory at random instructions.
//
// Three processes form a ring. The first lends blocks of an arena or of a pool to the second, the
// second lends them on to the third, and the third sends some back home. The message of each block
// says what must lie in it, and every process that has the block checks it again and again. One,
// two or all three are killed at a random moment. The survivors then release everything. The lender
// must get all blocks back within seconds, and when all processes have ended the device must get
// its memory back.
//
// By hand: cuda_lease_storm KILLS [SEED]. With --break the second process uses blocks that it has
// given back, and the storm must notice.
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "device/arena.h"
#include "process/cuda/connected_kit.h"

namespace cuda_test {
namespace {

constexpr int kLeasePeers = 3;
constexpr int kWrong = 40;  // exit codes
constexpr int kNotGivenBack = 41;
constexpr int kBroken = 42;
constexpr uint64_t kArena = uint64_t{1} << 18;

struct Random {
  uint64_t state;
  uint64_t below(uint64_t bound) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % bound;
  }
};

// The memory that all three processes share.
struct LeaseBoard {
  std::atomic<uint64_t> lent{0};
  std::atomic<uint64_t> lent_on{0};
  std::atomic<uint64_t> came_home{0};
  std::atomic<uint64_t> checked{0};
  std::atomic<uint64_t> full{0};
  std::atomic<uint64_t> emptied{0};
  std::atomic<bool> stop{false};
};

struct Round {
  LeaseBoard* board;
  uint64_t seed;
  CudaTransport transport;
  bool break_it;
};

// A block and its stamp. The first and the last eight bytes of the block must equal the number that
// its message says.
struct Held {
  Ref<Storage> storage;
  uint64_t stamp = 0;
};

[[noreturn]] void end(int code, const char* what) {
  std::fprintf(stderr, "pid %d: %s\n", getpid(), what);
  std::fflush(stderr);
  std::_Exit(code);
}
void must(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS) end(kBroken, what);
}

uint64_t stamp_at(CUdeviceptr pointer) {
  uint64_t stamp = 0;
  must(driver().cuMemcpyAsync(reinterpret_cast<uintptr_t>(&stamp), pointer, sizeof stamp, nullptr),
       "cuMemcpyAsync");
  must(driver().cuStreamSynchronize(nullptr), "cuStreamSynchronize");
  return stamp;
}

// The source of the lender's blocks: an arena, or a pool that allocates each block.
class Blocks {
 public:
  explicit Blocks(CudaTransport transport) {
    if (transport == CudaTransport::kPool) {
      pool_ = make_pool();
    } else {
      arena_ = CudaArena::create({.device = 0, .transport = transport, .capacity_nbytes = kArena})
                   .value();
    }
  }
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;
  ~Blocks() {
    if (pool_ != nullptr) must(driver().cuMemPoolDestroy(pool_), "cuMemPoolDestroy");
  }
  uint64_t most_nbytes() const { return (arena_ ? arena_->stats().capacity_nbytes : kArena) / 6; }
  uint64_t used() const { return arena_ ? arena_->stats().used_nbytes : in_pool_; }
  // Returns null if there is no room.
  Ref<Storage> allocate(uint64_t nbytes, int64_t timeout_ns) {
    if (arena_) {
      Result<Ref<Storage>> made = arena_->allocate(nbytes, {.timeout_ns = timeout_ns});
      return made.is_ok() ? std::move(made).value() : nullptr;
    }
    if (in_pool_ >= 16) (void)collect_cuda();
    if (in_pool_ >= 16) return nullptr;
    ++in_pool_;
    auto* const block = new Block{this, allocate_from(pool_, nbytes)};
    return wrap_cuda(as_data(block->pointer), nbytes, 0, give_back, block, false).value();
  }

 private:
  struct Block {
    Blocks* from;
    CUdeviceptr pointer;
  };
  static void give_back(void* context) {
    const std::unique_ptr<Block> block(static_cast<Block*>(context));
    must(driver().cuMemFreeAsync(block->pointer, nullptr), "cuMemFreeAsync");
    --block->from->in_pool_;
  }
  Ref<CudaArena> arena_;
  CUmemoryPool pool_ = nullptr;
  uint64_t in_pool_ = 0;
};

class LeasePeer {
 public:
  LeasePeer(const Round& round, Connection::Owned from, Connection::Owned to)
      : round_(round), from_(std::move(from)), to_(std::move(to)), random_{round.seed} {}

  void check(const Held& held) {
    const uint64_t nbytes = held.storage->nbytes();
    if (stamp_at(pointer_of(held.storage)) != held.stamp ||
        stamp_at(pointer_of(held.storage) + nbytes - sizeof held.stamp) != held.stamp)
      end(kWrong, "another's bytes are in a block that is held");
    round_.board->checked.fetch_add(1, std::memory_order_relaxed);
  }

  // Returns false if the next process is gone.
  bool send(const Held& held) {
    Result<std::unique_ptr<Message>> message = message_of({held.storage});
    if (!message.is_ok()) end(kBroken, message.status().message().c_str());
    const auto bytes = std::as_bytes(std::span(&held.stamp, 1));
    (void)message.value()->set_user_bytes(bytes);
    const Status sent = to_->send(message.value().get(), {.timeout_ns = 0});
    if (sent.is_ok() || sent.code() == Code::kWouldBlock) return true;
    if (sent.code() != Code::kPeerGone) end(kBroken, sent.message().c_str());
    return false;
  }

  // Returns false if no message came, or if the process before is gone.
  bool receive(Held* out, int64_t timeout_ns) {
    Result<std::unique_ptr<Message>> message = from_->recv({.timeout_ns = timeout_ns});
    if (!message.is_ok()) {
      const Code code = message.status().code();
      // The driver forgets the memory and the events of a killed process. A borrower that opens too
      // late gets this error.
      const bool late = code == Code::kInvalidArgument || code == Code::kPeerGone;
      if (code != Code::kWouldBlock && code != Code::kTimeout && !late)
        end(kBroken, message.status().message().c_str());
      gone_ = gone_ || code == Code::kPeerGone;
      return false;
    }
    out->storage = message.value()->items().at(0).tensor->storage();
    std::memcpy(&out->stamp, message.value()->user_bytes().data(), sizeof out->stamp);
    return true;
  }

  void hold(Held held) {
    held_.push_back(std::move(held));
    while (held_.size() > 8) drop_one();
  }
  void drop_one() {
    if (held_.empty()) return;
    const size_t which = random_.below(held_.size());
    Held held = std::move(held_[which]);
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(which));
    check(held);
    if (round_.break_it) {
      given_back_.emplace_back(pointer_of(held.storage), held.stamp);
    }
  }
  // Reads through pointers that outlived their storages, as a faulty program might.
  void look_at_what_was_given_back() {
    for (const auto& [pointer, stamp] : given_back_) {
      uint64_t now = 0;
      if (driver().cuMemcpyAsync(reinterpret_cast<uintptr_t>(&now), pointer, sizeof now, nullptr) !=
          CUDA_SUCCESS)
        continue;
      must(driver().cuStreamSynchronize(nullptr), "cuStreamSynchronize");
      if (now != stamp) end(kWrong, "another's bytes are in a block that was given back");
    }
  }
  void let_go_of_all() {
    held_.clear();
    to_ = nullptr;
    Held rest;
    while (!gone_ && receive(&rest, 0)) rest = {};
    rest = {};
    from_ = nullptr;
    (void)wait_until([] { return collect_cuda() == 0; }, std::chrono::seconds(5));
  }

  void lend() {
    use_device();
    Blocks blocks(round_.transport);
    uint64_t number = round_.seed << 20;
    while (!round_.board->stop.load()) {
      const uint64_t nbytes = 16 + random_.below(blocks.most_nbytes());
      if (Ref<Storage> made = blocks.allocate(nbytes, random_.below(4) == 0 ? 200'000 : 0)) {
        Held held{std::move(made), ++number};
        // Waits until the bytes are written: if the lender is killed, no other process would write
        // them.
        for (const uint64_t at : {uint64_t{0}, nbytes - sizeof number}) {
          must(driver().cuMemcpyAsync(pointer_of(held.storage) + at,
                                      reinterpret_cast<uintptr_t>(&number), sizeof number, nullptr),
               "cuMemcpyAsync");
          must(driver().cuStreamSynchronize(nullptr), "cuStreamSynchronize");
        }
        round_.board->lent.fetch_add(1, std::memory_order_relaxed);
        if (!to_gone_ && !send(held)) to_gone_ = true;
        if (random_.below(3) == 0) hold(std::move(held));
      } else {
        round_.board->full.fetch_add(1, std::memory_order_relaxed);
        drop_one();
      }
      if (Held home; !gone_ && receive(&home, 0)) {
        round_.board->came_home.fetch_add(1, std::memory_order_relaxed);
        check(home);
        hold(std::move(home));
      }
      if (!held_.empty()) check(held_[random_.below(held_.size())]);
    }
    held_.clear();
    to_ = nullptr;
    Held rest;
    while (!gone_ && receive(&rest, 0)) rest = {};
    rest = {};
    // The other processes release their blocks, or are gone.
    for (int i = 0; blocks.used() != 0; ++i) {
      if (i == 100'000)
        end(kNotGivenBack,
            "seconds after everybody let go the lender does not have all blocks back");
      (void)collect_cuda();
      if (Held late; from_ && !gone_) (void)receive(&late, 0);
      usleep(100);
    }
    round_.board->emptied.fetch_add(1, std::memory_order_relaxed);
  }

  void borrow(bool first) {
    use_device();
    while (!round_.board->stop.load() && !gone_) {
      Held held;
      if (receive(&held, 500'000)) {
        check(held);
        if (random_.below(2) == 0 && round_.transport != CudaTransport::kIpc) {
          (void)send(held);
          if (first) round_.board->lent_on.fetch_add(1, std::memory_order_relaxed);
        }
        hold(std::move(held));
      }
      if (!held_.empty()) check(held_[random_.below(held_.size())]);
      look_at_what_was_given_back();
    }
    let_go_of_all();
  }

 private:
  Round round_;
  Connection::Owned from_;
  Connection::Owned to_;
  Random random_;
  std::vector<Held> held_;
  std::vector<std::pair<CUdeviceptr, uint64_t>> given_back_;
  bool gone_ = false;
  bool to_gone_ = false;
};

pid_t spawn(const Round& round, int who, std::array<Socket, kLeasePeers>* sockets) {
  return start([&, who] {
    // Socket i connects peer i to the next peer.
    Connection::Owned to = (*sockets)[static_cast<size_t>(who)].connect(0);
    Connection::Owned from =
        (*sockets)[static_cast<size_t>((who + kLeasePeers - 1) % kLeasePeers)].connect(1);
    for (Socket& each : *sockets) each.drop();
    Round own = round;
    own.seed = round.seed * kLeasePeers + static_cast<uint64_t>(who) + 1;
    own.break_it = round.break_it && who == 1;
    LeasePeer peer(own, std::move(from), std::move(to));
    if (who == 0) {
      peer.lend();
    } else {
      peer.borrow(who == 1);
    }
    std::_Exit(0);
  });
}

// Returns the number of killed processes.
int run_round(LeaseBoard* board, Random* random, bool break_it) {
  board->stop.store(false);
  static constexpr std::array kTransports = {CudaTransport::kIpc, CudaTransport::kFd,
                                             CudaTransport::kFd, CudaTransport::kPool};
  const Round round{board, 1 + random->below(1 << 30),
                    kTransports[random->below(kTransports.size())], break_it};
  std::array<pid_t, kLeasePeers> pids{};
  {
    std::array<Socket, kLeasePeers> sockets;
    for (int who = 0; who < kLeasePeers; ++who)
      pids[static_cast<size_t>(who)] = spawn(round, who, &sockets);
  }
  int kills = 0;
  std::array<bool, kLeasePeers> killed{};
  const uint64_t wanted = break_it ? 0 : 1 + random->below(3);
  // Some processes are killed while they start. Most are killed after a certain amount of work, so
  // that the speed of the machine does not matter.
  const uint64_t until =
      board->checked.load() + (random->below(4) == 0 ? 0 : 1 + random->below(120));
  for (int i = 0; i < 2'000 && board->checked.load() < until; ++i) usleep(500);
  for (uint64_t i = 0; i < wanted; ++i) {
    usleep(static_cast<useconds_t>(random->below(3'000)));
    // The lender is killed less often than the others.
    const size_t who = random->below(5) == 0 ? 0 : 1 + random->below(2);
    if (killed[who]) continue;
    killed[who] = true;
    kill(pids[who], SIGKILL);
    ++kills;
  }
  usleep(static_cast<useconds_t>(break_it ? 50'000 : random->below(3'000)));
  board->stop.store(true);
  for (size_t who = 0; who < kLeasePeers; ++who) {
    const int ended = wait_for(pids[who]);
    if (killed[who] && ended == -SIGKILL) continue;
    if (ended != 0) {
      std::printf("peer %zu of round %llu ended with %d\n", who,
                  static_cast<unsigned long long>(round.seed), ended);
      return -ended;
    }
  }
  return kills;
}

int run_lease_storm(int kills, uint64_t seed, bool break_it) {
  const World world;
  setenv("FAKE_CUDA_WORLD", world.path().c_str(), 1);
  void* const shared =
      mmap(nullptr, sizeof(LeaseBoard), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 2;
  auto* const board = new (shared) LeaseBoard;
  Random random{seed * 0x9e3779b97f4a7c15ULL | 1};
  int done = 0;
  int rounds = 0;
  for (; done < kills; ++rounds) {
    const int one = run_round(board, &random, break_it);
    if (break_it && one == -kWrong) return 0;
    if (one < 0) {
      std::printf("seed %llu, round %d\n", static_cast<unsigned long long>(seed), rounds);
      return 1;
    }
    if (break_it && rounds == 200) {
      std::printf("nobody saw that blocks were used after they had been given back\n");
      return 1;
    }
    done += one;
  }
  // A new process checks the device.
  const pid_t looker = start([] {
    use_device();
    expect_nothing_left();
    EXPECT_EQ(LEDGER(fake_cuda_bytes)(0), 0U);
    std::_Exit(::testing::Test::HasFailure() ? 1 : 0);
  });
  if (wait_for(looker) != 0) return 1;
  const auto number = [](const std::atomic<uint64_t>& value) {
    return static_cast<unsigned long long>(value.load());
  };
  std::printf(
      "%d killed in %d rounds: %llu blocks lent, %llu lent on, %llu came home, looked at %llu "
      "times; %llu times there was no room, "
      "%llu lenders that lived to have all back\n",
      done, rounds, number(board->lent), number(board->lent_on), number(board->came_home),
      number(board->checked), number(board->full), number(board->emptied));
  // In a short run, as under a sanitizer, it can happen that no block was sent home.
  const bool came_home = board->came_home.load() > 0 || kills < 1000;
  return board->lent_on.load() > 0 && came_home && board->emptied.load() > 0 ? 0 : 1;
}

}  // namespace
}  // namespace cuda_test

int main(int argc, char** argv) {
  const bool break_it = argc > 1 && std::strcmp(argv[1], "--break") == 0;
  const int kills = argc > 1 && !break_it ? std::atoi(argv[1]) : 1000;
  const uint64_t seed =
      argc > 2 ? std::strtoull(argv[2], nullptr, 10)
               : static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  return cuda_test::run_lease_storm(kills, seed, break_it);
}
