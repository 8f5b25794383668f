#ifndef TENON_DEPOSIT_H
#define TENON_DEPOSIT_H

/**
 * @file
 * Deposits: messages for receivers that are not known yet, such as the readers of a queue. A lender
 * deposits a message and gets a ticket. The ticket is bytes, which the program sends by any
 * carrier: a pipe, a queue or a file. The first process that fetches the message owns it. From then
 * on the message is under leases, as over a connection: each storage is given back by itself, and
 * the death of the receiver gives everything back. docs/format/deposit.md describes the bytes.
 *
 * A message can be fetched once. Lender and receiver are processes of one user and see the same
 * /dev/shm. A receiver that has met the lender before and knows the segments of the message fetches
 * it without a system call.
 *
 * The lender keeps a message until the message is fetched or tenon_ticket_withdraw takes it back.
 * tenon_deposit_limits_set limits the age and the bytes of messages that nobody fetches.
 * tenon_ticket_watch takes a message back when its carrier is gone.
 *
 * A program that learns of the storages of a message one by one, such as a pickler, deposits the
 * message in pieces (tenon_deposit_new), and the receiver fetches it in pieces (tenon_fetched_new).
 */

#include <stddef.h>
#include <stdint.h>
#include <tenon/by_fd.h>
#include <tenon/error.h>
#include <tenon/message.h>
#include <tenon/storage.h>
#include <tenon/wait.h>

TENON_BEGIN_DECLS

/**
 * The ticket of a deposited message, which is bytes. Releasing the ticket does not take the message
 * back.
 */
typedef struct tenon_ticket tenon_ticket;

/**
 * Deposits a message. The caller may release the message and its tensors afterwards. The first
 * deposit of a process makes its socket in /dev/shm and starts the service thread (rule 10 in
 * tenon.h).
 * @param[in]  message  borrowed. Each storage must be shared memory.
 * @param[out] out      new reference; release it with tenon_ticket_release. It is untouched on
 *                      failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED (memory of a device),
 *         TENON_RESOURCE_EXHAUSTED (fds, memory, leases, the limit max_unfetched_segments, or
 *         1,048,576 messages that wait or are held), TENON_PEER_GONE (a storage was dropped).
 * @since 0.1. Any thread may call this function. A child of fork begins without deposits: those of
 *         its parent stay with the parent.
 */
TENON_API tenon_status tenon_message_deposit(const tenon_message *message, tenon_ticket **out,
                                             tenon_error **err) TENON_NOEXCEPT;

/**
 * Returns the bytes that the program must send.
 * @param[in]  ticket  borrowed. NULL is allowed.
 * @param[out] nbytes  how many bytes there are. NULL is allowed.
 * @return the bytes, borrowed from the ticket and valid until its release. NULL for NULL.
 * @since 0.1. Any thread may call this function.
 */
TENON_API const void *tenon_ticket_bytes(const tenon_ticket *ticket, size_t *nbytes) TENON_NOEXCEPT;

/**
 * Releases a ticket. The message stays deposited.
 * @param[in] ticket  consumed. NULL is allowed.
 * @since 0.1. Any thread may call this function.
 */
TENON_API void tenon_ticket_release(tenon_ticket *ticket) TENON_NOEXCEPT;

/**
 * Takes back a message of this process that nobody has fetched.
 * @param[in]  bytes      borrowed for the call: a ticket.
 * @param[in]  nbytes     how many bytes there are at `bytes`.
 * @param[out] withdrawn  1: the message was taken back. 0: it was fetched or withdrawn before. NULL
 *                        is allowed.
 * @param[out] err        optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (another process deposited the message), TENON_CORRUPT,
 *         TENON_INCOMPATIBLE.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_ticket_withdraw(const void *bytes, size_t nbytes, int *withdrawn,
                                             tenon_error **err) TENON_NOEXCEPT;

/**
 * Takes a message of this process back when its carrier has dropped the ticket unread.
 *
 * Only the carrier can tell that nobody will read a ticket any more. A carrier that takes fds, such
 * as an AF_UNIX socket, tells it by a marker. Make a pipe, send its write end with the ticket,
 * close that end in this process, and pass the read end to this function. The kernel closes the
 * marker in two cases: a receiver reads the ticket and does not ask for fds, or the carrier ends
 * with the ticket unread. Then the read end hangs up. If nobody has fetched the message `grace_ns`
 * later, it is taken back. A receiver that has read the ticket and has not fetched yet needs this
 * grace.
 *
 * A carrier that is a pipe takes no fds. Pass a duplicate of its write end to this function
 * instead. The duplicate hangs up when no process has the read end any more, so that nobody can
 * read what is left in the pipe. Until the message is fetched, this duplicate keeps the pipe open,
 * and a reader sees no end of file.
 *
 * Each watched message takes an fd. The watches may take an eighth of the limit of open files, and
 * at least 16. A watch ends when its message is fetched or handed over to a keeper.
 * @param[in]  bytes     borrowed for the call: a ticket, or the head of a message that is deposited
 *                       in pieces.
 * @param[in]  nbytes    how many bytes there are at `bytes`.
 * @param[in]  fd        an end of a pipe or of a socket. Once the call has succeeded, the library
 *                       owns the fd and closes it. After a failure it is still the caller's.
 * @param[in]  grace_ns  nanoseconds from the moment when the hang-up is noticed, at least 0.
 * @param[out] err       optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (another process deposited the message, or a keeper has
 *         it; `fd` is not an open end of a pipe or socket; `grace_ns` is negative), TENON_CORRUPT,
 *         TENON_INCOMPATIBLE, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function. The service thread, or tenon_lease_poll in a
 *         process without one, looks for hang-ups four times a second. A child of fork watches
 *         nothing of its parent's.
 */
TENON_API tenon_status tenon_ticket_watch(const void *bytes, size_t nbytes, int32_t fd,
                                          int64_t grace_ns, tenon_error **err) TENON_NOEXCEPT;

/**
 * Fetches the message of a ticket. If the wait ends first, the message stays unfetched.
 * @param[in]  bytes    borrowed for the call: a ticket. The call copies the bytes before it checks
 *                      them.
 * @param[in]  nbytes   how many bytes there are at `bytes`.
 * @param[in]  options  borrowed. NULL means the defaults. Private openings (TENON_OPEN_PRIVATE_COW,
 *                      TENON_OPEN_PRIVATE_COPY) are TENON_UNSUPPORTED.
 * @param[in]  wait     borrowed. It says how long to wait for a lender that does not answer. NULL
 *                      means for ever. A call that needs nothing from the lender does not wait.
 * @param[out] out      new reference; release it with tenon_message_release. It is untouched on
 *                      failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_NOT_FOUND (the message was fetched before, or withdrawn), TENON_PEER_GONE
 *         (the lender is gone, and this process has not met it or lacks a segment of the message),
 *         TENON_CORRUPT, TENON_INCOMPATIBLE, TENON_PERMISSION (the lender belongs to another user),
 *         TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED, TENON_RESOURCE_EXHAUSTED, or one of the four
 *         codes of a wait that ended (see tenon_send).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_message_fetch(const void *bytes, size_t nbytes,
                                           const tenon_open_options *options,
                                           const tenon_wait *wait, tenon_message **out,
                                           tenon_error **err) TENON_NOEXCEPT;

/**
 * Limits of the messages of this process that wait to be fetched. Set struct_size to
 * sizeof(tenon_deposit_limits).
 */
typedef struct tenon_deposit_limits {
  size_t struct_size;
  /**
   * The most segments that receivers may still ask for. A deposit that needs one more is
   * TENON_RESOURCE_EXHAUSTED with the limit "max_unfetched_segments". 0 means half of the most fds
   * that this process may open.
   */
  uint64_t max_unfetched_segments;
  /**
   * The most bytes in the storages of unfetched messages. A storage in two messages counts twice. A
   * deposit that exceeds this limit withdraws the oldest messages, but never the newest one. 0
   * means no limit.
   */
  uint64_t max_unfetched_nbytes;
  /** The age in nanoseconds at which an unfetched message is withdrawn. 0 means never. */
  int64_t max_unfetched_ns;
} tenon_deposit_limits;

/**
 * Sets the limits of this process and of the children that it forks from now on. A message that was
 * deposited while both max_unfetched_nbytes and max_unfetched_ns were 0 is not counted for these
 * two limits. The receiver of a message that was withdrawn gets TENON_NOT_FOUND.
 * @param[in]  limits  borrowed.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_deposit_limits_set(const tenon_deposit_limits *limits,
                                                tenon_error **err) TENON_NOEXCEPT;

/**
 * Figures about the messages of this process that wait to be fetched. The figures are of one
 * moment.
 */
typedef struct tenon_deposit_stats {
  /** sizeof(tenon_deposit_stats), set by the caller. */
  size_t struct_size;
  /**
   * The number of messages that nobody has fetched, or whose receiver is still opening their
   * storages. While it is not 0, a receiver may need this process.
   */
  uint64_t messages;
  /** The number of segments that receivers may still ask for. It is 0 if `messages` is 0. */
  uint64_t segments;
  /**
   * How many messages were withdrawn because of max_unfetched_nbytes or max_unfetched_ns, or
   * because their carrier was gone (tenon_ticket_watch), since this process began.
   */
  uint64_t expired;
} tenon_deposit_stats;

/**
 * Gives the figures of this process's deposits.
 * @param[in,out] out  the caller's. out->struct_size says how much the call may write. It is
 *                     untouched on failure.
 * @param[out]    err  optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_deposit_stats_get(tenon_deposit_stats *out,
                                               tenon_error **err) TENON_NOEXCEPT;

/** A message that is deposited in pieces. Releasing the object does not take the message back. */
typedef struct tenon_deposit tenon_deposit;

/**
 * A message that is fetched in pieces. Releasing the object gives back the storages that were not
 * opened.
 */
typedef struct tenon_fetched tenon_fetched;

enum {
  /** The most bytes in the record of one storage. */
  TENON_DEPOSIT_RECORD_NBYTES = 512
};

/**
 * Begins a message whose storages are added one by one. A receiver begins to fetch with the
 * message's head (tenon_deposit_head). So the head must not leave this process before all storages
 * are added.
 * @param[out] out  new reference; release it with tenon_deposit_release. It is untouched on
 *                  failure.
 * @param[out] err  optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_deposit_new(tenon_deposit **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Returns the head of a message that is deposited in pieces: the bytes with which a receiver calls
 * tenon_fetched_new.
 * @param[in]  deposit  borrowed. NULL is allowed.
 * @param[out] nbytes   how many bytes there are. NULL is allowed.
 * @return the bytes, borrowed from the deposit and valid until its release. NULL for NULL.
 * @since 0.1. Any thread may call this function.
 */
TENON_API const void *tenon_deposit_head(const tenon_deposit *deposit,
                                         size_t *nbytes) TENON_NOEXCEPT;

/**
 * Adds a storage to a message that is deposited in pieces, and writes the storage's record. The
 * message keeps the storage. The receiver opens the storage by its record (tenon_fetched_storage).
 * @param[in]  deposit  borrowed.
 * @param[in]  storage  borrowed. It must be shared memory.
 * @param[in]  access   TENON_ACCESS_*, as for tenon_share_fd.
 * @param[out] out      the caller's buffer of TENON_DEPOSIT_RECORD_NBYTES bytes. The call writes
 *                      the record. It is untouched on failure.
 * @param[out] nbytes   how many bytes of `out` were written. It is untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (the message was withdrawn, fetched or handed over to a
 *         keeper, or the parent of this process made it), TENON_UNSUPPORTED (private memory, memory
 *         of a device, or memory that was lent on under more than 29 tokens), TENON_PERMISSION,
 *         TENON_PEER_GONE (the storage was dropped), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_deposit_add(tenon_deposit *deposit, tenon_storage *storage,
                                         tenon_access access, void *out, size_t *nbytes,
                                         tenon_error **err) TENON_NOEXCEPT;

/**
 * Takes back a message that was deposited in pieces and that nobody has fetched.
 * @param[in] deposit  borrowed. NULL is allowed.
 * @return 1: the message was taken back. 0: it was fetched or withdrawn before, or `deposit` is
 *         NULL.
 * @since 0.1. Any thread may call this function.
 */
TENON_API int tenon_deposit_withdraw(tenon_deposit *deposit) TENON_NOEXCEPT;

/**
 * Releases the object of a message that is deposited in pieces. The message stays deposited.
 * @param[in] deposit  consumed. NULL is allowed.
 * @since 0.1. Any thread may call this function.
 */
TENON_API void tenon_deposit_release(tenon_deposit *deposit) TENON_NOEXCEPT;

/**
 * Begins to fetch a message in pieces. On success this process has the message, and no other
 * process can fetch it.
 * @param[in]  head     borrowed for the call: the bytes of tenon_deposit_head. The call copies the
 *                      bytes before it checks them.
 * @param[in]  nbytes   how many bytes there are at `head`.
 * @param[in]  options  borrowed. NULL means the defaults. Private openings (TENON_OPEN_PRIVATE_COW,
 *                      TENON_OPEN_PRIVATE_COPY) are TENON_UNSUPPORTED.
 * @param[in]  wait     borrowed, as for tenon_message_fetch.
 * @param[out] out      new reference; release it with tenon_fetched_release once the last storage
 *                      is opened. It is untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return the same codes as tenon_message_fetch. A ticket of tenon_message_deposit is TENON_CORRUPT
 *         here.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_fetched_new(const void *head, size_t nbytes,
                                         const tenon_open_options *options, const tenon_wait *wait,
                                         tenon_fetched **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Opens a storage of a message that is fetched in pieces, under its lease. Each record can be
 * opened once.
 * @param[in]  fetched  borrowed.
 * @param[in]  record   borrowed for the call: the bytes that tenon_deposit_add wrote. The call
 *                      copies the bytes before it checks them.
 * @param[in]  nbytes   how many bytes there are at `record`.
 * @param[in]  wait     borrowed, as for tenon_message_fetch.
 * @param[out] out      new reference; release it with tenon_storage_release. It is untouched on
 *                      failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_CORRUPT (the bytes are not a record, or the lease in the record belongs
 *         to another message or was opened before), TENON_UNSUPPORTED (a child of fork opens a
 *         message that its parent deposited and fetched itself), and the other codes of
 *         tenon_message_fetch.
 * @since 0.1. One thread at a time may use `fetched`.
 */
TENON_API tenon_status tenon_fetched_storage(tenon_fetched *fetched, const void *record,
                                             size_t nbytes, const tenon_wait *wait,
                                             tenon_storage **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Releases a message that is fetched in pieces, and gives back the storages that were not opened.
 * Storages that were opened stay.
 * @param[in] fetched  consumed. NULL is allowed.
 * @since 0.1. Any thread may call this function.
 */
TENON_API void tenon_fetched_release(tenon_fetched *fetched) TENON_NOEXCEPT;

/**
 * How a keeper keeps messages that are not fetched yet. Set struct_size to
 * sizeof(tenon_keep_options).
 */
typedef struct tenon_keep_options {
  size_t struct_size;
  /** The longest time that the keeper stays, in nanoseconds. 0 means 60 seconds. */
  int64_t timeout_ns;
  /**
   * The pidfds of processes that may still fetch, at most 1,024, borrowed for the call. NULL is
   * allowed if n_pidfds is 0.
   */
  const int32_t *pidfds;
  uint64_t n_pidfds;
  /**
   * The path of a file on which processes that may still fetch hold a shared flock, borrowed for
   * the call. NULL means no file. The keeper ends when none of the processes of `pidfds` and
   * `family` is left. If neither is given, it stays until all messages are fetched or its time is
   * over.
   */
  const char *family;
  /**
   * The program to start, borrowed for the call. NULL means tenon-manager, which is found as in
   * tenon_manager_start.
   */
  const char *program;
} tenon_keep_options;

/**
 * Hands the unfetched messages of this process to a keeper, so that receivers can still fetch them
 * after this process has ended. A keeper is a process of its own. It has the fds of the messages'
 * segments, and it maps none of the lender's memory. Make this call last: a message that is
 * deposited afterwards goes into a new depot, and ends with this process.
 * @param[in]  options  borrowed. NULL means the defaults.
 * @param[out] n_kept   how many messages the keeper has. 0 means that no keeper was started. NULL
 *                      is allowed.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK (also if there was nothing to keep), TENON_INVALID_ARGUMENT, TENON_NOT_FOUND
 *         (there is no such program, or no such file as `family`), TENON_PERMISSION,
 *         TENON_PEER_GONE (the keeper ended at once), TENON_TIMEOUT (the keeper did not start
 *         within 10 seconds), TENON_RESOURCE_EXHAUSTED. After a failure there is no keeper: this
 *         process still serves its messages, and they end with it.
 * @since 0.1. Any thread may call this function. No other thread may deposit during the call.
 */
TENON_API tenon_status tenon_deposit_hand_over(const tenon_keep_options *options, size_t *n_kept,
                                               tenon_error **err) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
