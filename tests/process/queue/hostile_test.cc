// A hostile member may write everything in the queue's memory. The honest members get typed errors
// within their timeouts. They never crash, read nothing out of bounds (the sanitizers' builds run
// this test), and go on with their other queues.
#include <sys/un.h>

#include <functional>
#include <random>
#include <thread>

#include "process/queue/kit.h"
#include "support/seed.h"

namespace queues {
namespace {

// A call with the timeout kHostileNs ends within kSlackNs after it.
constexpr int64_t kHostileNs = 20'000'000;
constexpr int64_t kSlackNs = (fault::kSanitized ? 10 : 1) * kSecond;
constexpr int64_t kLongNs = 60 * kSecond;
constexpr uint32_t kMembers = 4;
constexpr uint32_t kCapacity = 4;

bool is_typed(tenon_status status) {
  switch (status) {
    case TENON_OK:
    case TENON_WOULD_BLOCK:
    case TENON_TIMEOUT:
    case TENON_CORRUPT:
    case TENON_INCOMPATIBLE:
    case TENON_PEER_GONE:
    case TENON_NOT_FOUND:
    case TENON_RESOURCE_EXHAUSTED:
    case TENON_INVALID_ARGUMENT: return true;
    default: return false;
  }
}

// Uses a queue in every way for a while. Each call ends in time and with a status that the header
// names. Each message can be read, which try_receive() does.
void use(tenon_queue* queue, int rounds) {
  const auto check_call = [](int64_t begin, const fault::Outcome& outcome, const char* what) {
    CHECK_SAYING(is_typed(outcome.status), std::string(what) + ": " + outcome.text());
    CHECK_SAYING(now_ns() - begin < kHostileNs + kSlackNs,
                 std::string(what) + " took " + std::to_string(now_ns() - begin) + " ns");
  };
  for (int i = 0; i < rounds && fault::g_failures == 0; ++i) {
    int64_t begin = now_ns();
    check_call(begin, try_send(queue, static_cast<uint64_t>(i), kHostileNs), "send");
    begin = now_ns();
    check_call(begin, try_receive(queue, kHostileNs, Senders::kAny).outcome, "receive");
    begin = now_ns();
    std::array<tenon_queue_member, 8> all{};
    all[0].struct_size = sizeof all[0];
    size_t total = 0;
    check_call(begin, CALL(tenon_queue_members(queue, all.data(), all.size(), &total, err)),
               "members");
    CHECK(total <= kMembers);
    for (size_t each = 0; each < total && each < all.size(); ++each)
      CHECK(all[each].state >= TENON_QUEUE_MEMBER_JOINING &&
            all[each].state <= TENON_QUEUE_MEMBER_DEAD);
    CHECK(stats_of(queue).waiting <= kMembers * kCapacity);
  }
}

void check_other_queue(tenon_queue* other) {
  for (uint64_t i = 0; i < 5; ++i) {
    send_number(other, 1000 + i);
    CHECK_EQ(receive_number(other), 1000 + i);
  }
}

// Runs `harm` in a hostile member, again and again, while two honest members use the queue. Then
// the hostile member is killed, and another process joins.
void beside(const std::function<void(tenon_queue*, const Memory&, std::mt19937_64*)>& harm,
            int64_t for_ns, uint64_t seed) {
  warm_up_queue();
  tenon_queue* const queue = new_queue(kMembers, kCapacity, 512);
  tenon_queue* const other = new_queue(1, 4);
  const std::array<int, 2> ends = fault::socket_ends();
  const pid_t second = fault::spawn([&] {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    tenon_queue* const mine = join_inherited(queue);
    tenon_queue* const own = new_queue(1, 4);
    REQUIRE(::send(ends[1], "", 1, 0) == 1);
    for (const int64_t end = now_ns() + for_ns; now_ns() < end && fault::g_failures == 0;) {
      use(mine, 1);
      check_other_queue(own);
    }
    tenon_queue_release(mine);
  });
  char ready = 0;
  REQUIRE(::recv(ends[0], &ready, 1, 0) == 1);
  const pid_t hostile = fault::spawn([&] {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    tenon_queue* const mine = join_inherited(queue);
    const Memory memory(mine);
    std::mt19937_64 random(seed);
    while (true) harm(mine, memory, &random);
  });
  for (const int64_t end = now_ns() + for_ns; now_ns() < end && fault::g_failures == 0;) {
    use(queue, 1);
    check_other_queue(other);
  }
  CHECK_EQ(fault::wait_for_child(second), 0);
  kill(hostile, SIGKILL);
  fault::wait_for_child(hostile);
  use(queue, 2);
  check_other_queue(other);
  const pid_t late = fault::spawn([&] {
    tenon_queue* mine = nullptr;
    const fault::Outcome joined =
        CALL(tenon_queue_join(tenon_queue_storage(queue), nullptr, &mine, err));
    CHECK_SAYING(is_typed(joined.status), joined.text());
    if (joined.ok()) use(mine, 2);
    tenon_queue_release(mine);
  });
  CHECK_EQ(fault::wait_for_child(late), 0);
  tenon_queue_release(other);
  tenon_queue_release(queue);
}

void write_random(const Memory& memory, uint64_t from, uint64_t to, std::mt19937_64* random) {
  for (uint64_t at = from; at + 8 <= to; at += 8) memory.word(at) = (*random)();
}

void beside_for_three_seeds(
    const std::function<void(tenon_queue*, const Memory&, std::mt19937_64*)>& harm) {
  for (int i = 0; i < 3; ++i) {
    const uint64_t seed = test_seed() + static_cast<uint64_t>(i);
    SCOPED_TRACE(seed);
    IN_CHILD([&] { beside(harm, 400'000'000, seed); });
  }
}

TEST(QueueHostile, RandomBytesEverywhere) {
  beside_for_three_seeds([](tenon_queue*, const Memory& memory, std::mt19937_64* random) {
    write_random(memory, 0, memory.nbytes(), random);
  });
}

// The header stays, so that joiners find a queue.
TEST(QueueHostile, RandomWords) {
  beside_for_three_seeds([](tenon_queue*, const Memory& memory, std::mt19937_64* random) {
    const uint64_t at = 64 + (*random)() % (memory.nbytes() - 64);
    const uint64_t value = (*random)() >> ((*random)() % 64);
    memory.word(at / 8 * 8) = value;
  });
}

// Words that are nearly right: positions, takers, states, kinds and lengths.
TEST(QueueHostile, LikelyWords) {
  beside_for_three_seeds([](tenon_queue*, const Memory& memory, std::mt19937_64* random) {
    const auto below = [random](uint64_t end) { return (*random)() % end; };
    const uint64_t lane = below(kMembers);
    const uint64_t position = below(64);
    switch (below(8)) {
      case 0:
        memory.slot(lane, position) =
            Memory::slot_word(position + below(3) * kCapacity - below(2),
                              static_cast<SlotState>(below(4)), below(4096));
        break;
      case 1: memory.slot_head(lane, position) = below(5) << 32 | below(600); break;
      case 2:
        memory.member(lane) =
            Memory::member_word(below(2) == 0 ? static_cast<uint64_t>(getppid()) : below(40'000),
                                static_cast<MemberState>(below(8)), below(16));
        memory.joined() = memory.joined() + 1;
        break;
      case 3: memory.receiver_asleep(lane) = static_cast<uint32_t>(below(64)); break;
      case 4: memory.receiver_wake(lane) = static_cast<uint32_t>(below(64)); break;
      case 5: memory.receivers_asleep() = (*random)(); break;
      case 6: memory.senders_asleep() = (*random)(); break;
      default:
        // Bits beyond the number of members, in every word of the set.
        for (uint64_t word = 0; word < 4; ++word) memory.word(192 + word * 8) = (*random)();
    }
  });
}

// ---- single lies, whose answer is known

class Lies {
 public:
  Lies() : queue_((warm_up_queue(), new_queue(kMembers, kCapacity))), memory_(queue_) {}
  ~Lies() { tenon_queue_release(queue_); }
  Lies(const Lies&) = delete;
  Lies& operator=(const Lies&) = delete;

  // Joins in a child, which tells one lie and then waits for its end.
  void tell(const std::function<void(tenon_queue*, const Memory&)>& lie) {
    const std::array<int, 2> ends = fault::socket_ends();
    liar_ = fault::spawn([&] {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      tenon_queue* const mine = join_inherited(queue_);
      lie(mine, Memory(mine));
      REQUIRE(::send(ends[1], "", 1, 0) == 1);
      pause();
    });
    close(ends[1]);
    char told = 0;
    REQUIRE(::recv(ends[0], &told, 1, 0) == 1);
    close(ends[0]);
  }
  // The next receive fails with that status, and names the liar. A receive that must meet the liar
  // first has a long timeout, because the liar's service thread may wait for a CPU.
  void check_fails(tenon_status status) {
    const int64_t begin = now_ns();
    const Received received = try_receive(queue_, status == TENON_TIMEOUT ? kHostileNs : kLongNs);
    CHECK_SAYING(received.outcome.status == status, received.outcome.text());
    if (status != TENON_TIMEOUT) CHECK_EQ(received.pid(), liar_);
    if (status == TENON_TIMEOUT) CHECK(now_ns() - begin < kHostileNs + kSlackNs);
  }
  // Messages of this process itself pass.
  void check_goes_on() {
    for (uint64_t i = 0; i < 2 * kCapacity; ++i) {
      send_number(queue_, 50 + i);
      CHECK_EQ(receive_number(queue_), 50 + i);
    }
  }
  void end_liar() {
    kill(liar_, SIGKILL);
    fault::wait_for_child(liar_);
    const Received death = try_receive(queue_);
    CHECK_SAYING(death.is_death() && death.pid() == liar_, death.outcome.text());
  }
  tenon_queue* queue() const { return queue_; }
  const Memory& memory() const { return memory_; }

 private:
  tenon_queue* queue_;
  Memory memory_;
  pid_t liar_ = -1;
};

std::vector<unsigned char> ticket_of(tenon_message* message) {
  tenon_ticket* ticket = nullptr;
  REQUIRE_OK(tenon_message_deposit(message, &ticket, err));
  size_t nbytes = 0;
  const auto* const bytes = static_cast<const unsigned char*>(tenon_ticket_bytes(ticket, &nbytes));
  std::vector<unsigned char> copy(bytes, bytes + nbytes);
  tenon_ticket_release(ticket);
  return copy;
}

// Puts bytes into the next slot of the liar's lane, which is member 1.
void put(const Memory& memory, const std::vector<unsigned char>& bytes, uint64_t kind,
         uint64_t position = 0) {
  std::copy(bytes.begin(), bytes.end(), memory.slot_bytes(1, position));
  memory.slot_head(1, position) = kind << 32 | bytes.size();
  memory.slot(1, position) = Memory::slot_word(position, kFull);
  memory.lanes() |= 1U << 1;
}

struct Lie {
  const char* name;
  tenon_status status;  // the status of the receive that meets the lie
  void (*tell)(tenon_queue*, const Memory&);
};

constexpr uint64_t kTicket = 1;
constexpr uint64_t kIndirect = 2;

const Lie kLies[] = {
    {"a_length_beyond_the_slot", TENON_CORRUPT,
     [](tenon_queue*, const Memory& memory) {
       put(memory, {1, 2, 3}, kTicket);
       memory.slot_head(1, 0) = kTicket << 32 | 0xfffffff0U;
     }},
    {"an_unknown_kind", TENON_INCOMPATIBLE,
     [](tenon_queue*, const Memory& memory) { put(memory, {1, 2, 3}, 77); }},
    {"no_bytes", TENON_CORRUPT,
     [](tenon_queue*, const Memory& memory) { put(memory, {}, kTicket); }},
    {"no_ticket", TENON_CORRUPT,
     [](tenon_queue*, const Memory& memory) {
       put(memory, std::vector<unsigned char>(500, 0xaa), kTicket);
     }},
    {"a_position_of_another_slot", TENON_TIMEOUT,
     [](tenon_queue*, const Memory& memory) {
       put(memory, {1}, kTicket);
       memory.slot(1, 0) = Memory::slot_word(kCapacity + 1, kFull);
     }},
    {"a_position_far_ahead", TENON_TIMEOUT,
     [](tenon_queue*, const Memory& memory) {
       put(memory, {1}, kTicket);
       memory.slot(1, 0) = Memory::slot_word((uint64_t{1} << 48) - kCapacity, kTaken);
     }},
    {"a_ticket_twice", TENON_NOT_FOUND,
     [](tenon_queue* queue, const Memory& memory) {
       tenon_message* const message = numbered(1);
       const std::vector<unsigned char> ticket = ticket_of(message);
       tenon_message* out = nullptr;
       REQUIRE_OK(tenon_message_fetch(ticket.data(), ticket.size(), nullptr, nullptr, &out, err));
       tenon_message_release(out);
       tenon_message_release(message);
       (void)queue;
       put(memory, ticket, kTicket);
     }},
    // The message holds its own ticket.
    {"a_ticket_that_names_itself", TENON_NOT_FOUND,
     [](tenon_queue*, const Memory& memory) {
       const uint64_t nbytes = ticket_of(fault::new_message({fault::new_storage(600, 1)})).size();
       tenon_storage* const storage = fault::new_storage(nbytes, 1);
       tenon_message* const message = fault::new_message({tenon_storage_retain(storage)});
       const std::vector<unsigned char> ticket = ticket_of(message);
       REQUIRE(ticket.size() == nbytes);
       REQUIRE_OK(tenon_storage_write(storage, 0, ticket.data(), ticket.size(), err));
       put(memory, ticket, kIndirect);
     }},
    {"a_long_ticket_that_is_none", TENON_CORRUPT,
     [](tenon_queue*, const Memory& memory) {
       put(memory, ticket_of(fault::new_message({fault::new_storage(1 << 20, 1)})), kIndirect);
     }},
    {"a_long_ticket_of_two_tensors", TENON_CORRUPT,
     [](tenon_queue*, const Memory& memory) {
       put(memory,
           ticket_of(fault::new_message({fault::new_storage(64, 1), fault::new_storage(64, 2)})),
           kIndirect);
     }},
};

class QueueLies : public ::testing::TestWithParam<size_t> {};

TEST_P(QueueLies, IsAnswered) {
  IN_CHILD([this] {
    const Lie& lie = kLies[GetParam()];
    Lies lies;
    lies.tell(lie.tell);
    lies.check_fails(lie.status);
    lies.check_goes_on();
    lies.end_liar();
    lies.check_goes_on();
  });
}

INSTANTIATE_TEST_SUITE_P(Each, QueueLies, ::testing::Range(size_t{0}, std::size(kLies)),
                         [](const ::testing::TestParamInfo<size_t>& each) {
                           return std::string(kLies[each.param].name);
                         });

// A ticket of this process itself, put into another lane, gives the message once.
TEST(QueueHostile, ATicketOfAnotherProcess) {
  IN_CHILD([] {
    Lies lies;
    send_number(lies.queue(), 7);
    lies.tell([](tenon_queue*, const Memory& memory) {
      const auto nbytes = static_cast<uint32_t>(memory.slot_head(0, 0));
      const unsigned char* const bytes = memory.slot_bytes(0, 0);
      put(memory, {bytes, bytes + nbytes}, memory.slot_head(0, 0) >> 32);
    });
    int received = 0;
    int failed = 0;
    for (int i = 0; i < 2; ++i) {
      const Received each = try_receive(lies.queue(), kHostileNs);
      received += each.outcome.ok() ? 1 : 0;
      // The liar's lane lacks the address that the short form names, so its copy is no message.
      failed += each.outcome.status == TENON_CORRUPT ? 1 : 0;
      if (each.outcome.ok()) CHECK_EQ(each.number, 7);
    }
    CHECK_EQ(received, 1);
    CHECK_EQ(failed, 1);
    lies.check_goes_on();
  });
}

// The lane of an honest sender is overwritten. Its calls say so, and end in time.
TEST(QueueHostile, AnOverwrittenLane) {
  IN_CHILD([] {
    Lies lies;
    send_number(lies.queue(), 1);
    lies.tell([](tenon_queue*, const Memory& memory) {
      for (uint64_t i = 0; i < kCapacity; ++i)
        memory.slot(0, i) = Memory::slot_word(100 + i, kFull);
    });
    const fault::Outcome sent = try_send(lies.queue(), 2, kHostileNs);
    CHECK_SAYING(sent.status == TENON_CORRUPT, sent.text());
    tenon_queue* const other = new_queue(1, 2);
    check_other_queue(other);
    tenon_queue_release(other);
  });
}

// A lane from which a message was received goes on at another position.
TEST(QueueHostile, ALaneThatJumps) {
  IN_CHILD([] {
    Lies lies;
    lies.tell([](tenon_queue* queue, const Memory&) { send_number(queue, 3); });
    CHECK_EQ(receive_number(lies.queue()), 3);
    lies.memory().slot(1, 1) = Memory::slot_word(kCapacity + 2, kFull);
    lies.check_fails(TENON_CORRUPT);
    lies.check_goes_on();
    lies.end_liar();
  });
}

// The messages of an honest member that gets the place of a hostile one are received.
TEST(QueueHostile, ThePlaceOfAHostileMember) {
  IN_CHILD([] {
    warm_up_queue();
    tenon_queue* const queue = new_queue(2, kCapacity);
    const std::array<int, 2> ends = fault::socket_ends();
    for (int i = 0; i < 2; ++i) {
      const pid_t member = fault::spawn([&] {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        tenon_queue* const mine = join_inherited(queue);
        CHECK_EQ(index_of(mine), 1);
        if (i == 0) {
          put(Memory(mine), std::vector<unsigned char>(100, 0xaa), kTicket);
        } else {
          send_number(mine, 9);
        }
        REQUIRE(::send(ends[1], "", 1, 0) == 1);
        pause();
      });
      char ready = 0;
      REQUIRE(::recv(ends[0], &ready, 1, 0) == 1);
      if (i == 0) {
        CHECK_EQ(try_receive(queue, kLong).outcome.status, TENON_CORRUPT);
      } else {
        CHECK_EQ(receive_number(queue), 9);
      }
      kill(member, SIGKILL);
      fault::wait_for_child(member);
      const Received death = try_receive(queue);
      CHECK_SAYING(death.is_death() && death.pid() == member, death.outcome.text());
    }
    tenon_queue_release(queue);
  });
}

// Senders that do not answer delay a receive no longer than its timeout allows.
TEST(QueueHostile, ManySendersThatDoNotAnswer) {
  IN_CHILD([] {
    constexpr uint32_t kMute = 20;
    warm_up_queue();
    tenon_queue* const queue = new_queue(kMute + 1, 2);
    const std::array<int, 2> ends = fault::socket_ends();
    std::vector<pid_t> mute;
    for (uint32_t i = 0; i < kMute; ++i) {
      mute.push_back(fault::spawn([&] {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        send_number(join_inherited(queue), 1);
        REQUIRE(::send(ends[1], "", 1, 0) == 1);
        pause();
      }));
      char ready = 0;
      REQUIRE(::recv(ends[0], &ready, 1, 0) == 1);
      kill(mute.back(), SIGSTOP);
      waitpid(mute.back(), nullptr, WUNTRACED);
    }
    send_number(queue, 5);
    CHECK_EQ(receive_number(queue), 5);
    const int64_t begin = now_ns();
    const Received none = try_receive(queue, 100'000'000);
    CHECK_SAYING(none.outcome.status == TENON_TIMEOUT && none.pid() > 0, none.outcome.text());
    CHECK_SAYING(now_ns() - begin < 100'000'000 + kSlackNs / 4,
                 "the receive took " + std::to_string(now_ns() - begin) + " ns");
    for (const pid_t each : mute) {
      kill(each, SIGKILL);
      fault::wait_for_child(each);
    }
    tenon_queue_release(queue);
  });
}

}  // namespace
}  // namespace queues
