#ifndef TENON_BY_CUDA_H
#define TENON_BY_CUDA_H

#include <stddef.h>
#include <stdint.h>
#include <tenon/error.h>
#include <tenon/storage.h>

TENON_BEGIN_DECLS

/*
 * Device memory is lent as PyTorch lends it (docs/format/cuda.md), and where it has no handle of PyTorch's kind by the driver's newer ways.
 * A handle is for one receiver, who opens it once. It leads to the whole allocation in which the storage lies, or to all of the pieces that
 * are mapped there, and its receiver can read and write all of that. What came by an IPC handle cannot be lent on; what came by another way
 * can, by the same.
 *
 * Three things keep the memory, and its owner gets it back when none does any more: the storage; the streams in which it was used, as far
 * as they were named; and each handle, until its receiver has let go, which he says by a counter in a file. Nobody is told when a counter
 * falls or a stream has passed. It is looked at by every share, open and last release, a few at a time, and by tenon_cuda_collect. So the
 * owner may get it back in any of these calls, on their thread. A receiver that is killed, and a handle that nobody opens, keep the memory
 * until this process ends, as they do in PyTorch.
 *
 * A stream is a CUstream or a cudaStream_t; NULL is the default stream, 0x2 that of the calling thread. No function here waits for a
 * device, but as tenon_share_cuda says; the last release of memory that was opened by FD or FABRIC can, in the driver. Memory is opened in
 * the device's primary context, which CUDA's runtime uses. A child of fork of a process that used CUDA has the storages of its parent and
 * can do nothing with them but release them.
 */

/**
 * Tell whether this process can use CUDA, and if not, why. The library is one for machines with and without a GPU: it looks for NVIDIA's
 * driver (11.4 or newer) when a function of this header is called first, starts it (cuInit) and counts its devices, which can take a
 * tenth of a second and more. No context is made, and no memory of a device is taken. What came of it is kept until the process ends:
 * later calls cost next to nothing, and a driver that was installed meanwhile is not seen. But a refusal that can pass (the system's
 * daemons are not ready yet, another process has the device for itself, memory is short) is not kept: the next call asks again.
 * @param[out] err  optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_UNSUPPORTED: the library was built without CUDA, there is no driver or an older one (details "path",
 *         "driver_version"), it has no device or refused to start (details "cuda_error", "cuda_error_name"), or this process is a child
 *         of fork of one that had started it. TENON_RESOURCE_EXHAUSTED: no memory to ask.
 * @since 0.1. Any thread; others that ask meanwhile wait for the first. Fork: the driver does not work in a child of a process that had
 *        started it, and Tenon does not call it there. A child of a process that never used CUDA may start it for itself.
 */
TENON_API tenon_status tenon_cuda_available(tenon_error **err) TENON_NOEXCEPT;

/** By which way a handle leads to the memory. PyTorch opens the first only; TENON_CUDA_FABRIC alone reaches other machines. */
typedef uint32_t tenon_cuda_transport;

enum {
  TENON_CUDA_NO_MEMORY = 0, /**< of an empty storage; as an option: as the memory can travel, the first of the others that it can */
  TENON_CUDA_IPC = 1,       /**< cuIpcGetMemHandle: of cudaMalloc's memory; PyTorch's default */
  TENON_CUDA_FD = 2,        /**< an fd for each piece of memory that is mapped piece by piece (cuMemCreate with such handles) */
  TENON_CUDA_FABRIC = 3,    /**< the fabric handle of one such piece */
  TENON_CUDA_POOL = 4       /**< an fd of the memory pool, which was made with such handles (cudaMallocFromPoolAsync) */
};

/** The bytes of an IPC handle, by the versions of PyTorch that write them. All are read. */
typedef uint32_t tenon_cuda_form;

enum {
  TENON_CUDA_FORM_A = 0, /**< up to 2.4; every later one reads it too, but for some builds of mid-2024 */
  TENON_CUDA_FORM_B = 1, /**< those builds */
  TENON_CUDA_FORM_C = 2, /**< 2.6, 2.7 */
  TENON_CUDA_FORM_D = 3, /**< 2.8 to 2.12 */
  TENON_CUDA_FORM_E = 4  /**< 2.13 and later */
};

enum {
  TENON_CUDA_ON_DEVICE = 1,  /**< open: options.device is the device, whatever the handle says */
  TENON_CUDA_LET_WRITE = 2,  /**< share: a read-only storage, too, though its receiver can write it */
  TENON_CUDA_READ_ONLY = 4,  /**< open: so that the device refuses this process's writes; by FD and FABRIC only */
  TENON_CUDA_KEEP_OPEN = 8,  /**< open: what the driver opened is kept for the next handle of the same memory, see tenon_open_cuda */
  TENON_CUDA_OTHER_USER = 16 /**< open: take the memory of PyTorch's expandable segments from another user's process, too */
};

/** How device memory is lent and opened. NULL, where one is taken, means all zero. */
typedef struct tenon_cuda_options {
  size_t struct_size;             /**< sizeof(tenon_cuda_options), set by the caller */
  uint32_t flags;                 /**< TENON_CUDA_ON_DEVICE, TENON_CUDA_LET_WRITE, TENON_CUDA_READ_ONLY, TENON_CUDA_KEEP_OPEN,
                                       TENON_CUDA_OTHER_USER */
  tenon_cuda_form form;           /**< share, of an IPC handle: TENON_CUDA_FORM_* */
  int32_t device;                 /**< open, with TENON_CUDA_ON_DEVICE: ordinal in this process's numbering */
  tenon_cuda_transport transport; /**< share: the way to take, or 0 */
} tenon_cuda_options;

/**
 * How to reach device memory: the eight items of PyTorch's tuple (its order in brackets), and what it lacks. Where there are fds it is no
 * handle without them: numbers of another process lead nowhere.
 */
typedef struct tenon_cuda_handle {
  size_t struct_size;             /**< sizeof(tenon_cuda_handle), set by the caller, also for output */
  tenon_cuda_transport transport; /**< TENON_CUDA_*; on input not looked at: the memory handle says it */
  int32_t device;                 /**< [0] ordinal in the sender's numbering */
  uint8_t uuid[16];               /**< of the device, which wins over the ordinal; all 0: not known, as in PyTorch's tuple */
  uint64_t nbytes;                /**< [2] bytes of the storage */
  uint64_t offset;                /**< [3] bytes from where the memory handle leads */
  uint64_t slot;                  /**< [5] index of the counter in its file */
  uint32_t event_required;        /**< [7] 1: the bytes are good once the event has passed; 0: they are already */
  uint32_t memory_nbytes;         /**< bytes that are used of `memory`; 0: an empty storage */
  const uint8_t *long_memory;     /**< input: borrowed, `memory_nbytes` of them, instead of `memory`; NULL on output */
  uint8_t memory[128];            /**< [1] the memory handle */
  uint8_t event[64];              /**< [6] the event's handle */
  char counter[256];              /**< [4] name of the counter's file; "" for an empty storage */
  const int32_t *fds; /**< FD, POOL: the fds that go with it, to be sent by SCM_RIGHTS in this order. Output: the library's, valid
                           until the storage's last release. Input: borrowed for the call */
  uint32_t n_fds;     /**< how many: at most 253 */
  uint32_t reserved;  /**< 0 */
} tenon_cuda_handle;

/**
 * Lend a storage on a CUDA device. No byte is copied. What was given to `stream` until now is done before work of the receiver's begins: by
 * an interprocess event, or, when 1,000 of them are on the way or the device has none, by waiting for the stream here.
 * @param[in]     storage  borrowed.
 * @param[in]     stream   in which the bytes were written; borrowed for the call.
 * @param[in]     options  borrowed; NULL: defaults.
 * @param[in,out] out      out->struct_size set by the caller, the rest is filled in; nothing in it needs to be freed; untouched on failure.
 * @param[out]    err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (not on a CUDA device; an unknown form or transport), TENON_PERMISSION (a read-only storage,
 *         without TENON_CUDA_LET_WRITE; a counter's name that somebody's file has, details "path", "errno"), TENON_UNSUPPORTED (no
 *         CUDA; memory that came by an IPC handle; memory that cannot travel, or not by the transport that was asked for: the driver is
 *         asked, and the message says what it answers), TENON_RESOURCE_EXHAUSTED, others as the driver says (details "cuda_error",
 *         "cuda_error_name"). On failure nothing is lent.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_share_cuda(tenon_storage *storage, void *stream, const tenon_cuda_options *options, tenon_cuda_handle *out,
                                        tenon_error **err) TENON_NOEXCEPT;

/**
 * Open device memory that Tenon or PyTorch lends. All handles of one allocation are opened once, and closed with the last storage. Bytes
 * that this process holds already give the same storage with one reference more, and in the process that sent it a handle gives the memory
 * itself. With TENON_CUDA_KEEP_OPEN what the driver opened stays so when its last storage has gone, until tenon_cuda_collect, or until 64
 * others were opened so. That is for senders that do not free meanwhile what they lent, as PyTorch with its cache of memory: to free
 * device memory that another process has open is not defined. By an IPC handle the next one of the same memory always finds it open; by
 * fds and the fabric as long as the sender's storage lives; memory of a pool is closed all the same. What is given to `stream` from now on
 * waits for the sender's work, on the device; the storage counts as used in that stream. A counter's file that may not be opened from here
 * is tried again at the end, and until that works the sender's memory waits.
 * @param[in]  handle   borrowed.
 * @param[in]  stream   in which the bytes will be used; borrowed until the storage's last release: destroy it after that.
 * @param[in]  options  borrowed; NULL: defaults.
 * @param[out] out      new reference, release with tenon_storage_release: its last release, once the streams have passed, gives the memory
 *                      back to the sender; untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (no such device, a handle or an fd that the driver does not know, another number of fds than
 *         belong to it, a range outside of the allocation), TENON_CORRUPT, TENON_INCOMPATIBLE (a memory handle of a newer version; detail
 *         "version"), TENON_UNSUPPORTED (no CUDA; a segment of PyTorch's of fabric handles, or of form E; read-only where the device cannot
 *         keep it), TENON_NOT_FOUND (this process does not see the device of that UUID), TENON_PERMISSION and TENON_PEER_GONE (PyTorch's
 *         expandable segments, whose fds are fetched from their process: it may not be traced from here, or has ended),
 *         TENON_RESOURCE_EXHAUSTED, others as the driver says (details "cuda_error", "cuda_error_name"). On failure nothing is open, and
 *         the handle is as good as before.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_open_cuda(const tenon_cuda_handle *handle, void *stream, const tenon_cuda_options *options,
                                       tenon_storage **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Take a message back that will not be opened, on its receiver's side: what opening and releasing it would do to its counter. Needs no
 * CUDA.
 * @param[in] counter  borrowed; tenon_cuda_handle.counter.
 * @param[in] slot     tenon_cuda_handle.slot.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, also if the file is gone with its sender; TENON_INVALID_ARGUMENT (no name in /dev/shm, a slot beyond the file),
 *         TENON_CORRUPT (no counter file, or it was taken back before), TENON_PERMISSION.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_release_cuda_counter(const char *counter, uint64_t slot, tenon_error **err) TENON_NOEXCEPT;

/**
 * Say that work in that stream uses a storage: what was given to it until the storage's last release has passed before the memory is given
 * back. The host does not wait for it. In a child of fork, where nothing is given to streams, it does nothing.
 * @param[in]  storage  borrowed; on a CUDA device.
 * @param[in]  stream   borrowed until the storage's last release: destroy it after that. A default stream is that of the calling thread and
 *                      of its current context, whoever releases the storage.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (not on a CUDA device), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_storage_record_stream(tenon_storage *storage, void *stream, tenon_error **err) TENON_NOEXCEPT;

/**
 * Let what is given to `stream` from now on come after what was given until now to the streams in which the storage is used here: that of
 * the call that opened it or of the connection over which it came, and those of tenon_storage_record_stream. For whoever uses it in yet
 * another stream, as DLPack's consumers do. The host does not wait. `stream` itself is not recorded.
 * @param[in]  storage  borrowed; on a CUDA device.
 * @param[in]  stream   borrowed for the call.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (not on a CUDA device, a stream that the driver does not know), TENON_UNSUPPORTED (no CUDA, a
 *         child of fork), TENON_RESOURCE_EXHAUSTED, others as the driver says (details "cuda_error", "cuda_error_name"). On failure it may
 *         come after some of them only.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_storage_order_stream(tenon_storage *storage, void *stream, tenon_error **err) TENON_NOEXCEPT;

/**
 * Give device memory back that nobody uses any more: look at all that was released here and still had a receiver or a stream. What was only
 * kept open (TENON_CUDA_KEEP_OPEN) is closed.
 * @return how many storages' memory waits on.
 * @since 0.1. Any thread.
 */
TENON_API uint64_t tenon_cuda_collect(void) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
