// The borrower's side of a name's socket: asks the lender for the fd of a segment (name_server.h).
#include <poll.h>

#include <cerrno>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "names/name_packets.h"
#include "names/name_server.h"
#include "os/host.h"
#include "os/limits.h"
#include "os/local_socket.h"
#include "os/peer.h"
#include "os/socket.h"

namespace tenon::names {

using memory::Access;
using os::Fd;

Result<Handed> ask_name(const Filename& name, NameRequest request, bool other_user,
                        os::Waiter* waiter) {
  const std::string path = name.path();
  auto named = [&](Status status) { return std::move(status).with("path", path); };
  Result<Fd> connected = os::connect_local(os::SocketKind::kPackets, path, waiter);
  if (!connected.is_ok()) return name_error(path, connected.status());
  const Fd socket = std::move(connected).value();
  TENON_ASSIGN(const os::Peer peer, os::peer_of(socket.get()));
  if (peer.uid != os::user_id() && !other_user) {
    return named(
        Status(
            Code::kPermission,
            format(
                "the lender behind %s is user %u: open it with OTHER_USER if you trust that user",
                path.c_str(), peer.uid))
            .with("option", std::string("OTHER_USER")));
  }
  const RequestPacket packet{kNameMagic, static_cast<uint32_t>(request)};
  const os::Transfer sent =
      os::send_message(socket.get(), std::as_bytes(std::span(&packet, 1)), {}, {});
  // A lender that refuses may have hung up already. Its answer can still be read.
  if (sent.error != 0 && sent.error != EPIPE && sent.error != ECONNRESET)
    return named(errno_status(sent.error, format("asking the lender behind %s", path.c_str())));
  if (Status ready = waiter->until_ready(socket.get(), POLLIN, "an answer of the lender");
      !ready.is_ok()) {
    return named(Status(ready.code(), format("the lender behind %s, pid %d, does not answer",
                                             path.c_str(), peer.pid))
                     .with("pid", peer.pid)
                     .caused_by(ready));
  }
  AnswerPacket answer{};
  os::ReceivedFds fds;
  os::Transfer got =
      os::receive_message(socket.get(), std::as_writable_bytes(std::span(&answer, 1)), false, &fds);
  // If the lender hung up while the request was unread, the kernel reports that first. An earlier
  // answer can still be read.
  if (got.error == ECONNRESET)
    got = os::receive_message(socket.get(), std::as_writable_bytes(std::span(&answer, 1)), false,
                              &fds);
  if ((got.error == 0 && got.nbytes == 0) || got.error == ECONNRESET)
    return named(Status(Code::kPeerGone, format("the lender behind %s hung up", path.c_str())));
  if (got.error != 0)
    return named(errno_status(got.error, format("the answer from %s", path.c_str())));
  if (fds.cut())
    return named(
        os::with_fd_limit(errno_status(EMFILE, format("taking the fd from %s", path.c_str()))));
  const bool known_code = answer.code >= 0 && answer.code <= static_cast<int32_t>(Code::kInternal);
  if (got.nbytes != sizeof answer || got.data_cut || answer.magic != kNameMagic || !known_code)
    return named(Status(Code::kCorrupt,
                        format("what answers behind %s is no lender of Tenon's", path.c_str())));
  if (answer.code != 0) {
    const auto code = static_cast<Code>(answer.code);
    const char* why = "has nothing to lend any more";
    if (code == Code::kPermission) why = "lends to its own user only";
    if (code == Code::kResourceExhausted)
      why = "serves as many clients as it takes at once: try again";
    return named(Status(static_cast<Code>(answer.code),
                        format("the lender behind %s %s", path.c_str(), why)));
  }
  Handed handed;
  if (request == NameRequest::kReceived) return handed;
  std::vector<Fd> taken;
  fds.move_to(taken);
  if (taken.size() != 1 || answer.access < 1 || answer.access > 2)
    return named(
        Status(Code::kCorrupt, format("the lender behind %s handed out no memory", path.c_str())));
  handed.fd = std::move(taken.front());
  handed.access = static_cast<Access>(answer.access);
  handed.segment_nbytes = answer.segment_nbytes;
  return handed;
}

}  // namespace tenon::names
