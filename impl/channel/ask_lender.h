// Asks the lender of a message over its depot's socket: to meet it, or for segments and tokens. A
// Link (lender_link.h) asks. docs/format/deposit.md specifies the packets, and depot_packets.h has
// them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "channel/depot_packets.h"
#include "channel/ticket.h"
#include "os/fd.h"
#include "os/wait.h"

namespace tenon::channel {

// An answer that was checked. The fds are as many as the request brings.
struct LenderAnswer {
  uint32_t borrower = 0;  // this process's number at the lender
  std::vector<os::Fd> fds;
};

// Asks for at most kMostThings things, and waits for the answer. A lender that hangs up is asked
// again, because a keeper may listen at its socket by now. Errors: those of the wait.
// PEER_GONE with detail "pid": the lender is gone, or cannot be reached. PERMISSION: it is another
// user's. CORRUPT: the answer is none of a lender. RESOURCE_EXHAUSTED: no fd is left. Also the
// errors by which the lender refuses (check_answer()).
Result<LenderAnswer> ask_lender(const Ticket& ticket, DepotRequest request,
                                std::span<const Thing> things, os::Waiter* waiter);

}  // namespace tenon::channel
