// Checks the memory orders by which a queue loses no wake (docs/format/queue.md) under the memory
// model of C++. Relacy (Debian: relacy-dev) runs each case in every order of the threads' steps,
// and lets each load see every store that C++ allows. SPIN cannot do that: its model knows one kind
// of late stores. An argument weakens one order, which Relacy must then refuse (run.py).
#include <relacy/relacy.hpp>

#include <cstring>

namespace {

struct Orders {
  rl::memory_order fill = rl::mo_seq_cst;      // the sender's store of a slot's word
  rl::memory_order take = rl::mo_seq_cst;      // the receiver's compare-exchange of it
  rl::memory_order sleepers = rl::mo_seq_cst;  // a waker's load of a set of sleepers
  rl::memory_order add = rl::mo_seq_cst;       // page::add()
  rl::memory_order remove = rl::mo_seq_cst;    // page::remove()
  rl::memory_order look = rl::mo_seq_cst;      // the check of a slot before a sleep and after it
};
Orders orders;

enum { kEmpty = 0, kFull = 1, kTaken = 2 };

// What a waker does: it checks the bit, then the number. `wakes`: it saw the odd number.
struct Words {
  rl::atomic<int> slot;
  rl::atomic<int> sleepers;
  rl::atomic<int> asleep;

  bool is_asleep() {
    return sleepers.load(orders.sleepers, RL_INFO) != 0 &&
           asleep.load(rl::memory_order_seq_cst) == 1;
  }
};

// A receiver goes to sleep while a sender fills a slot. It must see the message, or be woken.
struct MessageBesideSleep : rl::test_suite<MessageBesideSleep, 2> {
  Words words;
  bool wakes = false;
  bool sees = false;

  void before() {
    words.slot.store(kEmpty, rl::memory_order_relaxed);
    words.sleepers.store(0, rl::memory_order_relaxed);
    words.asleep.store(0, rl::memory_order_relaxed);
  }
  void thread(unsigned index) {
    if (index == 0) {
      words.slot.store(kFull, orders.fill, RL_INFO);
      wakes = words.is_asleep();
    } else {
      words.asleep.store(1, rl::memory_order_seq_cst);
      words.sleepers.fetch_or(1, orders.add, RL_INFO);
      sees = words.slot.load(orders.look, RL_INFO) == kFull;
    }
  }
  void after() { RL_ASSERT(wakes || sees); }
};

// A sender goes to sleep while a receiver takes a message of its full lane.
struct RoomBesideSleep : rl::test_suite<RoomBesideSleep, 2> {
  Words words;
  bool wakes = false;
  bool sees = false;

  void before() {
    words.slot.store(kFull, rl::memory_order_relaxed);
    words.sleepers.store(0, rl::memory_order_relaxed);
    words.asleep.store(0, rl::memory_order_relaxed);
  }
  void thread(unsigned index) {
    if (index == 0) {
      int full = kFull;
      RL_ASSERT(words.slot.compare_exchange_strong(full, kTaken, orders.take, RL_INFO,
                                                   rl::memory_order_relaxed));
      wakes = words.is_asleep();
    } else {
      words.asleep.store(1, rl::memory_order_seq_cst);
      words.sleepers.fetch_or(1, orders.add, RL_INFO);
      sees = words.slot.load(orders.look, RL_INFO) == kTaken;
    }
  }
  void after() { RL_ASSERT(wakes || sees); }
};

// A receiver's wait ends by itself while a sender fills a slot. If the sender woke this receiver,
// it wakes no other one, so this receiver must see the message.
struct MessageBesideTimeout : rl::test_suite<MessageBesideTimeout, 2> {
  Words words;
  bool wakes = false;
  bool sees = false;

  void before() {
    words.slot.store(kEmpty, rl::memory_order_relaxed);
    words.sleepers.store(1, rl::memory_order_relaxed);
    words.asleep.store(1, rl::memory_order_relaxed);
  }
  void thread(unsigned index) {
    if (index == 0) {
      words.slot.store(kFull, orders.fill, RL_INFO);
      wakes = words.is_asleep();
    } else {
      words.asleep.store(2, rl::memory_order_relaxed);
      words.sleepers.fetch_and(0, orders.remove, RL_INFO);
      sees = words.slot.load(orders.look, RL_INFO) == kFull;
    }
  }
  void after() { RL_ASSERT(!wakes || sees); }
};

template <typename Case>
bool holds() {
  rl::test_params params;
  params.search_type = rl::fair_full_search_scheduler_type;
  return rl::simulate<Case>(params);
}

}  // namespace

int main(int argc, char** argv) {
  const struct {
    const char* name;
    rl::memory_order* order;
    rl::memory_order weaker;
  } choices[] = {
      {"fill", &orders.fill, rl::mo_release},         {"take", &orders.take, rl::mo_acq_rel},
      {"sleepers", &orders.sleepers, rl::mo_acquire}, {"add", &orders.add, rl::mo_acq_rel},
      {"remove", &orders.remove, rl::mo_acq_rel},     {"look", &orders.look, rl::mo_acquire}};
  bool is_known = argc < 2;
  for (const auto& each : choices) {
    if (argc < 2 || std::strcmp(argv[1], each.name) != 0) continue;
    *each.order = each.weaker;
    is_known = true;
  }
  if (!is_known) return 2;
  const bool all =
      holds<MessageBesideSleep>() && holds<RoomBesideSleep>() && holds<MessageBesideTimeout>();
  return all ? 0 : 1;
}
