#ifndef TENON_PUBLISH_H
#define TENON_PUBLISH_H

/**
 * @file
 * Publishers and subscribers: one process publishes messages, and each of them reaches every
 * subscriber. While a subscriber is awake, a message whose memory it knows costs no system call.
 *
 * A subscriber connects to a socket by its path (tenon_publisher_listen and
 * tenon_subscriber_connect), or publisher and subscriber use the two ends of a socket that the
 * program has made (tenon_publisher_add and tenon_subscriber_new). Each subscriber has a ring of
 * its own in shared memory. What a subscriber writes there reaches nobody but the publisher, so a
 * hostile or a broken subscriber disturbs no other subscriber.
 *
 * Storages travel as with tenon_send: they are not copied, and each subscriber has them under
 * leases of its own (tenon/lease.h). A subscriber receives the messages in the order in which they
 * were published.
 *
 * When a subscriber is slow, the publisher's policy decides (TENON_PUBLISH_*). A stopped process
 * (SIGSTOP) is a slow subscriber.
 *
 * The death of a process. A subscriber whose process has ended is removed, its leases end, and
 * tenon_publish reports it once. When a publisher has ended, a subscriber first receives the
 * messages that were published before, and then TENON_PEER_GONE. The end of a process is noticed in
 * any pid namespace.
 */

#include <stddef.h>
#include <stdint.h>
#include <tenon/connection.h>
#include <tenon/error.h>
#include <tenon/message.h>
#include <tenon/wait.h>

TENON_BEGIN_DECLS

/** Sends messages to all its subscribers. */
typedef struct tenon_publisher tenon_publisher;

/** Receives what one publisher sends. */
typedef struct tenon_subscriber tenon_subscriber;

/** What tenon_publish does when a subscriber has no room for another message. */
typedef uint32_t tenon_publish_policy;
enum {
  /** It waits until every subscriber has room. */
  TENON_PUBLISH_BLOCK = 0,
  /**
   * It withdraws the oldest message that the subscriber has not taken, and never waits. If a
   * subscriber has not read its socket for so long that the socket is full, a message that needs
   * the socket does not reach this subscriber.
   */
  TENON_PUBLISH_DROP_OLDEST = 1,
  /** It fails with TENON_RESOURCE_EXHAUSTED, and no subscriber gets the message. */
  TENON_PUBLISH_ERROR = 2
};

enum {
  /** Refuse a subscriber whose user is neither this process's (effective) user nor root. */
  TENON_PUBLISHER_SAME_USER = 1,
  /** As TENON_PUBLISHER_SAME_USER, but also accept members of options.group. */
  TENON_PUBLISHER_GROUP = 2,
  /** tenon_publish does not report that a subscriber is gone. */
  TENON_PUBLISHER_IGNORE_DEATHS = 4,
  /** A new subscriber does not get the latest message. Otherwise the publisher keeps its memory. */
  TENON_PUBLISHER_FORGET_LATEST = 8
};

/** How to make a publisher. A NULL pointer means that all fields are zero. */
typedef struct tenon_publisher_options {
  /** sizeof(tenon_publisher_options), set by the caller. */
  size_t struct_size;
  /** TENON_PUBLISHER_*. */
  uint32_t flags;
  /** TENON_PUBLISH_*. */
  tenon_publish_policy policy;
  /** The group id for TENON_PUBLISHER_GROUP. Without that flag it must be 0. */
  uint32_t group;
  /**
   * How many messages can wait for one subscriber, a power of two up to 65,536. 0 means 64.
   */
  uint32_t capacity;
  /**
   * The bytes of a slot, which holds the description of one message: a multiple of 64, from 64 to
   * 65,536. 0 means 1,024. A message of a few tensors fits into 1,024 bytes. The description of
   * a larger message crosses on the socket, which takes longer. Each subscriber takes capacity *
   * slot_nbytes bytes, 64 KiB by default.
   */
  uint32_t slot_nbytes;
  /** The most subscribers at a time. 0 means 256. */
  uint32_t max_subscribers;
} tenon_publisher_options;

/** Figures about a publisher. */
typedef struct tenon_publisher_stats {
  /** sizeof(tenon_publisher_stats), set by the caller. */
  size_t struct_size;
  /** Messages that were published. */
  uint64_t published;
  /**
   * Messages that a subscriber did not get because of TENON_PUBLISH_DROP_OLDEST, counted for each
   * subscriber.
   */
  uint64_t dropped;
  /** Subscribers now, also those that have left or are gone and are not removed yet. */
  uint64_t subscribers;
  /** Subscribers that died or broke the protocol, and that the publisher has removed. */
  uint64_t gone;
} tenon_publisher_stats;

/** What a subscriber is doing. */
typedef uint32_t tenon_subscriber_state;
enum {
  TENON_SUBSCRIBER_JOINING = 1, /**< It has not read anything yet. */
  TENON_SUBSCRIBER_HERE = 2,
  TENON_SUBSCRIBER_LEFT = 3, /**< It has left in order. The next tenon_publish removes it. */
  /** It has died or broken the protocol. The next tenon_publish removes and reports it. */
  TENON_SUBSCRIBER_GONE = 4
};

/** A subscriber, as its publisher sees it. */
typedef struct tenon_publisher_subscriber {
  /** sizeof(tenon_publisher_subscriber), set by the caller. */
  size_t struct_size;
  /** TENON_SUBSCRIBER_*. */
  tenon_subscriber_state state;
  /**
   * The process id, as the kernel told it last: when the socket was connected, or when the
   * subscriber took leases.
   */
  int32_t pid;
  /** The effective user id. */
  uint32_t uid;
  /** 1: it sleeps until there is a message. */
  uint32_t asleep;
  /** Messages that it has not taken. */
  uint64_t waiting;
  /** Messages that were published since it came, also those that it did not get. */
  uint64_t published;
  /** How many of these it did not get, because of TENON_PUBLISH_DROP_OLDEST. */
  uint64_t dropped;
} tenon_publisher_subscriber;

/** Figures about a subscriber. */
typedef struct tenon_subscriber_stats {
  /** sizeof(tenon_subscriber_stats), set by the caller. */
  size_t struct_size;
  /** Messages that it has received. */
  uint64_t received;
  /** Messages that the publisher withdrew before this subscriber took them. */
  uint64_t dropped;
  /** The publisher's process id, as in tenon_peer. */
  int32_t pid;
  /** The publisher's effective user id. */
  uint32_t uid;
} tenon_subscriber_stats;

/**
 * Makes a publisher without subscribers.
 * @param[in]  options  borrowed. NULL means the defaults.
 * @param[out] out      new reference; release it with tenon_publisher_release. It is untouched on
 *                      failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (a number that a publisher cannot have, an unknown
 *         policy, a group without TENON_PUBLISHER_GROUP), TENON_UNSUPPORTED (unknown flags).
 * @since 0.1. Any thread may call this function. After fork only the process that made the
 *         publisher can use it. A child has no copies of its sockets, because fork closes them
 *         there: the subscribers are told when the process that made the publisher ends, even if
 *         a child of it lives on. The child may release its copy.
 */
TENON_API tenon_status tenon_publisher_new(const tenon_publisher_options *options,
                                           tenon_publisher **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Makes a local socket to which subscribers connect (tenon_subscriber_connect). The service thread
 * (rule 10 in tenon.h) takes them as they come. The socket of a process that has ended is replaced.
 * The release of the publisher removes the socket. A publisher can have several.
 * @param[in]  publisher  borrowed.
 * @param[in]  path       borrowed. The directory must exist, and may be a mount that containers
 *                        share.
 * @param[in]  mode       the permission bits of the socket: who may connect must be able to write
 *                        to it. 0 means 0600, or 0660 with TENON_PUBLISHER_GROUP, which also gives
 *                        the socket to options.group.
 * @param[out] err        optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (a path that no socket can have), TENON_NOT_FOUND (no
 *         such directory), TENON_PERMISSION (somebody listens there already, or another file is
 *         there, or this user may not make it), TENON_RESOURCE_EXHAUSTED, TENON_TIMEOUT (another
 *         process has locked the directory for a second), TENON_UNSUPPORTED (this process is
 *         a child of fork). Errors about the path have the detail "path".
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_publisher_listen(tenon_publisher *publisher, const char *path,
                                              uint32_t mode, tenon_error **err) TENON_NOEXCEPT;

/**
 * Takes the process at the other end of a socket as a subscriber. That process calls
 * tenon_subscriber_new on its end, which it has inherited or received. Unless the publisher was
 * made with TENON_PUBLISHER_FORGET_LATEST, the subscriber gets the latest message first.
 * @param[in]  publisher  borrowed.
 * @param[in]  socket     a connected AF_UNIX socket (stream or seqpacket), consumed on success.
 * @param[out] err        optional, see rule 2 in tenon.h.
 * @return TENON_OK, or
 * - TENON_INVALID_ARGUMENT: `socket` is closed or is not a connected AF_UNIX socket.
 * - TENON_PERMISSION: TENON_PUBLISHER_SAME_USER or TENON_PUBLISHER_GROUP do not admit the peer.
 * - TENON_RESOURCE_EXHAUSTED, limit "subscribers": there are max_subscribers already.
 * - TENON_RESOURCE_EXHAUSTED for other limits.
 * - TENON_PEER_GONE: the other end is closed.
 * - TENON_UNSUPPORTED: this process is a child of fork, or memfd_create is denied.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_publisher_add(tenon_publisher *publisher, int socket,
                                           tenon_error **err) TENON_NOEXCEPT;

/**
 * Sends a message to every subscriber. After a failure no subscriber gets the message, and the call
 * can be repeated. Without subscribers the call succeeds.
 * @param[in]  publisher  borrowed.
 * @param[in]  message    borrowed. The storages that it lends stay valid for the subscribers after
 *                        the message is released. Unless the publisher was made with
 *                        TENON_PUBLISHER_FORGET_LATEST, it keeps them until the next message.
 * @param[in]  wait       borrowed. NULL means to wait for ever.
 * @param[out] err        optional, see rule 2 in tenon.h.
 * @return TENON_OK, or
 * - TENON_WOULD_BLOCK, TENON_TIMEOUT, TENON_INTERRUPTED, TENON_CANCELLED: the wait ended. The
 *   detail "pid" names the subscriber that has no room. Without it, another thread is publishing.
 * - TENON_RESOURCE_EXHAUSTED, limit "capacity": the policy is TENON_PUBLISH_ERROR, and the
 *   subscriber of the detail "pid" has no room.
 * - TENON_RESOURCE_EXHAUSTED for other limits.
 * - TENON_PEER_GONE with the detail "pid": the process of a subscriber has ended without leaving,
 *   or broke the protocol. Each is reported once, unless TENON_PUBLISHER_IGNORE_DEATHS is set. A
 *   subscriber that left in order, or ended before it read anything, is removed without a report.
 * - TENON_PEER_GONE without "pid": a storage of the message was dropped.
 * - TENON_INVALID_ARGUMENT.
 * - TENON_UNSUPPORTED: memory of a device, or this process is a child of fork.
 * @since 0.1. Any thread may call this function. Calls on one publisher wait for each other.
 */
TENON_API tenon_status tenon_publish(tenon_publisher *publisher, const tenon_message *message,
                                     const tenon_wait *wait, tenon_error **err) TENON_NOEXCEPT;

/**
 * Removes the subscribers of a process, for example one that tenon_publish has named as slow. They
 * receive what waits for them, and then TENON_PEER_GONE. A tenon_publish that waits for one of them
 * goes on. The removal is not reported.
 * @param[in]  publisher  borrowed.
 * @param[in]  pid        the process id, as in tenon_publisher_subscriber.
 * @param[out] err        optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND (no subscriber is of this process),
 *         TENON_RESOURCE_EXHAUSTED, TENON_UNSUPPORTED (this process is a child of fork).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_publisher_remove(tenon_publisher *publisher, int32_t pid,
                                              tenon_error **err) TENON_NOEXCEPT;

/**
 * Lists the subscribers of a publisher.
 * @param[in]     publisher  borrowed.
 * @param[in,out] out        the caller's array of n entries. The caller sets out[0].struct_size,
 *                           which is the size of every entry. The call writes it to the other
 *                           entries and fills in all fields. `out` may be NULL if n is 0. It is
 *                           untouched on failure.
 * @param[in]     n          how many entries fit into `out`.
 * @param[out]    total      how many entries there are. The first n of them are in `out`.
 * @param[out]    err        optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function. In a child of fork there are no entries.
 */
TENON_API tenon_status tenon_publisher_subscribers(tenon_publisher *publisher,
                                                   tenon_publisher_subscriber *out, size_t n,
                                                   size_t *total, tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives figures about a publisher. They change while they are read.
 * @param[in]     publisher  borrowed.
 * @param[in,out] out        struct_size set by the caller, the other fields filled in by the call.
 *                           It is untouched on failure.
 * @param[out]    err        optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT.
 * @since 0.1. Any thread may call this function. In a child of fork all figures are 0.
 */
TENON_API tenon_status tenon_publisher_stats_get(tenon_publisher *publisher,
                                                 tenon_publisher_stats *out,
                                                 tenon_error **err) TENON_NOEXCEPT;

/**
 * Releases a publisher, and removes its sockets. No thread may be inside a call on it. Subscribers
 * still receive what was published, and then TENON_PEER_GONE. In a child of fork the call only
 * frees the child's memory.
 * @param[in] publisher  consumed. NULL is allowed.
 * @since 0.1. Any thread may call this function.
 */
TENON_API void tenon_publisher_release(tenon_publisher *publisher) TENON_NOEXCEPT;

/**
 * Makes a subscriber on one end of a socket, whose other end the publisher takes or has taken
 * (tenon_publisher_add).
 * @param[in]  socket   a connected AF_UNIX socket, as for tenon_connection_new.
 * @param[in]  options  borrowed. NULL means the defaults. TENON_CONNECTION_RING is
 *                      TENON_UNSUPPORTED, because a subscriber always has a ring.
 * @param[out] out      new reference; release it with tenon_subscriber_release. It is untouched on
 *                      failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return as from tenon_connection_new.
 * @since 0.1. Any thread may call this function. After fork only the process that made the
 *         subscriber can use it. A child has no copy of an adopted socket, because fork closes it
 *         there: the publisher is told when the process that made the subscriber ends, even if
 *         a child of it lives on. The child may release its copy, and use messages that were
 *         received.
 */
TENON_API tenon_status tenon_subscriber_new(int socket, const tenon_connection_options *options,
                                            tenon_subscriber **out,
                                            tenon_error **err) TENON_NOEXCEPT;

/**
 * Connects to the socket of a publisher, and waits until the publisher has taken this subscriber.
 * Every message that is published after this call reaches the subscriber. The latest message before
 * that comes first, unless the publisher has TENON_PUBLISHER_FORGET_LATEST.
 * @param[in]  path     borrowed. The path that the publisher gave to tenon_publisher_listen.
 * @param[in]  options  borrowed. NULL means the defaults. As for tenon_subscriber_new, and
 *                      TENON_CONNECTION_ADOPT_SOCKET makes no difference.
 * @param[in]  wait     borrowed. NULL means to wait for ever.
 * @param[out] out      new reference; release it with tenon_subscriber_release. It is untouched on
 *                      failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, or
 * - TENON_NOT_FOUND: there is no such path.
 * - TENON_PEER_GONE: the publisher has ended, does not admit this process, or has as many
 *   subscribers as it takes.
 * - TENON_PERMISSION: this user may not connect to the socket, or `options` do not admit the
 *   publisher's user.
 * - TENON_CORRUPT: the path leads to something else.
 * - TENON_WOULD_BLOCK, TENON_TIMEOUT, TENON_INTERRUPTED, TENON_CANCELLED: the wait ended.
 * - TENON_RESOURCE_EXHAUSTED, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_subscriber_connect(const char *path,
                                                const tenon_connection_options *options,
                                                const tenon_wait *wait, tenon_subscriber **out,
                                                tenon_error **err) TENON_NOEXCEPT;

/**
 * Receives the next message. If the wait ends first, nothing is lost.
 * @param[in]  subscriber  borrowed.
 * @param[in]  wait        borrowed. NULL means to wait for ever.
 * @param[out] out         new reference; release it with tenon_message_release. It is untouched on
 *                         failure.
 * @param[out] err         optional, see rule 2 in tenon.h.
 * @return TENON_OK, or
 * - TENON_WOULD_BLOCK, TENON_TIMEOUT, TENON_INTERRUPTED, TENON_CANCELLED: the wait ended.
 * - TENON_PEER_GONE: the publisher is gone, and all that it published is received. The detail "pid"
 *   names its process.
 * - The other codes of tenon_recv, which mean the same: after TENON_CORRUPT the subscriber cannot
 *   be used any more, and another failure may lose one message.
 * @since 0.1. Any thread may call this function. Receives wait for each other.
 */
TENON_API tenon_status tenon_subscriber_recv(tenon_subscriber *subscriber, const tenon_wait *wait,
                                             tenon_message **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Returns the fd to poll. When it is readable, call tenon_subscriber_recv with timeout 0 until it
 * returns TENON_WOULD_BLOCK. Do the same before the first poll: the fd becomes readable only for
 * messages that come after a call has returned TENON_WOULD_BLOCK.
 * @param[in] subscriber  borrowed. NULL is allowed.
 * @return the socket, borrowed; -1 for NULL, and in a child of fork if the subscriber has adopted
 *         the socket.
 * @since 0.1. Any thread may call this function.
 */
TENON_API int tenon_subscriber_fd(const tenon_subscriber *subscriber) TENON_NOEXCEPT;

/**
 * Gives figures about a subscriber. They change while they are read.
 * @param[in]     subscriber  borrowed.
 * @param[in,out] out         struct_size set by the caller, the other fields filled in by the call.
 *                            It is untouched on failure.
 * @param[out]    err         optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT.
 * @since 0.1. Any thread may call this function, also in a child of fork.
 */
TENON_API tenon_status tenon_subscriber_stats_get(const tenon_subscriber *subscriber,
                                                  tenon_subscriber_stats *out,
                                                  tenon_error **err) TENON_NOEXCEPT;

/**
 * Releases a subscriber, which leaves its publisher in order. Received memory stays valid. No
 * thread may be inside a call on it. In a child of fork the call does not tell the publisher.
 * @param[in] subscriber  consumed. NULL is allowed.
 * @since 0.1. Any thread may call this function.
 */
TENON_API void tenon_subscriber_release(tenon_subscriber *subscriber) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
