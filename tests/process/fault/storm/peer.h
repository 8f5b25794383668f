// A process of the storm of leases. In each round it lends, borrows and lends on over its links,
// and reads everything that it holds again and again. It lives through many rounds until it is
// killed, so a leak of each round would pile up.
#pragma once

#include <sys/types.h>

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "process/fault/kit.h"
#include "process/fault/storm/board.h"
#include "process/fault/storm/order.h"
#include "process/fault/storm/pattern.h"
#include "support/lease_pages.h"

namespace storm {

using tenon::test::lease_pages;

class Peer {
 public:
  Peer(Board* board, Slot* slot, int control, uint64_t seed);
  [[noreturn]] void run();

 private:
  struct Link {
    Carrier carrier = Carrier::kStream;
    bool out = false;
    int raw = -1;                            // the socket of descriptors sent by hand
    tenon_connection* connection = nullptr;  // null: the other side is gone
    bool open() const { return raw >= 0 || connection != nullptr; }
  };
  // A borrowed message. It holds its storages itself, and sometimes the message too.
  struct Held {
    size_t link = 0;
    tenon_message* message = nullptr;
    std::vector<tenon_storage*> storages;
    std::vector<const void*> data;
    std::vector<Stamp> stamps;
  };
  struct Own {
    tenon_storage* storage = nullptr;
    Stamp stamp;
  };

  // ---- calls (peer.cc)
  template <typename Call>
  fault::Outcome call(Op op, Call&& function) {
    enter(op);
    fault::Outcome outcome = fault::call(function);
    leave();
    return outcome;
  }
  void enter(Op op) { slot_->enter(static_cast<uint32_t>(op)); }
  void leave() { slot_->leave(); }
  [[noreturn]] void die(int status);
  // Checks that the status is an allowed one. Otherwise the peer complains and ends.
  void expect(const fault::Outcome& outcome, std::initializer_list<tenon_status> allowed,
              const char* what);

  // ---- orders (peer.cc)
  void begin_round(const Order& order, const std::vector<int>& fds);
  void settle();
  void end_round();
  std::string what_is_left();
  static std::string holders();
  bool nothing_is_lent();
  void say(char what);
  bool has_order() const;

  // ---- steps (steps.cc)
  void step();
  bool make(Own* out);
  void lend();
  void lend_on();
  void send(size_t link, tenon_message* message, const std::vector<Stamp>& stamps);
  bool receive(size_t link, bool wait);
  bool receive_descriptor(Link* link, tenon_message** out);
  void hold(size_t link, tenon_message* message);
  void check(const Held& held);
  void check_own(const Own& own);
  void let_go(size_t index);
  void let_go_of_all();
  void release_own(size_t index);
  void drop(size_t link);
  Link* some_link(bool out, size_t* index);

  // ---- children and hostile borrowers (family.cc)
  void fork_one();
  [[noreturn]] void be_child(uint64_t seed);
  void reap(bool wait);
  void harm();

  Board* board_;
  Slot* slot_;
  int control_;
  uint64_t seed_;
  Random random_;
  bool gives_back_early_;
  bool hostile_ = false;
  bool is_child_ = false;
  uint64_t generation_ = 0;
  int forks_left_ = 0;
  std::vector<tenon_arena*> arenas_;
  std::vector<uint64_t> capacities_;
  std::vector<Link> links_;
  std::vector<Held> held_;
  std::vector<Own> own_;
  std::vector<pid_t> children_;
  fault::Held before_;
};

}  // namespace storm
