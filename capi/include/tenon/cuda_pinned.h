#ifndef TENON_CUDA_PINNED_H
#define TENON_CUDA_PINNED_H

#include <stdint.h>
#include <tenon/error.h>
#include <tenon/storage.h>

TENON_BEGIN_DECLS

/*
 * Shared memory of the host that a CUDA device reaches. Each process pins for itself what it lends or has opened: then its own device reads
 * and writes the very bytes that the other process's device does, also where device memory cannot be lent (MIG, integrated GPUs). A copy
 * between pinned memory and a device runs beside the host (cudaMemcpyAsync; PyTorch's non_blocking).
 *
 * The driver is given the whole segment in which the storage lies, once in a process, and has it until the segment goes: what the device
 * was given to do may run on after the storage's release. Keep the storage as long as its bytes are used there, as with any memory.
 */

/**
 * Let a CUDA device reach the bytes of a shared storage, and say by which address. The memory of the whole segment is registered with the
 * driver and can no longer be swapped: that of a TENON_STORAGE_ISOLATED storage, or of one over 8 MiB, is its own; others share segments of
 * 64 MiB, which get all of their memory now. An arena has to be reserved up to its capacity before (tenon_arena_reserve). Pinning again is
 * cheap and gives the same address; for another device it may be another one.
 * @param[in]  storage  borrowed. Not private, and not on a device. A TENON_MODE_FROZEN one is pinned when it is frozen. What is read-only
 *                      here the device may only read, if it can be kept to that.
 * @param[in]  device   ordinal in this process's numbering.
 * @param[out] out      borrowed from the storage: where the device finds its first byte, nearly always tenon_storage_data; NULL for
 *                      an empty one; untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (no such device, a device's storage), TENON_PERMISSION (not frozen yet),
 *         TENON_UNSUPPORTED (no CUDA here, private memory, read-only memory for a device that cannot be kept from writing it, a
 *         child of fork), TENON_RESOURCE_EXHAUSTED (detail "limit": "memory of the segment" if not all of it has memory, or what was
 *         met in making that), others as the driver says (details "cuda_error", "cuda_error_name").
 * @since 0.1. Any thread. Waits for no device.
 */
TENON_API tenon_status tenon_storage_pin(tenon_storage *storage, int32_t device, void **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Whether this process has pinned the segment in which the storage lies, for this storage or for another one.
 * @param[in] storage  borrowed; NULL is allowed.
 * @return 1 if so, else 0; 0 for an empty storage, which has no memory, and in a child of fork of the process that did.
 * @since 0.1. Any thread.
 */
TENON_API int tenon_storage_is_pinned(const tenon_storage *storage) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
