// Helpers for the tests of publishers between processes: messages with a number, and subscribers
// that check them.
#pragma once

#include <sys/prctl.h>
#include <tenon/publish.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "process/fault/kit.h"

namespace publishers {

using fault::kLong;
using fault::kSecond;
using fault::now_ns;
using fault::Outcome;
using fault::wait_ns;

inline constexpr uint64_t kNbytes = 3000;

// How a message crosses. kKnown: in the ring alone, once the subscriber knows the arena. kNew: its
// memory has an fd of its own, which is announced on the socket. kHeld: it is too long for a slot.
enum class Crossing { kKnown, kNew, kHeld };

// A message of one storage, whose bytes follow from the number. The user's bytes begin with the
// number.
inline tenon_message* numbered(uint64_t number, Crossing how = Crossing::kKnown) {
  const uint32_t flags = how == Crossing::kNew ? uint32_t{TENON_STORAGE_ISOLATED} : 0U;
  tenon_message* const message =
      fault::new_message({fault::new_storage(kNbytes, number, TENON_MODE_SHARED, flags)});
  std::array<uint64_t, 256> user{number};
  const size_t nbytes = how == Crossing::kHeld ? sizeof user : sizeof number;
  REQUIRE_OK(tenon_message_set_user_bytes(message, user.data(), nbytes, err));
  return message;
}

inline Outcome publish(tenon_publisher* publisher, uint64_t number, int64_t timeout_ns,
                       Crossing how = Crossing::kKnown) {
  tenon_message* const message = numbered(number, how);
  const tenon_wait wait = wait_ns(timeout_ns);
  Outcome outcome = CALL(tenon_publish(publisher, message, &wait, err));
  tenon_message_release(message);
  return outcome;
}

struct Numbered {
  Outcome outcome;
  uint64_t number = 0;
};

// Receives a message and checks its bytes. `kept` gets it, if that is not null, and otherwise it is
// released.
inline Numbered receive(tenon_subscriber* subscriber, tenon_message** kept = nullptr,
                        int64_t timeout_ns = kLong) {
  const tenon_wait wait = wait_ns(timeout_ns);
  tenon_message* message = nullptr;
  Numbered received;
  received.outcome = CALL(tenon_subscriber_recv(subscriber, &wait, &message, err));
  if (!received.outcome.ok()) return received;
  size_t nbytes = 0;
  const void* const number = tenon_message_user_bytes(message, &nbytes);
  REQUIRE(nbytes >= sizeof received.number && tenon_message_count(message) == 1);
  std::memcpy(&received.number, number, sizeof received.number);
  CHECK(fault::has_pattern(tenon_tensor_data(tenon_message_tensor(message, 0)), kNbytes,
                           received.number));
  if (kept != nullptr) {
    std::swap(*kept, message);
  }
  tenon_message_release(message);
  return received;
}

inline tenon_subscriber* connect_to(const std::string& path) {
  const tenon_wait wait = wait_ns(kLong);
  tenon_subscriber* subscriber = nullptr;
  REQUIRE_OK(tenon_subscriber_connect(path.c_str(), nullptr, &wait, &subscriber, err));
  return subscriber;
}

inline uint64_t leases_granted() {
  std::array<tenon_lease_holder, 256> holders{};
  holders[0].struct_size = sizeof holders[0];
  size_t total = 0;
  REQUIRE_OK(tenon_lease_holders(holders.data(), holders.size(), &total, err));
  uint64_t leases = 0;
  for (size_t i = 0; i < std::min(total, holders.size()); ++i) leases += holders[i].leases;
  return leases;
}

}  // namespace publishers
