// Fetches deposited messages (deposit.h) by their tickets. This is the receiver's side of a
// deposit. A message that was deposited as a whole is fetched by fetch(). known_lender.h has a
// quicker way for messages of one storage, and fetch_pieces.h fetches a message in pieces. The C
// boundary (capi/src/deposit.cc) and queues call these functions.
//
// A receiver first meets the lender (lender_link.h). Then it claims the message: it exchanges the
// message's word in the claims page (memory/claims_page.h), after which nobody else can claim the
// message. The functions ask other processes and map memory, so their caller holds no lock that has
// a rank (base/lock_rank.h). A forked child meets each lender anew.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/status.h"
#include "os/wait.h"
#include "share/by_fd.h"
#include "tensor/descriptor.h"
#include "tensor/message.h"

namespace tenon::channel {

struct FetchOptions {
  share::OpenOptions open;
  tensor::DescriptorLimits limits;
};

// Fetches the message of a ticket. From then on nobody else can fetch it. The call makes no system
// call if this process has met the lender since its last fork and has all segments that the message
// needs. Otherwise it asks the lender, once for every kMostThings segments and tokens that it
// lacks. NOT_FOUND: the message was fetched before, or withdrawn. PEER_GONE: the lender is gone,
// and this process lacks what the message needs. CORRUPT with field "ticket": the bytes are no
// ticket. UNSUPPORTED: private openings. PERMISSION: the lender is another user's. Also the errors
// of the wait and of mapping.
//
// An error of the wait, of asking or of mapping comes before the claim, and the ticket stays good.
// An error after the claim loses the message: its leases are given back.
Result<std::unique_ptr<tensor::Message>> fetch(std::span<const std::byte> ticket,
                                               const FetchOptions& options, const os::Wait& wait);

// UNSUPPORTED for private openings. fetch() and Fetched::create() call it.
Status check_fetch_options(const FetchOptions& options);

}  // namespace tenon::channel
