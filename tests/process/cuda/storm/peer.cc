#include "process/cuda/storm/peer.h"

#include <dlfcn.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "cuda/context.h"
#include "cuda/driver.h"
#include "process/fault/storm/starved.h"
#include "process/fault/storm/timer.h"
#include "process/fault/storm/wire.h"
#include "support/fake_cuda/ledger.h"

namespace storm::device {

Peer::Peer(Board* board, uint32_t index, int control, uint64_t seed)
    : board_(board),
      slot_(&board->slots[index]),
      index_(index),
      control_(control),
      seed_(seed),
      random_(seed) {}

void Peer::run() {
  Order order;
  std::vector<int> fds;
  take_order('R', &order, &fds);
  begin(order, fds);
  say('B');
  start();
  while (!has_order()) step();
  take_order('S', &order, &fds);
  enter(Op::kSettle);
  reap(true);
  say('L');
  take_order('T', &order, &fds);
  let_go_of_all();
  say('D');
  take_order('U', &order, &fds);
  settle(order);
  say('Z');
  take_order('Q', &order, &fds);
  end();
  std::fflush(nullptr);
  std::exit(fault::g_failures == 0 ? 0 : kFailed);
}

// ---- calls

void Peer::die(int status) {
  std::fflush(nullptr);
  _exit(status);
}

void Peer::fail(const char* what, const fault::Outcome& outcome) {
  board_->complain("%s: %s", what, outcome.text().c_str());
  die(kFailed);
}

void Peer::must(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  board_->complain("%s failed with %d", what, static_cast<int>(result));
  die(kFailed);
}

// Whether that peer is dead. A peer that is just dying gets time to end, because the driver may
// forget the process first.
bool Peer::is_dead(uint32_t peer) const {
  if (peer == index_) return false;
  const auto fd = static_cast<int>(syscall(SYS_pidfd_open, board_->slots[peer].pid.load(), 0));
  if (fd < 0) return errno == ESRCH;
  pollfd end{fd, POLLIN, 0};
  const bool dead = poll(&end, 1, 5000) > 0;
  close(fd);
  return dead;
}

// ---- orders

void Peer::take_order(char wanted, Order* order, std::vector<int>* fds) {
  fds->clear();
  const ssize_t got = take(control_, order, sizeof *order, 0, fds);
  REQUIRE(got == static_cast<ssize_t>(sizeof *order) && order->what == wanted);
}

bool Peer::has_order() const {
  pollfd waiting{control_, POLLIN, 0};
  return poll(&waiting, 1, 0) > 0;
}

void Peer::say(char what) {
  if (!put(control_, &what, sizeof what, nullptr, 0)) die(kFailed);
}

void Peer::begin(const Order& order, const std::vector<int>& fds) {
  random_ = Random(mix(order.seed ^ seed_));
  broken_ = order.broken;
  // No forks under AddressSanitizer: fork does not know the locks of its allocator, and the fake's
  // streams and the library have threads.
  forks_left_ = TENON_TEST_ASAN ? 0 : 2;
  // The fake reads these variables when it is loaded.
  if (order.latency_us > 0)
    setenv("FAKE_CUDA_LATENCY", ("stream=" + std::to_string(order.latency_us)).c_str(), 1);
  if (order.events > 0) setenv("FAKE_CUDA_IPC_EVENTS", std::to_string(order.events).c_str(), 1);
  REQUIRE(fds.size() == order.n_links);
  for (size_t i = 0; i < fds.size(); ++i) links_.push_back({order.out[i], order.other[i], fds[i]});
}

void Peer::start() {
  enter(Op::kStart);
  const auto found = tenon::cuda::driver();
  if (!found.is_ok()) {
    board_->complain("no CUDA: %s", found.status().message().c_str());
    die(kFailed);
  }
  auto context = tenon::cuda::primary_context(driver(), 0);
  REQUIRE(context.is_ok());
  must(driver().cuCtxPushCurrent(context.value()), "cuCtxPushCurrent");
  for (size_t i = 1; i < streams_.size(); ++i)
    must(driver().cuStreamCreate(&streams_[i], CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  leave();
}

// Releases what other peers sent: what this peer holds, and what still arrives.
void Peer::let_go_of_all() {
  for (Link& link : links_) {
    while (!link.out && receive(&link, false)) {
    }
  }
  while (!held_.empty()) let_go(held_.size() - 1);
  finish_reading(true);
  for (const auto& allocation : allocations_) {
    for (const auto& block : allocation->blocks) {
      if (block->tensor != nullptr) release_own(block.get());
    }
  }
  enter(Op::kSettle);
}

void Peer::count_live(int32_t kind, const char* what) {
  const auto live = reinterpret_cast<decltype(&fake_cuda_live)>(
      dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "fake_cuda_live"));
  REQUIRE(live != nullptr);
  if (const uint64_t left = live(kind, getpid()); left != 0) {
    board_->complain("nobody is lent anything any more, and it has %llu %s",
                     static_cast<unsigned long long>(left), what);
    die(kFailed);
  }
}

// Nobody holds a storage any more. So each block is back, unless a dead peer had a message of it.
// Then it may be back or not, because only the receiver can decrement its counter.
void Peer::settle(const Order& order) {
  const auto count = [&](bool certain) {
    uint64_t blocks = 0;
    for (const auto& allocation : allocations_) {
      for (const auto& block : allocation->blocks) {
        if (!block->wrapped) continue;
        const bool dead_had_it = std::any_of(
            block->messages.begin(), block->messages.end(),
            [&](uint32_t number) { return (board_->custody[index_][number] & order.dead) != 0; });
        if (!certain || !dead_had_it) ++blocks;
      }
    }
    return blocks;
  };
  // Waits for pending returns. All streams have passed, but a returned block shows only when it is
  // collected.
  uint64_t waiting = 0;
  for (const Deadline deadline(board_->slots, kSoonNs); !deadline.is_over(); usleep(200)) {
    waiting = tenon_cuda_collect();
    if (count(true) == 0 && waiting == count(false)) break;
  }
  const uint64_t wrapped = count(false);
  const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  if (count(true) != 0 || waiting != wrapped || wraps_ - frees_ != wrapped) {
    board_->complain(
        "nobody holds anything, and of %llu blocks %llu came back; %llu wait on, and the dead had "
        "%llu",
        number(wraps_), number(frees_), number(waiting), number(wrapped - count(true)));
    die(kFailed);
  }
  free_unused(true);
  count_live(FAKE_CUDA_IPC_OPEN, "openings of memory");
  count_live(FAKE_CUDA_EVENT_IMPORT, "openings of events");
  if (wrapped == 0) {
    count_live(FAKE_CUDA_ALLOCATION, "allocations");
    board_->all_back.fetch_add(1, std::memory_order_relaxed);
  }
  board_->kept.fetch_add(wrapped, std::memory_order_relaxed);
}

// Ends in an orderly way, while blocks that dead peers had stay lent.
void Peer::end() {
  enter(Op::kEnd);
  for (size_t i = 1; i < streams_.size(); ++i)
    must(driver().cuStreamDestroy(streams_[i]), "cuStreamDestroy");
  for (const Link& link : links_) close(link.socket);
  close(control_);
}

// ---- steps

void Peer::step() {
  const uint64_t dice = random_.below(100);
  if (dice < 30) {
    lend();
  } else if (dice < 70) {
    if (Link* const link = some_link(false); link != nullptr) (void)receive(link, true);
  } else if (dice < 82) {
    if (!held_.empty()) let_go(random_.below(held_.size()));
  } else if (dice < 85) {
    if (Block* const block = some_block(true); block != nullptr) release_own(block);
  } else if (dice < 88) {
    if (Block* const block = some_block(true); block != nullptr) check_own(*block);
  } else if (dice < 92) {
    enter(Op::kCollect);
    (void)tenon_cuda_collect();
    leave();
    free_unused(false);
  } else if (dice < 93) {
    if (forks_left_ > 0) fork_one();
  } else {
    reap(false);
  }
  finish_reading(random_.chance(5));
  if (!held_.empty() && random_.chance(40)) check(&held_[random_.below(held_.size())]);
}

Peer::Link* Peer::some_link(bool out) {
  const size_t first = random_.below(links_.size());
  for (size_t i = 0; i < links_.size(); ++i) {
    Link& link = links_[(first + i) % links_.size()];
    if (link.out == out) return &link;
  }
  return nullptr;
}

// Returns false if the socket is full, or if its reader is gone.
bool Peer::send(Link* link, const Message& message) {
  std::atomic<uint32_t>& custody = board_->custody[message.sender][message.number];
  custody.fetch_or(1U << index_);
  custody.fetch_or(1U << link->other);
  return put(link->socket, &message, sizeof message, nullptr, 0);
}

// ---- children

void Peer::fork_one() {
  --forks_left_;
  const uint64_t seed = random_.next();
  enter(Op::kFork);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) die(kFailed);
  if (child == 0) be_child(seed);
  leave();
  board_->forks.fetch_add(1, std::memory_order_relaxed);
  children_.push_back(child);
}

// A forked child cannot use the driver, and can only release what it inherited. Those releases must
// give nothing back, neither to a sender nor to the driver. The parent and the other peers would
// notice it.
void Peer::be_child(uint64_t seed) {
  static Slot scratch;  // the parent's slot describes the parent alone
  slot_ = &scratch;
  alarm(fault::kWatchdogSeconds);
  random_ = Random(seed);
  close(control_);
  for (const Link& link : links_) close(link.socket);
  if (random_.chance(50)) kill_me_after(static_cast<int64_t>(random_.up_to(1 << 20)));
  const uint64_t frees = frees_;
  for (const Held& held : held_) tenon_storage_release(held.storage);
  for (const auto& allocation : allocations_) {
    for (const auto& block : allocation->blocks) {
      if (block->tensor != nullptr) tenon_tensor_release(block->tensor);
    }
  }
  if (frees_ != frees) {
    board_->complain("a child of fork gave a block of its parent's back");
    die(kFailed);
  }
  std::fflush(nullptr);
  _exit(fault::g_failures == 0 ? 0 : kFailed);
}

void Peer::reap(bool wait) {
  for (size_t i = children_.size(); i-- > 0;) {
    int status = 0;
    pid_t got = 0;
    while ((got = waitpid(children_[i], &status, wait ? 0 : WNOHANG)) < 0 && errno == EINTR) {
    }
    if (got == 0) continue;
    children_.erase(children_.begin() + static_cast<std::ptrdiff_t>(i));
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
      board_->killed_children.fetch_add(1);
    } else if (status != 0) {
      board_->complain("a child that releases what it inherited ended with %s",
                       fault::describe_status(status).c_str());
      die(kFailed);
    }
  }
}

}  // namespace storm::device
