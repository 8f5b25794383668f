#ifndef TENON_LEASE_H
#define TENON_LEASE_H

/**
 * @file
 * Leases: these functions tell which processes borrow memory of this process, and let a process run
 * without the library's service thread.
 *
 * A lease is a borrower's right to keep one block of an arena. tenon_send grants a lease for each
 * storage of the message. A process that fetches a deposited message (tenon/deposit.h) gets the
 * same leases. A lease ends with the borrower's last tenon_storage_release, or when the borrower
 * dies. Until then the lender does not reuse the block, even if it has released its own storage.
 * docs/concepts/leases.md explains the protocol.
 *
 * A storage that is lent by fd, by name or by a bytes-only descriptor (TENON_DESCRIPTOR_BYTES_ONLY)
 * has no lease. Its block is never reused (tenon_arena_stats.bytes_retired).
 */

#include <stddef.h>
#include <stdint.h>
#include <tenon/error.h>

TENON_BEGIN_DECLS

/** A borrower that holds leases of this process's blocks. */
typedef struct tenon_lease_holder {
  /** sizeof(tenon_lease_holder), set by the caller. */
  size_t struct_size;
  /**
   * The borrower's process id, from the kernel. It is 0 if this process cannot see the pid
   * namespace.
   */
  int32_t pid;
  /** The borrower's user id, from the kernel. */
  uint32_t uid;
  /** The number of leases that the borrower holds now. */
  uint64_t leases;
  /** The bytes in the blocks of these leases. A block with two leases counts twice. */
  uint64_t nbytes;
  /**
   * The number of leases that were ever granted to the borrower. It is 0 for a receiver of
   * deposits.
   */
  uint64_t granted;
  /**
   * The bytes in the blocks of the leases that were ever granted to the borrower. It is 0 for a
   * receiver of deposits.
   */
  uint64_t granted_bytes;
  /** The time in nanoseconds since this process began to lend to the borrower. */
  uint64_t age_ns;
} tenon_lease_holder;

/**
 * Lists the holders of leases. There is one entry for each connection whose peer holds leases. A
 * connection whose peer has forked can have several entries. A descriptor with fds has an entry of
 * its own, and so has each process that fetches deposits.
 * @param[in,out] out    the caller's array of n entries. The caller sets out[0].struct_size, which
 *                       is the size of every entry. The call writes it to the other entries and
 *                       fills in all fields. `out` may be NULL if n is 0. It is untouched on
 *                       failure.
 * @param[in]     n      how many entries fit into `out`.
 * @param[out]    total  how many entries there are. The first n of them are in `out`.
 * @param[out]    err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_lease_holders(tenon_lease_holder *out, size_t n, size_t *total,
                                           tenon_error **err) TENON_NOEXCEPT;

/**
 * Makes the library start no service thread in this process (rule 10 in tenon.h). From then on the
 * process must do that thread's work: it polls tenon_lease_fd and calls tenon_lease_poll. Call this
 * function before the first call that starts the thread. A child of fork inherits the choice.
 * @param[out] err  optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (the service thread runs already).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_lease_use_no_thread(tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives the fd to poll in a process without a service thread. It is readable when tenon_lease_poll
 * has something to do.
 * @param[out] out  borrowed. A child of fork gets another fd. It is untouched on failure.
 * @param[out] err  optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (the process did not call tenon_lease_use_no_thread),
 *         TENON_RESOURCE_EXHAUSTED (fds).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_lease_fd(int32_t *out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Does the work that is due in a process without a service thread. The call ends the leases of
 * borrowers that are gone, and reads the bells with which borrowers announce that they gave blocks
 * back. It notices lenders that are gone. It answers openers of names and receivers of deposits,
 * withdraws deposits that waited too long, and removes the names of dead processes. The call does
 * not block and takes about a millisecond at most. If more work is left, the fd stays readable.
 * There is one exception: releasing memory that a device has pinned may wait for the device.
 * @param[out] err  optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (the process did not call tenon_lease_use_no_thread),
 *         TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function. If several threads call it at once, one of them
 *         works and the others return at once.
 */
TENON_API tenon_status tenon_lease_poll(tenon_error **err) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
