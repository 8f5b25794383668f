/// @file
/// Connections: these functions send and receive messages and objects over a connected AF_UNIX
/// socket that the program provides. tenon/connection.h has the details.
#ifndef TENON_CPP_CONNECTION_HPP
#define TENON_CPP_CONNECTION_HPP

#include <tenon/connection.h>
#include <tenon/cpp/by_fd.hpp>
#include <tenon/cpp/message.hpp>
#include <tenon/cpp/object.hpp>
#include <tenon/cpp/wait.hpp>

#include <cstdint>
#include <optional>

TENON_CPP_BEGIN

/// What happens to received memory when its lender is gone. The lender is gone when no process
/// holds the other end of the socket any more. tenon/connection.h says more.
enum class LenderGone : tenon_lender_gone {
  /// Received memory stays valid.
  kKeep = TENON_LENDER_GONE_KEEP,
  /// Received memory is dropped: later accesses fail with kPeerGone, and memory of a device is
  /// closed.
  kDrop = TENON_LENDER_GONE_DROP,
};

/// Options and limits of a connection. A limit of 0 means the library's default.
struct ConnectionOptions {
  /// The connection owns the socket once it is made.
  bool adopt_socket = false;
  /// How to open received storages.
  OpenOptions open = {};
  /// The largest descriptor that is accepted, in bytes.
  std::uint64_t max_message_nbytes = 0;
  /// The most tensors that are accepted in one message.
  std::uint64_t max_tensors = 0;
  /// The most segments that the peer may keep open in this process.
  std::uint64_t max_segments = 0;
  /// The most address space, in bytes, that the peer's memory may take in this process.
  std::uint64_t max_mapped_nbytes = 0;
  /// Refuse a peer whose user is neither this process's user nor root.
  bool same_user = false;
  /// As same_user, but also accept members of the group with this id.
  std::optional<std::uint32_t> group = std::nullopt;
  /// Also accept named files that Tenon made, although they have no seals, if the peer is of this
  /// process's user or root.
  bool named_files = false;
  /// Send through a ring in shared memory, so that a message takes no system call while the
  /// receiver is awake.
  bool ring = false;
  /// Also send read-only storages on a CUDA device, although the receiver can write to them.
  bool cuda_let_write = false;
  /// As OpenCudaOptions::keep_open, for device memory that is received.
  bool cuda_keep_open = false;
  /// What happens to received memory when its lender is gone.
  LenderGone on_lender_gone = LenderGone::kKeep;
};

namespace detail {

inline tenon_connection_options c_options(const ConnectionOptions& options) noexcept {
  tenon_connection_options c{};
  c.struct_size = sizeof c;
  c.flags = (options.adopt_socket ? std::uint32_t{TENON_CONNECTION_ADOPT_SOCKET} : 0U) |
            (options.same_user ? std::uint32_t{TENON_CONNECTION_SAME_USER} : 0U) |
            (options.group ? std::uint32_t{TENON_CONNECTION_GROUP} : 0U) |
            (options.named_files ? std::uint32_t{TENON_CONNECTION_NAMED_FILES} : 0U) |
            (options.ring ? std::uint32_t{TENON_CONNECTION_RING} : 0U) |
            (options.cuda_let_write ? std::uint32_t{TENON_CONNECTION_CUDA_LET_WRITE} : 0U) |
            (options.cuda_keep_open ? std::uint32_t{TENON_CONNECTION_CUDA_KEEP_OPEN} : 0U);
  c.group = options.group.value_or(0);
  c.open_access = static_cast<tenon_access>(options.open.access);
  c.open_flags = open_flags(options.open);
  c.max_message_nbytes = options.max_message_nbytes;
  c.max_tensors = options.max_tensors;
  c.max_segments = options.max_segments;
  c.max_mapped_nbytes = options.max_mapped_nbytes;
  c.on_lender_gone = static_cast<tenon_lender_gone>(options.on_lender_gone);
  return c;
}

}  // namespace detail

/// The process at the other end of a connection, as of the moment when the socket was connected.
/// tenon/connection.h says more.
using Peer = tenon_peer;

/// One end of a connected AF_UNIX socket (stream or seqpacket). The other end must be a connection
/// too. Unlike other objects, a Connection may be used by two threads at once, of which one sends
/// and the other receives, as long as neither closes or moves it. After fork only the process that
/// made the connection can use it. The child may close it.
class Connection : public detail::Owned<Connection, tenon_connection, tenon_connection_release> {
 public:
  /// Makes a connection on a socket. The socket is borrowed until the connection ends, unless it is
  /// adopted. No other code may read from it or write to it.
  static Result<Connection> try_make(int socket, const ConnectionOptions& options = {}) {
    const tenon_connection_options c = detail::c_options(options);
    return detail::make<Connection>([&](tenon_connection** out, tenon_error** err) {
      return tenon_connection_new(socket, &c, out, err);
    });
  }

  /// The fd to poll, borrowed; -1 for an empty object. When it is readable, receive with timeout 0
  /// until kWouldBlock.
  int fd() const noexcept { return tenon_connection_fd(get()); }

  /// Gives the fd that tells when the lender is gone, borrowed from the connection. It is readable
  /// from that moment on; with LenderGone::kDrop, once the memory was dropped. Do not read from it.
  Result<int> try_gone_fd() {
    int out = -1;
    const Result<void> called =
        detail::call([&](tenon_error** err) { return tenon_connection_gone_fd(get(), &out, err); });
    if (!called) return called.error();
    return out;
  }

  /// Gives the process at the other end.
  Result<Peer> try_peer() const {
    Peer out{};
    out.struct_size = sizeof out;
    const Result<void> called =
        detail::call([&](tenon_error** err) { return tenon_connection_peer(get(), &out, err); });
    if (!called) return called.error();
    return out;
  }

  /// Names the stream (a CUstream or a cudaStream_t) in which this process uses memory of a CUDA
  /// device that it sends or receives. Null means the default stream, which is also used without
  /// this call. Work that the sender gave to its stream before a send is complete before the
  /// receiver's work begins. Work that the receiver gives to its stream after a receive waits for
  /// the sender's work. Received storages count as used in the receiver's stream. The stream is
  /// borrowed until the connection ends and until the last release of every storage that was
  /// received meanwhile.
  Result<void> try_set_stream(std::int32_t device, void* stream) {
    return detail::call(
        [&](tenon_error** err) { return tenon_connection_set_stream(get(), device, stream, err); });
  }

  /// Sends a message. The message is delivered as a whole or not at all, and messages arrive in the
  /// order in which they were sent. If the wait ends first (kWouldBlock, kTimeout, kInterrupted,
  /// kCancelled), part of the message may be sent already, and the connection keeps it. Continue
  /// with flush, or by sending the same message.
  Result<void> try_send(const Message& message, const Wait& wait = {}) {
    // To the C library, NULL means flush.
    if (!message)
      return detail::wrong("the message is empty: made by default, moved from or closed");
    return detail::waiting(wait, [&](const tenon_wait* waiting, tenon_error** err) {
      return tenon_send(get(), message.get(), waiting, err);
    });
  }

  /// Finishes messages that earlier sends left unfinished.
  Result<void> try_flush(const Wait& wait = {}) {
    return detail::waiting(wait, [&](const tenon_wait* waiting, tenon_error** err) {
      return tenon_send(get(), nullptr, waiting, err);
    });
  }

  /// Receives the next message. If the wait ends first, nothing is lost, and the next call
  /// continues.
  Result<Message> try_recv(const Wait& wait = {}) {
    tenon_message* out = nullptr;
    const Result<void> called =
        detail::waiting(wait, [&](const tenon_wait* waiting, tenon_error** err) {
          return tenon_recv(get(), waiting, &out, err);
        });
    if (!called) return called.error();
    return Message::adopt(out);
  }

  /// Sends an object as one message, which Object::to_message makes. If the wait ends first,
  /// continue with flush. A second try_send_object would send the object twice.
  Result<void> try_send_object(const Object& object, const Wait& wait = {},
                               Access access = Access::kAuto) {
    const Result<Message> message = object.try_to_message(access);
    if (!message) return message.error();
    return try_send(*message, wait);
  }

  /// Receives the next message and reads its object, as Object::from does. If the wait ends first,
  /// nothing is lost. A message that carries no object (kCorrupt) is lost.
  Result<Object> try_recv_object(const Wait& wait = {}) {
    const Result<Message> message = try_recv(wait);
    if (!message) return message.error();
    return Object::try_from(*message);
  }

#ifndef TENON_NO_EXCEPTIONS
  // Each function throws the error that its try_ form returns.
  static Connection make(int socket, const ConnectionOptions& options = {}) {
    return try_make(socket, options).value();
  }
  int gone_fd() { return try_gone_fd().value(); }
  Peer peer() const { return try_peer().value(); }
  void set_stream(std::int32_t device, void* stream) { try_set_stream(device, stream).value(); }
  void send(const Message& message, const Wait& wait = {}) { try_send(message, wait).value(); }
  void flush(const Wait& wait = {}) { try_flush(wait).value(); }
  Message recv(const Wait& wait = {}) { return try_recv(wait).value(); }
  void send_object(const Object& object, const Wait& wait = {}, Access access = Access::kAuto) {
    try_send_object(object, wait, access).value();
  }
  Object recv_object(const Wait& wait = {}) { return try_recv_object(wait).value(); }
#endif
};

TENON_CPP_END

#endif
