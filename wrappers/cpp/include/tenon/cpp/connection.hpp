// Connections: messages over a Unix socket that the user brings.
#ifndef TENON_CPP_CONNECTION_HPP
#define TENON_CPP_CONNECTION_HPP

#include <tenon/connection.h>
#include <tenon/cpp/by_fd.hpp>
#include <tenon/cpp/message.hpp>
#include <tenon/cpp/wait.hpp>

#include <cstdint>
#include <optional>

TENON_CPP_BEGIN

/// What happens to received memory when nobody holds the other end of the socket any more; tenon/connection.h says more.
enum class LenderGone : tenon_lender_gone {
  kKeep = TENON_LENDER_GONE_KEEP,  ///< it stays valid
  kDrop = TENON_LENDER_GONE_DROP,  ///< later accesses fail with kPeerGone, and a device's memory is closed
};

/// Options and limits of one connection. A limit of 0 is the library's default.
struct ConnectionOptions {
  bool adopt_socket = false;                          ///< the socket is the connection's once it is made
  OpenOptions open = {};                              ///< how to open what is received
  std::uint64_t max_message_nbytes = 0;               ///< largest descriptor accepted, in bytes
  std::uint64_t max_tensors = 0;                      ///< most tensors accepted in one message
  std::uint64_t max_segments = 0;                     ///< most segments that the peer may have open here
  std::uint64_t max_mapped_nbytes = 0;                ///< most address space that the peer's memory may take here
  bool same_user = false;                             ///< refuse a peer that is neither of this process's user nor root
  std::optional<std::uint32_t> group = std::nullopt;  ///< the same, but members of that gid are let in too
  bool cuda_let_write = false;                    ///< send read-only storages on a CUDA device too, though their receiver can write them
  bool cuda_keep_open = false;                    ///< as OpenCudaOptions::keep_open, for device memory that is received
  LenderGone on_lender_gone = LenderGone::kKeep;  ///< for what is received
};

/// Who is at the other end of a connection, as of the moment when the socket was connected; tenon/connection.h says more.
using Peer = tenon_peer;

/// One end of a connected AF_UNIX socket (stream or seqpacket); the other end must be a connection too. Unlike other objects one may be
/// used by two threads at once, the one sending and the other receiving, as long as neither closes or moves it. After fork only the process
/// that made it may use it; the child may close it.
class Connection : public detail::Owned<Connection, tenon_connection, tenon_connection_release> {
 public:
  /// Put a connection on a socket, which is borrowed until the connection's end unless it is adopted. Nobody else may read or write it.
  static Result<Connection> try_make(int socket, const ConnectionOptions& options = {}) {
    tenon_connection_options c{};
    c.struct_size = sizeof c;
    c.flags = (options.adopt_socket ? std::uint32_t{TENON_CONNECTION_ADOPT_SOCKET} : 0U) |
              (options.same_user ? std::uint32_t{TENON_CONNECTION_SAME_USER} : 0U) |
              (options.group ? std::uint32_t{TENON_CONNECTION_GROUP} : 0U) |
              (options.cuda_let_write ? std::uint32_t{TENON_CONNECTION_CUDA_LET_WRITE} : 0U) |
              (options.cuda_keep_open ? std::uint32_t{TENON_CONNECTION_CUDA_KEEP_OPEN} : 0U);
    c.group = options.group.value_or(0);
    c.open_access = static_cast<tenon_access>(options.open.access);
    c.open_flags = detail::open_flags(options.open);
    c.max_message_nbytes = options.max_message_nbytes;
    c.max_tensors = options.max_tensors;
    c.max_segments = options.max_segments;
    c.max_mapped_nbytes = options.max_mapped_nbytes;
    c.on_lender_gone = static_cast<tenon_lender_gone>(options.on_lender_gone);
    return detail::make<Connection>([&](tenon_connection** out, tenon_error** err) { return tenon_connection_new(socket, &c, out, err); });
  }

  /// The fd to poll, borrowed; -1 if empty. When it is readable, receive with timeout 0 until kWouldBlock.
  int fd() const noexcept { return tenon_connection_fd(get()); }

  /// An fd that is readable once the lender is gone, and what it lent is dropped; borrowed from the connection. Do not read from it.
  Result<int> try_gone_fd() {
    int out = -1;
    const Result<void> called = detail::call([&](tenon_error** err) { return tenon_connection_gone_fd(get(), &out, err); });
    if (!called) return called.error();
    return out;
  }

  /// Who is at the other end.
  Result<Peer> try_peer() const {
    Peer out{};
    out.struct_size = sizeof out;
    const Result<void> called = detail::call([&](tenon_error** err) { return tenon_connection_peer(get(), &out, err); });
    if (!called) return called.error();
    return out;
  }

  /// Name the stream, a CUstream or a cudaStream_t, in which memory of a CUDA device is used here; null: the default one, as without this
  /// call. What was given to it before a send is done before work of the receiver's begins; what is given to it after a receive waits for
  /// the sender's, and what was received counts as used in it. It is borrowed until the connection's end, and the last release of what was
  /// received meanwhile.
  Result<void> try_set_stream(std::int32_t device, void* stream) {
    return detail::call([&](tenon_error** err) { return tenon_connection_set_stream(get(), device, stream, err); });
  }

  /// Send a message; delivered whole or not at all, in order. If the wait ends first (kWouldBlock, kTimeout, kInterrupted, kCancelled) it
  /// may be half sent and the connection keeps it: go on with flush, or by sending the same message.
  Result<void> try_send(const Message& message, const Wait& wait = {}) {
    // NULL would mean flush.
    if (!message) return detail::wrong("the message is empty: made by default, moved from or closed");
    return detail::waiting(wait,
                           [&](const tenon_wait* waiting, tenon_error** err) { return tenon_send(get(), message.get(), waiting, err); });
  }

  /// Finish what an earlier send left half sent.
  Result<void> try_flush(const Wait& wait = {}) {
    return detail::waiting(wait, [&](const tenon_wait* waiting, tenon_error** err) { return tenon_send(get(), nullptr, waiting, err); });
  }

  /// Receive the next message. If the wait ends first nothing is lost: call again.
  Result<Message> try_recv(const Wait& wait = {}) {
    tenon_message* out = nullptr;
    const Result<void> called =
        detail::waiting(wait, [&](const tenon_wait* waiting, tenon_error** err) { return tenon_recv(get(), waiting, &out, err); });
    if (!called) return called.error();
    return Message::adopt(out);
  }

#ifndef TENON_NO_EXCEPTIONS
  // Each throws what its try_ form returns.
  static Connection make(int socket, const ConnectionOptions& options = {}) { return try_make(socket, options).value(); }
  int gone_fd() { return try_gone_fd().value(); }
  Peer peer() const { return try_peer().value(); }
  void set_stream(std::int32_t device, void* stream) { try_set_stream(device, stream).value(); }
  void send(const Message& message, const Wait& wait = {}) { try_send(message, wait).value(); }
  void flush(const Wait& wait = {}) { try_flush(wait).value(); }
  Message recv(const Wait& wait = {}) { return try_recv(wait).value(); }
#endif
};

TENON_CPP_END

#endif
