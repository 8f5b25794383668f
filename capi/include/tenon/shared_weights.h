#ifndef TENON_SHARED_WEIGHTS_H
#define TENON_SHARED_WEIGHTS_H

/**
 * @file
 * Weights once: the processes of a machine share the weights of a model under a name. The first
 * process that opens the name loads the file into memory. Every other process maps the same memory
 * read-only, and the kernel enforces that nobody changes it. While one process loads, the others
 * wait for it, so there is never a second copy.
 *
 * No server has to run. Each process that has the weights can hand them on: if the process that
 * loaded them ends or is killed, another one that has them takes over, in its service thread (rule
 * 10 in tenon.h). The memory is freed when no process has a tensor of it any more.
 *
 * The weights of a name may change. tenon_publish_shared_weights loads the next version and
 * switches to it in one step: newcomers get the newest version, and a process that has an older one
 * keeps it and hears of the newer one (tenon_shared_weights_changed).
 *
 * A name is a few files in a directory, such as NAME.sock and NAME.hold. The default directory
 * is /dev/shm/tenon-weights-UID, which belongs to the user alone. The processes of several
 * containers share weights in a directory that is mounted into all of them.
 *
 * The weights may lie in the memory of a CUDA device instead (options.device). Then the device has
 * one copy for all processes. Each of them maps that copy, read-only where the device knows such
 * access. The device's memory is freed when the last of them has ended. A child of fork cannot use
 * weights of a device that it has inherited.
 *
 * The form of the file is one that tenon_open_weights reads. The shards of an index (*.index.json)
 * are loaded together, as one memory under one name. The tensors are views of one FROZEN segment,
 * or of a LENDER_WRITES segment for TENON_SHARED_WEIGHTS_REUSE. So they can be sent to other
 * processes too. A tensor that no view can show, because its
 * record is compressed, has the other byte order or is misaligned, is a copy that is private to
 * each process.
 */

#include <stddef.h>
#include <stdint.h>
#include <tenon/error.h>
#include <tenon/module.h>
#include <tenon/value.h>
#include <tenon/wait.h>

TENON_BEGIN_DECLS

/** Weights that this process shares with others. */
typedef struct tenon_shared_weights tenon_shared_weights;

enum {
  /**
   * Admit members of options.group besides the user and root, and accept a server that is a member
   * of that group. It needs options.directory.
   */
  TENON_SHARED_WEIGHTS_GROUP = 1,
  /**
   * For tenon_publish_shared_weights_values: the version lies in LENDER_WRITES memory, which nobody
   * but this process can write. A later version with this flag is written into the memory of an
   * older version of this process that nobody has any more, because fresh memory costs several
   * times as much as the copy. Two buffers alternate, and there are more of them only while readers
   * hold older versions. The buffers are given back when this process has released all versions of
   * the name that it published with this flag, so release a version after the next one is
   * published.
   *
   * A tensor keeps its version, and so do the lease of a connection, an fd of tenon_share_fd and
   * the mapping that a child of fork inherits. The kernel tells whether there are any. Before Linux
   * 5.3 it cannot, and then no memory is written again.
   */
  TENON_SHARED_WEIGHTS_REUSE = 2
};

/**
 * Called on the thread of tenon_open_shared_weights while this process loads the file, and while it
 * waits for the process that loads it. It must not throw or longjmp, and may not fork.
 * @param[in] context  options.progress_context.
 * @param[in] done     the bytes that are loaded.
 * @param[in] total    the bytes of the file.
 */
typedef void (*tenon_shared_weights_progress)(void *context, uint64_t done, uint64_t total);

/** How to open shared weights. A NULL pointer means that all fields are zero. */
typedef struct tenon_shared_weights_options {
  /** sizeof(tenon_shared_weights_options), set by the caller. */
  size_t struct_size;
  /** TENON_SHARED_WEIGHTS_*. */
  uint32_t flags;
  /** The group id for TENON_SHARED_WEIGHTS_GROUP. Without that flag it must be 0. */
  uint32_t group;
  /**
   * Borrowed: the absolute path of a directory of this machine. All processes that share a name
   * must name the same directory. NULL means /dev/shm/tenon-weights-UID.
   */
  const char *directory;
  /** The largest file that this process loads, or index with its shards. 0 means no limit. */
  uint64_t max_nbytes;
  /** May be NULL. */
  tenon_shared_weights_progress progress;
  /** The first argument of `progress`. */
  void *progress_context;
  /**
   * Borrowed: the device in whose memory the weights lie, "cpu" or "cuda:N". N is the number of
   * the device in this process. NULL means "cpu". A name on a device means other weights than the
   * same name on another device or on the CPU. A process may call the device by another number
   * than its peers, because the files of the name have the UUID of the device. The file is streamed
   * to the device, and is never whole in the memory of the CPU.
   */
  const char *device;
  /**
   * The most bytes that the weights of all names in the directory may have together. A load or a
   * publication that would exceed it is refused before it begins. All versions that a process has
   * count, and so do those that are still being loaded. 0 means no limit.
   */
  uint64_t budget_nbytes;
} tenon_shared_weights_options;

/** Facts about shared weights. They change when other processes come and go. */
typedef struct tenon_shared_weights_info {
  /** sizeof(tenon_shared_weights_info), set by the caller. */
  size_t struct_size;
  /** The bytes of the shared memory. */
  uint64_t nbytes;
  /** The size of the file when it was loaded. For an index: the sum with its shards. */
  uint64_t file_nbytes;
  /** When the file was last changed before it was loaded, since 1970. */
  int64_t file_mtime_ns;
  /** The CRC-32 of the first MiB of the file. */
  uint64_t file_crc;
  /** The version of the weights under this name. The first one is 1. */
  uint64_t version;
  /** How many tensors there are. */
  uint64_t count;
  /** 1: this object loaded the file. 0: it found the weights in memory. */
  uint32_t loaded;
  /** 1: this process hands the weights to others now. */
  uint32_t serves;
  /** The process that loaded the file. It may have ended. */
  int32_t loader_pid;
  /** The process that hands the weights to others. 0: it has ended, and its successor is being
   *  chosen, or this process is a child of fork. */
  int32_t server_pid;
  /** If `serves` is 1: how many processes have the weights. Otherwise how many there were when this
   *  process came. */
  uint32_t holders;
  uint32_t reserved;
} tenon_shared_weights_info;

/**
 * Opens weights by name. If no process has them, this process loads the file into shared memory.
 * Otherwise it maps the memory that another process has, however long ago that one loaded it.
 *
 * The path only says which file is meant. The weights of a name stay as they were loaded when the
 * file changes. A process that opens the name with a changed file gets an error. Without a path the
 * call gives the newest version.
 * @param[in]  path     borrowed. NULL means to load nothing: the call succeeds only if a process
 *                      has the weights.
 * @param[in]  name     borrowed: at most 200 bytes, without a slash, not beginning with a dot.
 * @param[in]  options  borrowed. NULL means the defaults.
 * @param[in]  wait     borrowed. It bounds the wait for other processes. NULL means to wait for
 *                      ever. Only its cancel ends a load that this process does itself.
 * @param[out] out      new reference; release it with tenon_shared_weights_release. Untouched on
 *                      failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, or
 * - TENON_INVALID_ARGUMENT: a name or a directory that is not allowed; an empty file; a device that
 *   this process does not see.
 * - TENON_NOT_FOUND: there is no such file or directory; or the path is NULL, and no process has
 *   the weights.
 * - TENON_PERMISSION with the detail "field": the name stands for another file, or for another
 *   version of the file. The detail "pid" names the process that hands it out.
 * - TENON_PERMISSION without "field": the weights are another user's, or the file or the directory
 *   may not be used.
 * - TENON_TIMEOUT, TENON_WOULD_BLOCK: the wait ended while another process was loading, or did not
 *   answer. The detail "pid" names that process, which may be stopped (SIGSTOP).
 * - TENON_INTERRUPTED, TENON_CANCELLED.
 * - TENON_RESOURCE_EXHAUSTED: no memory, or a limit, such as "max_nbytes", "budget_nbytes" or
 *   "device memory".
 * - TENON_CORRUPT: the file changed while it was loaded, or is broken; or another program listens
 *   on the socket.
 * - TENON_INCOMPATIBLE: a process has the weights with a later version of Tenon.
 * - TENON_UNSUPPORTED: a file of another kind, as from tenon_open_weights; a directory on a network
 *   file system. For a device: there is no driver, it cannot lend the device's memory by an fd, or
 *   this process is a child of fork. With the detail "name": no view of the device's memory can
 * show that tensor, because its record is compressed, misaligned or of the other byte order.
 * - TENON_IO.
 * @since 0.1. Any thread may call this function. A child of fork that calls it has weights of its
 *         own, and the weights that it has inherited stay readable but are not handed on.
 */
TENON_API tenon_status tenon_open_shared_weights(const char *path, const char *name,
                                                 const tenon_shared_weights_options *options,
                                                 const tenon_wait *wait, tenon_shared_weights **out,
                                                 tenon_error **err) TENON_NOEXCEPT;

/**
 * Publishes a file as the next version of the weights of a name. The call loads the file first, and
 * then switches in one step. If no process has weights of the name, the file becomes version 1.
 *
 * Processes that have an older version keep it. Its memory is freed when the last of them releases
 * it. The new version lives as long as a process has it, so the publisher keeps `out` until another
 * process has opened the name. If no process has the new version any more, then a process with the
 * newest older version hands that one out again.
 * @param[in]  path     borrowed.
 * @param[in]  name     borrowed, as for tenon_open_shared_weights.
 * @param[in]  options  borrowed. NULL means the defaults.
 * @param[in]  wait     borrowed. It bounds the wait for another process that publishes under this
 *                      name. NULL means to wait for ever. Only its cancel ends a load.
 * @param[out] out      new reference; release it with tenon_shared_weights_release. Untouched on
 *                      failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, or an error after which no process sees a change:
 * - TENON_TIMEOUT, TENON_WOULD_BLOCK: the wait ended while another process publishes. The detail
 *   "pid" names that process, which may be stopped (SIGSTOP).
 * - TENON_PERMISSION: the weights are another user's, or a file or the directory may not be used.
 * - TENON_INVALID_ARGUMENT, TENON_NOT_FOUND, TENON_INTERRUPTED, TENON_CANCELLED,
 *   TENON_RESOURCE_EXHAUSTED, TENON_CORRUPT, TENON_UNSUPPORTED, TENON_IO, as from
 *   tenon_open_shared_weights.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_publish_shared_weights(const char *path, const char *name,
                                                    const tenon_shared_weights_options *options,
                                                    const tenon_wait *wait,
                                                    tenon_shared_weights **out,
                                                    tenon_error **err) TENON_NOEXCEPT;

/**
 * Publishes tensors as the next version of the weights of a name, such as those of a trainer. Does
 * what tenon_publish_shared_weights does, as if the tensors were a safetensors file. The elements
 * are copied once, and must not change during the call. The tensors may be views, and of any
 * strides. With TENON_SHARED_WEIGHTS_REUSE the memory of an older version is written again.
 * @param[in]  names    borrowed: `count` names in UTF-8, each of them once.
 * @param[in]  values   borrowed: for each name a value of a tensor.
 * @param[in]  count    at least 1.
 * @param[in]  name     borrowed, as for tenon_open_shared_weights.
 * @param[in]  options  borrowed. NULL means the defaults. `progress` is not called.
 * @param[in]  wait     borrowed, as for tenon_publish_shared_weights.
 * @param[out] out      new reference; release it with tenon_shared_weights_release. Untouched on
 *                      failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, or an error after which no process sees a change: those of
 *         tenon_publish_shared_weights, and
 * - TENON_INVALID_ARGUMENT: no tensor, a value that is no tensor, or a name twice.
 * - TENON_UNSUPPORTED: TENON_SHARED_WEIGHTS_REUSE before Linux 5.1; or a safetensors file has no
 *   such element type; or a tensor is sparse, quantised, conjugated lazily, or on another device
 *   than the CPU. The detail "name" names it. Or options.device names another device than the CPU:
 *   save the tensors to a file (tenon_save_weights), and publish that file.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_publish_shared_weights_values(
    const char *const *names, tenon_value *const *values, size_t count, const char *name,
    const tenon_shared_weights_options *options, const tenon_wait *wait, tenon_shared_weights **out,
    tenon_error **err) TENON_NOEXCEPT;

/**
 * Waits until the name has a newer version than `weights`. Open the name again without a path to
 * get it.
 * @param[in]  weights  borrowed.
 * @param[in]  wait     borrowed. A timeout of 0 only looks. NULL means to wait for ever.
 * @param[out] version  optional: the newest version of which this process knows. Untouched on
 *                      failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, or
 * - TENON_TIMEOUT, or with a timeout of 0 TENON_WOULD_BLOCK: there is no newer version.
 * - TENON_UNSUPPORTED: this process is a child of fork, and its parent opened the weights.
 * - TENON_INVALID_ARGUMENT, TENON_INTERRUPTED, TENON_CANCELLED, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_shared_weights_changed(const tenon_shared_weights *weights,
                                                    const tenon_wait *wait, uint64_t *version,
                                                    tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives an fd for poll that is readable while the name has a newer version than `weights`. Do not
 * read it.
 * @param[in]  weights  borrowed.
 * @param[out] out      borrowed: it lives as long as the weights. Untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED as from tenon_shared_weights_changed,
 *         TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_shared_weights_changed_fd(const tenon_shared_weights *weights,
                                                       int *out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Adds a reference.
 * @param[in] weights  borrowed. NULL is allowed.
 * @return `weights`, as a new reference that must be released too.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_shared_weights *tenon_shared_weights_retain(tenon_shared_weights *weights)
    TENON_NOEXCEPT;

/**
 * Releases a reference. Values that tenon_shared_weights_tensor gave stay usable. This process
 * hands the weights on until the last of them is released.
 * @param[in] weights  consumed. NULL is allowed.
 * @since 0.1. Any thread may call this function.
 */
TENON_API void tenon_shared_weights_release(tenon_shared_weights *weights) TENON_NOEXCEPT;

/**
 * Lists the names of all tensors in the order of the file.
 * @param[in]  weights  borrowed.
 * @param[out] out      new reference to a list; release it with tenon_name_list_release. Untouched
 *                      on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_shared_weights_names(const tenon_shared_weights *weights,
                                                  tenon_name_list **out,
                                                  tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives a tensor as a value, as tenon_weights_tensor does. Its elements are read-only.
 * @param[in]  weights  borrowed.
 * @param[in]  name     borrowed.
 * @param[out] out      new reference; release it with tenon_value_release. Untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND, TENON_UNSUPPORTED,
 *         TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_shared_weights_tensor(const tenon_shared_weights *weights,
                                                   const char *name, tenon_value **out,
                                                   tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives facts about shared weights.
 * @param[in]     weights  borrowed.
 * @param[in,out] out      struct_size set by the caller, the other fields filled in by the call. It
 *                         is untouched on failure.
 * @param[out]    err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_shared_weights_info_get(const tenon_shared_weights *weights,
                                                     tenon_shared_weights_info *out,
                                                     tenon_error **err) TENON_NOEXCEPT;

/**
 * Lists the names of the values in the file that are no tensors, as tenon_weights_value_names does.
 * @param[in]  weights  borrowed.
 * @param[out] out      new reference to a list; release it with tenon_name_list_release. Untouched
 *                      on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_shared_weights_value_names(const tenon_shared_weights *weights,
                                                        tenon_name_list **out,
                                                        tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives a value of tenon_shared_weights_value_names.
 * @param[in]  weights  borrowed.
 * @param[in]  name     borrowed.
 * @param[out] out      new reference; release it with tenon_value_release. Untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_shared_weights_value(const tenon_shared_weights *weights,
                                                  const char *name, tenon_value **out,
                                                  tenon_error **err) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
