#ifndef TENON_CUDA_PINNED_H
#define TENON_CUDA_PINNED_H

/**
 * @file
 * Pinned memory: shared host memory that a CUDA device reads and writes directly. Pinned memory is
 * for machines where device memory cannot be lent (MIG, integrated GPUs), and for copies that run
 * in parallel to the host.
 */

#include <stdint.h>
#include <tenon/error.h>
#include <tenon/storage.h>

TENON_BEGIN_DECLS

/*
 * Each process pins for itself the storages that it lends or has opened. Its device then reads and
 * writes the same bytes as the other process's device. A copy between pinned memory and a device
 * runs in parallel to the host (cudaMemcpyAsync; PyTorch's non_blocking).
 *
 * Pinning registers the whole segment in which the storage lies with the driver, once in a process.
 * The segment stays registered until it is unmapped. Work that was given to a device may run on
 * after the storage's release. As with any memory, the program must keep the storage as long as
 * such work uses its bytes.
 */

/**
 * Lets a CUDA device access the bytes of a shared storage, and gives their address on the device.
 * The memory of the whole segment is registered with the driver and can no longer be swapped out. A
 * storage with TENON_STORAGE_ISOLATED, and a storage of more than 8 MiB, has a segment of its own.
 * Other storages share segments of 64 MiB, and all memory of such a segment is allocated by this
 * call. An arena must be reserved up to its capacity first (tenon_arena_reserve). Pinning a storage
 * again costs little and gives the same address. The address for another device may be different.
 * @param[in]  storage  borrowed. It must be neither private nor on a device. A storage of mode
 *                      TENON_MODE_FROZEN must be frozen first. If the storage is read-only in this
 *                      process, the device may only read it.
 * @param[in]  device   the device's ordinal in this process's numbering.
 * @param[out] out      the address at which the device finds the first byte, borrowed from the
 *                      storage. It is nearly always the address of tenon_storage_data. NULL for an
 *                      empty storage. Untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (there is no such device, or the storage is on a
 *         device), TENON_PERMISSION (the storage is not frozen yet), TENON_UNSUPPORTED (there is no
 *         CUDA; the storage is private; it is read-only, and this device cannot be kept from
 *         writing to it; a child of fork), TENON_RESOURCE_EXHAUSTED (the detail "limit" is "memory
 *         of the segment" if a part of the segment has no memory, or the limit that was reached
 *         when memory was allocated), other codes for errors of the driver (details "cuda_error",
 *         "cuda_error_name").
 * @since 0.1. Any thread may call this function. It waits for no device.
 */
TENON_API tenon_status tenon_storage_pin(tenon_storage *storage, int32_t device, void **out,
                                         tenon_error **err) TENON_NOEXCEPT;

/**
 * Tells whether this process has pinned the segment in which a storage lies, for this storage or
 * for another storage of the segment.
 * @param[in] storage  borrowed. NULL is allowed.
 * @return 1 if the segment is pinned, otherwise 0. It is 0 for an empty storage, which has no
 *         memory, and in a child of fork of the process that pinned the segment.
 * @since 0.1. Any thread may call this function.
 */
TENON_API int tenon_storage_is_pinned(const tenon_storage *storage) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
