#ifndef TENON_CONNECTION_H
#define TENON_CONNECTION_H

/**
 * @file
 * Connections: these functions send and receive messages between two processes over a connected
 * AF_UNIX socket. Storages that travel over a connection are not copied. They are lent under leases
 * (tenon/lease.h), which end with the receiver's last reference or with its process.
 */

#include <stddef.h>
#include <stdint.h>
#include <tenon/by_fd.h>
#include <tenon/error.h>
#include <tenon/message.h>
#include <tenon/wait.h>

TENON_BEGIN_DECLS

/**
 * One end of a connected AF_UNIX socket (stream or seqpacket) that carries messages. A connection
 * remembers which segments were sent over it, so an fd is sent once, however many tensors lie in
 * its segment. The other end must be a tenon_connection too.
 */
typedef struct tenon_connection tenon_connection;

enum {
  /** The library owns the socket once tenon_connection_new has succeeded. */
  TENON_CONNECTION_ADOPT_SOCKET = 1,
  /** Refuse a peer whose user is neither this process's (effective) user nor root. */
  TENON_CONNECTION_SAME_USER = 2,
  /** As TENON_CONNECTION_SAME_USER, but also accept members of options.group. */
  TENON_CONNECTION_GROUP = 4,
  /** Also send read-only storages on a CUDA device, although the receiver can write to them. */
  TENON_CONNECTION_CUDA_LET_WRITE = 8,
  /** As TENON_CUDA_KEEP_OPEN, for device memory that is received. */
  TENON_CONNECTION_CUDA_KEEP_OPEN = 16,
  /**
   * Accept named files that Tenon made (tenon/by_filename.h), although they have no seals, if
   * tenon_connection_peer reports this process's (effective) user or root. A process of that user
   * could end this process anyway.
   */
  TENON_CONNECTION_NAMED_FILES = 32,
  /**
   * Send through a ring in shared memory. While the receiver is awake, a message whose segments it
   * knows then takes no system call. Messages still cross on the socket if they bring fds, if their
   * descriptor has more than about 1,000 bytes, or while 64 messages wait in the ring. The order
   * stays. The receiver needs no flag. If no memory can be had for the ring, all messages cross on
   * the socket. A ring takes 68 KiB.
   */
  TENON_CONNECTION_RING = 64
};

/**
 * What happens to received memory when its lender is gone. The lender is gone when no process holds
 * the other end of the socket any more: the lender's process ended, or all holders closed that end.
 */
typedef uint32_t tenon_lender_gone;

enum {
  /**
   * Received memory stays valid, unless it also arrived over a connection with
   * TENON_LENDER_GONE_DROP. Messages that were sent before the lender ended are still delivered.
   */
  TENON_LENDER_GONE_KEEP = 0,
  /**
   * Received memory is dropped.
   * - Calls that would give out its bytes, or lend it again, return TENON_PEER_GONE.
   *   tenon_storage_data and tenon_tensor_data return NULL.
   * - Memory of the CPU is unmapped when its storage is released. Pointers that were given out
   *   before are valid until then.
   * - Memory of a device is closed as soon as the streams that use it in this process have passed.
   *   Pointers to it are invalid from then on.
   * - tenon_recv returns TENON_PEER_GONE, also if messages that were sent before are still unread.
   * - A storage that arrived over two such connections stays valid until both lenders are gone. A
   *   storage that is lent again over another connection becomes valid again.
   * - Private openings stay valid, and so does this process's own memory that was sent back to it.
   * - If the borrower releases the connection before the lender is gone, it keeps the memory that
   *   it received.
   */
  TENON_LENDER_GONE_DROP = 1
};

/** Limits and options of a connection. A NULL pointer to them means that all fields are zero. */
typedef struct tenon_connection_options {
  /** sizeof(tenon_connection_options), set by the caller. */
  size_t struct_size;
  /** TENON_CONNECTION_*. */
  uint32_t flags;
  /** TENON_ACCESS_* for received storages, as in tenon_open_options. */
  tenon_access open_access;
  /**
   * Flags for received storages: TENON_OPEN_PRIVATE_COW, TENON_OPEN_PRIVATE_COPY,
   * TENON_OPEN_ALLOW_UNSEALED. Any other flag is TENON_UNSUPPORTED.
   */
  uint32_t open_flags;
  /** The group id for TENON_CONNECTION_GROUP. Without that flag it must be 0. */
  uint32_t group;
  /** The largest descriptor that is accepted, in bytes. 0 means 64 MiB. */
  uint64_t max_message_nbytes;
  /** The most tensors that are accepted in one message. 0 means 1,000,000. */
  uint64_t max_tensors;
  /**
   * The most segments that the peer may keep open in this process through this connection. 0 means
   * a half of RLIMIT_NOFILE, a quarter of vm.max_map_count, or 65,536, whichever is least.
   */
  uint64_t max_segments;
  /**
   * The most address space, in bytes, that the peer's memory may take in this process through this
   * connection. A segment counts with its whole size as long as it is mapped. 0 means a quarter of
   * the address space (32 TiB on x86-64). All peers of a process together may take half of the
   * address space.
   */
  uint64_t max_mapped_nbytes;
  /** TENON_LENDER_GONE_*, for received memory. */
  tenon_lender_gone on_lender_gone;
  /** It must be 0. */
  uint32_t reserved;
} tenon_connection_options;

/**
 * The process at the other end of a connection. The kernel reports it (SO_PEERCRED) in the numbers
 * of this process's namespaces, as of the moment when the socket was connected. After accept, this
 * struct describes the process that called connect. After connect, it describes the process that
 * called listen. For a socketpair, both ends describe the process that called socketpair.
 *
 * If the socket was passed on or inherited since, these numbers still describe the first process,
 * and another process may have its pid by now. A user or group that this user namespace does not
 * map appears as 65534 (the kernel's overflowuid). A process that runs as user 65534 in such a
 * namespace cannot tell unmapped users from its own user.
 */
typedef struct tenon_peer {
  size_t struct_size; /**< sizeof(tenon_peer), set by the caller. */
  int32_t pid;        /**< It is 0 if this process cannot see the pid namespace. */
  uint32_t uid;       /**< The effective user id. */
  uint32_t gid;       /**< The effective group id. The peer's other groups are not reported. */
  uint32_t reserved;  /**< It is 0. */
} tenon_peer;

/**
 * Makes a connection on a socket. The socket may be blocking or non-blocking, and its flags are not
 * changed. Without TENON_CONNECTION_SAME_USER and TENON_CONNECTION_GROUP every peer is accepted,
 * because the program that made the socket has decided who can connect. With one of these flags,
 * the peer's tenon_peer decides, together with the groups that the peer had at the same moment
 * (SO_PEERGROUPS).
 * @param[in]  socket   a connected AF_UNIX socket, borrowed until the connection is released. With
 *                      TENON_CONNECTION_ADOPT_SOCKET it is consumed on success. No other code may
 *                      read from the socket or write to it.
 * @param[in]  options  borrowed. NULL means the defaults.
 * @param[out] out      new reference; release it with tenon_connection_release. It is untouched on
 *                      failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (`socket` is closed or is not a connected AF_UNIX stream
 *         or seqpacket socket, or a group is given without TENON_CONNECTION_GROUP, or
 *         TENON_LENDER_GONE_DROP is given and another connection on the same socket already watches
 *         for its lender's end), TENON_UNSUPPORTED (unknown flags), TENON_PERMISSION (the peer
 *         belongs to another user; details "pid", "uid"), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function. After fork only the process that made the
 *         connection can use it. The child may release it.
 */
TENON_API tenon_status tenon_connection_new(int socket, const tenon_connection_options *options,
                                            tenon_connection **out,
                                            tenon_error **err) TENON_NOEXCEPT;

/**
 * Returns the fd to poll. When it is readable, call tenon_recv with timeout 0 until it returns
 * TENON_WOULD_BLOCK: one read from the socket can take several messages, and the fd does not become
 * readable again for them. After an unfinished send, poll for writing and then call tenon_send.
 * @param[in] connection  borrowed. NULL is allowed.
 * @return the socket, borrowed; -1 for NULL.
 * @since 0.1. Any thread may call this function.
 */
TENON_API int tenon_connection_fd(const tenon_connection *connection) TENON_NOEXCEPT;

/**
 * Gives the process at the other end of a connection.
 * @param[in]     connection  borrowed.
 * @param[in,out] out         struct_size set by the caller, the other fields filled in by the call.
 *                            It is untouched on failure.
 * @param[out]    err         optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT.
 * @since 0.1. Any thread may call this function, also in a child of fork.
 */
TENON_API tenon_status tenon_connection_peer(const tenon_connection *connection, tenon_peer *out,
                                             tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives the fd that tells when the lender is gone (tenon_lender_gone). The fd is readable (POLLIN)
 * from that moment on. With TENON_LENDER_GONE_DROP the memory has been dropped by then. The service
 * thread (rule 10 in tenon.h) notices the end within microseconds. In a process that chose to have
 * no thread, tenon_lease_poll notices it. Poll the fd, and do not read from it.
 * @param[in]  connection  borrowed.
 * @param[out] out         the fd, borrowed from the connection and valid until its release. It is
 *                         untouched on failure.
 * @param[out] err         optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (another connection on the same socket already watches
 *         for its lender's end), TENON_RESOURCE_EXHAUSTED, TENON_UNSUPPORTED (in a child of fork).
 * @since 0.1. Any thread may call this function. A child of fork is not told: memory that its
 *         parent received stays valid in the child.
 */
TENON_API tenon_status tenon_connection_gone_fd(tenon_connection *connection, int *out,
                                                tenon_error **err) TENON_NOEXCEPT;

/**
 * Names the stream in which this process uses memory of a CUDA device that it sends or receives
 * over a connection. Tensors on devices travel in messages like other tensors, by the driver's
 * handles and under leases. The lender gets the memory back from a receiver that is killed and from
 * a message that nobody reads.
 *
 * Work that the sender gave to its stream before tenon_send is complete before the receiver's work
 * begins. Work that the receiver gives to its stream after tenon_recv waits for the sender's work.
 * A received storage counts as used in the receiver's stream until the storage is released. Neither
 * call waits for the device, with one exception: tenon_send waits for the stream when 1,000 events
 * are in flight.
 * @param[in]  connection  borrowed.
 * @param[in]  device      the device's ordinal in this process's numbering.
 * @param[in]  stream      a CUstream or cudaStream_t, borrowed until the connection is released and
 *                         until the last release of every storage that was received meanwhile. NULL
 *                         means the default stream, which is also used without this call.
 * @param[out] err         optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED, TENON_UNSUPPORTED (the
 *         connection of a parent of this process).
 * @since 0.1. Any thread may call this function. A message that another thread sends or receives
 *         at the same time uses either the old or the new stream.
 */
TENON_API tenon_status tenon_connection_set_stream(tenon_connection *connection, int32_t device,
                                                   void *stream, tenon_error **err) TENON_NOEXCEPT;

/**
 * Sends a message. A message is delivered as a whole or not at all, and messages arrive in the
 * order in which they were sent.
 *
 * If the wait ends first (TENON_WOULD_BLOCK, TENON_TIMEOUT, TENON_INTERRUPTED, TENON_CANCELLED),
 * part of the message may be sent already. The connection keeps the message, and the next call
 * continues where this call stopped. The next call may pass the same message, which is not sent
 * twice. It may pass another message, which is kept too and sent after the first. Or it may pass
 * NULL. Once this call, or a later call by the same thread, has returned TENON_OK, passing the same
 * message sends it again. While earlier messages are unfinished, later messages wait in memory.
 * Then give the peer time to read the socket.
 * @param[in]  connection  borrowed.
 * @param[in]  message     borrowed. The storages that it lends stay valid for the peer after the
 *                         message is released. NULL: the call only finishes messages that earlier
 *                         calls left unfinished.
 * @param[in]  wait        borrowed. NULL means to wait for ever.
 * @param[out] err         optional, see rule 2 in tenon.h.
 * @return TENON_OK, the four codes of a wait that ended (see above), or
 * - TENON_INVALID_ARGUMENT.
 * - TENON_PEER_GONE: the peer closed its end or died, or a storage of the message was dropped.
 * - TENON_RESOURCE_EXHAUSTED, limit "RLIMIT_NOFILE", errno ETOOMANYREFS: too many fds are in
 *   flight. The next call continues.
 * - TENON_RESOURCE_EXHAUSTED, limit "send_queue": the peer does not read, and 4,096 messages or 256
 *   MiB of descriptors are waiting. This message is not kept.
 * - TENON_RESOURCE_EXHAUSTED for other limits: memory, or SO_SNDBUF of a seqpacket socket.
 * - TENON_UNSUPPORTED: this process is a child of fork, or memory of a device cannot travel.
 * - TENON_PERMISSION: a storage on a device is read-only, and TENON_CONNECTION_CUDA_LET_WRITE is
 *   not set.
 * - TENON_IO, and other codes for errors of the device's driver.
 * @since 0.1. Any thread may call this function. Sends wait for each other. A send and a receive
 *         can run at the same time.
 */
TENON_API tenon_status tenon_send(tenon_connection *connection, const tenon_message *message,
                                  const tenon_wait *wait, tenon_error **err) TENON_NOEXCEPT;

/**
 * Receives the next message. If the wait ends first, nothing is lost: the next call continues.
 * After TENON_CORRUPT every later call fails. Any other failure about one message loses that
 * message, and the next call receives the message behind it. If there was no memory for the call
 * itself, the message stays, and the next call tries again.
 * @param[in]  connection  borrowed.
 * @param[in]  wait        borrowed. NULL means to wait for ever.
 * @param[out] out         new reference; release it with tenon_message_release. It is untouched on
 *                         failure.
 * @param[out] err         optional, see rule 2 in tenon.h.
 * @return TENON_OK, one of the four codes of a wait that ended (see tenon_send), or
 * - TENON_INVALID_ARGUMENT.
 * - TENON_PEER_GONE: the peer closed its end or died. All messages that the peer sent before are
 *   delivered first, except with TENON_LENDER_GONE_DROP.
 * - TENON_RESOURCE_EXHAUSTED, limit "RLIMIT_NOFILE": this process had no room for the message's
 *   fds, and the kernel dropped them. This message, and later messages that need the same segments,
 *   cannot be opened.
 * - TENON_RESOURCE_EXHAUSTED, limit "max_mapped_nbytes" or "mapped_nbytes": the memory of this
 *   peer, or of all peers, would take too much address space.
 * - TENON_RESOURCE_EXHAUSTED for other limits: the limits in the options, mappings, memory.
 * - TENON_CORRUPT: the received bytes are not a message. The connection cannot be used any more.
 * - TENON_INCOMPATIBLE: the peer uses a version of the format that this library does not read.
 * - TENON_PERMISSION: a segment cannot be opened with the wanted access, or it has no seals (see
 *   tenon_open_fd).
 * - TENON_IO.
 * - TENON_UNSUPPORTED: this process is a child of fork, or memory of a device cannot be opened in
 *   the requested way.
 * - TENON_NOT_FOUND: the memory is on a device that this process does not see.
 * - Other codes for errors of the device's driver.
 * @since 0.1. Any thread may call this function. Receives wait for each other. A send and a
 *         receive can run at the same time.
 */
TENON_API tenon_status tenon_recv(tenon_connection *connection, const tenon_wait *wait,
                                  tenon_message **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Releases a connection. A message that was sent only in part is never finished, and the peer gets
 * TENON_PEER_GONE. Storages that were received stay valid.
 * @param[in] connection  consumed. NULL is allowed. No other call may be using the connection.
 * @since 0.1. Any thread may call this function. In a child of fork: if a thread of the parent was
 *         using the connection at the moment of the fork, the child closes its copy of an adopted
 *         socket and keeps the rest of the connection's memory until it ends.
 */
TENON_API void tenon_connection_release(tenon_connection *connection) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
