#ifndef TENON_CUDA_EVENT_H
#define TENON_CUDA_EVENT_H

/**
 * @file
 * CUDA events: marks in streams, with which a program orders the work of several streams and
 * processes itself. tenon_share_cuda and tenon_send do not need them: they order the memory that
 * they lend by events of their own.
 */

#include <stddef.h>
#include <stdint.h>
#include <tenon/error.h>
#include <tenon/wait.h>

TENON_BEGIN_DECLS

/*
 * An event is a mark in a CUDA stream. It is complete when all work that was given to the stream
 * before the mark is complete. Streams of this process and of other processes can wait for an event
 * on the device. The host can ask whether an event is complete, or wait for it.
 *
 * An event belongs to its device's primary context. CUDA's runtime, and so every framework, uses
 * that context. An event can be recorded only in streams of that context. Streams of any context
 * can wait for it. A stream is a CUstream or a cudaStream_t. NULL is the default stream of the
 * event's device, and 0x2 is the default stream of the calling thread. Both are streams of the
 * current context if that context is on the device, else of the primary context. Events do not
 * measure time, because an event that measures time cannot leave its process.
 *
 * All functions on events may be called concurrently. If two threads record an event at the same
 * time, one of the two records is the last. In a child of fork of a process that used CUDA, every
 * function here returns TENON_UNSUPPORTED, except retain and release, which do not call the driver.
 */

/** A mark in a CUDA stream. */
typedef struct tenon_cuda_event tenon_cuda_event;

enum {
  /** The event has an IPC handle, with which other processes open it. */
  TENON_CUDA_EVENT_INTERPROCESS = 1
};

/** How to make or open an event. A NULL pointer to these options means all fields are zero. */
typedef struct tenon_cuda_event_options {
  size_t struct_size; /**< sizeof(tenon_cuda_event_options), set by the caller. */
  uint32_t flags;     /**< TENON_CUDA_EVENT_*. 0 for an event that is opened. */
  int32_t device;     /**< The device's ordinal in this process's numbering. */
} tenon_cuda_event_options;

/**
 * Makes an event. The event is complete until it is recorded.
 * @param[in]  options  borrowed. NULL means the defaults.
 * @param[out] out      new reference; release it with tenon_cuda_event_release. Untouched on
 *                      failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (there is no such device), TENON_UNSUPPORTED (no CUDA;
 *         TENON_CUDA_EVENT_INTERPROCESS on a device without CUDA IPC, as in MIG mode; a child of
 *         fork), TENON_RESOURCE_EXHAUSTED, other codes for errors of the driver (details
 *         "cuda_error", "cuda_error_name").
 * @since 0.1. Any thread may call this function. If the device's primary context does not exist
 *         yet, the call makes it, which takes some hundred megabytes and some time.
 */
TENON_API tenon_status tenon_cuda_event_new(const tenon_cuda_event_options *options,
                                            tenon_cuda_event **out,
                                            tenon_error **err) TENON_NOEXCEPT;

/**
 * Opens an event of another process. Both events are then the same mark, whichever process records
 * it. The process that made the event must keep it until all other processes have released it. If
 * it does not, or if that process dies, CUDA does not define the behaviour of the other processes'
 * events.
 * @param[in]  handle   borrowed, the 64 bytes of tenon_cuda_event_ipc_handle or of
 *                      cudaIpcGetEventHandle, which PyTorch uses too.
 * @param[in]  options  borrowed. NULL means the defaults. The device is the one on which the event
 *                      was made, in this process's numbering.
 * @param[out] out      new reference; release it with tenon_cuda_event_release. Untouched on
 *                      failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (there is no such device; TENON_CUDA_EVENT_INTERPROCESS
 *         is set; the handle leads to no event any more; or this process made the handle, which the
 *         driver opens in other processes only), TENON_UNSUPPORTED (no CUDA; no CUDA IPC; a child
 *         of fork), TENON_RESOURCE_EXHAUSTED, other codes for errors of the driver (details
 *         "cuda_error", "cuda_error_name").
 * @since 0.1. Any thread may call this function. It makes the device's primary context if
 *         necessary, as tenon_cuda_event_new does.
 */
TENON_API tenon_status tenon_cuda_event_from_ipc_handle(const uint8_t handle[64],
                                                        const tenon_cuda_event_options *options,
                                                        tenon_cuda_event **out,
                                                        tenon_error **err) TENON_NOEXCEPT;

/**
 * Adds a reference.
 * @param[in] event  borrowed. NULL is allowed.
 * @return `event`, as a new reference that must be released too.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_cuda_event *tenon_cuda_event_retain(tenon_cuda_event *event) TENON_NOEXCEPT;

/**
 * Releases a reference. The last release destroys the event. Streams that already wait for it
 * continue to wait, and the release waits for none of them. Before the process that made the event
 * destroys it, other processes must have released it.
 * @param[in] event  consumed. NULL is allowed.
 * @since 0.1. Any thread may call this function. A release in a child of fork does not destroy the
 *         parent's event.
 */
TENON_API void tenon_cuda_event_release(tenon_cuda_event *event) TENON_NOEXCEPT;

/**
 * Records an event in a stream. The event is complete when all work is complete that was given to
 * the stream before the call. The new mark replaces an older mark of the same event, but streams
 * that already wait for the older mark go on waiting for it.
 * @param[in]  event   borrowed.
 * @param[in]  stream  borrowed for the call, a stream of the event's context.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (also for a stream of another context),
 *         TENON_UNSUPPORTED (a child of fork), other codes for errors of the driver (details
 *         "cuda_error", "cuda_error_name").
 * @since 0.1. Any thread may call this function. The host does not wait.
 */
TENON_API tenon_status tenon_cuda_event_record(tenon_cuda_event *event, void *stream,
                                               tenon_error **err) TENON_NOEXCEPT;

/**
 * Lets a stream wait for an event. Work that is given to the stream after the call begins when the
 * mark that was recorded last is reached, whichever process recorded it. The host does not wait. If
 * the event was never recorded, the stream does not wait either.
 * @param[in]  event   borrowed.
 * @param[in]  stream  borrowed for the call, a stream of any device.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED (a child of fork), other codes for
 *         errors of the driver (details "cuda_error", "cuda_error_name").
 * @since 0.1. Any thread may call this function. The host does not wait.
 */
TENON_API tenon_status tenon_cuda_event_wait(const tenon_cuda_event *event, void *stream,
                                             tenon_error **err) TENON_NOEXCEPT;

/**
 * Tells whether an event is complete.
 * @param[in]  event  borrowed.
 * @param[out] out    1 if the work before the mark is complete, or if the event was never recorded.
 *                    Otherwise 0. Untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED (a child of fork), other codes for
 *         errors of the driver, which include errors of earlier work on the device (details
 *         "cuda_error", "cuda_error_name").
 * @since 0.1. Any thread may call this function. The host does not wait.
 */
TENON_API tenon_status tenon_cuda_event_query(const tenon_cuda_event *event, int *out,
                                              tenon_error **err) TENON_NOEXCEPT;

/**
 * Waits on the host until an event is complete. If nothing but the event can end the wait, and this
 * process made the event, the thread sleeps in the driver. Otherwise the call polls the event, at
 * most a millisecond apart. A call that polls also waits for a mark that is recorded during the
 * wait.
 * @param[in]  event  borrowed.
 * @param[in]  wait   borrowed. NULL: wait for ever, and do not let a signal end the wait.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_WOULD_BLOCK, TENON_TIMEOUT, TENON_INTERRUPTED,
 *         TENON_CANCELLED, TENON_UNSUPPORTED (a child of fork), other codes for errors of the
 *         driver, which include errors of earlier work on the device (details "cuda_error",
 *         "cuda_error_name").
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_cuda_event_synchronize(const tenon_cuda_event *event,
                                                    const tenon_wait *wait,
                                                    tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives the handle with which other processes open an event. It is a CUipcEventHandle, and it is
 * the same in each call. The handle is valid as long as the event exists.
 * @param[in]  event  borrowed, made with TENON_CUDA_EVENT_INTERPROCESS.
 * @param[out] out    the caller's 64 bytes, filled in by the call. Untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (the event was made without
 *         TENON_CUDA_EVENT_INTERPROCESS), TENON_UNSUPPORTED (the event is another process's, and
 *         only the process that made it can lend it; a device without CUDA IPC; a child of fork),
 *         other codes for errors of the driver (details "cuda_error", "cuda_error_name").
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_cuda_event_ipc_handle(const tenon_cuda_event *event, uint8_t out[64],
                                                   tenon_error **err) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
