// What is said on a depot's socket (docs/format/deposit.md): one request, one answer.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "channel/ticket.h"

namespace tenon::channel {

inline constexpr uint32_t kDepotMagic = 0x31446e54;  // "TnD1", little-endian
// All fds of an answer go in one packet: four of a greeting, and of things no more than this.
inline constexpr uint32_t kGreetingFds = 4;
inline constexpr uint32_t kMostThings = 249;

enum class DepotRequest : uint32_t {
  kHello = 1,   // a new borrower: its token, lease page, bell and the claims page, then things
  kThings = 2,  // things alone
};

struct DepotRequestPacket {
  uint32_t magic;
  uint32_t request;
  uint32_t n_things;
  uint32_t zero;
};
struct WireThingName {
  uint32_t number;
  uint32_t kind;
  uint64_t serial;
};
struct DepotAnswerPacket {
  uint32_t magic;
  int32_t code;  // a tenon_status
  DepotId depot;
  uint32_t borrower;  // 0 but after a greeting
  uint32_t n_fds;
};
static_assert(sizeof(DepotRequestPacket) == 16 && sizeof(WireThingName) == 16 &&
              sizeof(DepotAnswerPacket) == 32);

// Lender: whether a packet of `nbytes` bytes is a request, with as many names behind its head as
// the head says. `is_cut`: the packet was longer than the buffer.
bool is_request(const DepotRequestPacket& head, size_t nbytes, bool is_cut) noexcept;

// An error about the lender of a ticket: "the lender of the message, process 17, " and then `why`.
Status lender_status(Code code, const Ticket& ticket, const char* why);
// Receiver: checks an answer's bytes against the ticket. The status of a refusal is the lender's.
Status check_answer(const DepotAnswerPacket& answer, size_t nbytes, bool is_cut,
                    const Ticket& ticket);
// Receiver: after check_answer(), checks how many fds came against the request.
Status check_answer_fds(const DepotAnswerPacket& answer, DepotRequest request, size_t n_things,
                        size_t n_fds, const Ticket& ticket);

}  // namespace tenon::channel
