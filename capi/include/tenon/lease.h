#ifndef TENON_LEASE_H
#define TENON_LEASE_H

#include <stddef.h>
#include <stdint.h>
#include <tenon/error.h>

TENON_BEGIN_DECLS

/*
 * A lease is a borrower's right to keep one block of an arena. tenon_send takes one for each storage of the message;
 * the borrower's last tenon_storage_release gives it back, and so does its death. Until then the lender does not use the
 * block again, whatever it releases. docs/leases.md tells how.
 *
 * What is lent by fd, by name or by a descriptor of bytes alone has no lease: such a block is not used again (bytes_retired).
 */

/** Who holds leases of this process's blocks. */
typedef struct tenon_lease_holder {
  size_t struct_size;     /**< sizeof(tenon_lease_holder), set by the caller */
  int32_t pid;            /**< as the kernel tells it; 0: of a pid namespace that this process does not see */
  uint32_t uid;           /**< as the kernel tells it */
  uint64_t leases;        /**< that stand now */
  uint64_t nbytes;        /**< of their blocks; a block with two leases counts twice */
  uint64_t granted;       /**< leases ever granted */
  uint64_t granted_bytes; /**< of their blocks */
  uint64_t age_ns;        /**< since the first of them */
} tenon_lease_holder;

/**
 * Who holds leases, one entry for each connection that does.
 * @param[in,out] out    array of n; out[0].struct_size set by the caller is the size of each, and is written to the others;
 *                       may be NULL if n is 0; untouched on failure.
 * @param[in]     n      room in `out`.
 * @param[out]    total  how many there are; the first n of them are in `out`.
 * @param[out]    err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_lease_holders(tenon_lease_holder *out, size_t n, size_t *total, tenon_error **err) TENON_NOEXCEPT;

/**
 * Have no thread: from now on the process itself looks after what ends, by polling tenon_lease_fd and calling
 * tenon_lease_poll. Before the first lend and the first use of a name. A child of fork inherits the choice.
 * @param[out] err  optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (the thread runs already).
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_lease_use_no_thread(tenon_error **err) TENON_NOEXCEPT;

/**
 * The fd to poll, readable when tenon_lease_poll has something to do. Without a thread only.
 * @param[out] out  borrowed; another one in a child of fork; untouched on failure.
 * @param[out] err  optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED (fds).
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_lease_fd(int32_t *out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Do what is due: leases of borrowers that are gone, names, doorbells. Never blocks; about a millisecond at most, and the
 * fd stays readable if there is more. But the end of memory that a device has pinned may wait for the device.
 * @param[out] err  optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (the process has a thread for it), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread; of calls at once one works and the others return.
 */
TENON_API tenon_status tenon_lease_poll(tenon_error **err) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
