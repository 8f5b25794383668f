// What the peers of all worlds have in common: a peer obeys the driver's orders, says in which call
// it is, complains, and has children of its own. A world derives its peer from this class
// (engine.h).
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "process/fault/kit.h"
#include "support/storm/board.h"
#include "support/storm/pattern.h"
#include "support/storm/wire.h"

namespace storm {

// The driver sends this to each peer. The sockets of the links travel with the order of a round.
struct Order {
  enum What : uint8_t { kRound, kPhase, kEnd };
  What what = kRound;
  uint32_t role = 0;   // kRound
  uint32_t phase = 0;  // kPhase
  uint32_t dead = 0;   // kPhase: one bit for each dead peer
  uint64_t seed = 0;
  uint32_t n_links = 0;
  std::array<bool, kMostFds> out{};
  std::array<uint8_t, kMostFds> kinds{};
  std::array<uint32_t, kMostFds> others{};
};

// The place of a peer in its storm.
struct Seat {
  Board* board;
  uint32_t index;
  int control;  // a socket to the driver
  uint64_t seed;
};

// One end of a link. The peer owns the socket.
struct LinkEnd {
  bool out = false;
  uint8_t kind = 0;
  uint32_t other = 0;  // the peer at the other end
  int socket = -1;
};

class Peer {
 public:
  explicit Peer(const Seat& seat)
      : board_(seat.board),
        slot_(&seat.board->slots[seat.index]),
        index_(seat.index),
        control_(seat.control),
        seed_(seat.seed),
        random_(seat.seed) {}
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  virtual ~Peer() = default;
  // Obeys orders until the order to end comes.
  [[noreturn]] void run();

 protected:
  // ---- A world says what its peer does.

  // Takes over the links of a round. The kills begin after that.
  virtual void begin(uint32_t role, const std::vector<LinkEnd>& links) = 0;
  // Runs once after `begin` in each round, while the kills have begun.
  virtual void start() {}
  // One step of the round. Steps are repeated until the round ends.
  virtual void step() = 0;
  // Does what the phase demands (Rules::phases), or fails.
  virtual void settle(uint32_t phase, uint32_t dead) = 0;
  // Runs again and again between two phases, when this peer waits for slower ones.
  virtual void idle() { usleep(200); }
  // Releases what is left before the process ends in an orderly way.
  virtual void end() {}
  // What a child does that fork_child() made. Afterwards it exits.
  virtual void be_child() {}

  // ---- calls

  void enter(uint32_t op) { slot_->enter(op); }
  void leave() { slot_->leave(); }
  template <typename Call>
  fault::Outcome call(uint32_t op, Call&& function) {
    enter(op);
    fault::Outcome outcome = fault::call(function);
    leave();
    return outcome;
  }
  void count(uint32_t what, uint64_t n = 1) {
    board_->counts[what].fetch_add(n, std::memory_order_relaxed);
  }
  void count_checked(uint64_t n = 1) { board_->checked.fetch_add(n, std::memory_order_relaxed); }

  // ---- complaints, which end the storm

  [[noreturn]] static void die(int status);
  [[noreturn]] void fail(const std::string& what);
  // Checks that the status is an allowed one.
  void expect(const fault::Outcome& outcome, std::initializer_list<tenon_status> allowed,
              const char* what);
  // The word at the offset `at` of these bytes is not the stamp's. `where` says whose block it is.
  [[noreturn]] void fail_wrong(const void* bytes, const Stamp& stamp, uint64_t at,
                               const std::string& where);
  [[noreturn]] void fail_wrong(const std::string& what);

  // ---- other processes

  bool has_order() const;
  // Whether that process is dead. One that is just dying gets seconds to end.
  static bool is_dead(pid_t pid);
  // Returns a random link of that direction, or null. `wanted` may refuse some.
  static LinkEnd* some_link(std::vector<LinkEnd>* links, bool out, Random* random,
                            const std::function<bool(const LinkEnd&)>& wanted = nullptr);
  // Forks a child that runs be_child(), if the peer has not had enough children in this round. Half
  // of the children are killed within the time.
  void fork_child(uint64_t within_ns);
  // Reaps children, and checks how they ended.
  void reap(bool wait);

  Board* board_;
  Slot* slot_;
  uint32_t index_;
  int control_;
  uint64_t seed_;
  Random random_;
  bool is_child_ = false;
  // AddressSanitizer's allocator has locks that fork does not handle, and in a storm the library's
  // thread may be inside it at any moment.
  static constexpr int kForks = TENON_TEST_ASAN ? 0 : 3;
  int forks_left_ = 0;

 private:
  void answer();

  std::vector<pid_t> children_;
};

}  // namespace storm
