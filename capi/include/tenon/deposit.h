#ifndef TENON_DEPOSIT_H
#define TENON_DEPOSIT_H

/**
 * @file
 * Deposits: messages for receivers that are not known yet, such as the readers of a queue. A
 * lender deposits a message and gets a ticket, which is bytes and travels by whatever carries
 * bytes. Whoever fetches the message first has it, under leases as over a connection: each storage
 * is given back by itself, and a receiver that dies gives everything back. docs/format/deposit.md
 * has the bytes.
 *
 * A message is fetched once. Lender and receiver are processes of one user that see the same
 * /dev/shm. A receiver that has met a lender before, and knows the segments of a message, fetches
 * without a system call.
 *
 * Until a message is fetched its lender keeps it, or until tenon_ticket_withdraw. What nobody
 * fetches can be given an age and a number of bytes (tenon_deposit_limits_set), and a carrier that
 * takes fds tells when it goes unread (tenon_ticket_watch).
 *
 * A program that learns of a message's storages one by one, such as a pickler, deposits and
 * fetches in pieces: tenon_deposit_new and tenon_fetched_new.
 */

#include <stddef.h>
#include <stdint.h>
#include <tenon/by_fd.h>
#include <tenon/error.h>
#include <tenon/message.h>
#include <tenon/storage.h>
#include <tenon/wait.h>

TENON_BEGIN_DECLS

/** A deposited message's ticket: its bytes. Releasing it takes nothing back. */
typedef struct tenon_ticket tenon_ticket;

/**
 * Deposits a message. The message and its tensors may be released afterwards.
 * @param[in]  message  borrowed. Each storage must be shared memory.
 * @param[out] out      new reference; release it with tenon_ticket_release. It is untouched on
 *                      failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED (memory of a device),
 *         TENON_RESOURCE_EXHAUSTED (fds, memory, or 1,048,576 messages that wait or are held).
 * @since 0.1. Any thread may call this function. A child of fork has a depot of its own.
 */
TENON_API tenon_status tenon_message_deposit(const tenon_message *message, tenon_ticket **out,
                                             tenon_error **err) TENON_NOEXCEPT;

/**
 * Returns the bytes that the program must send.
 * @param[in]  ticket  borrowed. NULL is allowed.
 * @param[out] nbytes  how many bytes there are. It may be NULL.
 * @return the bytes, borrowed from the ticket and valid until its release. It is NULL for NULL.
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
 * @param[out] withdrawn  1: it was taken back. 0: it was fetched or withdrawn before. NULL is
 *                        allowed.
 * @param[out] err        optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (another process's), TENON_CORRUPT, TENON_INCOMPATIBLE.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_ticket_withdraw(const void *bytes, size_t nbytes, int *withdrawn,
                                             tenon_error **err) TENON_NOEXCEPT;

/**
 * Takes a message of this process back when its carrier has let go of it unread.
 *
 * Only a carrier can tell that nobody will read a message any more. One that takes fds, such as an
 * AF_UNIX socket, tells it by a marker: make a pipe, send its write end with the ticket, close that
 * end here, and pass the read end to this function. The kernel closes the marker when the message
 * is read by a receiver that does not ask for fds, and when the carrier goes with the message
 * unread. So the fd hangs up then, and `grace_ns` later the message is taken back if nobody has
 * fetched it. The grace is for a receiver that has read the ticket and not fetched yet.
 *
 * A pipe takes no fds. Pass a duplicate of its write end to this function instead. It hangs up when
 * no process has the read end any more, so that nobody can read what is in the pipe. Until the
 * message is fetched this duplicate keeps the pipe open, and a reader sees no end of file.
 *
 * So many messages can be watched at once as an eighth of the limit of open files, since each is
 * an fd. A message that was fetched or handed over to a keeper is not watched any more.
 * @param[in]  bytes     borrowed for the call: a ticket, or the head of a deposit in pieces.
 * @param[in]  nbytes    how many bytes there are at `bytes`.
 * @param[in]  fd        an end of a pipe or of a socket. The library owns it once the call has
 *                       succeeded, and closes it. After a failure it is still the caller's.
 * @param[in]  grace_ns  nanoseconds from the hang-up, at least 0.
 * @param[out] err       optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (another process's, a closed fd, one that is no end of
 *         a pipe or socket, a negative time), TENON_CORRUPT, TENON_INCOMPATIBLE,
 *         TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function. The library's thread looks for hang-ups four times
 *        a second. In a child of fork nothing is watched.
 */
TENON_API tenon_status tenon_ticket_watch(const void *bytes, size_t nbytes, int32_t fd,
                                          int64_t grace_ns, tenon_error **err) TENON_NOEXCEPT;

/**
 * Fetches the message of a ticket. A wait that ends first leaves the message where it is.
 * @param[in]  bytes    borrowed for the call, and copied before they are looked at.
 * @param[in]  nbytes   how many bytes there are at `bytes`.
 * @param[in]  options  borrowed. NULL means the defaults. Private openings are TENON_UNSUPPORTED.
 * @param[in]  wait     borrowed: how long to wait for a lender that does not answer. NULL means
 *                      for ever. A fetch without a system call does not wait.
 * @param[out] out      new reference; release it with tenon_message_release. It is untouched on
 *                      failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_NOT_FOUND (it was fetched before, or withdrawn), TENON_PEER_GONE (the
 *         lender is gone, and this process had not met it), TENON_CORRUPT, TENON_INCOMPATIBLE,
 *         TENON_PERMISSION (another user's), TENON_RESOURCE_EXHAUSTED, or one of the four codes of
 *         a wait that ended (see tenon_send).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_message_fetch(const void *bytes, size_t nbytes,
                                           const tenon_open_options *options,
                                           const tenon_wait *wait, tenon_message **out,
                                           tenon_error **err) TENON_NOEXCEPT;

/**
 * How much of this process may wait to be fetched. Set struct_size to
 * sizeof(tenon_deposit_limits).
 */
typedef struct tenon_deposit_limits {
  size_t struct_size;
  /**
   * For how many segments receivers may ask. A deposit of one more is TENON_RESOURCE_EXHAUSTED
   * with the limit "max_unfetched_segments". 0 means half of the most fds that this process may
   * open.
   */
  uint64_t max_unfetched_segments;
  /**
   * How many bytes the storages of unfetched messages may have, each message counted for itself. A
   * deposit of more withdraws the oldest ones. 0 means any number.
   */
  uint64_t max_unfetched_nbytes;
  /** After how many nanoseconds an unfetched message is withdrawn. 0 means never. */
  int64_t max_unfetched_ns;
} tenon_deposit_limits;

/**
 * Sets the limits of this process and of the children that it forks from now on.
 * max_unfetched_nbytes and max_unfetched_ns hold for messages that are deposited from now on. The
 * receiver of a message that was withdrawn gets TENON_NOT_FOUND.
 * @param[in]  limits  borrowed.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_deposit_limits_set(const tenon_deposit_limits *limits,
                                                tenon_error **err) TENON_NOEXCEPT;

/** What of this process waits to be fetched. The figures are of one moment. */
typedef struct tenon_deposit_stats {
  /** sizeof(tenon_deposit_stats), set by the caller. */
  size_t struct_size;
  /** Messages that nobody has fetched. */
  uint64_t messages;
  /** Segments for which their receivers may ask. It is 0 if no message waits. */
  uint64_t segments;
  /**
   * Messages that were withdrawn because of max_unfetched_nbytes or max_unfetched_ns, or because
   * their carrier was gone (tenon_ticket_watch), in all.
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

/** A message that is deposited in pieces. Releasing it takes nothing back. */
typedef struct tenon_deposit tenon_deposit;

/** A message that is fetched in pieces. Its release gives back what was not opened. */
typedef struct tenon_fetched tenon_fetched;

enum {
  /** Room for the record of one storage. */
  TENON_DEPOSIT_RECORD_NBYTES = 512
};

/**
 * Begins a message whose storages are added one by one. Its head is what a receiver begins with,
 * so the head must not leave before all storages are added.
 * @param[out] out  new reference; release it with tenon_deposit_release. It is untouched on
 *                  failure.
 * @param[out] err  optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_deposit_new(tenon_deposit **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Returns the head of a message in pieces.
 * @param[in]  deposit  borrowed. NULL is allowed.
 * @param[out] nbytes   how many bytes there are. It may be NULL.
 * @return the bytes, borrowed from the deposit and valid until its release. It is NULL for NULL.
 * @since 0.1. Any thread may call this function.
 */
TENON_API const void *tenon_deposit_head(const tenon_deposit *deposit,
                                         size_t *nbytes) TENON_NOEXCEPT;

/**
 * Adds a storage, which the message keeps.
 * @param[in]  deposit  borrowed.
 * @param[in]  storage  borrowed. It must be shared memory.
 * @param[in]  access   TENON_ACCESS_*, as for tenon_share_fd.
 * @param[out] out      the caller's buffer of TENON_DEPOSIT_RECORD_NBYTES bytes. The call writes
 *                      the storage's record. It is untouched on failure.
 * @param[out] nbytes   how many bytes of `out` were written. It is untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (the message was withdrawn or fetched),
 *         TENON_UNSUPPORTED (private memory, memory of a device, a storage that counts on more
 *         than 29 lenders further up), TENON_PERMISSION, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_deposit_add(tenon_deposit *deposit, tenon_storage *storage,
                                         tenon_access access, void *out, size_t *nbytes,
                                         tenon_error **err) TENON_NOEXCEPT;

/**
 * Takes back a message in pieces that nobody has fetched.
 * @param[in] deposit  borrowed. NULL is allowed.
 * @return 1: it was taken back. 0: it was fetched or withdrawn before, or `deposit` is NULL.
 * @since 0.1. Any thread may call this function.
 */
TENON_API int tenon_deposit_withdraw(tenon_deposit *deposit) TENON_NOEXCEPT;

/**
 * Releases a message in pieces. It stays deposited.
 * @param[in] deposit  consumed. NULL is allowed.
 * @since 0.1. Any thread may call this function.
 */
TENON_API void tenon_deposit_release(tenon_deposit *deposit) TENON_NOEXCEPT;

/**
 * Begins to fetch a message in pieces. It is the caller's from then on.
 * @param[in]  head     borrowed for the call, and copied before it is looked at.
 * @param[in]  nbytes   how many bytes there are at `head`.
 * @param[in]  options  borrowed. NULL means the defaults. Private openings are TENON_UNSUPPORTED.
 * @param[in]  wait     borrowed, as for tenon_message_fetch.
 * @param[out] out      new reference; release it with tenon_fetched_release when the last storage
 *                      was opened. It is untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return the same codes as tenon_message_fetch.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_fetched_new(const void *head, size_t nbytes,
                                         const tenon_open_options *options, const tenon_wait *wait,
                                         tenon_fetched **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Opens a storage of a message in pieces, under its lease.
 * @param[in]  fetched  borrowed.
 * @param[in]  record   borrowed for the call, and copied before it is looked at: what
 *                      tenon_deposit_add wrote.
 * @param[in]  nbytes   how many bytes there are at `record`.
 * @param[in]  wait     borrowed, as for tenon_message_fetch.
 * @param[out] out      new reference; release it with tenon_storage_release. It is untouched on
 *                      failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_CORRUPT (no record, or one with a lease that is not of this message or
 * was opened before), and the codes of tenon_message_fetch.
 * @since 0.1. One thread at a time may use `fetched`.
 */
TENON_API tenon_status tenon_fetched_storage(tenon_fetched *fetched, const void *record,
                                             size_t nbytes, const tenon_wait *wait,
                                             tenon_storage **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives back what was not opened. Storages that were opened stay.
 * @param[in] fetched  consumed. NULL is allowed.
 * @since 0.1. Any thread may call this function.
 */
TENON_API void tenon_fetched_release(tenon_fetched *fetched) TENON_NOEXCEPT;

/** How a keeper keeps what is not fetched. Set struct_size to sizeof(tenon_keep_options). */
typedef struct tenon_keep_options {
  size_t struct_size;
  /** How long the keeper stays at the most, in nanoseconds. 0 means 60 seconds. */
  int64_t timeout_ns;
  /** Borrowed: pidfds of processes that may fetch. NULL is allowed if n_pidfds is 0. */
  const int32_t *pidfds;
  uint64_t n_pidfds;
  /**
   * Borrowed: the path of a file on which processes that may fetch hold a shared flock. NULL is
   * allowed. With neither this nor pidfds the keeper stays for its time.
   */
  const char *family;
  /**
   * Borrowed: the program to start. NULL means tenon-manager, found as tenon_manager_start does.
   */
  const char *program;
} tenon_keep_options;

/**
 * Hands the messages of this process that are not fetched to a keeper, a process of its own that
 * has the fds of their segments and none of this process's memory. Call it last: what is deposited
 * after it has a new depot, and ends with this process.
 * @param[in]  options  borrowed. NULL means the defaults.
 * @param[out] n_kept   how many messages the keeper has. NULL is allowed.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK (also if there was nothing to keep), TENON_INVALID_ARGUMENT, TENON_NOT_FOUND
 *         (no program), TENON_PEER_GONE (it did not start), TENON_RESOURCE_EXHAUSTED. After a
 *         failure nothing is kept, and the messages end with this process.
 * @since 0.1. Any thread may call this function. No other thread may deposit meanwhile.
 */
TENON_API tenon_status tenon_deposit_hand_over(const tenon_keep_options *options, size_t *n_kept,
                                               tenon_error **err) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
