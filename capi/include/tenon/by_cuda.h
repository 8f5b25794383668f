#ifndef TENON_BY_CUDA_H
#define TENON_BY_CUDA_H

/**
 * @file
 * These functions lend memory of a CUDA device to another process, and open device memory that
 * Tenon or PyTorch lends. tenon_send and tenon_recv (tenon/connection.h) lend device memory too,
 * under leases. The functions here are for handles that a program passes on by its own means.
 */

#include <stddef.h>
#include <stdint.h>
#include <tenon/error.h>
#include <tenon/storage.h>

TENON_BEGIN_DECLS

/*
 * Handles. Device memory is lent in PyTorch's protocol (docs/format/cuda.md), by an IPC handle.
 * Memory for which the driver has no IPC handle is lent by a newer transport of the driver. A
 * handle is for one receiver, which opens it once. It gives access to the whole allocation in which
 * the storage lies, or to all pieces that are mapped there. The receiver can read and write all of
 * that. A receiver cannot lend on memory that came by an IPC handle. Memory that came by another
 * transport can be lent on by the same transport.
 *
 * When memory is given back. Three things keep device memory alive: its storage, the streams that
 * are recorded as using the storage, and each handle until its receiver has released the memory.
 * The receiver does that by changing a counter in a file. When nothing keeps the memory any more,
 * it is given back to its owner. The library is not notified when a counter changes or when the
 * work in a stream is complete, so it must check. tenon_share_cuda, tenon_open_cuda and each last
 * release of a storage on a device check a few waiting allocations. tenon_cuda_collect checks all.
 * So any of these calls may give memory back, and then the owner's release function, such as a
 * DLPack deleter, runs in that call, on its thread. A receiver that is killed, and a handle that
 * nobody opens, keep the memory until this process ends. The same holds in PyTorch.
 *
 * Streams. A stream is a CUstream or a cudaStream_t. NULL is the default stream, and 0x2 is the
 * default stream of the calling thread. No function here waits for a device, with one exception in
 * tenon_share_cuda. The last release of memory that was opened by TENON_CUDA_FD or
 * TENON_CUDA_FABRIC can wait inside the driver, and so can a call that frees an arena
 * (tenon_cuda_arena_release). Memory is opened in the device's primary context, which CUDA's
 * runtime uses.
 *
 * Fork. The child of a process that used CUDA inherits the storages on devices. It can only release
 * them.
 */

/**
 * Tells whether this process can use CUDA, and if not, why. One build of the library serves
 * machines with and without a GPU. The first call that needs CUDA looks for NVIDIA's driver (11.4
 * or newer), starts it (cuInit) and counts its devices. That can take a tenth of a second and more.
 * It makes no context and takes no memory of a device.
 *
 * The result is kept until the process ends. So later calls cost next to nothing, and they do not
 * see a driver that is installed later. A failure that may be temporary is not kept, and the next
 * call tries again. Such a failure means that the system's daemons are not ready yet, that another
 * process has the device for itself, or that memory is short.
 * @param[out] err  optional, see rule 2 in tenon.h.
 * @return TENON_OK, or
 * - TENON_UNSUPPORTED: the library was built without CUDA; there is no driver, or it is too old
 *   (details "path", "driver_version"); the driver has no device, or refused to start (details
 *   "cuda_error", "cuda_error_name"); or this process is a child of fork of a process that had
 *   started the driver.
 * - TENON_RESOURCE_EXHAUSTED: there is no memory to ask the driver.
 * @since 0.1. Any thread may call this function. While the first call runs, calls by other threads
 *         wait for it. Fork: the driver does not work in the child of a process that had started
 *         it, and Tenon does not call it there. The child of a process that never used CUDA may
 *         start the driver for itself.
 */
TENON_API tenon_status tenon_cuda_available(tenon_error **err) TENON_NOEXCEPT;

/**
 * The transport of a handle: the way in which the driver lets the memory travel. PyTorch opens only
 * TENON_CUDA_IPC. Only TENON_CUDA_FABRIC reaches other machines.
 */
typedef uint32_t tenon_cuda_transport;

enum {
  /**
   * In a handle: the storage is empty. As an option: the first of the following transports that the
   * driver offers for the memory.
   */
  TENON_CUDA_NO_MEMORY = 0,
  /** An IPC handle (cuIpcGetMemHandle) of memory from cudaMalloc. It is PyTorch's default. */
  TENON_CUDA_IPC = 1,
  /**
   * An fd for each piece of memory that is mapped piece by piece. cuMemCreate must have made the
   * pieces with handles of that type.
   */
  TENON_CUDA_FD = 2,
  /** The fabric handle of one such piece. */
  TENON_CUDA_FABRIC = 3,
  /**
   * An fd of the memory pool from which the memory comes (cudaMallocFromPoolAsync). The pool must
   * have been made with handles of that type.
   */
  TENON_CUDA_POOL = 4
};

/**
 * The layouts of an IPC handle's bytes, by the versions of PyTorch that write them. Tenon reads all
 * of them.
 */
typedef uint32_t tenon_cuda_form;

enum {
  /**
   * PyTorch up to 2.4 writes this layout. Every later version reads it too, except for some builds
   * of mid-2024.
   */
  TENON_CUDA_FORM_A = 0,
  TENON_CUDA_FORM_B = 1, /**< The excepted builds of mid-2024 write it. */
  TENON_CUDA_FORM_C = 2, /**< PyTorch 2.6 and 2.7 write this layout. */
  TENON_CUDA_FORM_D = 3, /**< PyTorch 2.8 to 2.12 write this layout. */
  TENON_CUDA_FORM_E = 4  /**< PyTorch 2.13 and later write this layout. */
};

enum {
  /** tenon_open_cuda: options.device is the device, whatever the handle says. */
  TENON_CUDA_ON_DEVICE = 1,
  /** tenon_share_cuda: lend a read-only storage too, although its receiver can write to it. */
  TENON_CUDA_LET_WRITE = 2,
  /**
   * tenon_open_cuda: the device refuses writes by this process. Only TENON_CUDA_FD and
   * TENON_CUDA_FABRIC can do this.
   */
  TENON_CUDA_READ_ONLY = 4,
  /**
   * tenon_open_cuda: memory that the driver has opened stays open for the next handle of the same
   * memory. The comment of tenon_open_cuda says when that is safe.
   */
  TENON_CUDA_KEEP_OPEN = 8,
  /** tenon_open_cuda: open PyTorch's expandable segments from another user's process too. */
  TENON_CUDA_OTHER_USER = 16
};

/** How to lend or open device memory. A NULL pointer to these options means all fields are zero. */
typedef struct tenon_cuda_options {
  /** sizeof(tenon_cuda_options), set by the caller. */
  size_t struct_size;
  /**
   * TENON_CUDA_ON_DEVICE, TENON_CUDA_LET_WRITE, TENON_CUDA_READ_ONLY, TENON_CUDA_KEEP_OPEN,
   * TENON_CUDA_OTHER_USER.
   */
  uint32_t flags;
  /** tenon_share_cuda, for an IPC handle: TENON_CUDA_FORM_*. */
  tenon_cuda_form form;
  /** tenon_open_cuda with TENON_CUDA_ON_DEVICE: the ordinal in this process's numbering. */
  int32_t device;
  /** tenon_share_cuda: the transport to use, TENON_CUDA_*. */
  tenon_cuda_transport transport;
} tenon_cuda_options;

/**
 * A handle with which another process can open device memory. It has the eight items of PyTorch's
 * tuple, whose index stands in brackets, and fields that the tuple lacks. A handle that has fds
 * must travel together with them (SCM_RIGHTS), because the numbers alone mean nothing in another
 * process.
 */
typedef struct tenon_cuda_handle {
  /** sizeof(tenon_cuda_handle), set by the caller, also for output. */
  size_t struct_size;
  /** TENON_CUDA_*. It is ignored on input, because the bytes in `memory` say the transport. */
  tenon_cuda_transport transport;
  /** [0] The device's ordinal in the sender's numbering. */
  int32_t device;
  /**
   * The UUID of the device, which takes precedence over the ordinal. All 0 means that the UUID is
   * not known, as in PyTorch's tuple.
   */
  uint8_t uuid[16];
  /** [2] The size of the storage in bytes. */
  uint64_t nbytes;
  /**
   * [3] Where the storage begins, in bytes from the start of the memory to which the memory handle
   * leads.
   */
  uint64_t offset;
  /** [5] The index of the counter in its file. */
  uint64_t slot;
  /** [7] 1: the bytes are valid once the event is complete. 0: they are valid already. */
  uint32_t event_required;
  /** How many bytes of `memory` are in use. 0 for an empty storage. */
  uint32_t memory_nbytes;
  /**
   * On input: a memory handle that is too long for `memory`, borrowed for the call. It is used
   * instead of `memory`, and memory_nbytes is then its size, at most 1 MiB. NULL on output.
   */
  const uint8_t *long_memory;
  /** [1] The memory handle. */
  uint8_t memory[128];
  /** [6] The event's handle. */
  uint8_t event[64];
  /** [4] The name of the counter's file. "" for an empty storage. */
  char counter[256];
  /**
   * For TENON_CUDA_FD and TENON_CUDA_POOL: the fds that must be sent with the handle, in this
   * order. On output they belong to the library and are valid until the storage's last release. On
   * input they are borrowed for the call.
   */
  const int32_t *fds;
  /** How many fds there are, at most 253. */
  uint32_t n_fds;
  /** 0 on output. Set it to 0 on input. */
  uint32_t reserved;
} tenon_cuda_handle;

/**
 * Lends a storage on a CUDA device: fills in a handle for one receiver. No byte is copied. All work
 * that was given to `stream` before the call is complete before the receiver's work begins. An
 * interprocess event gives this order on the devices, without a wait of the host. If 1,000 such
 * events are in flight, or if the device has no such events, the call waits for the stream instead.
 * @param[in]     storage  borrowed.
 * @param[in]     stream   the stream in which the bytes were written, borrowed for the call.
 * @param[in]     options  borrowed. NULL means the defaults.
 * @param[in,out] out      struct_size set by the caller, the other fields filled in by the call.
 *                         Nothing in it needs to be freed. Untouched on failure.
 * @param[out]    err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, or one of these codes, and then nothing is lent:
 * - TENON_INVALID_ARGUMENT: the storage is not on a CUDA device; the form or the transport is
 *   unknown; a flag is for tenon_open_cuda only.
 * - TENON_PERMISSION: the storage is read-only, and TENON_CUDA_LET_WRITE is not set; or another
 *   file has the name of the counter's file (details "path", "errno").
 * - TENON_UNSUPPORTED: there is no CUDA; the memory came by an IPC handle; or the memory cannot be
 *   lent, or not by the requested transport. In that case the driver was asked, and the message has
 *   its answer.
 * - TENON_PEER_GONE: the storage was dropped (tenon_storage_check_lender).
 * - TENON_RESOURCE_EXHAUSTED.
 * - Other codes for errors of the driver (details "cuda_error", "cuda_error_name").
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_share_cuda(tenon_storage *storage, void *stream,
                                        const tenon_cuda_options *options, tenon_cuda_handle *out,
                                        tenon_error **err) TENON_NOEXCEPT;

/**
 * Opens device memory that Tenon or PyTorch lends. The driver opens each allocation once in this
 * process, however many handles lead to it, and closes it with the last storage in it. If this
 * process has a storage of the same bytes already, the call returns that storage with one reference
 * more. In the process that sent the handle, the call returns the memory itself.
 *
 * Work that is given to `stream` after the call waits for the sender's work, on the device. The
 * storage counts as used in that stream. If the counter's file cannot be opened now, the library
 * tries again when the storage ends. Until that works, the sender does not get its memory back.
 *
 * TENON_CUDA_KEEP_OPEN: memory that the driver has opened stays open after its last storage has
 * ended, until tenon_cuda_collect, or until 64 other allocations were opened with this flag. Use
 * this flag only if the sender does not free the lent memory meanwhile. PyTorch, for example, keeps
 * such memory in its cache. Freeing device memory that another process has open is undefined. The
 * next IPC handle of the same memory always finds it open. The next handle by TENON_CUDA_FD or
 * TENON_CUDA_FABRIC finds it open as long as the sender's storage lives. Memory of a pool is closed
 * in spite of the flag.
 * @param[in]  handle   borrowed.
 * @param[in]  stream   the stream in which the bytes will be used, borrowed until the storage's
 *                      last release. Destroy it only after that.
 * @param[in]  options  borrowed. NULL means the defaults.
 * @param[out] out      new reference; release it with tenon_storage_release. After the last release
 *                      the memory is given back to the sender as soon as the work in the streams
 *                      that use it is complete. Untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, or one of these codes, and then nothing is open and the handle can still be
 *         used:
 * - TENON_INVALID_ARGUMENT: there is no such device; the driver does not know a handle or an fd;
 *   the number of fds does not fit the handle; the range leaves the allocation.
 * - TENON_CORRUPT: the bytes are not a memory handle.
 * - TENON_INCOMPATIBLE: the memory handle has a newer version (detail "version").
 * - TENON_UNSUPPORTED: there is no CUDA; the memory is one of PyTorch's expandable segments with
 *   fabric handles or in form E; or TENON_CUDA_READ_ONLY is set, and the memory cannot be opened in
 *   that way.
 * - TENON_NOT_FOUND: this process does not see the device with that UUID.
 * - TENON_PERMISSION, TENON_PEER_GONE: the fds of PyTorch's expandable segments are fetched from
 *   the process that made them. TENON_PERMISSION: this process may not trace that process, or that
 *   process belongs to another user and TENON_CUDA_OTHER_USER is not set. TENON_PEER_GONE: that
 *   process has ended.
 * - TENON_RESOURCE_EXHAUSTED.
 * - Other codes for errors of the driver (details "cuda_error", "cuda_error_name").
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_open_cuda(const tenon_cuda_handle *handle, void *stream,
                                       const tenon_cuda_options *options, tenon_storage **out,
                                       tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives up a handle that its receiver will not open. The receiver calls this function so that the
 * sender gets its memory back. The counter changes as it does when a handle is opened and its
 * storage released. No CUDA is needed.
 * @param[in] counter  borrowed, the field tenon_cuda_handle.counter.
 * @param[in] slot     the field tenon_cuda_handle.slot.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, also if the file no longer exists because its sender has ended;
 *         TENON_INVALID_ARGUMENT (`counter` is not a name in /dev/shm, or `slot` is beyond the
 *         file), TENON_CORRUPT (the file is not a counter file, or the handle was given up or
 *         released before), TENON_PERMISSION.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_release_cuda_counter(const char *counter, uint64_t slot,
                                                  tenon_error **err) TENON_NOEXCEPT;

/**
 * Records that work in a stream uses a storage. The memory is not given back before all work is
 * complete that was given to the stream until the storage's last release. The host does not wait.
 * In a child of fork, which cannot give work to streams, the call does nothing.
 * @param[in]  storage  borrowed, a storage on a CUDA device.
 * @param[in]  stream   borrowed until the storage's last release. Destroy it only after that. A
 *                      default stream is the one of the calling thread and of its current context,
 *                      whichever thread releases the storage.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (the storage is not on a CUDA device), TENON_PEER_GONE
 *         (the storage was dropped, see tenon_storage_check_lender), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_storage_record_stream(tenon_storage *storage, void *stream,
                                                   tenon_error **err) TENON_NOEXCEPT;

/**
 * Lets a stream wait for the other streams in which a storage is used. Work that is given to
 * `stream` after the call begins when all work is complete that was given to those streams before
 * the call. Those streams are the stream of the call that opened the storage, or of the connection
 * over which it came, and the streams of tenon_storage_record_stream. A program that uses the
 * storage in yet another stream calls this function, as consumers of DLPack do. The host does not
 * wait. `stream` itself is not recorded as using the storage.
 * @param[in]  storage  borrowed, a storage on a CUDA device.
 * @param[in]  stream   borrowed for the call.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (the storage is not on a CUDA device, or the driver does
 *         not know the stream), TENON_PEER_GONE (the storage was dropped, see
 *         tenon_storage_check_lender), TENON_UNSUPPORTED (no CUDA, or a child of fork),
 *         TENON_RESOURCE_EXHAUSTED, other codes for errors of the driver (details "cuda_error",
 *         "cuda_error_name"). After a failure, `stream` may wait for some of the streams only.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_storage_order_stream(tenon_storage *storage, void *stream,
                                                  tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives back device memory that is not used any more. The call checks all memory whose storage was
 * released in this process and that still had a receiver or a stream. It also closes memory that
 * was only kept open (TENON_CUDA_KEEP_OPEN). If it frees the memory of an arena, it waits for the
 * device's work (tenon_cuda_arena_release).
 * @return for how many storages the memory must still wait.
 * @since 0.1. Any thread may call this function.
 */
TENON_API uint64_t tenon_cuda_collect(void) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
