// Helpers for the tests of queues between processes: the words of a queue's memory, messages with a
// number, and a witness, which is another member in a process of its own.
#pragma once

#include <sys/prctl.h>

#include <atomic>
#include <optional>
#include <set>

#include "process/fault/kit.h"
#include "process/fault/own_shm.h"
#include "support/temporary_directory.h"

namespace queues {

using fault::kLong;
using fault::kSecond;
using fault::now_ns;
using fault::wait_ns;

inline constexpr uint64_t kNbytes = 3000;

// ---- the memory of a queue. The numbers are those of the format and not the library's constants.

enum MemberState : uint64_t { kFree = 0, kJoining = 1, kHere = 2, kLeft = 3, kDead = 4 };
enum SlotState : uint64_t { kEmpty = 0, kFull = 1, kTaken = 2, kHeldSlot = 3 };

class Memory {
 public:
  explicit Memory(const tenon_queue* queue) {
    tenon_storage* const storage = tenon_queue_storage(queue);
    void* data = nullptr;
    REQUIRE_OK(tenon_storage_data_mut(storage, &data, err));
    base_ = static_cast<unsigned char*>(data);
    nbytes_ = tenon_storage_nbytes(storage);
    std::memcpy(&members_, base_ + 12, sizeof members_);
    std::memcpy(&capacity_, base_ + 16, sizeof capacity_);
    std::memcpy(&slot_nbytes_, base_ + 20, sizeof slot_nbytes_);
  }
  using Word = std::atomic<uint64_t>;
  using Half = std::atomic<uint32_t>;

  unsigned char* base() const { return base_; }
  uint64_t nbytes() const { return nbytes_; }
  uint64_t capacity() const { return capacity_; }
  uint64_t members() const { return members_; }
  uint64_t slot_nbytes() const { return slot_nbytes_; }

  Word& word(uint64_t at) const { return *reinterpret_cast<Word*>(base_ + at); }
  Half& half(uint64_t at) const { return *reinterpret_cast<Half*>(base_ + at); }
  Word& receivers_asleep() const { return word(64); }
  Word& senders_asleep() const { return word(128); }
  Word& lanes() const { return word(192); }
  Word& joined() const { return word(256); }

  static constexpr uint64_t at_member(uint64_t index) { return 4096 + index * 192; }
  Word& member(uint64_t index) const { return word(at_member(index)); }
  uint64_t member_state(uint64_t index) const { return member(index) & 0xff; }
  // The sleep words: asleep, then wake.
  Half& receiver_asleep(uint64_t index) const { return half(at_member(index) + 64); }
  Half& receiver_wake(uint64_t index) const { return half(at_member(index) + 68); }
  Half& sender_asleep(uint64_t index) const { return half(at_member(index) + 128); }
  Half& sender_wake(uint64_t index) const { return half(at_member(index) + 132); }

  uint64_t at_slot(uint64_t index, uint64_t position) const {
    return at_member(members_) + index * (384 + capacity_ * slot_nbytes_) + 384 +
           position % capacity_ * slot_nbytes_;
  }
  Word& slot(uint64_t index, uint64_t position) const { return word(at_slot(index, position)); }
  // The number of bytes in the low half, their kind in the high one.
  Word& slot_head(uint64_t index, uint64_t position) const {
    return word(at_slot(index, position) + 8);
  }
  unsigned char* slot_bytes(uint64_t index, uint64_t position) const {
    return base_ + at_slot(index, position) + 16;
  }
  static constexpr uint64_t slot_word(uint64_t position, SlotState state, uint64_t taker = 0) {
    return position << 16 | taker << 4 | state;
  }
  static constexpr uint64_t taker_of(uint64_t index, uint64_t generation) {
    return (generation & 0xf) << 8 | index;
  }
  static constexpr uint64_t member_word(uint64_t pid, MemberState state, uint64_t generation) {
    return generation << 40 | pid << 8 | state;
  }

 private:
  unsigned char* base_ = nullptr;
  uint64_t nbytes_ = 0;
  uint32_t members_ = 0;
  uint32_t capacity_ = 0;
  uint32_t slot_nbytes_ = 0;
};

// ---- queues and messages

inline tenon_queue* new_queue(uint32_t members, uint32_t capacity, uint32_t slot_nbytes = 1024,
                              uint32_t flags = 0) {
  auto options = tenon::test::sized<tenon_queue_options>();
  options.flags = flags;
  options.members = members;
  options.capacity = capacity;
  options.slot_nbytes = slot_nbytes;
  tenon_queue* queue = nullptr;
  REQUIRE_OK(tenon_queue_new(&options, &queue, err));
  return queue;
}

inline tenon_queue* join(tenon_queue* same) {
  tenon_queue* queue = nullptr;
  REQUIRE_OK(tenon_queue_join(tenon_queue_storage(same), nullptr, &queue, err));
  return queue;
}

// A child of fork becomes a member, and drops its copy of its parent's membership.
inline tenon_queue* join_inherited(tenon_queue* inherited) {
  tenon_queue* const queue = join(inherited);
  tenon_queue_release(inherited);
  return queue;
}

// The place of this process's membership among the members.
inline uint64_t index_of(const tenon_queue* queue) {
  std::array<tenon_queue_member, 256> all{};
  all[0].struct_size = sizeof all[0];
  size_t total = 0;
  REQUIRE_OK(tenon_queue_members(queue, all.data(), all.size(), &total, err));
  for (size_t i = 0; i < total; ++i) {
    if (all[i].self != 0) return all[i].index;
  }
  REQUIRE(!"this process is no member");
  return 0;
}

inline tenon_queue_stats stats_of(const tenon_queue* queue) {
  auto figures = tenon::test::sized<tenon_queue_stats>();
  CHECK_OK(tenon_queue_stats_get(queue, &figures, err));
  return figures;
}

// A message of one storage, whose bytes follow from the number. The user's bytes are the number.
inline tenon_message* numbered(uint64_t number) {
  tenon_message* const message = fault::new_message({fault::new_storage(kNbytes, number)});
  REQUIRE_OK(tenon_message_set_user_bytes(message, &number, sizeof number, err));
  return message;
}

inline fault::Outcome try_send(tenon_queue* queue, uint64_t number, int64_t timeout_ns = kLong) {
  tenon_message* const message = numbered(number);
  const tenon_wait wait = wait_ns(timeout_ns);
  fault::Outcome outcome = CALL(tenon_queue_send(queue, message, &wait, err));
  tenon_message_release(message);
  return outcome;
}

struct Received {
  fault::Outcome outcome;
  uint64_t number = 0;  // if a message was received
  bool is_right = true;
  uint32_t redelivered = 0;

  bool is_death() const {
    return outcome.status == TENON_PEER_GONE && outcome.detail("lost").empty();
  }
  pid_t pid() const {
    const std::string pid = outcome.detail("pid");
    return pid.empty() ? 0 : std::stoi(pid);
  }
};

// Reads the number of a message, checks its bytes and releases it.
inline Received read_message(tenon_message* message) {
  Received received;
  received.redelivered = tenon_queue_redelivered(message);
  size_t nbytes = 0;
  const void* const number = tenon_message_user_bytes(message, &nbytes);
  received.is_right = nbytes == sizeof received.number && tenon_message_count(message) == 1;
  if (received.is_right) {
    std::memcpy(&received.number, number, nbytes);
    const tenon_tensor* const tensor = tenon_message_tensor(message, 0);
    received.is_right = tenon_storage_nbytes(tenon_tensor_storage(tensor)) == kNbytes &&
                        fault::has_pattern(tenon_tensor_data(tensor), kNbytes, received.number);
  }
  tenon_message_release(message);
  return received;
}

// A hostile member can change what lies in a slot: the user's bytes, and which part of the sender's
// memory the message names (docs/format/queue.md, "Trust").
enum class Senders { kHonest, kAny };

inline Received try_receive(tenon_queue* queue, int64_t timeout_ns = kLong,
                            Senders senders = Senders::kHonest) {
  const tenon_wait wait = wait_ns(timeout_ns);
  tenon_message* message = nullptr;
  const fault::Outcome outcome = CALL(tenon_queue_recv(queue, &wait, &message, err));
  Received received;
  if (outcome.ok()) received = read_message(message);
  received.outcome = outcome;
  CHECK_SAYING(received.is_right || senders == Senders::kAny, "wrong bytes in a message");
  return received;
}

inline void send_number(tenon_queue* queue, uint64_t number) {
  const fault::Outcome sent = try_send(queue, number);
  if (!CHECK_SAYING(sent.ok(), sent.text())) _exit(1);
}
inline uint64_t receive_number(tenon_queue* queue) {
  const Received received = try_receive(queue);
  if (!CHECK_SAYING(received.outcome.ok(), received.outcome.text())) _exit(1);
  return received.number;
}

// ---- what is left

inline uint64_t unfetched() {
  auto figures = tenon::test::sized<tenon_deposit_stats>();
  CHECK_OK(tenon_deposit_stats_get(&figures, err));
  return figures.messages;
}

inline uint64_t leases() {
  std::array<tenon_lease_holder, 64> holders{};
  holders[0].struct_size = sizeof holders[0];
  size_t total = 0;
  CHECK_OK(tenon_lease_holders(holders.data(), holders.size(), &total, err));
  uint64_t sum = 0;
  for (size_t i = 0; i < std::min(total, holders.size()); ++i) sum += holders[i].leases;
  return sum;
}

// This process has lent nothing that is not given back, when others had time to give it back.
inline void check_nothing_lent(const std::string& where) {
  CHECK_SAYING(fault::wait_until([] { return unfetched() == 0 && leases() == 0; }),
               where + ": " + std::to_string(unfetched()) + " messages are unfetched and " +
                   std::to_string(leases()) + " leases are held");
}

// Starts what a process keeps open from its first message on: the service thread and the depot.
inline void warm_up_queue() {
  fault::warm_up();
  tenon_queue* const queue = new_queue(1, 2);
  send_number(queue, 1);
  CHECK_EQ(receive_number(queue), 1);
  tenon_queue_release(queue);
}

// Receives a message of a process that ends then. A process keeps what it knows of a lender that is
// gone until it meets another one. So two calls leave the process with the same.
inline void meet_a_stranger() {
  tenon_queue* const queue = new_queue(2, 2);
  const std::array<int, 2> ends = fault::socket_ends();
  const pid_t stranger = fault::spawn([&] {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    tenon_queue* const mine = join_inherited(queue);
    send_number(mine, 1);
    char done = 0;
    (void)::recv(ends[1], &done, 1, 0);
    tenon_queue_release(mine);
  });
  CHECK_EQ(receive_number(queue), 1);
  CHECK(::send(ends[0], "", 1, 0) == 1);
  CHECK_EQ(fault::wait_for_child(stranger), 0);
  for (const int each : ends) close(each);
  tenon_queue_release(queue);
}

// ---- a member in a process of its own, which obeys orders

struct WitnessOrder {
  char what = 0;
  uint64_t number = 0;
};
struct WitnessReport {
  uint64_t n_numbers = 0;
  std::array<uint64_t, 32> numbers{};
};

class Witness {
 public:
  explicit Witness(tenon_queue* queue) {
    const std::array<int, 2> ends = fault::socket_ends();
    socket_ = ends[0];
    pid_ = fault::spawn([&] {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(ends[0]);
      serve(ends[1], join_inherited(queue));
    });
    close(ends[1]);
    (void)answer();
  }
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;
  ~Witness() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    fault::wait_for_child(pid_);
    close(socket_);
  }
  pid_t pid() const { return pid_; }
  void order(char what, uint64_t number = 0) const {
    const WitnessOrder order{what, number};
    REQUIRE(::send(socket_, &order, sizeof order, MSG_NOSIGNAL) == sizeof order);
  }
  // What the witness has received, once it has done what it was told.
  std::vector<uint64_t> answer() const {
    WitnessReport report;
    REQUIRE(::recv(socket_, &report, sizeof report, 0) == sizeof report);
    return {report.numbers.begin(),
            report.numbers.begin() + static_cast<std::ptrdiff_t>(report.n_numbers)};
  }
  void send(uint64_t number) const {
    order('s', number);
    (void)answer();
  }
  void begin_receive_until(uint64_t number) const { order('r', number); }
  // The death of this process has been reported. Returns what the witness received meanwhile.
  std::vector<uint64_t> await_death(pid_t pid) const {
    order('d', static_cast<uint64_t>(pid));
    return answer();
  }
  // Nothing of others is left in the witness, and nothing of it is lent. It has left the queue.
  void finish() {
    order('q');
    (void)answer();
    CHECK_EQ(fault::wait_for_child(std::exchange(pid_, -1)), 0);
    close(socket_);
  }

 private:
  static void serve(int socket, tenon_queue* queue) {
    std::set<pid_t> deaths;
    WitnessReport report;
    const auto receive = [&] {
      const Received received = try_receive(queue);
      if (received.outcome.ok()) {
        REQUIRE(report.n_numbers < report.numbers.size());
        report.numbers[report.n_numbers++] = received.number;
      } else if (received.is_death()) {
        CHECK_SAYING(deaths.insert(received.pid()).second, "a death was reported twice");
      } else {
        CHECK_SAYING(false, received.outcome.text());
      }
      return received.outcome.ok() ? received.number : 0;
    };
    for (WitnessOrder order{'b', 0}; order.what != 'q';) {
      REQUIRE(::send(socket, &report, sizeof report, MSG_NOSIGNAL) == sizeof report);
      report = {};
      if (::recv(socket, &order, sizeof order, 0) != sizeof order) _exit(1);
      alarm(fault::kWatchdogSeconds);
      const auto pid = static_cast<pid_t>(order.number);
      switch (order.what) {
        case 's':
          for (fault::Outcome sent; !(sent = try_send(queue, order.number)).ok();) {
            if (!CHECK_SAYING(sent.status == TENON_PEER_GONE, sent.text())) _exit(1);
            deaths.insert(std::stoi(sent.detail("pid")));
          }
          break;
        case 'r':
          while (receive() != order.number && fault::g_failures == 0) {
          }
          break;
        case 'd':
          while (!deaths.contains(pid) && fault::g_failures == 0) (void)receive();
          break;
        default: break;
      }
    }
    check_nothing_lent("the witness");
    tenon_queue_release(queue);
    REQUIRE(::send(socket, &report, sizeof report, MSG_NOSIGNAL) == sizeof report);
  }

  int socket_ = -1;
  pid_t pid_ = -1;
};

}  // namespace queues
