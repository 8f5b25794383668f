// Kills a peer in one of several ways: after a delay, by a timer that the peer starts as a call
// begins, or by single steps (ptrace) from the beginning of a call.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>

#include "support/storm/plan.h"
#include "support/storm/slot.h"

namespace storm {

class Killer {
 public:
  explicit Killer(OpNames op_names);
  // Kills the process and returns its wait status.
  int kill(pid_t pid, Slot* slot, const KillPlan& plan);

  uint64_t total() const { return total_; }
  void count_other() { ++total_; }
  void print() const;

 private:
  bool by_timer(pid_t pid, Slot* slot, const KillPlan& plan, int* status);
  bool by_steps(pid_t pid, Slot* slot, const KillPlan& plan);
  bool by_service_steps(pid_t pid, const KillPlan& plan, pid_t* thread);
  void walk(pid_t thread, const KillPlan& plan);
  bool advance(int how, pid_t thread, int stop);

  OpNames op_names_;
  uint64_t total_ = 0;
  std::array<uint64_t, static_cast<size_t>(Way::kCount)> by_way_{};
  std::array<uint64_t, kMostOps> by_op_{};
  std::array<uint64_t, kMostOps> stepped_in_{};
  uint64_t steps_ = 0;
  int refused_ = 0;
};

}  // namespace storm
