// The packets on a depot's socket (docs/format/deposit.md). A receiver (ask_lender.cc) sends one
// request, and the lender (deposit_server.cc) sends one answer. This file defines and checks the
// packets. It does not use the socket.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "channel/ticket.h"

namespace tenon::channel {

inline constexpr uint32_t kDepotMagic = 0x31446e54;  // "TnD1", little-endian
// All fds of an answer travel in one packet: four if the request was a hello, and those of at most
// kMostThings segments and tokens.
inline constexpr uint32_t kGreetingFds = 4;
inline constexpr uint32_t kMostThings = 249;

enum class DepotRequest : uint32_t {
  // The request of a new borrower. The answer's fds are a token, a lease page, a bell and the
  // claims page, then those of the things.
  kHello = 1,
  kThings = 2,  // the fds of things alone
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
  uint32_t borrower;  // 0 except after a hello
  uint32_t n_fds;
};
static_assert(sizeof(DepotRequestPacket) == 16 && sizeof(WireThingName) == 16 &&
              sizeof(DepotAnswerPacket) == 32);

// Lender: whether a packet of `nbytes` bytes is a request, with as many names behind `head` as
// `head` says. `is_cut`: the packet was longer than the buffer.
bool is_request(const DepotRequestPacket& head, size_t nbytes, bool is_cut) noexcept;

// Makes an error about the lender of a ticket. Its text names the lender's process and ends with
// `why`.
Status lender_status(Code code, const Ticket& ticket, const char* why);
// Receiver: checks an answer's bytes against the ticket. CORRUPT: they are no answer. PEER_GONE:
// another depot has the lender's socket. If the lender refused the request, the status has the code
// that the lender sent.
Status check_answer(const DepotAnswerPacket& answer, size_t nbytes, bool is_cut,
                    const Ticket& ticket);
// Receiver: checks, after check_answer(), that as many fds came as the request asks for. CORRUPT
// otherwise.
Status check_answer_fds(const DepotAnswerPacket& answer, DepotRequest request, size_t n_things,
                        size_t n_fds, const Ticket& ticket);

}  // namespace tenon::channel
