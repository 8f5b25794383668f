// tenon/connection.h: connections that carry messages (impl/channel/connection.h).
#include <tenon/connection.h>

#include <memory>

#include "boundary.h"
#include "by_fd.h"
#include "connection.h"
#include "handles.h"
#include "wait.h"

using namespace tenon::capi;
using tenon::Status;
using tenon::channel::Connection;
using tenon::channel::ConnectionOptions;
using tenon::channel::Peers;

namespace tenon::capi {

Result<ConnectionOptions> read_connection_options(const tenon_connection_options* options,
                                                  uint32_t more_flags, bool* adopts) {
  tenon_connection_options given{};
  TENON_TRY(read_struct(options, "tenon_connection_options", &given));
  constexpr uint32_t kFlags = TENON_CONNECTION_ADOPT_SOCKET | TENON_CONNECTION_SAME_USER |
                              TENON_CONNECTION_GROUP | TENON_CONNECTION_CUDA_LET_WRITE |
                              TENON_CONNECTION_CUDA_KEEP_OPEN | TENON_CONNECTION_NAMED_FILES;
  TENON_TRY(check_flags(given.flags, kFlags | more_flags, "tenon_connection_options"));
  const bool group_too = (given.flags & TENON_CONNECTION_GROUP) != 0;
  // Without this check, a caller that forgot the flag would accept every peer.
  TENON_TRY(
      check_argument(group_too || given.group == 0, "a group is given, but not the flag GROUP"));
  ConnectionOptions how;
  if ((given.flags & TENON_CONNECTION_SAME_USER) != 0) how.peers = Peers::kSameUser;
  if (group_too) how.peers = Peers::kGroup;
  how.group = given.group;
  how.cuda_let_write = (given.flags & TENON_CONNECTION_CUDA_LET_WRITE) != 0;
  how.cuda_keep_open = (given.flags & TENON_CONNECTION_CUDA_KEEP_OPEN) != 0;
  how.named_files = (given.flags & TENON_CONNECTION_NAMED_FILES) != 0;
  how.ring = (given.flags & TENON_CONNECTION_RING) != 0;
  TENON_ASSIGN(how.open, read_open_flags(given.open_access, given.open_flags));
  if (given.max_message_nbytes != 0) how.limits.max_nbytes = given.max_message_nbytes;
  if (given.max_tensors != 0) how.limits.max_tensors = given.max_tensors;
  how.limits.max_segments = given.max_segments != 0
                                ? given.max_segments
                                : tenon::channel::ReceivedNumbers::default_max_segments();
  how.max_mapped_nbytes = given.max_mapped_nbytes;
  TENON_TRY(check_argument(given.on_lender_gone <= TENON_LENDER_GONE_DROP,
                           "on_lender_gone is neither KEEP nor DROP"));
  TENON_TRY(check_flags(given.reserved, 0, "tenon_connection_options"));
  how.drop_when_gone = given.on_lender_gone == TENON_LENDER_GONE_DROP;
  *adopts = (given.flags & TENON_CONNECTION_ADOPT_SOCKET) != 0;
  return how;
}

}  // namespace tenon::capi

extern "C" {

tenon_status tenon_connection_new(int socket, const tenon_connection_options* options,
                                  tenon_connection** out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    bool adopts = false;
    TENON_ASSIGN(const ConnectionOptions how,
                 read_connection_options(options, TENON_CONNECTION_RING, &adopts));
    TENON_ASSIGN(Connection::Owned connection, Connection::create(socket, how));
    if (adopts) connection->adopt_socket();
    *out = handle<tenon_connection>(connection.release());
    return Status::ok();
  });
}

int tenon_connection_fd(const tenon_connection* connection) noexcept {
  return connection == nullptr ? -1 : object(connection)->socket();
}

tenon_status tenon_connection_peer(const tenon_connection* connection, tenon_peer* out,
                                   tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(connection != nullptr, "connection is NULL"));
    TENON_TRY(check_output(out, "tenon_peer"));
    const tenon::os::Peer& peer = object(connection)->peer();
    tenon_peer value{};
    value.pid = peer.pid;
    value.uid = peer.uid;
    value.gid = peer.gid;
    write_struct(out, value);
    return Status::ok();
  });
}

tenon_status tenon_connection_gone_fd(tenon_connection* connection, int* out,
                                      tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(connection != nullptr, "connection is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(*out, object(connection)->gone_fd());
    return Status::ok();
  });
}

tenon_status tenon_connection_set_stream(tenon_connection* connection, int32_t device, void* stream,
                                         tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(connection != nullptr, "connection is NULL"));
    TENON_TRY(check_argument(device >= 0, "no device has a negative number"));
    return object(connection)->set_stream(device, stream);
  });
}

tenon_status tenon_send(tenon_connection* connection, const tenon_message* message,
                        const tenon_wait* wait, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(connection != nullptr, "connection is NULL"));
    TENON_ASSIGN(const tenon::os::Wait how, read_wait(wait));
    return object(connection)->send(object(message), how);
  });
}

tenon_status tenon_recv(tenon_connection* connection, const tenon_wait* wait, tenon_message** out,
                        tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(connection != nullptr, "connection is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(const tenon::os::Wait how, read_wait(wait));
    TENON_ASSIGN(auto message, object(connection)->recv(how));
    *out = handle<tenon_message>(message.release());
    return Status::ok();
  });
}

void tenon_connection_release(tenon_connection* connection) noexcept {
  if (connection != nullptr) Connection::End()(object(connection));
}
}
