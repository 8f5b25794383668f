// The driver of the storm: it starts the peers, strikes, and looks at what the survivors say.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "fault/storm/board.h"
#include "fault/storm/killer.h"
#include "fault/storm/plan.h"

namespace storm {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Member {
  pid_t pid = -1;
  int control = -1;
  bool stopped = false;
  std::string said;
};

class Storm {
 public:
  Storm(uint64_t seed, Board* board, bool alone, bool cycles) : seed_(seed), board_(board), alone_(alone), cycles_(cycles) {}

  void run_round(uint64_t number);
  void end();
  void look_for_wrong_bytes() const {
    if (board_->text_state == 2) throw Failure(board_->text.data());
  }
  uint64_t kills() const { return killer_.total() + board_->killed_children; }
  void print() const;
  void print_where() const;
  void kill_all();

 private:
  void spawn(uint32_t index);
  void begin(const Plan& plan);
  void strike(const Plan& plan);
  void settle();
  void tell_all(char what);
  void await_all(char what, int64_t limit_ns, const char* meaning);
  void ended(uint32_t index, int status);
  void reap_orphans(int64_t limit_ns);
  std::vector<pid_t> children() const;
  void look_at_what_is_left();

  uint64_t seed_;
  Board* board_;
  bool alone_;
  bool cycles_;
  Plan plan_;
  uint64_t born_ = 0;
  Killer killer_;
  std::array<Member, kPeers> members_;
  std::optional<long> fds_;
  uint64_t hostile_rounds_ = 0;
  uint64_t orphans_ = 0;
  int64_t slowest_lent_ns_ = 0;
  int64_t slowest_left_ns_ = 0;
};

}  // namespace storm
