#ifndef TENON_CONNECTION_H
#define TENON_CONNECTION_H

#include <stddef.h>
#include <stdint.h>
#include <tenon/by_fd.h>
#include <tenon/error.h>
#include <tenon/message.h>
#include <tenon/wait.h>

TENON_BEGIN_DECLS

/** One end of a connected AF_UNIX socket (stream or seqpacket) that carries messages. Remembers which segments crossed, so
 *  that an fd crosses once however many tensors live in its segment. The other end must be a tenon_connection too. */
typedef struct tenon_connection tenon_connection;

enum {
  TENON_CONNECTION_ADOPT_SOCKET = 1,    /**< the socket is the library's once tenon_connection_new succeeds */
  TENON_CONNECTION_SAME_USER = 2,       /**< refuse a peer that is not of this process's (effective) user, or root */
  TENON_CONNECTION_GROUP = 4,           /**< the same, but the members of options.group are let in too */
  TENON_CONNECTION_CUDA_LET_WRITE = 8,  /**< send read-only storages on a CUDA device too, though their receiver can write them */
  TENON_CONNECTION_CUDA_KEEP_OPEN = 16, /**< as TENON_CUDA_KEEP_OPEN, for device memory that is received */
  /** Take named files that Tenon made (tenon/by_filename.h), though they have no seals, if tenon_connection_peer tells of this
   *  process's (effective) user, or of root: a process that could end this one anyway. */
  TENON_CONNECTION_NAMED_FILES = 32
};

/**
 * What happens to received memory when its lender is gone. The lender is gone when nobody holds the
 * other end of the socket any more: its process ended, or everybody who had that end closed it.
 */
typedef uint32_t tenon_lender_gone;

enum {
  /** Received memory stays valid. Messages that were sent before the end are still delivered. */
  TENON_LENDER_GONE_KEEP = 0,
  /**
   * Received memory is dropped.
   * - Calls that would give its bytes out, or lend it on, return TENON_PEER_GONE.
   *   tenon_storage_data and tenon_tensor_data return NULL.
   * - Memory of the CPU is unmapped when its storage goes. Pointers that were given out before are
   *   valid until then.
   * - Memory of a device is closed as soon as the streams that use it here have passed. Pointers to
   *   it lead nowhere then.
   * - tenon_recv returns TENON_PEER_GONE, also for messages that were sent before the end.
   * - A storage that came over two such connections stays valid until both lenders are gone. A
   *   storage that is lent again, over another connection, is valid again.
   * - Private openings, and this process's own memory that came home, stay valid.
   * A borrower that releases the connection first keeps what came over it.
   */
  TENON_LENDER_GONE_DROP = 1
};

/** Limits and options of one connection. NULL, where one is taken, means all zero. */
typedef struct tenon_connection_options {
  size_t struct_size;               /**< sizeof(tenon_connection_options), set by the caller */
  uint32_t flags;                   /**< TENON_CONNECTION_* */
  tenon_access open_access;         /**< TENON_ACCESS_* for what is received, as in tenon_open_options */
  uint32_t open_flags;              /**< TENON_OPEN_* for what is received, but not ADOPT_FD */
  uint32_t group;                   /**< gid, with TENON_CONNECTION_GROUP; else 0 */
  uint64_t max_message_nbytes;      /**< largest descriptor accepted, in bytes; 0: 64 MiB */
  uint64_t max_tensors;             /**< most tensors accepted in one message; 0: 1,000,000 */
  uint64_t max_segments;            /**< most segments that the peer may have open here through this connection; 0: a half of
                                         RLIMIT_NOFILE, a quarter of vm.max_map_count, or 65,536, whichever is least */
  uint64_t max_mapped_nbytes;       /**< most address space that the peer's memory may take here through this connection, in bytes.
                                         A segment counts whole, as long as it is mapped; 0: a quarter of the address space (32 TiB on
                                         x86-64). All peers of a process may take half of it */
  tenon_lender_gone on_lender_gone; /**< TENON_LENDER_GONE_*, for what is received */
  uint32_t reserved;                /**< 0 */
} tenon_connection_options;

/**
 * Who is at the other end of a connection, as the kernel tells it (SO_PEERCRED), in the numbers of this process's namespaces.
 * As of the moment when the socket was connected: of who called connect, in whoever accepted; of who called listen, in whoever
 * connected; of who called socketpair, in both ends. A socket that was handed on since, or inherited, still tells of that one,
 * and its pid can be another process's by now. A user or group that this user namespace does not map shows as 65534 (the
 * kernel's overflowuid): who runs as that one in such a namespace cannot tell strangers from itself.
 */
typedef struct tenon_peer {
  size_t struct_size; /**< sizeof(tenon_peer), set by the caller */
  int32_t pid;        /**< 0: of a pid namespace that this process does not see */
  uint32_t uid;       /**< effective user id */
  uint32_t gid;       /**< effective group id; its other groups are not told */
  uint32_t reserved;  /**< 0 */
} tenon_peer;

/**
 * Put a connection on a socket. The socket may be blocking or not; its flags are not changed. Without
 * TENON_CONNECTION_SAME_USER and TENON_CONNECTION_GROUP any peer is good: whoever made the socket has decided. With
 * one of them the peer's tenon_peer decides, and its groups of the same moment (SO_PEERGROUPS).
 * @param[in]  socket   a connected AF_UNIX socket, borrowed until the release (TENON_CONNECTION_ADOPT_SOCKET: consumed on
 *                      success). Nobody else may read from it or write to it.
 * @param[in]  options  borrowed; NULL: defaults.
 * @param[out] out      new reference, release with tenon_connection_release; untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (closed fd, not a connected AF_UNIX stream or seqpacket socket; a group without its
 *         flag), TENON_PERMISSION (the peer is another user's; details "pid", "uid"), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread. After fork only the process that made the connection may use it; the child may release it.
 */
TENON_API tenon_status tenon_connection_new(int socket, const tenon_connection_options *options, tenon_connection **out,
                                            tenon_error **err) TENON_NOEXCEPT;

/**
 * The fd to poll. When it is readable, call tenon_recv with timeout 0 until it says TENON_WOULD_BLOCK (edge rule: several
 * messages can be taken off the socket at once); after an unfinished send, poll for writing and call tenon_send.
 * @param[in] connection  borrowed; NULL is allowed.
 * @return the socket, borrowed; -1 for NULL.
 * @since 0.1. Any thread.
 */
TENON_API int tenon_connection_fd(const tenon_connection *connection) TENON_NOEXCEPT;

/**
 * Who is at the other end.
 * @param[in]     connection  borrowed.
 * @param[in,out] out         out->struct_size set by the caller, the rest is filled in; untouched on failure.
 * @param[out]    err         optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT.
 * @since 0.1. Any thread; also in a child of fork.
 */
TENON_API tenon_status tenon_connection_peer(const tenon_connection *connection, tenon_peer *out, tenon_error **err) TENON_NOEXCEPT;

/**
 * The fd that tells when the lender is gone. It is readable (POLLIN) from then on; with
 * TENON_LENDER_GONE_DROP, after the memory was dropped. The library's thread hears the end some
 * microseconds after it. In a process that chose to have no thread, tenon_lease_poll hears it.
 * Poll the fd, and do not read from it.
 * @param[in]  connection  borrowed.
 * @param[out] out         the fd, borrowed from the connection and valid until its release;
 *                         untouched on failure.
 * @param[out] err         optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (another connection on the same socket watches its
 *         lender), TENON_RESOURCE_EXHAUSTED, TENON_UNSUPPORTED (in a child of fork).
 * @since 0.1. Any thread. A child of fork hears nothing: what came to its parent stays valid there.
 */
TENON_API tenon_status tenon_connection_gone_fd(tenon_connection *connection, int *out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Name the stream in which memory of a CUDA device is used here. Tensors on devices travel in messages as others do, by the driver's
 * handles and under leases: a receiver that is killed, and a message that nobody reads, give the memory back. What was given to the stream
 * before a send is done before work of the receiver's begins; what is given to it after a receive waits for the sender's, and what was
 * received counts as used in it until its storage goes. Neither call waits for the device, but a send when 1,000 events are on the way.
 * @param[in]  connection  borrowed.
 * @param[in]  device      ordinal in this process's numbering.
 * @param[in]  stream      borrowed until the connection's release, and the last release of what was received meanwhile; a CUstream or
 *                         cudaStream_t. NULL: the default stream, as without this call.
 * @param[out] err         optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread; messages that are being sent or received meanwhile have the one or the other.
 */
TENON_API tenon_status tenon_connection_set_stream(tenon_connection *connection, int32_t device, void *stream,
                                                   tenon_error **err) TENON_NOEXCEPT;

/**
 * Send a message. Delivered whole or not at all, in order. If the wait ends first (TENON_WOULD_BLOCK, TENON_TIMEOUT,
 * TENON_INTERRUPTED, TENON_CANCELLED) the message may be half sent: the connection keeps it, and the next call goes on
 * where this one stopped, be it with the same message (sent once all the same), with another (kept too, and sent after it) or
 * with NULL. The same message is sent anew once this call, or a later one of the same thread, has returned TENON_OK. Messages sent before
 * the earlier ones are through wait in memory: let the socket drain.
 * @param[in]  connection  borrowed.
 * @param[in]  message     borrowed; what is lent stays valid for the peer after its release. NULL: only finish what an
 *                         earlier call left.
 * @param[in]  wait        borrowed; NULL: wait for ever.
 * @param[out] err         optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PEER_GONE, TENON_RESOURCE_EXHAUSTED (limit "RLIMIT_NOFILE" with
 *         ETOOMANYREFS: too many fds in flight, the next call goes on; limit "send_queue": 4,096 messages or 256 MiB of
 *         descriptors wait because the peer does not read, and this message is not kept; memory), TENON_UNSUPPORTED (in a
 *         child of fork; memory of a device that cannot travel), TENON_PERMISSION (a read-only storage on a device, without
 *         TENON_CONNECTION_CUDA_LET_WRITE), the four of an ended wait, TENON_IO, others as the device's driver says.
 * @since 0.1. Any thread; sends queue behind each other, a send and a receive run at the same time.
 */
TENON_API tenon_status tenon_send(tenon_connection *connection, const tenon_message *message, const tenon_wait *wait,
                                  tenon_error **err) TENON_NOEXCEPT;

/**
 * Receive the next message. If the wait ends first nothing is lost: the next call goes on.
 * @param[in]  connection  borrowed.
 * @param[in]  wait        borrowed; NULL: wait for ever.
 * @param[out] out         new reference, release with tenon_message_release; untouched on failure.
 * @param[out] err         optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PEER_GONE (all messages sent before the end are delivered first),
 *         TENON_RESOURCE_EXHAUSTED (limit "RLIMIT_NOFILE": the kernel dropped fds that found no place; that message, and
 *         later ones that need the same segments, cannot be opened; limit "max_mapped_nbytes" or "mapped_nbytes": the peer's
 *         memory, or that of all peers, would take too much address space; mappings; memory), TENON_CORRUPT (what came is no
 *         message: the connection is of no more use), TENON_INCOMPATIBLE, TENON_PERMISSION, TENON_UNSUPPORTED (in a child
 *         of fork; memory of a device that cannot be opened so), TENON_NOT_FOUND (of a device that this process does not see), the
 *         four of an ended wait, TENON_IO, others as the device's driver says.
 * @since 0.1. Any thread; receives queue behind each other, a send and a receive run at the same time.
 */
TENON_API tenon_status tenon_recv(tenon_connection *connection, const tenon_wait *wait, tenon_message **out,
                                  tenon_error **err) TENON_NOEXCEPT;

/**
 * Give a connection back. A message half sent is never finished: the peer gets TENON_PEER_GONE. What was received stays valid.
 * @param[in] connection  consumed; NULL is allowed. No other call may be using it.
 * @since 0.1. Any thread. In a child of fork: if a thread of the parent's was using it at that moment, the child closes its copy of an
 * adopted socket and keeps the rest until it ends.
 */
TENON_API void tenon_connection_release(tenon_connection *connection) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
