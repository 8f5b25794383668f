// The driver of the storm of device memory. It starts the peers of a round, kills some, lets the
// survivors end, and has a new process check what is left.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "process/cuda/storm/board.h"
#include "process/cuda/storm/peer.h"
#include "process/cuda/storm/plan.h"
#include "process/fault/storm/crew.h"

namespace storm::device {

class Storm {
 public:
  // `world`: the folder of the fake's devices. `alone`: no other process has names in this
  // /dev/shm.
  Storm(uint64_t seed, Board* board, std::string world, bool alone, Break broken)
      : seed_(seed),
        board_(board),
        world_(std::move(world)),
        alone_(alone),
        broken_(broken),
        crew_(board->slots, board, name_of_op) {}

  void run_round(uint64_t number);
  // Counts killed peers, and killed children whose parent was killed before them.
  uint64_t kills() const { return crew_.kills(); }
  void print() const;
  void print_where() const;
  void kill_all() { crew_.kill_all(); }

 private:
  void begin();
  void tell_all(char what);
  void settle();
  void look_at_what_is_left();
  [[noreturn]] void look() const;
  std::string names_left() const;

  uint64_t seed_;
  Board* board_;
  std::string world_;
  bool alone_;
  Break broken_;
  Plan plan_;
  uint64_t born_ = 0;
  std::set<int32_t> pids_;  // of all processes that ever were peers
  Crew crew_;
  int64_t slowest_back_ns_ = 0;
  int64_t slowest_left_ns_ = 0;
};

}  // namespace storm::device
