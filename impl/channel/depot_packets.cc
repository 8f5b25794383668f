#include "channel/depot_packets.h"

namespace tenon::channel {

bool is_request(const DepotRequestPacket& head, size_t nbytes, bool is_cut) noexcept {
  const bool is_hello =
      nbytes >= sizeof head && head.request == static_cast<uint32_t>(DepotRequest::kHello);
  const bool is_things =
      nbytes >= sizeof head && head.request == static_cast<uint32_t>(DepotRequest::kThings);
  return (is_hello || is_things) && !is_cut && head.magic == kDepotMagic && head.zero == 0 &&
         head.n_things <= kMostThings &&
         nbytes == sizeof head + head.n_things * sizeof(WireThingName);
}

Status lender_status(Code code, const Ticket& ticket, const char* why) {
  return Status(code, format("the lender of the message, process %d, %s", ticket.pid, why))
      .with("pid", ticket.pid);
}

Status check_answer(const DepotAnswerPacket& answer, size_t nbytes, bool is_cut,
                    const Ticket& ticket) {
  const bool known_code = answer.code >= 0 && answer.code <= static_cast<int32_t>(Code::kInternal);
  if (nbytes != sizeof answer || is_cut || answer.magic != kDepotMagic || !known_code)
    return lender_status(Code::kCorrupt, ticket, "answers what no lender of Tenon's says");
  if (answer.depot != ticket.depot)
    return lender_status(Code::kPeerGone, ticket, "is gone, and another process has its place");
  switch (static_cast<Code>(answer.code)) {
    case Code::kOk: return Status::ok();
    case Code::kNotFound:
      return lender_status(Code::kNotFound, ticket,
                           "has it no more: it was fetched before, or withdrawn");
    case Code::kPermission:
      return lender_status(Code::kPermission, ticket, "lends to its own user only");
    case Code::kResourceExhausted:
      return lender_status(Code::kResourceExhausted, ticket, "has no room for one more receiver");
    default: return lender_status(static_cast<Code>(answer.code), ticket, "refused the request");
  }
}

Status check_answer_fds(const DepotAnswerPacket& answer, DepotRequest request, size_t n_things,
                        size_t n_fds, const Ticket& ticket) {
  const size_t expected = n_things + (request == DepotRequest::kHello ? kGreetingFds : 0);
  if (n_fds != expected || answer.n_fds != expected ||
      (answer.borrower == 0) == (request == DepotRequest::kHello))
    return lender_status(Code::kCorrupt, ticket,
                         "handed out another number of fds than was asked for");
  return Status::ok();
}

}  // namespace tenon::channel
