#ifndef TENON_CUDA_EVENT_H
#define TENON_CUDA_EVENT_H

#include <stddef.h>
#include <stdint.h>
#include <tenon/error.h>
#include <tenon/wait.h>

TENON_BEGIN_DECLS

/*
 * An event is a mark in a CUDA stream: it is complete when all that was given to the stream before has passed. Streams of this process and
 * of others wait for it on the device, and the host can ask or wait. What Tenon lends by tenon_share_cuda has such marks of its own; these
 * are for what a program orders by itself.
 *
 * An event is of its device's primary context, which CUDA's runtime uses and so every framework, and it can be recorded in streams of that
 * context only. Streams that wait for it can be of any. A stream is a CUstream or a cudaStream_t; NULL is the default stream of the event's
 * device, 0x2 that of the calling thread: of the current context, if that is on the device, else of the primary one. Events have no times:
 * one that measures time cannot leave its process.
 *
 * Everything on events is safe concurrently, and of two records at once one is the last. In a child of fork of a process that used CUDA,
 * every function here is TENON_UNSUPPORTED but retain and release, which leave the driver alone.
 */

/** A mark in a CUDA stream. */
typedef struct tenon_cuda_event tenon_cuda_event;

enum {
  TENON_CUDA_EVENT_INTERPROCESS = 1 /**< it has an IPC handle, by which other processes open it */
};

/** How an event is made or opened. NULL, where one is taken, means all zero. */
typedef struct tenon_cuda_event_options {
  size_t struct_size; /**< sizeof(tenon_cuda_event_options), set by the caller */
  uint32_t flags;     /**< TENON_CUDA_EVENT_*; of an event that is opened: 0 */
  int32_t device;     /**< ordinal in this process's numbering */
} tenon_cuda_event_options;

/**
 * Make an event. Until it is recorded it is complete.
 * @param[in]  options  borrowed; NULL: defaults.
 * @param[out] out      new reference, release with tenon_cuda_event_release; untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (no such device), TENON_UNSUPPORTED (no CUDA; INTERPROCESS on a device without CUDA IPC, as in
 *         MIG mode; a child of fork), TENON_RESOURCE_EXHAUSTED, others as the driver says (details "cuda_error", "cuda_error_name").
 * @since 0.1. Any thread. Makes the device's primary context, if nobody has yet, which takes some hundred megabytes and a while.
 */
TENON_API tenon_status tenon_cuda_event_new(const tenon_cuda_event_options *options, tenon_cuda_event **out,
                                            tenon_error **err) TENON_NOEXCEPT;

/**
 * Open another process's event. Both then mean the same mark, whichever of them records it. The process that made the event has to keep it
 * until all others have released it: CUDA does not define what happens to them otherwise, nor what an event of a process that died says.
 * @param[in]  handle   borrowed; the 64 bytes of tenon_cuda_event_ipc_handle, or of cudaIpcGetEventHandle, as PyTorch's.
 * @param[in]  options  borrowed; NULL: defaults. The device is the one on which it was made, in this process's numbering.
 * @param[out] out      new reference, release with tenon_cuda_event_release; untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (no such device; INTERPROCESS; a handle that leads to no event any more, or that this process
 *         made: the driver opens it elsewhere only), TENON_UNSUPPORTED (no CUDA or no CUDA IPC; a child of fork), TENON_RESOURCE_EXHAUSTED,
 *         others as the driver says (details "cuda_error", "cuda_error_name").
 * @since 0.1. Any thread. Makes the device's primary context, as above.
 */
TENON_API tenon_status tenon_cuda_event_from_ipc_handle(const uint8_t handle[64], const tenon_cuda_event_options *options,
                                                        tenon_cuda_event **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Take one more reference.
 * @param[in] event  borrowed; NULL is allowed.
 * @return `event`, to be released too.
 * @since 0.1. Any thread.
 */
TENON_API tenon_cuda_event *tenon_cuda_event_retain(tenon_cuda_event *event) TENON_NOEXCEPT;

/**
 * Give one reference back. With the last the event goes. Streams that wait for it go on waiting, and nobody waits for them; but other
 * processes must have released it before the one that made it does.
 * @param[in] event  consumed; NULL is allowed.
 * @since 0.1. Any thread. In a child of fork the parent's event stays.
 */
TENON_API void tenon_cuda_event_release(tenon_cuda_event *event) TENON_NOEXCEPT;

/**
 * Put the mark into a stream: the event is complete when all that was given to the stream until now has passed. An older mark of the same
 * event is forgotten; who waits for that one already goes on doing so.
 * @param[in]  event   borrowed.
 * @param[in]  stream  borrowed for the call; of the event's context.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (also for a stream of another context), TENON_UNSUPPORTED (a child of fork), others as the
 *         driver says (details "cuda_error", "cuda_error_name").
 * @since 0.1. Any thread. Waits for nothing.
 */
TENON_API tenon_status tenon_cuda_event_record(tenon_cuda_event *event, void *stream, tenon_error **err) TENON_NOEXCEPT;

/**
 * Let a stream wait: what is given to it from now on begins when the mark that was recorded last has been reached, in whichever process.
 * The host does not wait. Of an event that nobody recorded: nothing.
 * @param[in]  event   borrowed.
 * @param[in]  stream  borrowed for the call; of any device.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED (a child of fork), others as the driver says (details "cuda_error",
 *         "cuda_error_name").
 * @since 0.1. Any thread. Waits for nothing.
 */
TENON_API tenon_status tenon_cuda_event_wait(const tenon_cuda_event *event, void *stream, tenon_error **err) TENON_NOEXCEPT;

/**
 * Ask whether the event is complete.
 * @param[in]  event  borrowed.
 * @param[out] out    1: what was before the mark has passed, or nobody recorded it; 0: not yet; untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED (a child of fork), others as the driver says, also for what went wrong on the
 *         device before (details "cuda_error", "cuda_error_name").
 * @since 0.1. Any thread. Waits for nothing.
 */
TENON_API tenon_status tenon_cuda_event_query(const tenon_cuda_event *event, int *out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Wait here, on the host, until the event is complete. A wait that something else can end, and any wait for another process's event, looks
 * again and again, at most a millisecond apart, and so goes on to a mark that is recorded meanwhile; one for ever for an event of this
 * process sleeps in the driver.
 * @param[in]  event  borrowed.
 * @param[in]  wait   borrowed; NULL: for ever, not interruptible.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_WOULD_BLOCK, TENON_TIMEOUT, TENON_INTERRUPTED, TENON_CANCELLED, TENON_UNSUPPORTED (a
 *         child of fork), others as the driver says, also for what went wrong on the device before (details "cuda_error",
 *         "cuda_error_name").
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_cuda_event_synchronize(const tenon_cuda_event *event, const tenon_wait *wait,
                                                    tenon_error **err) TENON_NOEXCEPT;

/**
 * The handle by which other processes open the event: a CUipcEventHandle, the same each time. It is as good as the event is alive.
 * @param[in]  event  borrowed; made with TENON_CUDA_EVENT_INTERPROCESS.
 * @param[out] out    the caller's, 64 bytes, filled in; untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (made without INTERPROCESS), TENON_UNSUPPORTED (another process's event: only who made it can
 * lend it; a device without CUDA IPC; a child of fork), others as the driver says (details "cuda_error", "cuda_error_name").
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_cuda_event_ipc_handle(const tenon_cuda_event *event, uint8_t out[64], tenon_error **err) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
