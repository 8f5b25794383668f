#ifndef TENON_QUEUE_H
#define TENON_QUEUE_H

/**
 * @file
 * Queues: many processes send messages to many processes, and each message goes to exactly one of
 * them. A send or a receive costs no system call while the other side is awake.
 *
 * A queue lies in a storage, which every member maps. So a queue is handed to another process as
 * any storage is: by fd (tenon_share_fd), by name (tenon_share_filename), in a message over a
 * connection, or by fork. The other process opens the storage and calls tenon_queue_join. Processes
 * may join and leave at any time.
 *
 * Storages travel as with tenon_send: they are not copied, and the receiver has them under leases
 * (tenon/lease.h). The storages of a message that nobody has received yet stay lent.
 *
 * Order: the messages of one sender are received in the order in which it sent them. Messages of
 * several senders have no order.
 *
 * The death of a process. The other members go on. Each of them is told once, by TENON_PEER_GONE
 * from tenon_queue_send or tenon_queue_recv, which names the process. Members in other
 * pid namespaces notice it too, if they have a /proc.
 *
 * Messages that the dead process had sent are received only by processes that had received from it
 * before and know the segments. Any other receiver gets TENON_PEER_GONE with the detail "lost" for
 * each of these messages. A message without tensors whose bytes fit into a slot can be received by
 * any process. A process that ends in order leaves its messages in the same state. So let a sender
 * live until its messages are received, or hand them over (tenon_deposit_hand_over). A receiver
 * keeps the memory of a dead sender mapped until it meets another sender.
 *
 * A message that the dead process had taken out of the queue is not delivered again: a queue
 * delivers at most once, unless it was made with TENON_QUEUE_REDELIVER. The leases of that message
 * end.
 *
 * A stopped process (SIGSTOP) delays only the messages that it sent itself. If it was asleep in
 * tenon_queue_recv, a sender may wake it in vain, and looks again after 100 ms.
 */

#include <stddef.h>
#include <stdint.h>
#include <tenon/error.h>
#include <tenon/message.h>
#include <tenon/storage.h>
#include <tenon/wait.h>

TENON_BEGIN_DECLS

/**
 * The membership of this process in a queue. A process that joins the same queue twice has two
 * memberships, which count as two members.
 */
typedef struct tenon_queue tenon_queue;

enum {
  /**
   * tenon_queue_send and tenon_queue_recv do not report that a member has died. A lost message is
   * still reported.
   */
  TENON_QUEUE_IGNORE_DEATHS = 1,
  /**
   * The queue delivers a message again if its receiver died, or left the queue, before it
   * acknowledged the message. A receiver acknowledges a message when it releases the message
   * (tenon_message_release), so it keeps the message until it is done with it. A message that was
   * acknowledged is never delivered again. tenon_queue_redelivered tells how often a message was
   * delivered before. Such a message may come after later ones of its sender.
   *
   * The sender keeps each message until it is acknowledged, and puts it back itself. A message
   * whose sender has died or left too is lost with its receiver. `capacity` counts the messages
   * that are not acknowledged yet: a sender waits for room while the oldest of `capacity` messages
   * is not acknowledged.
   *
   * A queue is made with this flag or without. To join, leave it out, or give it if the queue has
   * it.
   */
  TENON_QUEUE_REDELIVER = 2
};

/** How to make a queue or to join one. A NULL pointer means that all fields are zero. */
typedef struct tenon_queue_options {
  /** sizeof(tenon_queue_options), set by the caller. */
  size_t struct_size;
  /** TENON_QUEUE_*. */
  uint32_t flags;
  /**
   * The most members at a time, 1 to 256. 0 means 32. For tenon_queue_join this field and the next
   * two are 0 or the queue's own numbers.
   */
  uint32_t members;
  /**
   * How many messages of one member can wait in the queue, a power of two from 2 to 65,536. 0 means
   * 128. When so many wait, the member's next send waits for a receiver.
   */
  uint32_t capacity;
  /**
   * The bytes of a slot, which holds the description of one message: a multiple of 64, from 64 to
   * 65,536. 0 means 1,024. A message of a few tensors fits into 1,024 bytes. The description of
   * a larger message goes into memory of its own, which takes a little longer. All slots exist from
   * the start: the queue takes members * capacity * slot_nbytes bytes, 4 MiB by default.
   */
  uint32_t slot_nbytes;
  /** It must be 0. */
  uint32_t reserved;
  /** The largest descriptor that is accepted, in bytes. 0 means 64 MiB. */
  uint64_t max_message_nbytes;
  /** The most tensors that are accepted in one message. 0 means 1,000,000. */
  uint64_t max_tensors;
} tenon_queue_options;

/** Figures about a queue. */
typedef struct tenon_queue_stats {
  /** sizeof(tenon_queue_stats), set by the caller. */
  size_t struct_size;
  /** Messages in the queue that no process has received yet. */
  uint64_t waiting;
  /** Messages that this member has sent. */
  uint64_t sent;
  /** Messages that this member has received. */
  uint64_t received;
  /**
   * Messages of this member that are lost, because the process that took them died before it had
   * fetched them. Messages without tensors that fit into a slot are not counted. In a
   * queue that redelivers: messages that could not be put back.
   */
  uint64_t lost;
} tenon_queue_stats;

/** What a member of a queue is doing. */
typedef uint32_t tenon_queue_member_state;
enum {
  TENON_QUEUE_MEMBER_JOINING = 1, /**< It is about to become a member. */
  TENON_QUEUE_MEMBER_HERE = 2,
  TENON_QUEUE_MEMBER_LEFT = 3, /**< It left in order. */
  TENON_QUEUE_MEMBER_DEAD = 4  /**< Its process ended while it was a member. */
};

/** A member of a queue, or one that has gone and whose place nobody has taken since. */
typedef struct tenon_queue_member {
  /** sizeof(tenon_queue_member), set by the caller. */
  size_t struct_size;
  /** The member's number in the queue. */
  uint32_t index;
  /** TENON_QUEUE_MEMBER_*. */
  tenon_queue_member_state state;
  /** The process id, as the member itself sees it. */
  int32_t pid;
  /** The member's effective user id. The member wrote it itself. */
  uint32_t uid;
  /** How many messages it has sent that no process has received yet. */
  uint64_t waiting;
  /** 1: it sleeps, or waits by an fd, until there is a message or room for one. */
  uint32_t asleep;
  /** 1: it is this member. */
  uint32_t self;
} tenon_queue_member;

/**
 * Makes a queue in a new storage, and makes this process its first member.
 * @param[in]  options  borrowed. NULL means the defaults.
 * @param[out] out      new reference; release it with tenon_queue_release. It is untouched on
 *                      failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (a number that a queue cannot have),
 *         TENON_RESOURCE_EXHAUSTED, TENON_PERMISSION or TENON_UNSUPPORTED (memfd_create is denied).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_queue_new(const tenon_queue_options *options, tenon_queue **out,
                                       tenon_error **err) TENON_NOEXCEPT;

/**
 * Joins the queue that lies in a storage. In a child of fork, join again with the storage of the
 * inherited queue (tenon_queue_storage).
 * @param[in]  storage  borrowed; the membership keeps it. It must be opened writable.
 * @param[in]  options  borrowed. NULL means the defaults.
 * @param[out] out      new reference; release it with tenon_queue_release. It is untouched on
 *                      failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, or
 * - TENON_INVALID_ARGUMENT: the storage is private, read-only, on a device or may be cut short, or
 *   the options name numbers that the queue does not have.
 * - TENON_CORRUPT, TENON_INCOMPATIBLE: the storage holds no queue that this version of Tenon knows
 *   (detail "field" is "queue").
 * - TENON_RESOURCE_EXHAUSTED, limit "members": the queue has as many members as it can have. A
 *   member that has gone counts as long as messages of it wait in the queue.
 * - TENON_RESOURCE_EXHAUSTED for other limits.
 * - TENON_PEER_GONE: the storage was dropped (tenon_storage_check_lender).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_queue_join(tenon_storage *storage, const tenon_queue_options *options,
                                        tenon_queue **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives the storage in which a queue lies, to hand it to other processes. No other code may write
 * to it.
 * @param[in] queue  borrowed. NULL is allowed.
 * @return borrowed, as long as the queue lives; NULL for NULL.
 * @since 0.1. Any thread may call this function, also in a child of fork.
 */
TENON_API tenon_storage *tenon_queue_storage(const tenon_queue *queue) TENON_NOEXCEPT;

/**
 * Sends a message to one of the processes that receive from the queue, this process included. If
 * `capacity` messages of this member wait, the call waits for room. After a failure nothing was
 * sent, and the call can be repeated.
 * @param[in]  queue    borrowed.
 * @param[in]  message  borrowed. The storages that it lends stay valid for the receiver after the
 *                      message is released.
 * @param[in]  wait     borrowed. NULL means to wait for ever. A cancel ends the wait within 20 ms.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, or
 * - TENON_WOULD_BLOCK, TENON_TIMEOUT, TENON_INTERRUPTED, TENON_CANCELLED: the wait ended.
 * - TENON_INVALID_ARGUMENT: this process has left the queue, or slot_nbytes is too small even to
 *   refer to a message that does not fit into a slot.
 * - TENON_PEER_GONE with the details "pid" and "member": a member has died. Each death is reported
 *   once.
 * - TENON_PEER_GONE without "member": a storage of the message was dropped.
 * - TENON_UNSUPPORTED: memory of a device, or this process is a child of fork.
 * - TENON_PERMISSION: a storage that is not frozen yet.
 * - TENON_RESOURCE_EXHAUSTED: a limit of leases, segments or memory.
 * - TENON_CORRUPT: another member has overwritten this member's part of the queue.
 * @since 0.1. Any thread may call this function. Sends of one member wait for each other.
 */
TENON_API tenon_status tenon_queue_send(tenon_queue *queue, const tenon_message *message,
                                        const tenon_wait *wait, tenon_error **err) TENON_NOEXCEPT;

/**
 * Receives a message. If the wait ends first, nothing is lost. The first message of a sender takes
 * an exchange with that sender, for which even a call with timeout 0 waits up to 20 ms. After each
 * failure but TENON_INVALID_ARGUMENT and TENON_UNSUPPORTED the next call goes on.
 * @param[in]  queue  borrowed.
 * @param[in]  wait   borrowed. NULL means to wait for ever. A cancel ends the wait within 20 ms.
 * @param[out] out    new reference; release it with tenon_message_release. It is untouched on
 *                    failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, or
 * - TENON_WOULD_BLOCK, TENON_TIMEOUT, TENON_INTERRUPTED, TENON_CANCELLED: the wait ended. If a
 *   sender does not answer and its message waits for it, the detail "pid" names that sender.
 * - TENON_INVALID_ARGUMENT: this process has left the queue.
 * - TENON_PEER_GONE: a member has died (details "pid" and "member"). Each death is reported once.
 * - TENON_PEER_GONE with the detail "lost": the sender of a message is gone, and so is the message.
 * - TENON_NOT_FOUND: the sender has withdrawn the message (tenon_deposit_limits_set).
 * - TENON_CORRUPT, TENON_INCOMPATIBLE: the member of the details "pid" and "member" sent bytes that
 *   are no message of this version. No message of that member is received here any more.
 * - TENON_UNSUPPORTED: this process is a child of fork.
 * - TENON_RESOURCE_EXHAUSTED: no memory, fds or address space. The message stays, and a later call
 *   tries again.
 * - TENON_RESOURCE_EXHAUSTED with the detail "lost": the message is larger than max_message_nbytes
 *   or max_tensors allow. It is lost.
 * @since 0.1. Any thread may call this function. Receives of one member wait for each other.
 */
TENON_API tenon_status tenon_queue_recv(tenon_queue *queue, const tenon_wait *wait,
                                        tenon_message **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Sends messages in their order, each as tenon_queue_send does, and waits until all are sent. If
 * the wait ends or another failure comes after the first message, the call returns TENON_OK and the
 * number of messages that it sent. Call it again with the others, and that call gives the failure.
 * If the failure comes before the first message, this call gives it.
 * @param[in]  queue     borrowed.
 * @param[in]  messages  an array of n borrowed messages. NULL is allowed if n is 0.
 * @param[in]  n         how many messages there are.
 * @param[in]  wait      borrowed. NULL means to wait for ever.
 * @param[out] sent      how many messages were sent. It is untouched on failure.
 * @param[out] err       optional, see rule 2 in tenon.h.
 * @return as tenon_queue_send.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_queue_send_many(tenon_queue *queue,
                                             const tenon_message *const *messages, size_t n,
                                             const tenon_wait *wait, size_t *sent,
                                             tenon_error **err) TENON_NOEXCEPT;

/**
 * Receives up to n messages, and at most 1,024. The call waits for the first message as
 * tenon_queue_recv does, and then takes the messages that are there. A failure that comes after the
 * first message is the result of the next receive. If n is 0, the call receives nothing and does
 * not wait.
 * @param[in]  queue     borrowed.
 * @param[in]  wait      borrowed. NULL means to wait for ever.
 * @param[out] out       an array of n pointers. The call writes the first *received of them: new
 *                       references; release each with tenon_message_release. NULL is allowed if n
 *                       is 0. It is untouched on failure.
 * @param[in]  n         how many messages fit into `out`.
 * @param[out] received  how many messages the call received. It is untouched on failure.
 * @param[out] err       optional, see rule 2 in tenon.h.
 * @return as tenon_queue_recv.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_queue_recv_many(tenon_queue *queue, const tenon_wait *wait,
                                             tenon_message **out, size_t n, size_t *received,
                                             tenon_error **err) TENON_NOEXCEPT;

/**
 * Tells how often a message was delivered before, to processes that died or left the queue without
 * an acknowledgement (TENON_QUEUE_REDELIVER).
 * @param[in] message  borrowed. NULL is allowed.
 * @return 0 for a message that comes for the first time, or not by such a queue.
 * @since 0.1. Any thread may call this function.
 */
TENON_API uint32_t tenon_queue_redelivered(const tenon_message *message) TENON_NOEXCEPT;

/**
 * Takes back the messages that this member has sent and that no process has received. Their
 * storages are no longer lent. Each message is either received or taken back. The call begins with
 * the newest message, so a receiver that receives meanwhile gets older ones. A send of this process
 * that waits for room goes on. The call never waits, and it can follow tenon_queue_leave.
 * @param[in]  queue      borrowed.
 * @param[out] discarded  how many messages were taken back. It is untouched on failure.
 * @param[out] err        optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED, TENON_UNSUPPORTED (this
 *         process is a child of fork).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_queue_discard(tenon_queue *queue, size_t *discarded,
                                           tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives the fd by which an event loop waits for messages (poll, epoll, asyncio, tokio). It is
 * readable (POLLIN) when tenon_queue_recv may have something to return: a message, a death, or the
 * error after tenon_queue_leave. When it is readable, call tenon_queue_recv with timeout 0. The fd
 * stays readable until such a call has returned TENON_WOULD_BLOCK, and it may be readable in vain.
 *
 * From that TENON_WOULD_BLOCK until the next receive this process counts as asleep in
 * tenon_queue_recv (tenon_queue_member.asleep): a sender may wake it instead of another receiver.
 * So receive soon when the fd is readable, and call tenon_queue_pause_fds when the program does not
 * look at the fd any more. Other threads may call tenon_queue_recv with any timeout meanwhile.
 *
 * The first call starts a thread, which sleeps until another process wakes this one, and which ends
 * when the queue is left. A program that only calls tenon_queue_recv has no such thread.
 * @param[in]  queue  borrowed.
 * @param[out] out    the fd, borrowed from the queue and valid until its release. Do not read from
 *                    it. It is untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (this process has left the queue),
 *         TENON_RESOURCE_EXHAUSTED (fds or threads), TENON_UNSUPPORTED (in a child of fork).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_queue_recv_fd(tenon_queue *queue, int *out,
                                           tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives the fd by which an event loop waits for room. It is readable (POLLIN, although the program
 * wants to send) when tenon_queue_send may not have to wait: there may be room, or there is a death
 * to report, or tenon_queue_leave was called. The fd stays readable until tenon_queue_send with
 * timeout 0 has returned TENON_WOULD_BLOCK. Everything else that tenon_queue_recv_fd says holds for
 * this fd and for sends.
 * @param[in]  queue  borrowed.
 * @param[out] out    the fd, borrowed from the queue and valid until its release. Do not read from
 *                    it. It is untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return as tenon_queue_recv_fd.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_queue_send_fd(tenon_queue *queue, int *out,
                                           tenon_error **err) TENON_NOEXCEPT;

/**
 * Says that the program will not look at the fds of the queue for a while, so that senders wake
 * other receivers. If a sender has woken this process for a message, the call wakes another
 * receiver. Both fds become readable. The next receive (or send) with timeout 0 that returns
 * TENON_WOULD_BLOCK ends the pause of its fd. The call never waits. It does nothing for receives
 * while another thread is receiving, and nothing for sends while another thread is sending.
 * @param[in] queue  borrowed. NULL is allowed.
 * @since 0.1. Any thread may call this function.
 */
TENON_API void tenon_queue_pause_fds(tenon_queue *queue) TENON_NOEXCEPT;

/**
 * Gives the options of a membership. members, capacity and slot_nbytes are those with which the
 * queue was made. The other fields are those that this member gave.
 * @param[in]     queue  borrowed.
 * @param[in,out] out    struct_size set by the caller, the other fields filled in by the call. It
 *                       is untouched on failure.
 * @param[out]    err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT.
 * @since 0.1. Any thread may call this function, also in a child of fork.
 */
TENON_API tenon_status tenon_queue_options_get(const tenon_queue *queue, tenon_queue_options *out,
                                               tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives the size of the storage that a queue with these options takes, for a process that opens the
 * storage by a name.
 * @param[in]  options  borrowed. NULL means the defaults.
 * @param[out] nbytes   the size in bytes. It is untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (a number that a queue cannot have).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_queue_nbytes(const tenon_queue_options *options, uint64_t *nbytes,
                                          tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives figures about a queue. They change while they are read.
 * @param[in]     queue  borrowed.
 * @param[in,out] out    struct_size set by the caller, the other fields filled in by the call. It
 *                       is untouched on failure.
 * @param[out]    err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function, also in a child of fork.
 */
TENON_API tenon_status tenon_queue_stats_get(const tenon_queue *queue, tenon_queue_stats *out,
                                             tenon_error **err) TENON_NOEXCEPT;

/**
 * Lists the members of a queue, and those that have gone and whose place nobody has taken. Each
 * member wrote its entry itself, and a hostile one may have written anything.
 * @param[in]     queue  borrowed.
 * @param[in,out] out    the caller's array of n entries. The caller sets out[0].struct_size, which
 *                       is the size of every entry. The call writes it to the other entries and
 *                       fills in all fields. `out` may be NULL if n is 0. It is untouched on
 *                       failure.
 * @param[in]     n      how many entries fit into `out`.
 * @param[out]    total  how many entries there are. The first n of them are in `out`.
 * @param[out]    err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function, also in a child of fork.
 */
TENON_API tenon_status tenon_queue_members(const tenon_queue *queue, tenon_queue_member *out,
                                           size_t n, size_t *total,
                                           tenon_error **err) TENON_NOEXCEPT;

/**
 * Leaves the queue. Calls that wait on this membership return TENON_INVALID_ARGUMENT, and so do
 * later sends and receives. Messages that this member sent stay in the queue as long as this
 * process lives. A second call does nothing. A process that ends by exit() leaves its queues by
 * itself.
 * @param[in] queue  borrowed. NULL is allowed.
 * @since 0.1. Any thread may call this function.
 */
TENON_API void tenon_queue_leave(tenon_queue *queue) TENON_NOEXCEPT;

/**
 * Releases a membership, which leaves the queue. No thread may be inside a call on it. In a child
 * of fork the call only frees the child's memory.
 * @param[in] queue  consumed. NULL is allowed.
 * @since 0.1. Any thread may call this function.
 */
TENON_API void tenon_queue_release(tenon_queue *queue) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
