// A borrower that a hostile lender attacks, and the checks that hold whatever the lender does.
#pragma once

#include "process/lease/hostile_kit.h"

namespace leases::raw {

// The borrower is the test's own process. It has one connection to the hostile lender, and the test
// writes to the other end of the socket.
struct Victim {
  tenon_connection* connection = nullptr;
  int other = -1;
  uint64_t sequence = 0;
  explicit Victim(int type, const tenon_connection_options* options = nullptr) {
    std::array<int, 2> ends{};
    REQUIRE(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends.data()) == 0);
    connection = fault::new_connection(ends[0], options);
    other = ends[1];
  }
  Victim(const Victim&) = delete;
  Victim& operator=(const Victim&) = delete;
  ~Victim() {
    tenon_connection_release(connection);
    close(other);
  }
  void send(const Frame& frame) {
    for (const Packet& each : cut(frame, sequence)) CHECK(send_packet(other, each));
    ++sequence;
  }
  Outcome receive(tenon_message** out = nullptr) const {
    tenon_message* message = nullptr;
    const tenon_wait now = fault::wait_ns(0);
    const Outcome outcome = CALL(tenon_recv(connection, &now, &message, err));
    CHECK_EQ(outcome.ok(), message != nullptr);
    if (out != nullptr) {
      *out = message;
    } else {
      tenon_message_release(message);
    }
    return outcome;
  }
};

// Whether the call failed with one of the codes that a peer's bytes may cause.
inline bool is_typed(const Outcome& outcome) {
  return outcome.status == TENON_CORRUPT || outcome.status == TENON_INCOMPATIBLE ||
         outcome.status == TENON_INVALID_ARGUMENT || outcome.status == TENON_RESOURCE_EXHAUSTED ||
         outcome.status == TENON_PERMISSION || outcome.status == TENON_WOULD_BLOCK ||
         outcome.status == TENON_PEER_GONE;
}

// An honest lender, whose connection to this process must keep working during the attack.
struct Beside {
  static constexpr uint64_t kRoom = 4 * kMiB;
  Agent lender;
  Link link{&lender};
  int arena = lender.arena(kRoom, TENON_MODE_LENDER_WRITES);
  uint64_t seed = 100;
  uint64_t kept_seed = 0;
  tenon_message* kept = nullptr;
  tenon_message* lent() {
    const Done made = lender.make(arena, kMiB, ++seed, kPatienceNs);
    REQUIRE(made.ok());
    lender.send(link.there, made.object);
    lender.release(made.object);
    tenon_message* const got = receive(link.here);
    CHECK(shows(got, seed));
    return got;
  }
  // Receives and releases one message, and checks that the kept message has not changed.
  void goes_on() {
    if (kept == nullptr) {
      kept = lent();
      kept_seed = seed;
    }
    tenon_message_release(lent());
    CHECK(shows(kept, kept_seed));
  }
  void ends() {
    goes_on();
    tenon_message_release(std::exchange(kept, nullptr));
    const Done all = lender.make(arena, kRoom, 1, kPatienceNs);
    CHECK_SAYING(all.ok(), all.outcome.text());
    lender.release(all.object);
  }
};

// Runs body(honest, type) and checks that no fd, mapping, storage or thread of the body is left.
template <typename Body>
void harm(Body body) {
  IN_CHILD([&] {
    const Honest honest;
    Beside beside;
    beside.goes_on();
    for (const int type : fault::kSocketTypes) {
      const fault::Held before = fault::hold();
      const long threads = count_threads();
      body(honest, type);
      beside.goes_on();
      CHECK_HELD(before);
      CHECK_SAYING(wait_until([&] { return count_threads() == threads; }),
                   std::to_string(count_threads()) + " threads");
    }
    beside.ends();
  });
}

// Sends a frame that must be refused with `wanted`. After CORRUPT the connection stays CORRUPT,
// because the peer's words cannot be trusted any more. No fd of the peer may stay open.
inline void refuse(const Honest& honest, int type, Account* account, const Frame& frame,
                   tenon_status wanted, const char* what) {
  Victim victim(type);
  victim.send(frame);
  account->let_go_of_sent();
  const Outcome outcome = victim.receive();
  CHECK_SAYING(outcome.status == wanted, std::string(what) + ": " + outcome.text());
  Account other(2);
  victim.send(Message(honest, other).frame());
  other.let_go_of_sent();
  const Outcome next = victim.receive();
  CHECK_SAYING(wanted == TENON_CORRUPT ? next.status == TENON_CORRUPT : next.ok() || is_typed(next),
               std::string(what) + ": " + next.text());
  tenon_connection_release(std::exchange(victim.connection, nullptr));
  CHECK_SAYING(wait_until([&] { return account->has_hung_up() && other.has_hung_up(); }), what);
}

}  // namespace leases::raw
