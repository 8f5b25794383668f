// The driver of the storm of leases. It starts the peers, kills some of them, and checks the
// survivors' reports.
#pragma once

#include <cstdint>
#include <optional>

#include "process/fault/storm/board.h"
#include "process/fault/storm/crew.h"
#include "process/fault/storm/plan.h"

namespace storm {

class Storm {
 public:
  Storm(uint64_t seed, Board* board, bool alone, bool cycles)
      : seed_(seed),
        board_(board),
        alone_(alone),
        cycles_(cycles),
        crew_(board->slots, board, name_of_op) {}

  void run_round(uint64_t number);
  void end();
  uint64_t kills() const { return crew_.kills() + board_->killed_children; }
  void print() const;
  void print_where() const;
  void kill_all() { crew_.kill_all(); }

 private:
  void spawn(uint32_t index);
  void begin(const Plan& plan);
  void settle();
  void tell_all(char what);
  void look_at_what_is_left();

  uint64_t seed_;
  Board* board_;
  bool alone_;
  bool cycles_;
  Plan plan_;
  uint64_t born_ = 0;
  Crew crew_;
  std::optional<long> fds_;
  uint64_t hostile_rounds_ = 0;
  int64_t slowest_lent_ns_ = 0;
  int64_t slowest_left_ns_ = 0;
};

}  // namespace storm
