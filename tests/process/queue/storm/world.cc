// The kill storm of queues. Six peers send to each other through one queue. They join, leave, and
// are killed and stopped at random moments. Each message is received at most once, in order for
// each pair of peers, and with its bytes. The messages that the living lost are no more than the
// kills. After each round all leases have come back.
//
// With TENON_STORM_REDELIVER in the environment the queue redelivers. Then a message may come again
// until it was acknowledged, and the living lose none.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <memory>

#include "process/queue/kit.h"
#include "support/storm/deadline.h"
#include "support/storm/engine.h"

namespace storm {
namespace {

constexpr uint32_t kPeers = 6;
constexpr uint32_t kMembers = 24;
constexpr uint32_t kMostLives = 1U << 14;
constexpr uint32_t kMostNumbers = 1U << 13;
constexpr size_t kMostHeld = 6;

enum Op : uint32_t { kJoin = kFirstOp, kSend, kReceive, kRelease, kLeave, kEndOfOps };
constexpr std::array kOps = {"tenon_queue_join", "tenon_queue_send", "tenon_queue_recv", "release",
                             "tenon_queue_leave"};
static_assert(kOps.size() == size_t{kEndOfOps} - kFirstOp);
enum Count : uint32_t { kJoined, kSent, kReceived, kLost, kFull, kDeaths, kGoneWithSender, kAgain };
constexpr std::array kCounts = {"joined",
                                "messages sent",
                                "messages received",
                                "messages of the living lost",
                                "times full",
                                "deaths reported",
                                "messages gone with their sender",
                                "messages that came again"};
constexpr std::array kPhases = {Phase{"stopped"}, Phase{"received what was left"},
                                Phase{"got back what it lent"}};
constexpr std::array kBreaks = {Break{"refill", "NOT_FOUND"}};

// The messages that have been received from each peer that ever lived. All processes share this
// table.
enum : uint8_t { kGot = 1, kAcknowledged = 2 };
struct Ledger {
  std::atomic<uint32_t> lives{0};
  std::array<std::array<std::atomic<uint8_t>, kMostNumbers>, kMostLives> got{};
};

// The user's bytes of a message.
struct Label {
  uint32_t life = 0;
  uint32_t number = 0;
  uint64_t membership = 0;  // a peer that has joined again is another sender
  Stamp stamp;
};

class QueuePeer : public Peer {
 public:
  QueuePeer(const Seat& seat, tenon_queue* queue, Ledger* ledger, bool refills, bool redelivers)
      : Peer(seat),
        inherited_(queue),
        ledger_(ledger),
        life_(ledger->lives.fetch_add(1)),
        refills_(refills),
        redelivers_(redelivers) {
    REQUIRE(life_ < kMostLives);
    queues::warm_up_queue();
    before_ = fault::hold();
  }

 protected:
  void begin(uint32_t /*role*/, const std::vector<LinkEnd>& links) override {
    for (const LinkEnd& each : links) close(each.socket);
  }
  void start() override { join(); }
  void step() override {
    const uint64_t dice = random_.below(1000);
    if (queue_ == nullptr) {
      join();
    } else if (dice < 450) {
      send();
    } else if (dice < 900) {
      (void)receive(random_.chance(60) ? static_cast<int64_t>(random_.up_to(1 << 21)) : 0);
    } else if (dice < 990) {
      if (!held_.empty()) let_go(random_.below(held_.size()));
    } else if (dice < 995) {
      // A message that is unfetched when its sender leaves stays lent as long as the sender lives,
      // and a sender that has left puts no message back. So a peer leaves when it has neither.
      if (queues::unfetched() == 0 && !has_unacknowledged()) leave_queue();
    } else {
      for (const Held& each : held_) check(each);
    }
    if (refills_ && random_.chance(5)) refill();
  }
  void settle(uint32_t phase, uint32_t /*dead*/) override {
    enter(kSettling);
    if (phase == 1) {
      while (queue_ == nullptr) join();
      const Deadline deadline(board_->slots, kPatienceNs / 2);
      while (queues::stats_of(queue_).waiting > 0) {
        (void)receive(0);
        if (deadline.is_over()) fail("messages stay in the queue");
      }
      // Takes a death that is not reported yet.
      while (receive(0)) {
      }
    } else if (phase == 2) {
      while (!held_.empty()) let_go(held_.size() - 1);
      get_back();
    }
    enter(kSettling);
  }
  void idle() override {
    if (queue_ != nullptr) (void)receive(0);
    while (!held_.empty()) let_go(held_.size() - 1);
    enter(kSettling);
    usleep(200);
  }
  void end() override {
    while (!held_.empty()) let_go(held_.size() - 1);
    if (queue_ != nullptr) leave_queue();
  }

 private:
  struct Held {
    tenon_message* message;
    Stamp stamp;
    uint32_t life;
    uint32_t number;
    uint64_t membership;  // this peer's membership when it received the message
  };

  void join() {
    const fault::Outcome joined = call(kJoin, [&](tenon_error** err) {
      return tenon_queue_join(tenon_queue_storage(inherited_), nullptr, &queue_, err);
    });
    expect(joined, {TENON_OK, TENON_RESOURCE_EXHAUSTED}, "tenon_queue_join");
    if (joined.ok()) {
      ++memberships_;
      count(kJoined);
    } else {
      usleep(500);
    }
  }
  void leave_queue() {
    enter(kLeave);
    tenon_queue_release(std::exchange(queue_, nullptr));
    leave();
  }

  void send() {
    if (number_ + 1 >= kMostNumbers) return;
    Label label{life_, number_ + 1, memberships_, {seed_, number_ + 1, random_.up_to(1 << 13)}};
    tenon_storage_options options{};
    options.struct_size = sizeof options;
    options.mode = random_.chance(50) ? TENON_MODE_SHARED : TENON_MODE_LENDER_WRITES;
    tenon_storage* storage = nullptr;
    REQUIRE_OK(tenon_storage_new(&options, label.stamp.nbytes, &storage, err));
    void* data = nullptr;
    REQUIRE_OK(tenon_storage_data_mut(storage, &data, err));
    fill(data, label.stamp);
    tenon_message* const message = fault::new_message({storage});
    REQUIRE_OK(tenon_message_set_user_bytes(message, &label, sizeof label, err));
    const tenon_wait wait =
        fault::wait_ns(random_.chance(50) ? 0 : static_cast<int64_t>(random_.up_to(1 << 20)));
    const fault::Outcome sent = call(
        kSend, [&](tenon_error** err) { return tenon_queue_send(queue_, message, &wait, err); });
    expect(sent, {TENON_OK, TENON_WOULD_BLOCK, TENON_TIMEOUT, TENON_PEER_GONE}, "tenon_queue_send");
    if (sent.ok()) {
      ++number_;
      count(kSent);
    } else if (sent.status == TENON_PEER_GONE) {
      note_death(sent);
    } else {
      count(kFull);
    }
    tenon_message_release(message);
  }

  // Returns whether something came: a message or a death.
  bool receive(int64_t timeout_ns) {
    const tenon_wait wait = fault::wait_ns(timeout_ns);
    tenon_message* message = nullptr;
    const fault::Outcome got = call(kReceive, [&](tenon_error** err) {
      return tenon_queue_recv(queue_, &wait, &message, err);
    });
    expect(got, {TENON_OK, TENON_WOULD_BLOCK, TENON_TIMEOUT, TENON_PEER_GONE}, "tenon_queue_recv");
    if (got.status == TENON_PEER_GONE) note_death(got);
    if (!got.ok()) return got.status == TENON_PEER_GONE;
    Label label;
    size_t nbytes = 0;
    const void* const bytes = tenon_message_user_bytes(message, &nbytes);
    if (nbytes != sizeof label) fail_wrong("a label has another length");
    std::memcpy(&label, bytes, nbytes);
    if (label.life >= kMostLives || label.number == 0 || label.number >= kMostNumbers)
      fail_wrong("a label that nobody wrote");
    const std::string which =
        "message " + std::to_string(label.number) + " of life " + std::to_string(label.life);
    const bool comes_again = tenon_queue_redelivered(message) > 0;
    const uint8_t before = ledger_->got[label.life][label.number].fetch_or(kGot);
    if (before != 0 && !comes_again) fail_wrong(which + " was received twice");
    if ((before & kAcknowledged) != 0) fail_wrong(which + " came after its acknowledgement");
    uint32_t& last = last_[{label.life, label.membership}];
    if (label.number <= last && !comes_again)
      fail_wrong(which + " came after number " + std::to_string(last));
    if (!comes_again) last = label.number;
    count(comes_again ? kAgain : kReceived);
    held_.push_back({message, label.stamp, label.life, label.number, memberships_});
    check(held_.back());
    while (held_.size() > kMostHeld) let_go(random_.below(held_.size()));
    return true;
  }

  void note_death(const fault::Outcome& outcome) {
    const auto pid = static_cast<pid_t>(std::stoi("0" + outcome.detail("pid")));
    if (pid <= 0) fail("a death without a pid: " + outcome.text());
    if (!is_dead(pid)) fail("process " + std::to_string(pid) + " lives: " + outcome.text());
    count(outcome.detail("lost").empty() ? kDeaths : kGoneWithSender);
  }

  void check(const Held& held) {
    const tenon_tensor* const tensor = tenon_message_tensor(held.message, 0);
    const void* const data = tenon_tensor_data(tensor);
    if (tenon_storage_nbytes(tenon_tensor_storage(tensor)) != held.stamp.nbytes)
      fail_wrong("a block of another size");
    if (const uint64_t at = find_wrong(data, held.stamp); at != kAllRight)
      fail_wrong(data, held.stamp, at, "from the queue");
    count_checked();
  }
  void let_go(size_t index) {
    check(held_[index]);
    const Held held = held_[index];
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(index));
    enter(kRelease);
    tenon_message_release(held.message);
    // A peer that left the queue after the receive acknowledges the message too late.
    if (redelivers_ && queue_ != nullptr && held.membership == memberships_)
      ledger_->got[held.life][held.number].fetch_or(kAcknowledged);
    leave();
  }

  // Whether a message of this peer waits, or its receiver has not acknowledged it.
  bool has_unacknowledged() const {
    if (!redelivers_ || queue_ == nullptr) return false;
    const queues::Memory memory(queue_);
    const uint64_t self = queues::index_of(queue_);
    for (uint64_t i = 0; i < memory.capacity(); ++i) {
      const uint64_t state = memory.slot(self, i) & 0xf;
      if (state == queues::kFull || state == queues::kHeldSlot) return true;
    }
    return false;
  }

  void get_back() {
    const Deadline deadline(board_->slots, 2 * kSoonNs);
    while (queues::unfetched() != 0 || queues::leases() != 0 || has_unacknowledged()) {
      idle();
      if (deadline.is_over())
        fail(std::to_string(queues::unfetched()) + " messages are unfetched, and " +
             std::to_string(queues::leases()) + " leases are held");
    }
    // By now every message of this peer was received, except those that dead receivers had taken.
    for (; counted_ < number_; ++counted_) {
      if (ledger_->got[life_][counted_ + 1] == 0) count(kLost);
    }
    // Other peers cost fds and mappings: a pidfd, a connection and a segment or two for each.
    const fault::Held now = fault::hold();
    constexpr long kMostOfOthers = 16 * kPeers;
    if (now.fds > before_.fds + kMostOfOthers)
      fail(std::to_string(now.fds) + " fds, and it began with " + std::to_string(before_.fds));
    if (now.mappings > before_.mappings + kMostOfOthers)
      fail(std::to_string(now.mappings) + " mappings, and it began with " +
           std::to_string(before_.mappings));
  }

  // The planted fault: marks each slot that was taken as full again.
  void refill() {
    const queues::Memory memory(inherited_);
    for (uint64_t lane = 0; lane < memory.members(); ++lane) {
      for (uint64_t i = 0; i < memory.capacity(); ++i) {
        const uint64_t word = memory.slot(lane, i);
        if ((word & 0xf) == queues::kTaken)
          memory.slot(lane, i) = queues::Memory::slot_word(word >> 16, queues::kFull);
      }
    }
  }

  tenon_queue* inherited_;  // the driver's, whose storage this process maps
  tenon_queue* queue_ = nullptr;
  Ledger* ledger_;
  uint32_t life_;
  bool refills_;
  bool redelivers_;
  uint32_t number_ = 0;   // messages sent
  uint32_t counted_ = 0;  // of them, those whose receipt was looked at
  uint64_t memberships_ = 0;
  std::map<std::pair<uint32_t, uint64_t>, uint32_t> last_;  // by life and membership
  std::vector<Held> held_;
  fault::Held before_;
};

class Queues : public World {
 public:
  Queues()
      : World({.n_peers = kPeers,
               .ops = kOps,
               .counts = kCounts,
               .phases = kPhases,
               .breaks = kBreaks,
               .survivors_stay = true,
               .has_servants = true}) {}

  void plan(Plan* plan) override {
    // The driver is no member for long: peers need only its storage.
    if (queue_ == nullptr) {
      queue_ = queues::new_queue(kMembers, 8, 1024, redelivers_ ? TENON_QUEUE_REDELIVER : 0);
      tenon_queue_leave(queue_);
    }
    Random& random = plan->random;
    // Every peer both sends and receives. The plan learns this from the links.
    for (uint32_t i = 0; i < kPeers; ++i) plan->link(i, (i + 1) % kPeers);
    plan->shuffle();
    plan->checks = random.below(200);
    plan->add_stops();
    const uint64_t victims = 2 + random.below(kPeers - 1);
    for (uint64_t i = 0; i < victims; ++i)
      plan->add_kill(plan->order[i], {kSend, kSend, kReceive, kJoin},
                     {kReceive, kReceive, kRelease, kLeave});
    plan->rest_us = static_cast<uint32_t>(random.below(3000));
  }

  std::unique_ptr<Peer> make_peer(const Seat& seat) override {
    return std::make_unique<QueuePeer>(seat, queue_, ledger_, is_broken_by("refill"), redelivers_);
  }

  // Each living peer has the socket by which its messages are fetched.
  std::string left() override {
    CHECK_OK(tenon_filename_sweep(nullptr, nullptr, err));
    size_t living = 0;
    for (uint32_t i = 0; i < kPeers; ++i) living += kill(board->slots[i].pid, 0) == 0 ? 1 : 0;
    const std::set<std::string> names = tenon::test::names_in("/dev/shm");
    return names.size() == living
               ? ""
               : std::to_string(names.size()) + " names of " + std::to_string(living) + " peers";
  }

  std::string missed(uint64_t kills) override {
    if (board->counts[kReceived] == 0 || board->counts[kDeaths] == 0)
      return "no message or no death came";
    if (redelivers_ && board->counts[kAgain] == 0) return "no message came again";
    if (board->counts[kLost] > (redelivers_ ? 0 : kills))
      return std::to_string(board->counts[kLost]) + " messages of the living are lost";
    return {};
  }

 private:
  const bool redelivers_ = std::getenv("TENON_STORM_REDELIVER") != nullptr;
  tenon_queue* queue_ = nullptr;
  Ledger* ledger_ = make_shared_memory<Ledger>();
};

}  // namespace

std::unique_ptr<World> make_world() { return std::make_unique<Queues>(); }

}  // namespace storm
