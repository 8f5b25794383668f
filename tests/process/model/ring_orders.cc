// Checks the memory orders of a ring beside a socket (docs/format/ring.md) under the memory model
// of C++, as queue_orders.cc does for queues. An argument weakens one order, which Relacy must then
// refuse (run.py).
#include <relacy/relacy.hpp>

#include <cstring>

namespace {

struct Orders {
  // A frame beside a sleep.
  rl::memory_order fill = rl::mo_seq_cst;    // ring_page::fill(): the store of the slot's word
  rl::memory_order asleep = rl::mo_seq_cst;  // RingSender::must_ring(): the load of `asleep`
  rl::memory_order sleep = rl::mo_seq_cst;   // fall_asleep(): the store of the odd number
  rl::memory_order look = rl::mo_seq_cst;    // has_news(): the load of the slot's word
  // Room beside a wait.
  rl::memory_order passed = rl::mo_seq_cst;  // take(): the store of `passed`
  rl::memory_order waits = rl::mo_seq_cst;   // RingReceiver::must_ring(): the load of `waits`
  rl::memory_order wait = rl::mo_seq_cst;    // wait_for_room(): the store of the odd number
  rl::memory_order room = rl::mo_seq_cst;    // waiting(): the load of `passed`
  // A frame that is withdrawn while it is taken.
  rl::memory_order withdraw = rl::mo_seq_cst;   // withdraw_oldest(): the store of `withdrawn`
  rl::memory_order reading = rl::mo_seq_cst;    // withdraw_oldest(): the load of `reading`
  rl::memory_order begin = rl::mo_seq_cst;      // take(): the store of `reading`
  rl::memory_order withdrawn = rl::mo_seq_cst;  // take(): the load of `withdrawn` behind it
  rl::memory_order end = rl::mo_release;        // take(), refuse(): the store of 0 into `reading`
  rl::memory_order fate = rl::mo_acquire;       // fate_of(): the load of `reading`
  // A slot that is filled again while it is read.
  rl::memory_order clear = rl::mo_release;  // fill(): the store of 0 into the slot's word
  rl::memory_order store = rl::mo_release;  // fill(): the stores of the head and the bytes
  rl::memory_order load = rl::mo_acquire;   // read_head(), copy(): their loads
  rl::memory_order first = rl::mo_acquire;  // take(): the first load of the slot's word
  // A frame in the ring before one on the socket.
  rl::memory_order count = rl::mo_release;    // count_by_socket(): the store of `by_socket`
  rl::memory_order expects = rl::mo_acquire;  // expects_socket(): its load
};
Orders orders;

// The sender fills a slot while the receiver goes to sleep. The receiver must see the frame, or be
// rung.
struct FrameBesideSleep : rl::test_suite<FrameBesideSleep, 2> {
  rl::atomic<int> slot, asleep;
  bool rings = false, sees = false;

  void before() {
    slot.store(0, rl::memory_order_relaxed);
    asleep.store(0, rl::memory_order_relaxed);
  }
  void thread(unsigned index) {
    if (index == 0) {
      slot.store(1, orders.fill, RL_INFO);
      rings = asleep.load(orders.asleep, RL_INFO) == 1;
    } else {
      asleep.store(1, orders.sleep, RL_INFO);
      sees = slot.load(orders.look, RL_INFO) == 1;
    }
  }
  void after() { RL_ASSERT(rings || sees); }
};

// As FrameBesideSleep, but the frame that the receiver looks for was withdrawn, so its slot has the
// next round's frame. The receiver must see that from `withdrawn`.
struct RefillBesideSleep : rl::test_suite<RefillBesideSleep, 2> {
  rl::atomic<int> slot, asleep, withdrawn;
  bool rings = false, sees = false;

  void before() {
    slot.store(1, rl::memory_order_relaxed);
    asleep.store(0, rl::memory_order_relaxed);
    withdrawn.store(0, rl::memory_order_relaxed);
  }
  void thread(unsigned index) {
    if (index == 0) {
      withdrawn.store(1, orders.withdraw, RL_INFO);
      slot.store(0, orders.clear, RL_INFO);
      slot.store(2, orders.fill, RL_INFO);
      rings = asleep.load(orders.asleep, RL_INFO) == 1;
    } else {
      asleep.store(1, orders.sleep, RL_INFO);
      sees = slot.load(orders.look, RL_INFO) == 1 || withdrawn.load(rl::mo_relaxed, RL_INFO) > 0;
    }
  }
  void after() { RL_ASSERT(rings || sees); }
};

// The receiver takes a frame while the sender, whose ring is full, begins to wait for room.
struct RoomBesideWait : rl::test_suite<RoomBesideWait, 2> {
  rl::atomic<int> passed, waits;
  bool rings = false, sees = false;

  void before() {
    passed.store(0, rl::memory_order_relaxed);
    waits.store(0, rl::memory_order_relaxed);
  }
  void thread(unsigned index) {
    if (index == 0) {
      passed.store(1, orders.passed, RL_INFO);
      rings = waits.load(orders.waits, RL_INFO) == 1;
    } else {
      waits.store(1, orders.wait, RL_INFO);
      sees = passed.load(orders.room, RL_INFO) == 1;
    }
  }
  void after() { RL_ASSERT(rings || sees); }
};

// The sender withdraws the frame that the receiver takes. The stores of `passed` and `refused` and
// their loads here are no stronger than the code's.
struct WithdrawBesideTake : rl::test_suite<WithdrawBesideTake, 2> {
  rl::atomic<int> reading, withdrawn, passed, refused;
  bool takes = false, is_begun = false, is_known = false, was_refused = false;

  void before() {
    reading.store(0, rl::memory_order_relaxed);
    withdrawn.store(0, rl::memory_order_relaxed);
    passed.store(0, rl::memory_order_relaxed);
    refused.store(0, rl::memory_order_relaxed);
  }
  void thread(unsigned index) {
    if (index == 0) {
      withdrawn.store(1, orders.withdraw, RL_INFO);
      const bool reads = reading.load(orders.reading, RL_INFO) == 1;
      is_begun = reads || passed.load(rl::mo_acquire, RL_INFO) == 1;
      is_known = is_begun && reading.load(orders.fate, RL_INFO) != 1;
      if (is_known) was_refused = refused.load(rl::mo_relaxed, RL_INFO) == 1;
    } else {
      reading.store(1, orders.begin, RL_INFO);
      takes = withdrawn.load(orders.withdrawn, RL_INFO) == 0;
      if (takes) {
        passed.store(1, rl::mo_release, RL_INFO);
      } else {
        refused.store(1, rl::mo_relaxed, RL_INFO);
      }
      reading.store(0, orders.end, RL_INFO);
    }
  }
  void after() {
    RL_ASSERT(is_begun || !takes);
    RL_ASSERT(!is_known || was_refused == !takes);
  }
};

// The sender withdraws a frame of two words and fills its slot again, while the receiver takes it.
struct RefillBesideCopy : rl::test_suite<RefillBesideCopy, 2> {
  rl::atomic<int> slot, one, two, withdrawn, reading;

  void before() {
    slot.store(1, rl::memory_order_relaxed);
    one.store(1, rl::memory_order_relaxed);
    two.store(1, rl::memory_order_relaxed);
    withdrawn.store(0, rl::memory_order_relaxed);
    reading.store(0, rl::memory_order_relaxed);
  }
  void thread(unsigned index) {
    if (index == 0) {
      withdrawn.store(1, orders.withdraw, RL_INFO);
      (void)reading.load(orders.reading, RL_INFO);
      slot.store(0, orders.clear, RL_INFO);
      one.store(2, orders.store, RL_INFO);
      two.store(2, orders.store, RL_INFO);
      slot.store(2, orders.fill, RL_INFO);
      return;
    }
    if (slot.load(orders.first, RL_INFO) != 1) {
      // The receiver reports that the ring has nothing, or is CORRUPT, unless it sees the reason.
      RL_ASSERT(withdrawn.load(rl::mo_acquire, RL_INFO) == 1);
      return;
    }
    const int head = one.load(orders.load, RL_INFO);
    reading.store(1, orders.begin, RL_INFO);
    if (withdrawn.load(orders.withdrawn, RL_INFO) == 1) return;
    RL_ASSERT(head == 1);  // the receiver makes room for so many bytes
    const int first = one.load(orders.load, RL_INFO);
    const int second = two.load(orders.load, RL_INFO);
    if (slot.load(rl::mo_relaxed, RL_INFO) != 1) return;
    RL_ASSERT(first == 1 && second == 1);
  }
};

// A receiver that finds a frame must find its bytes.
struct BytesBehindWord : rl::test_suite<BytesBehindWord, 2> {
  rl::atomic<int> slot, bytes;

  void before() {
    slot.store(0, rl::memory_order_relaxed);
    bytes.store(0, rl::memory_order_relaxed);
  }
  void thread(unsigned index) {
    if (index == 0) {
      bytes.store(1, orders.store, RL_INFO);
      slot.store(1, orders.fill, RL_INFO);
    } else if (slot.load(orders.first, RL_INFO) == 1) {
      RL_ASSERT(bytes.load(orders.load, RL_INFO) == 1);
    }
  }
};

// A slot is filled again once `passed` frees it. The receiver's copy was before that.
struct RefillAfterTake : rl::test_suite<RefillAfterTake, 2> {
  rl::atomic<int> bytes, passed;

  void before() {
    bytes.store(1, rl::memory_order_relaxed);
    passed.store(0, rl::memory_order_relaxed);
  }
  void thread(unsigned index) {
    if (index == 0) {
      if (passed.load(orders.room, RL_INFO) == 1) bytes.store(2, orders.store, RL_INFO);
    } else {
      const int copy = bytes.load(orders.load, RL_INFO);
      passed.store(1, orders.passed, RL_INFO);
      RL_ASSERT(copy == 1);
    }
  }
};

// The sender puts a frame into the ring, then begins with one on the socket. A receiver that goes
// to the socket must have seen the frame in the ring.
struct RingBeforeSocket : rl::test_suite<RingBeforeSocket, 2> {
  rl::atomic<int> slot, by_socket;

  void before() {
    slot.store(0, rl::memory_order_relaxed);
    by_socket.store(0, rl::memory_order_relaxed);
  }
  void thread(unsigned index) {
    if (index == 0) {
      slot.store(1, orders.fill, RL_INFO);
      by_socket.store(1, orders.count, RL_INFO);
    } else if (by_socket.load(orders.expects, RL_INFO) == 1) {
      RL_ASSERT(slot.load(orders.first, RL_INFO) == 1);
    }
  }
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
  } choices[] = {{"fill", &orders.fill, rl::mo_release},
                 {"asleep", &orders.asleep, rl::mo_acquire},
                 {"sleep", &orders.sleep, rl::mo_release},
                 {"look", &orders.look, rl::mo_acquire},
                 {"passed", &orders.passed, rl::mo_release},
                 {"waits", &orders.waits, rl::mo_acquire},
                 {"wait", &orders.wait, rl::mo_release},
                 {"room", &orders.room, rl::mo_acquire},
                 {"withdraw", &orders.withdraw, rl::mo_release},
                 {"reading", &orders.reading, rl::mo_acquire},
                 {"begin", &orders.begin, rl::mo_release},
                 {"withdrawn", &orders.withdrawn, rl::mo_acquire},
                 {"end", &orders.end, rl::mo_relaxed},
                 {"fate", &orders.fate, rl::mo_relaxed},
                 {"clear", &orders.clear, rl::mo_relaxed},
                 {"store", &orders.store, rl::mo_relaxed},
                 {"load", &orders.load, rl::mo_relaxed},
                 {"first", &orders.first, rl::mo_relaxed},
                 {"count", &orders.count, rl::mo_relaxed},
                 {"expects", &orders.expects, rl::mo_relaxed}};
  bool is_known = argc < 2;
  for (const auto& each : choices) {
    if (argc < 2 || std::strcmp(argv[1], each.name) != 0) continue;
    *each.order = each.weaker;
    is_known = true;
  }
  if (!is_known) return 2;
  const bool all = holds<FrameBesideSleep>() && holds<RefillBesideSleep>() &&
                   holds<RoomBesideWait>() && holds<WithdrawBesideTake>() &&
                   holds<RefillBesideCopy>() && holds<BytesBehindWord>() &&
                   holds<RefillAfterTake>() && holds<RingBeforeSocket>();
  return all ? 0 : 1;
}
