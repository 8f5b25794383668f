// Parts of a storm's peer: children that read on what their parent borrowed, and the hostile
// borrower.
#include <sys/wait.h>

#include <fstream>

#include "process/fault/storm/peer.h"
#include "process/fault/storm/timer.h"

namespace storm {
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

// The child reads the memory that its parent held, even after the parent's end, and then ends in
// one of several ways.
void Peer::be_child(uint64_t seed) {
  static Slot scratch;  // the parent's slot tells of the parent alone
  slot_ = &scratch;
  is_child_ = true;
  alarm(fault::kWatchdogSeconds);
  random_ = Random(seed);
  close(control_);
  if (random_.chance(50)) kill_me_after(static_cast<int64_t>(random_.up_to(1 << 24)));
  for (size_t i = 0; i < links_.size(); ++i) {
    if (random_.chance(70)) drop(i);
  }
  const int64_t deadline = now_ns() + static_cast<int64_t>(random_.up_to(1 << 24));
  while (now_ns() < deadline) {
    if (held_.empty()) break;
    const size_t which = random_.below(held_.size());
    check(held_[which]);
    if (random_.chance(5)) let_go(which);
    usleep(50);
  }
  for (const Held& each : held_) check(each);
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
      board_->complain("a child that reads on ended with %s",
                       fault::describe_status(status).c_str());
      die(WIFEXITED(status) ? WEXITSTATUS(status) : kFailed);
    }
  }
}

// ---- hostile borrowers

// Overwrites everything that a borrower can write: its lease pages and its bells.
void Peer::harm() {
  enter(Op::kHarm);
  const std::vector<unsigned char*> pages = lease_pages();
  for (unsigned char* page : pages) {
    const bool all = random_.chance(10);
    for (size_t i = 0; i < (all ? tenon::test::kLeasePageNbytes / 8 : 500); ++i) {
      const size_t word = all                  ? i
                          : random_.chance(50) ? random_.below(2048)
                                               : random_.below(tenon::test::kLeasePageNbytes / 8);
      __atomic_store_n(reinterpret_cast<uint64_t*>(page) + word, random_.next(), __ATOMIC_RELAXED);
    }
    // These are the words of the first slots, where its leases are.
    for (size_t i = 0; i < 4; ++i) {
      __atomic_store_n(reinterpret_cast<uint64_t*>(page + 4096), random_.next(), __ATOMIC_RELAXED);
      __atomic_store_n(reinterpret_cast<uint64_t*>(page + 4096 + 8192) + i, random_.next(),
                       __ATOMIC_RELAXED);
    }
    if (random_.chance(20))
      __atomic_store_n(reinterpret_cast<uint32_t*>(page + 128), 1U, __ATOMIC_RELAXED);
    board_->scribbles.fetch_add(1, std::memory_order_relaxed);
  }
  std::array<char, 4096> noise{};
  for (int fd = 3; fd < 256; ++fd) {
    int type = 0;
    socklen_t length = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) != 0 || type != SOCK_STREAM) continue;
    bool is_link = false;
    for (const Link& link : links_) is_link |= tenon_connection_fd(link.connection) == fd;
    if (!is_link)
      (void)::send(fd, noise.data(), 1 + random_.below(noise.size()), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  leave();
}

}  // namespace storm
