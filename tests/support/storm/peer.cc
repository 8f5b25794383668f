#include "support/storm/peer.h"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>

namespace storm {

void Peer::run() {
  Order order;
  std::vector<int> fds;
  while (take(control_, &order, sizeof order, 0, &fds) == static_cast<ssize_t>(sizeof order)) {
    alarm(fault::kWatchdogSeconds * 2);
    if (order.what == Order::kEnd) break;
    if (order.what == Order::kRound) {
      random_ = Random(mix(order.seed ^ seed_));
      REQUIRE(fds.size() == order.n_links);
      std::vector<LinkEnd> links;
      for (size_t i = 0; i < fds.size(); ++i)
        links.push_back({order.out[i], order.kinds[i], order.others[i], fds[i]});
      fds.clear();
      forks_left_ = kForks;
      begin(order.role, links);
      answer();
      start();
      while (!has_order()) step();
      continue;
    }
    enter(kSettling);
    if (order.phase == 0) reap(true);
    settle(order.phase, order.dead);
    answer();
    while (!has_order()) idle();
  }
  enter(kSettling);
  end();
  std::fflush(nullptr);
  close(control_);
  std::exit(fault::g_failures == 0 ? 0 : kFailed);
}

void Peer::answer() {
  if (!put(control_, "", 1, nullptr, 0)) die(kFailed);
}

bool Peer::has_order() const {
  pollfd waiting{control_, POLLIN, 0};
  return poll(&waiting, 1, 0) > 0;
}

bool Peer::is_dead(pid_t pid) {
  const auto fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) return errno == ESRCH;
  pollfd end{fd, POLLIN, 0};
  const bool dead = poll(&end, 1, 5000) > 0;
  close(fd);
  return dead;
}

LinkEnd* Peer::some_link(std::vector<LinkEnd>* links, bool out, Random* random,
                         const std::function<bool(const LinkEnd&)>& wanted) {
  const size_t first = links->empty() ? 0 : random->below(links->size());
  for (size_t i = 0; i < links->size(); ++i) {
    LinkEnd& link = (*links)[(first + i) % links->size()];
    if (link.out == out && (!wanted || wanted(link))) return &link;
  }
  return nullptr;
}

// ---- complaints

void Peer::die(int status) {
  std::fflush(nullptr);
  _exit(status);
}

void Peer::fail(const std::string& what) {
  board_->complain(what);
  die(kFailed);
}

void Peer::expect(const fault::Outcome& outcome, std::initializer_list<tenon_status> allowed,
                  const char* what) {
  if (std::find(allowed.begin(), allowed.end(), outcome.status) == allowed.end())
    fail(std::string(what) + (is_child_ ? ", in a child: " : ": ") + outcome.text());
}

void Peer::fail_wrong(const std::string& what) {
  board_->wrong.fetch_add(1);
  board_->complain(what);
  die(kWrongByte);
}

void Peer::fail_wrong(const void* bytes, const Stamp& stamp, uint64_t at,
                      const std::string& where) {
  Stamp found;
  std::memcpy(&found, bytes, std::min<uint64_t>(sizeof found, stamp.nbytes));
  const auto describe = [](const Stamp& each) {
    return std::to_string(each.nbytes) + " bytes, generation " + std::to_string(each.generation) +
           " of process seed " + std::to_string(each.seed);
  };
  fail_wrong("wrong byte at " + std::to_string(at) + " of a block of " + describe(stamp) + ", " +
             where + (is_child_ ? ", in a child" : "") + ": there are now " + describe(found));
}

// ---- children

void Peer::fork_child(uint64_t within_ns) {
  if (forks_left_ == 0) return;
  --forks_left_;
  const uint64_t seed = random_.next();
  enter(kForking);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) die(kFailed);
  if (child > 0) {
    leave();
    board_->forks.fetch_add(1, std::memory_order_relaxed);
    children_.push_back(child);
    return;
  }
  static Slot scratch;  // the parent's slot tells of the parent alone
  slot_ = &scratch;
  is_child_ = true;
  alarm(fault::kWatchdogSeconds);
  random_ = Random(seed);
  close(control_);
  if (random_.chance(50)) kill_me_after(static_cast<int64_t>(random_.up_to(within_ns)));
  be_child();
  die(fault::g_failures == 0 ? 0 : kFailed);
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
      board_->complain("a child ended with " + fault::describe_status(status));
      die(WIFEXITED(status) ? WEXITSTATUS(status) : kFailed);
    }
  }
}

}  // namespace storm
