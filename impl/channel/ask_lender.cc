#include "channel/ask_lender.h"

#include <poll.h>

#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "channel/deposit_server.h"
#include "os/limits.h"
#include "os/local_socket.h"
#include "os/peer.h"
#include "os/socket.h"

namespace tenon::channel {
namespace {

using os::Fd;

// Makes the error of a lender that could not be reached. PEER_GONE: nobody listens at the lender's
// socket any more. NOT_FOUND says less: the socket is not there, but this process may see another
// mount of /dev/shm.
Status not_reached(const Ticket& ticket, Status cause) {
  if (cause.code() == Code::kPeerGone) sweep_depots();
  if (cause.code() == Code::kPeerGone)
    return lender_status(Code::kPeerGone, ticket,
                         "is gone: it was killed, or it ended and its keeper's time is over; let "
                         "it live until its messages are "
                         "fetched, or its keeper stay for longer")
        .caused_by(cause);
  if (cause.code() == Code::kNotFound) {
    return Status(Code::kPeerGone,
                  format("the lender of the message, process %d, is gone or cannot be reached from "
                         "here: there is no socket %s; if it "
                         "lives, let both processes see the same /dev/shm",
                         ticket.pid, ticket.rendezvous.c_str()))
        .with("pid", ticket.pid)
        .with("path", ticket.rendezvous)
        .caused_by(cause);
  }
  return cause;
}

// Asks the lender once. `hung_up`: the lender hung up and did not answer.
Result<LenderAnswer> ask_once(const Ticket& ticket, DepotRequest request,
                              std::span<const Thing> things, os::Waiter* waiter, bool* hung_up) {
  Result<Fd> connected = os::connect_local(os::SocketKind::kPackets, ticket.rendezvous, waiter);
  if (!connected.is_ok()) return not_reached(ticket, std::move(connected).status());
  const Fd socket = std::move(connected).value();
  TENON_ASSIGN(const os::Peer peer, os::peer_of(socket.get()));
  if (!os::is_own_or_root(peer))
    return lender_status(Code::kPermission, ticket, "belongs to another user");
  struct {
    DepotRequestPacket head;
    std::array<WireThingName, kMostThings> names;
  } packet{};
  packet.head = {kDepotMagic, static_cast<uint32_t>(request), static_cast<uint32_t>(things.size()),
                 0};
  for (size_t i = 0; i < things.size(); ++i)
    packet.names[i] = {things[i].number, static_cast<uint32_t>(things[i].kind), things[i].serial};
  const auto bytes = std::as_bytes(std::span(&packet, 1))
                         .first(sizeof packet.head + things.size() * sizeof(WireThingName));
  const os::Transfer sent = os::send_message(socket.get(), bytes, {}, {});
  if (sent.error != 0 && sent.error != EPIPE && sent.error != ECONNRESET)
    return errno_status(sent.error, "asking the lender of a message");
  const std::string awaited = format("an answer of process %d, the message's lender,", ticket.pid);
  TENON_TRY(waiter->until_ready(socket.get(), POLLIN, awaited.c_str()));
  DepotAnswerPacket answer{};
  os::ReceivedFds received;
  os::Transfer got = os::receive_message(
      socket.get(), std::as_writable_bytes(std::span(&answer, 1)), false, &received);
  // If the lender hung up on an unread request, the kernel reports that first. What the lender had
  // sent before can still be read.
  if (got.error == ECONNRESET)
    got = os::receive_message(socket.get(), std::as_writable_bytes(std::span(&answer, 1)), false,
                              &received);
  *hung_up = got.error == ECONNRESET || (got.error == 0 && got.nbytes == 0);
  if (*hung_up) return lender_status(Code::kPeerGone, ticket, "hung up");
  if (got.error != 0) return errno_status(got.error, "the answer of a message's lender");
  TENON_TRY(check_answer(answer, got.nbytes, got.data_cut, ticket));
  if (received.cut()) return os::with_fd_limit(errno_status(EMFILE, "taking the fds of a message"));
  LenderAnswer result{answer.borrower, {}};
  received.move_to(result.fds);
  TENON_TRY(check_answer_fds(answer, request, things.size(), result.fds.size(), ticket));
  return result;
}

}  // namespace

// A lender that ends hangs up on its clients, and then its keeper listens at the same socket.
Result<LenderAnswer> ask_lender(const Ticket& ticket, DepotRequest request,
                                std::span<const Thing> things, os::Waiter* waiter) {
  constexpr int kMostTries = 16;
  constexpr int64_t kPauseNs = 1'000'000;
  for (int tries = 1;; ++tries) {
    bool hung_up = false;
    Result<LenderAnswer> answer = ask_once(ticket, request, things, waiter, &hung_up);
    if (!hung_up || tries == kMostTries) return answer;
    TENON_TRY(waiter->pause(kPauseNs, "the lender of a message, which hung up,"));
  }
}

}  // namespace tenon::channel
