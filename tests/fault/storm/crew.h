// The processes of a storm, as its driver sees them: started, told, struck and waited for.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "fault/storm/doom.h"
#include "fault/storm/killer.h"

namespace storm {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Crew {
 public:
  // One process for each slot. Slots and findings are in memory that all share.
  Crew(std::span<Slot> slots, Findings* findings, const char* (*name_of_op)(uint32_t));

  // The body has its end of a socket to the driver, and does not return.
  void spawn(uint32_t index, const std::function<void(int control)>& body);
  bool lives(uint32_t index) const { return members_[index].pid > 0; }
  long count_living() const;
  // False: nobody listens.
  bool tell(uint32_t index, const void* order, size_t nbytes, const std::vector<int>& fds);
  void tell_all(const void* order, size_t nbytes);
  // Until all that live have said it.
  void await_all(char what, int64_t limit_ns, const char* meaning);
  void strike(const std::vector<KillPlan>& kills, const std::vector<StopPlan>& stops);
  // All that live were told to end, and do so in order; but for a victim that is killed meanwhile.
  void dismiss(const KillPlan* last);
  // Children whose parent was killed are the driver's. They end by themselves, soon.
  void reap_orphans(int64_t limit_ns);
  std::vector<pid_t> children() const;
  void kill_all();

  void look_for_wrong_bytes() const {
    if (findings_->text_state == 2) throw Failure(findings_->text.data());
  }
  // Those that a SIGKILL really ended, as waitpid says it.
  uint64_t kills() const { return killer_.total(); }
  uint64_t orphans() const { return orphans_; }
  void print_kills() const { killer_.print(); }
  // Who lives, where, and with what open.
  void print_processes() const;

 private:
  struct Member {
    pid_t pid = -1;
    int control = -1;
    bool stopped = false;
    std::string said;
  };
  // Whoever ended as nobody meant it to.
  void ended(uint32_t index, int status);

  std::span<Slot> slots_;
  Findings* findings_;
  const char* (*name_of_op_)(uint32_t);
  Killer killer_;
  std::vector<Member> members_;
  uint64_t orphans_ = 0;
};

}  // namespace storm
