// The processes of a storm. The driver uses this class to start, order, kill and await them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/storm/board.h"
#include "support/storm/killer.h"

namespace storm {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The children of this process, from /proc.
std::vector<pid_t> all_children();
std::string first_line(const std::string& path);

class Crew {
 public:
  // Each of the first `n_peers` slots of the board belongs to one process.
  Crew(Board* board, uint32_t n_peers, OpNames op_names);

  // The function `start` gets the peer's end of a socket to the driver. It returns the pid of a
  // child of this process, or it never returns in the child.
  void spawn(uint32_t index, const std::function<pid_t(int control)>& start);
  // Forks a child that runs the body, which never returns.
  pid_t fork_peer(const std::function<void()>& body) const;
  bool lives(uint32_t index) const { return members_[index].pid > 0; }
  long count_living() const;
  // Returns false if the process does not read its socket any more.
  bool tell(uint32_t index, const void* order, size_t nbytes, const std::vector<int>& fds);
  void tell_all(const void* order, size_t nbytes);
  // Waits until every living process has answered its order.
  void await_all(int64_t limit_ns, const char* meaning);
  // Kills the victims in their order, each after its delay. The stop with the same index as a kill
  // stops its process before the kill, and the process goes on after it.
  void strike(const std::vector<KillPlan>& kills, const std::vector<StopPlan>& stops);
  std::function<void()> before_kill;
  // Says whether that end of a peer is no failure, beside a SIGKILL.
  std::function<bool(uint32_t index, int status)> excuses;
  // Says whether a child is neither a peer nor a peer's child, and lives on.
  std::function<bool(pid_t)> is_servant;
  // Waits for the living processes, which were told to end, to exit in order. The victim of `last`
  // is killed meanwhile.
  void dismiss(const KillPlan* last);
  // Reaps children whose parent was killed. They are the driver's children now, and soon end by
  // themselves.
  void reap_orphans(int64_t limit_ns);
  // All children of this process but the servants.
  std::vector<pid_t> children() const;
  void kill_all();

  void look_for_wrong_bytes() const {
    if (board_->text_state == 2) throw Failure(board_->text.data());
  }
  // Counts the processes that ended by SIGKILL, as waitpid reports it.
  uint64_t kills() const { return killer_.total(); }
  uint64_t orphans() const { return orphans_; }
  // Counts the bytes that peers sent beside their answers, to report what their world knows.
  uint64_t reports() const { return reports_; }
  void print_kills() const { killer_.print(); }
  // Prints each living process, its position and its open fds.
  void print_processes() const;

 private:
  struct Member {
    pid_t pid = -1;
    int control = -1;
    bool stopped = false;
    bool answered = false;
  };
  // Records the end of a process that was not meant to end.
  void ended(uint32_t index, int status);
  // Reads one byte of the peer. Returns false if there is none.
  bool listen(uint32_t index);

  Board* board_;
  std::span<Slot> slots_;
  OpNames op_names_;
  Killer killer_;
  std::vector<Member> members_;
  uint64_t orphans_ = 0;
  uint64_t reports_ = 0;
};

}  // namespace storm
