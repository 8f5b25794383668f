// A member of a queue dies, or is stopped, at each named moment of joining, sending, receiving,
// sleeping and leaving. The other members go on within a second: messages pass between them in both
// directions. They are told who died, all leases come back, and nothing of the dead is left. At
// most the message in the hand of the dead is lost. A queue that redelivers loses none: the message
// comes again unless the dead acknowledged it.
//
// Most moments lie between two system calls. So the victim is traced, and this process watches a
// word of the queue's memory (a watchpoint, or single steps), until the moment has come.
#include <algorithm>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "process/queue/kit.h"
#include "process/storm/victim.h"

namespace queues {
namespace {

using storm::Victim;

// The places of the members, in the order in which they join.
constexpr uint64_t kParent = 0;
constexpr uint64_t kVictim = 2;
// The numbers of messages. Those of the rounds come later.
constexpr uint64_t kMeet = 1;
constexpr uint64_t kMet = 2;
constexpr uint64_t kInHand = 5;  // the message that the victim receives, or sends
constexpr uint64_t kOfFullLane = 10;
constexpr uint64_t kFirstOfRounds = 100;
constexpr uint32_t kSlots = 8;
// A victim waits for a message no longer than this.
constexpr int64_t kVictimNs = (fault::kSanitized ? 5 : 1) * kSecond / 5;
constexpr int64_t kPromptNs = (fault::kSanitized ? 10 : 1) * kSecond;

enum class Step { kJoin, kSend, kReceive, kSleep, kSleepForRoom, kLeave };

enum class Fate { kKilled, kStoppedAndContinued, kStoppedAndKilled };

// ---- a thread of this process that receives all the time, so that it often sleeps

class Collector {
 public:
  explicit Collector(tenon_queue* queue) : queue_(queue) {}
  ~Collector() { stop(); }
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  // Receives until the message with the number `last` has come.
  void start(uint64_t last) {
    last_ = last;
    thread_ = std::thread([this] {
      for (uint64_t number = 0; number != last_ && fault::g_failures == 0;) {
        const Received received = try_receive(queue_, kLong);
        number = received.outcome.ok() ? received.number : 0;
        note(received);
      }
    });
  }
  void stop() {
    if (thread_.joinable()) thread_.join();
  }
  // `is_there` may call the functions below.
  bool await(const std::function<bool()>& is_there) {
    std::unique_lock<std::recursive_mutex> lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(1) * (fault::kSanitized ? 10 : 1),
                             is_there);
  }
  bool has(uint64_t number) const {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    return numbers_.contains(number);
  }
  bool has_death(pid_t pid) const {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    return deaths_.contains(pid);
  }
  size_t n_deaths() const {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    return deaths_.size();
  }
  // How often the message in hand had been delivered before.
  uint32_t redelivered() const {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    return redelivered_;
  }
  bool has_lost() const {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    return has_lost_;
  }
  void note(const Received& received) {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    if (received.outcome.ok()) {
      CHECK_SAYING(numbers_.insert(received.number).second, "a message came twice");
      if (received.number == kInHand) redelivered_ = received.redelivered;
    } else if (received.is_death()) {
      CHECK_SAYING(deaths_.insert(received.pid()).second, "a death was reported twice");
    } else if (received.outcome.status == TENON_PEER_GONE) {
      has_lost_ = true;
    } else {
      CHECK_SAYING(false, received.outcome.text());
    }
    changed_.notify_all();
  }

 private:
  tenon_queue* queue_;
  uint64_t last_ = 0;
  std::thread thread_;
  mutable std::recursive_mutex mutex_;
  std::condition_variable_any changed_;
  std::set<uint64_t> numbers_;
  std::set<pid_t> deaths_;
  bool has_lost_ = false;
  uint32_t redelivered_ = 0;
};

// ---- the moments

struct Scene {
  const Memory& memory;
  volatile uint32_t* mark;  // set by the victim when it has received

  // The slot of the victim's message kInHand. Before it the victim has sent two.
  Memory::Word& sent_slot() const { return memory.slot(kVictim, 2); }
  // The slot of the message that the victim receives. Before it this process has sent two.
  bool is_taken(SlotState as = kTaken) const {
    return memory.slot(kParent, 2) == Memory::slot_word(2, as, Memory::taker_of(kVictim, 1));
  }
};

struct Moment {
  const char* name;
  Step step;
  bool (*has_come)(const Scene&);
  // The moment comes with a store to this word.
  const volatile void* (*word)(const Scene&);
  // The moment is one instruction earlier. Another victim finds the instruction: it is watched from
  // a store to the word `from`, or from the beginning of the step.
  bool is_before = false;
  const volatile void* (*from)(const Scene&) = nullptr;
  bool has_sleeper = false;   // a receiver of this process sleeps
  bool in_next_call = false;  // the moment is the beginning of the next system call
  bool redelivers = false;    // the queue redelivers, so a receiver acknowledges messages
};

const volatile void* at_member(const Scene& scene) { return &scene.memory.member(kVictim); }
const volatile void* at_joined(const Scene& scene) { return &scene.memory.joined(); }
const volatile void* at_head(const Scene& scene) { return &scene.memory.slot_head(kVictim, 2); }
const volatile void* at_sent(const Scene& scene) { return &scene.sent_slot(); }
const volatile void* at_taken(const Scene& scene) { return &scene.memory.slot(kParent, 2); }
const volatile void* at_mark(const Scene& scene) { return scene.mark; }
const volatile void* at_asleep(const Scene& scene) {
  return &scene.memory.receiver_asleep(kVictim);
}
const volatile void* at_receivers(const Scene& scene) { return &scene.memory.receivers_asleep(); }
const volatile void* at_senders(const Scene& scene) { return &scene.memory.senders_asleep(); }

bool is_joining(const Scene& scene) { return scene.memory.member_state(kVictim) == kJoining; }
bool is_here(const Scene& scene) { return scene.memory.member_state(kVictim) == kHere; }
bool is_counted(const Scene& scene) { return is_here(scene) && scene.memory.joined() == 3; }
bool is_filling(const Scene& scene) {
  return scene.memory.slot_head(kVictim, 2) != 0 && scene.sent_slot() == 0;
}
bool is_full(const Scene& scene) { return scene.sent_slot() == Memory::slot_word(2, kFull); }
bool is_taken(const Scene& scene) { return scene.is_taken(); }
bool is_held(const Scene& scene) { return scene.is_taken(kHeldSlot); }
bool is_received(const Scene& scene) { return *scene.mark != 0; }
bool is_numbered(const Scene& scene) { return (scene.memory.receiver_asleep(kVictim) & 1) != 0; }
bool is_asleep(const Scene& scene) {
  return is_numbered(scene) && (scene.memory.receivers_asleep() >> kVictim & 1) != 0;
}
bool is_asleep_for_room(const Scene& scene) {
  return (scene.memory.sender_asleep(kVictim) & 1) != 0 &&
         (scene.memory.senders_asleep() >> kVictim & 1) != 0;
}
bool has_left(const Scene& scene) { return scene.memory.member_state(kVictim) == kLeft; }

const Moment kMoments[] = {
    {"joining", Step::kJoin, is_joining, at_member},
    {"joined and not counted", Step::kJoin, is_here, at_member},
    {"joined and counted", Step::kJoin, is_counted, at_joined},
    {"filling a slot", Step::kSend, is_filling, at_head},
    {"before a slot is full", Step::kSend, is_full, at_sent, true, at_head},
    {"a slot is full", Step::kSend, is_full, at_sent},
    {"a slot is full and the receiver sleeps", Step::kSend, is_full, at_sent, false, nullptr, true},
    {"about to wake the receiver", Step::kSend, is_full, at_sent, false, nullptr, true, true},
    {"before it takes a message", Step::kReceive, is_taken, at_taken, true},
    {"a message is taken", Step::kReceive, is_taken, at_taken},
    {"a message is received", Step::kReceive, is_received, at_mark},
    {"about to sleep", Step::kSleep, is_numbered, at_asleep},
    {"about to sleep for the last look", Step::kSleep, is_asleep, at_receivers},
    {"asleep", Step::kSleep, is_asleep, at_receivers, false, nullptr, false, true},
    {"asleep until there is room", Step::kSleepForRoom, is_asleep_for_room, at_senders, false,
     nullptr, false, true},
    {"before it holds a message", Step::kReceive, is_held, at_taken, true, nullptr, false, false,
     true},
    {"a message is held", Step::kReceive, is_held, at_taken, false, nullptr, false, false, true},
    {"a held message is received", Step::kReceive, is_received, at_mark, false, nullptr, false,
     false, true},
    {"before it acknowledges a message", Step::kReceive, is_taken, at_taken, true, at_mark, false,
     false, true},
    {"a message is acknowledged", Step::kReceive, is_taken, at_taken, false, nullptr, false, false,
     true},
    {"before it leaves", Step::kLeave, has_left, at_member, true},
    {"it has left", Step::kLeave, has_left, at_member},
};

// ---- one victim

class Case {
 public:
  explicit Case(const Moment& moment)
      : moment_(moment),
        before_((warm_up_queue(), meet_a_stranger(), fault::hold())),
        queue_(new_queue(8, kSlots, 1024, moment.redelivers ? TENON_QUEUE_REDELIVER : 0)),
        memory_(queue_),
        witness_(std::make_unique<Witness>(queue_)),
        collector_(queue_) {
    CHECK_EQ(index_of(queue_), kParent);
    // The witness and this process meet.
    witness_->begin_receive_until(kMeet);
    send_number(queue_, kMeet);
    (void)witness_->answer();
    witness_->send(kMeet);
    CHECK_EQ(receive_number(queue_), kMeet);
  }
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  // Lets the victim go to the moment. If the moment is one instruction before a store, `last` is
  // the address of that instruction. If `last` is 0, the victim searches for the instruction, and
  // its address is returned.
  uint64_t run(Fate fate, uint64_t last) {
    const bool is_member = moment_.step != Step::kJoin;
    if (is_member) send_number(queue_, kMet);
    Victim victim(moment_.name, [&] { prepare(); }, [&] { run_step(); });
    pid_ = victim.pid();
    if (is_member) {
      // The victim has met this process. Now both others meet the victim.
      CHECK_EQ(receive_number(queue_), kMet);
      witness_->begin_receive_until(kMet + 1);
      (void)witness_->answer();
    }
    if (moment_.step == Step::kReceive) send_number(queue_, kInHand);
    if (moment_.has_sleeper) start_collector();
    const uint64_t made = go(&victim, last);
    if (fault::g_failures > 0) return 0;
    if (fate != Fate::kKilled) {
      victim.stop();
      check_goes_on("stopped");
      if (fate == Fate::kStoppedAndContinued) {
        victim.finish_step();
        check_goes_on("continued");
      }
    }
    is_told_ = is_counted({memory_, mark_});
    is_sent_ = memory_.slot(kVictim, 2) != 0;
    const Scene scene{memory_, mark_};
    is_acknowledged_ = moment_.redelivers && scene.is_taken();
    has_taken_ = scene.is_taken() || scene.is_taken(kHeldSlot);
    victim.kill();
    CHECK(victim.went_well());
    check_death();
    check_goes_on("killed");
    return made;
  }

  // Checks what is left when all others have ended.
  void finish(Fate fate) {
    if (fault::g_failures > 0) return;
    if (moment_.redelivers && !is_acknowledged_) await_message_again();
    for (Received rest; (rest = try_receive(queue_, 0)).outcome.status != TENON_WOULD_BLOCK;) {
      collector_.note(rest);
      if (fault::g_failures > 0) return;
    }
    check_messages(fate);
    check_nothing_lent(moment_.name);
    witness_->finish();
    CHECK_EQ(collector_.n_deaths(), is_told_ ? 1 : collector_.n_deaths());
    if (fault::g_failures > 0) return;
    tenon_queue_release(queue_);
    munmap(const_cast<uint32_t*>(mark_), 4096);
    // A process keeps what it knows of a lender that died with an unfetched message.
    if (moment_.step == Step::kSend && !is_sent_) {
      CHECK_SAYING(fault::wait_until([&] { return fault::hold().fds <= before_.fds + 6; }),
                   "fds are left");
      return;
    }
    // The end of the witness may not have been noticed yet.
    for (int tries = 0; tries < 10; ++tries) {
      meet_a_stranger();
      if (fault::hold().fds == before_.fds) break;
      usleep(10'000);
    }
    // The first stranger's end may not have been noticed either when `before_` was counted.
    before_.fds = std::min(before_.fds, fault::hold().fds);
    CHECK_HELD(before_);
  }

 private:
  static constexpr long kMostSteps = 1'000'000;

  void prepare() {
    if (moment_.step == Step::kJoin) return;
    queue_ = join_inherited(queue_);
    CHECK_EQ(receive_number(queue_), kMet);
    send_number(queue_, kMet);
    send_number(queue_, kMet + 1);
    // Messages are made before the step, because making one takes more instructions than sending
    // it.
    if (moment_.step == Step::kSleepForRoom) {
      for (uint64_t i = 0; i < kSlots; ++i) messages_.push_back(numbered(kOfFullLane + i));
    }
    messages_.push_back(numbered(kInHand));
  }
  // A victim that was stopped for long may find that the message is gone.
  void run_step() {
    switch (moment_.step) {
      case Step::kJoin: (void)join_inherited(queue_); break;
      case Step::kSleepForRoom:
      case Step::kSend:
        for (tenon_message* each : messages_)
          REQUIRE_OK(tenon_queue_send(queue_, each, nullptr, err));
        break;
      case Step::kSleep:
      case Step::kReceive: {
        const tenon_wait wait = wait_ns(kVictimNs);
        tenon_message* message = nullptr;
        const fault::Outcome outcome = CALL(tenon_queue_recv(queue_, &wait, &message, err));
        CHECK_SAYING(outcome.ok() || outcome.status == TENON_TIMEOUT, outcome.text());
        *mark_ = 1;
        // To check the bytes takes too many instructions before the acknowledgement.
        if (outcome.ok() && moment_.redelivers) {
          tenon_message_release(message);
        } else if (outcome.ok()) {
          CHECK(read_message(message).is_right);
        }
        break;
      }
      case Step::kLeave: tenon_queue_leave(queue_); break;
    }
  }

  uint64_t go(Victim* victim, uint64_t last) {
    const Scene scene{memory_, mark_};
    bool in_time = true;
    const auto go_to_store = [&](const volatile void* word, const auto& has_come) {
      const bool can_watch = victim->watch(word);
      while (in_time && !has_come())
        in_time = can_watch ? victim->to_next_store() : victim->to_next_instruction();
    };
    uint64_t made = 0;
    if (moment_.is_before && last != 0) {
      in_time = victim->to_instruction(last, moment_.word(scene)) && !moment_.has_come(scene);
    } else if (moment_.is_before) {
      if (moment_.from != nullptr) {
        const auto* const word = static_cast<const volatile uint32_t*>(moment_.from(scene));
        const uint32_t before = *word;
        go_to_store(word, [&] { return *word != before; });
      }
      for (long i = 0; in_time && !moment_.has_come(scene); ++i) {
        made = victim->instruction();
        in_time = victim->to_next_instruction() && i < kMostSteps;
      }
    } else {
      go_to_store(moment_.word(scene), [&] { return moment_.has_come(scene); });
    }
    if (moment_.in_next_call) in_time = in_time && victim->to_next_call();
    CHECK_SAYING(in_time, "the moment did not come");
    return made;
  }

  void start_collector() {
    collector_.start(++round_ * kFirstOfRounds);
    is_collecting_ = true;
    CHECK(fault::wait_until([&] { return (memory_.receiver_asleep(kParent) & 1) != 0; }));
  }

  // The witness and this process send each other messages, and the receiver sleeps.
  void check_goes_on(const char* victim_is) {
    if (fault::g_failures > 0) return;
    const std::string where = std::string(moment_.name) + ", and the victim is " + victim_is;
    if (!is_collecting_) start_collector();
    const uint64_t from_witness = round_ * kFirstOfRounds;
    witness_->send(from_witness);
    CHECK_SAYING(collector_.await([&] { return collector_.has(from_witness); }),
                 where + ": no message comes from the witness");
    collector_.stop();
    is_collecting_ = false;
    // The first message may wake the victim, which is asleep too, in place of the witness.
    for (uint64_t i = 1; i <= 3 && fault::g_failures == 0; ++i) {
      const uint64_t to_witness = round_ * kFirstOfRounds + i;
      witness_->begin_receive_until(to_witness);
      (void)fault::wait_until([&] { return (memory_.receiver_asleep(1) & 1) != 0; },
                              std::chrono::milliseconds(20));
      const int64_t begin = now_ns();
      Received death;
      while (!(death.outcome = try_send(queue_, to_witness)).ok() && fault::g_failures == 0)
        collector_.note(death);
      for (const uint64_t each : witness_->answer()) witnessed_.insert(each);
      CHECK_SAYING(now_ns() - begin < kPromptNs, where + ": the witness is not woken");
    }
  }

  // The pid of the dead is reported to both others. The death of a process that was not a member
  // yet, or any more, is not reported.
  void check_death() {
    if (fault::g_failures > 0 || !is_told_) return;
    const int64_t begin = now_ns();
    while (!collector_.has_death(pid_) && now_ns() - begin < 5 * kPromptNs) {
      if (is_collecting_) {
        (void)collector_.await([&] { return collector_.has_death(pid_); });
        continue;
      }
      const Received received = try_receive(queue_, kSecond);
      if (received.outcome.status != TENON_TIMEOUT) collector_.note(received);
    }
    CHECK_SAYING(collector_.has_death(pid_), moment_.name);
    for (const uint64_t each : witness_->await_death(pid_)) witnessed_.insert(each);
    CHECK_SAYING(now_ns() - begin < 5 * kPromptNs, moment_.name);
  }

  // The message in hand comes to the witness, or to this process a little after the death.
  void await_message_again() {
    const int64_t begin = now_ns();
    while (!collector_.has(kInHand) && !witnessed_.contains(kInHand) &&
           now_ns() - begin < kPromptNs) {
      const Received received = try_receive(queue_, kSecond / 10);
      if (received.outcome.status != TENON_TIMEOUT) collector_.note(received);
    }
    if (collector_.has(kInHand)) CHECK_EQ(collector_.redelivered(), has_taken_ ? 1 : 0);
  }

  void check_messages(Fate fate) {
    const auto has = [&](uint64_t number) {
      return static_cast<int>(collector_.has(number)) +
             static_cast<int>(witnessed_.contains(number));
    };
    if (moment_.step == Step::kSend) CHECK_EQ(has(kInHand), is_sent_ ? 1 : 0);
    if (moment_.redelivers) {
      CHECK_EQ(has(kInHand), is_acknowledged_ ? 0 : 1);
      CHECK_EQ(stats_of(queue_).lost, 0);
    } else if (moment_.step == Step::kReceive) {
      CHECK_EQ(has(kInHand), has_taken_ ? 0 : 1);
      const bool is_lost =
          fate != Fate::kStoppedAndContinued && moment_.has_come == is_taken && has_taken_;
      CHECK_SAYING(fault::wait_until([&] { return stats_of(queue_).lost == (is_lost ? 1 : 0); }),
                   std::to_string(stats_of(queue_).lost) + " are lost");
    }
    if (moment_.step == Step::kSleepForRoom) {
      for (uint64_t i = 0; i < kSlots; ++i) CHECK_EQ(has(kOfFullLane + i), 1);
      CHECK_EQ(has(kInHand), fate == Fate::kStoppedAndContinued ? 1 : 0);
    }
    for (uint64_t round = 1; round <= round_; ++round) {
      for (uint64_t i = 0; i <= 3; ++i) CHECK_EQ(has(round * kFirstOfRounds + i), 1);
    }
    CHECK(!collector_.has_lost());
  }

  const Moment& moment_;
  fault::Held before_;
  tenon_queue* queue_;
  Memory memory_;
  std::unique_ptr<Witness> witness_;
  Collector collector_;
  volatile uint32_t* mark_ = static_cast<volatile uint32_t*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  std::vector<tenon_message*> messages_;  // of the victim
  std::set<uint64_t> witnessed_;
  uint64_t round_ = 0;
  bool is_collecting_ = false;
  bool is_told_ = false;
  bool is_sent_ = false;
  bool has_taken_ = false;
  bool is_acknowledged_ = false;
  pid_t pid_ = -1;
};

class QueueSteps : public ::testing::TestWithParam<size_t> {};

TEST_P(QueueSteps, OthersGoOn) {
  const Moment& moment = kMoments[GetParam()];
#if !defined(__x86_64__)
  if (moment.is_before) GTEST_SKIP() << "Victim cannot stop before an instruction here";
#endif
  for (const Fate fate : {Fate::kKilled, Fate::kStoppedAndContinued, Fate::kStoppedAndKilled}) {
    // Single steps take long, and the other fates come at the neighbouring moments.
    if (moment.is_before && fate != Fate::kKilled) break;
    SCOPED_TRACE(moment.name + std::string(", case ") + std::to_string(static_cast<int>(fate)));
    IN_CHILD([&] {
      const bool has_folder = fault::has_own_shm();
      const auto run = [&](uint64_t last) {
        Case one(moment);
        const uint64_t made = one.run(fate, last);
        one.finish(fate);
        return made;
      };
      const uint64_t last = run(0);
      if (moment.is_before && fault::g_failures == 0) (void)run(last);
      if (fault::g_failures > 0) return;
      if (!has_folder) return;
      // This process has a socket.
      CHECK_OK(tenon_filename_sweep(nullptr, nullptr, err));
      CHECK_EQ(tenon::test::names_in("/dev/shm").size(), 1);
    });
  }
}

std::string name_of_moment(const ::testing::TestParamInfo<size_t>& each) {
  std::string name = kMoments[each.param].name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Each, QueueSteps, ::testing::Range(size_t{0}, std::size(kMoments)),
                         name_of_moment);

}  // namespace
}  // namespace queues
