#ifndef TENON_BY_FILENAME_H
#define TENON_BY_FILENAME_H

/**
 * @file
 * These functions lend storages by name. tenon_share_filename gives a name in a directory that both
 * processes see, and tenon_open_filename opens the name. PyTorch can open some of these names, and
 * Tenon can open PyTorch's.
 *
 * A name leads to one of two things:
 *  - A file in PyTorch's layout: 64 bytes with a count, then the payload. PyTorch can be on both
 *    sides. Its holders can write to the file and cut it short, so opening it takes
 *    TENON_OPEN_ALLOW_UNSEALED. The file lives as long as some process holds it, whichever process
 *    made it. The maker is not safe from the other holders either: if one of them cuts the file
 *    short, the maker's own next load or store there causes a SIGBUS. A maker that does not trust
 *    every process that may write to the file should lend through a socket instead.
 *  - A socket on which the lender hands out the sealed memory of a segment. One name serves the
 *    whole segment, so many storages share one name, and the handle's offset and nbytes say where
 *    each of them lies. The name lives as long as the lender holds the storage. Nobody can cut that
 *    memory short. Every storage that tenon_storage_new or an arena made is lent in this way. The
 *    comment of tenon_share_fd describes systems that deny sealed memory.
 *
 * A process that dies leaves no name behind for long: each holder has a lock, which the kernel
 * releases when the holder ends, and the next process that looks at the directory removes the names
 * that no process holds (docs/format/filename.md).
 */

#include <stddef.h>
#include <stdint.h>
#include <tenon/by_fd.h>
#include <tenon/error.h>
#include <tenon/storage.h>
#include <tenon/wait.h>

TENON_BEGIN_DECLS

enum {
  /** To share: PyTorch must be able to open the name, so ask a manager to guard it. */
  TENON_FILENAME_TORCH = 1,
  /** To share: also do what tenon_filename_incref does. */
  TENON_FILENAME_IN_FLIGHT = 2,
  /** Members of options.group may open the name too. */
  TENON_FILENAME_GROUP = 4
};

/**
 * How to make a name. A NULL pointer to these options means that all fields are zero. All strings
 * are borrowed for the call.
 */
typedef struct tenon_filename_options {
  /** sizeof(tenon_filename_options), set by the caller. */
  size_t struct_size;
  /**
   * To share: the access that borrowers get. A file cannot be lent TENON_ACCESS_READ_ONLY, because
   * a process of the same user could write to it nevertheless.
   */
  tenon_access access;
  /** TENON_FILENAME_*. */
  uint32_t flags;
  /**
   * The permission bits, 0600 to 0666; the owner's two bits must be set. 0 means 0600: this user
   * only. 0644 lets other users read a file, or open the memory behind a socket.
   */
  uint32_t mode;
  /** The group id for TENON_FILENAME_GROUP. Without that flag it must be 0. */
  uint32_t group;
  /** An absolute path. NULL means /dev/shm, the only directory in which PyTorch looks. */
  const char *directory;
  /** The beginning of the name; 128 unguessable bits follow it. NULL means "tenon-". */
  const char *prefix;
  /** The whole name, without a slash. NULL means prefix and random bits. */
  const char *name;
  /**
   * For TENON_FILENAME_TORCH: the socket of a running manager. NULL means this user's manager,
   * which is started if none runs.
   */
  const char *manager;
} tenon_filename_options;

/**
 * A handle with which another process can open a storage by name. For a file that PyTorch shares it
 * holds PyTorch's tuple (manager, name, nbytes), with offset 0.
 */
typedef struct tenon_filename_handle {
  /** sizeof(tenon_filename_handle), set by the caller, also for output. */
  size_t struct_size;
  /**
   * The access that the handle allows. On input, TENON_ACCESS_AUTO stands for the access that the
   * name gives.
   */
  tenon_access access;
  /** It must be 0. */
  uint32_t reserved;
  /** Bytes from the start of a file's payload, or from the start of the segment behind a socket. */
  uint64_t offset;
  /** The size of the storage in bytes. */
  uint64_t nbytes;
  /** The socket of the manager that guards the name. It is "" if there is none. */
  char manager[108];
  /**
   * "/leaf" for a name in /dev/shm, otherwise an absolute path. It is "" for an empty storage that
   * has no name.
   */
  char name[256];
} tenon_filename_handle;

/**
 * Makes a storage of mode TENON_MODE_SHARED that lies in a named file of its own, in PyTorch's
 * layout. The file appears under its name as a whole or not at all. Its memory is reserved first,
 * so a full directory causes an error here and not a SIGBUS later.
 *
 * A process that may write to the file can cut it short later. All processes that use the file,
 * this one included, then get a SIGBUS. Memory from tenon_storage_new, which tenon_share_filename
 * lends through a socket, is sealed against that.
 * @param[in]  options  borrowed. NULL means the defaults. The field access is ignored.
 * @param[in]  nbytes   the size of the payload in bytes. All bytes are 0 at first. 0 is allowed and
 *                      makes a file that has only a header, as PyTorch does.
 * @param[out] out      new reference; release it with tenon_storage_release. It is untouched on
 *                      failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (the name, the mode or the directory), TENON_PERMISSION
 *         (the name exists already, or this process may not write to the directory),
 *         TENON_RESOURCE_EXHAUSTED (the detail "limit" names the limit that was reached),
 *         TENON_NOT_FOUND (there is no such directory), TENON_UNSUPPORTED. After a failure no file
 *         is left behind.
 * @since 0.1. Any thread may call this function. A child of fork holds the storages that it
 *         inherited. The name is removed when the last holder has released it.
 */
TENON_API tenon_status tenon_storage_new_filename(const tenon_filename_options *options,
                                                  uint64_t nbytes, tenon_storage **out,
                                                  tenon_error **err) TENON_NOEXCEPT;

/**
 * Lends a storage by name. No byte is copied or moved, except for private memory (see below).
 *  - A storage in a named file is lent under that name.
 *  - Any other shared storage is lent through a socket: the socket of its segment, or a new socket
 *    if the options name one. The service thread hands out the memory (rule 10 in tenon.h).
 *    TENON_FILENAME_TORCH is refused, because PyTorch opens only files, and memory that has no name
 *    cannot get one.
 *  - Private memory moves into a new file, if the library made it and no pointer to its bytes was
 *    ever given out (by tenon_storage_data and similar functions). Other private memory is refused,
 *    because a pointer to the old place may be in use.
 * @param[in]     storage  borrowed.
 * @param[in]     options  borrowed. NULL means the defaults.
 * @param[in]     wait     borrowed. It says how long to wait for a manager. NULL means 5 seconds.
 * @param[in,out] out      struct_size set by the caller, the other fields filled in by the call.
 *                         The handle owns nothing that must be freed. It is untouched on failure.
 * @param[out]    err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION (the access, or a name that exists
 *         already), TENON_UNSUPPORTED (the detail "option" names the remedy),
 *         TENON_RESOURCE_EXHAUSTED, TENON_NOT_FOUND (there is no manager program or no such
 *         directory), TENON_PEER_GONE (the storage was dropped, or the manager died), TENON_CORRUPT
 *         (the manager's answer), or one of the four codes of a wait for the manager that ended
 *         (see tenon_send; detail "path").
 * @since 0.1. Any thread may call this function. While private memory moves, no other call may use
 *         the same storage.
 */
TENON_API tenon_status tenon_share_filename(tenon_storage *storage,
                                            const tenon_filename_options *options,
                                            const tenon_wait *wait, tenon_filename_handle *out,
                                            tenon_error **err) TENON_NOEXCEPT;

/**
 * Opens a storage that Tenon or PyTorch lent by name. If this process already holds the same range
 * of the same memory with the same access, by name or by fd, the call gives the same storage with
 * one more reference. If handle->manager is set, the name is registered with that manager, as
 * PyTorch does.
 * @param[in]  handle   borrowed.
 * @param[in]  options  borrowed. NULL means the defaults. The flags TENON_OPEN_OTHER_USER,
 *                      TENON_OPEN_NO_MANAGER and TENON_OPEN_DECREF are possible besides those of
 *                      tenon_open_fd. TENON_OPEN_ADOPT_FD is not possible.
 * @param[in]  wait     borrowed. It says how long to wait for the lender behind a socket, or for a
 *                      manager. NULL means 5 seconds.
 * @param[out] out      new reference; release it with tenon_storage_release. It is untouched on
 *                      failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, or one of these codes. The detail "path" names the object. After a failure
 *         nothing is held or counted.
 * - TENON_INVALID_ARGUMENT.
 * - TENON_NOT_FOUND: the name does not exist, or its last holder has just released it.
 * - TENON_PERMISSION: the memory is unsealed, read-only, or another user's. The detail "option"
 *   names the remedy.
 * - TENON_CORRUPT: the name leads to a link or a pipe, the file is too small, its count is
 *   impossible, or the socket speaks another protocol.
 * - TENON_PEER_GONE: no process listens on the socket, or the manager died.
 * - The four codes of a wait that ended (see tenon_send).
 * - TENON_RESOURCE_EXHAUSTED, TENON_INCOMPATIBLE, TENON_UNSUPPORTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_open_filename(const tenon_filename_handle *handle,
                                           const tenon_open_options *options,
                                           const tenon_wait *wait, tenon_storage **out,
                                           tenon_error **err) TENON_NOEXCEPT;

/**
 * Counts one message in flight. The name then outlives the sender's own references, until a
 * receiver opens the name with TENON_OPEN_DECREF or calls tenon_filename_decref (PyTorch's
 * receivers do the same). The name stays as long as this process lives, and for 60 seconds after an
 * orderly exit. If this process is killed, its messages in flight are lost.
 * @param[in]  handle  borrowed. It must be the handle of a storage that this process holds.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND (this process holds no such storage).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_filename_incref(const tenon_filename_handle *handle,
                                             tenon_error **err) TENON_NOEXCEPT;

/**
 * Undoes one tenon_filename_incref: the message was received, or will never be received.
 * @param[in]  handle  borrowed.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, also if the name does not exist any more; TENON_INVALID_ARGUMENT,
 *         TENON_PERMISSION, TENON_CORRUPT, TENON_TIMEOUT.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_filename_decref(const tenon_filename_handle *handle,
                                             tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives up the names of this process now, as exit() does later. The call subtracts this process
 * from the counts of its files, keeps the files of its messages in flight for 60 seconds, and ends
 * the sockets through which this process hands out memory and serves deposits.
 *
 * Call it in a process that ends in order but with _exit(), such as a process that Python's
 * multiprocessing forked, or a Go program. Other processes need not call it.
 * @since 0.1. Any thread may call this function. Storages stay valid.
 */
TENON_API void tenon_filename_leave(void) TENON_NOEXCEPT;

/**
 * Removes a name. Processes that have it open keep the memory, and no process can open it any more.
 * If a PyTorch process holds the name, that process aborts when it releases the memory: leave such
 * names to their holders.
 * @param[in]  name  borrowed, in the form of tenon_filename_handle.name.
 * @param[out] err   optional, see rule 2 in tenon.h.
 * @return TENON_OK, also if there is no such name; TENON_INVALID_ARGUMENT; TENON_PERMISSION, also
 *         if the name is neither a file nor a socket.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_filename_unlink(const char *name, tenon_error **err) TENON_NOEXCEPT;

enum {
  /** Count the names, and remove none. */
  TENON_SWEEP_DRY_RUN = 1,
  /**
   * Also remove PyTorch's own dead files: files named torch_PID_… that no process holds and whose
   * maker has ended.
   */
  TENON_SWEEP_TORCH = 2
};

/** How to sweep. A NULL pointer to these options means that all fields are zero. */
typedef struct tenon_sweep_options {
  /** sizeof(tenon_sweep_options), set by the caller. */
  size_t struct_size;
  /** TENON_SWEEP_*. */
  uint32_t flags;
  /** It must be 0. */
  uint32_t reserved;
  /** An absolute path. NULL means /dev/shm. */
  const char *directory;
  /**
   * PyTorch's files that are younger than this stay, because a message may refer to them. 0 means
   * 60 seconds.
   */
  int64_t min_age_ns;
} tenon_sweep_options;

/** The names that a sweep found. */
typedef struct tenon_sweep_result {
  /** sizeof(tenon_sweep_result), set by the caller. */
  size_t struct_size;
  /** Names that some process holds. */
  uint64_t live;
  /** Names that no process holds, but to which a message in flight may refer. */
  uint64_t in_flight;
  /** Names that no process holds and that were removed, or would be removed in a dry run. */
  uint64_t dead;
  /**
   * Names that were left alone: names of other users, names that could not be examined, and
   * PyTorch's dead files if TENON_SWEEP_TORCH is not set.
   */
  uint64_t unsure;
  /** The bytes of memory that the dead names have, or had before they were removed. */
  uint64_t removed_nbytes;
} tenon_sweep_result;

/**
 * Removes the names in a directory that no process holds: files that Tenon made, sockets without a
 * lender, and on request PyTorch's files. The call asks the kernel, which gives a write lease only
 * on a file that no other process has open or mapped. So it sees every holder, whether it uses
 * Tenon or not, and in whatever container it runs.
 *
 * Making and releasing names also sweeps a little, and the service thread removes the names of
 * killed processes. This call removes all others.
 * @param[in]     options  borrowed. NULL means the defaults.
 * @param[in,out] out      struct_size set by the caller, the other fields filled in by the call.
 *                         NULL is allowed. It is untouched on failure.
 * @param[out]    err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND or TENON_PERMISSION (the directory),
 *         TENON_RESOURCE_EXHAUSTED (also if no fd is left for a name; some names may have been
 *         removed before).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_filename_sweep(const tenon_sweep_options *options,
                                            tenon_sweep_result *out,
                                            tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives the socket of this user's manager, and starts the manager if none runs. The manager is a
 * small process that speaks PyTorch's protocol, guards the names that PyTorch processes hold, and
 * ends by itself when its last client is gone. Give the socket's path to PyTorch as the first item
 * of its tuple.
 * @param[in]  program  borrowed, the path of the program tenon-manager. NULL means the environment
 *                      variable TENON_MANAGER, or else the program beside the library.
 * @param[in]  wait     borrowed. NULL means 5 seconds.
 * @param[out] out      the caller's buffer of 108 bytes. The call writes a path that ends with NUL.
 *                      It is untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND (there is no such program),
 *         TENON_PERMISSION, TENON_PEER_GONE (the manager ended at once), TENON_RESOURCE_EXHAUSTED,
 *         or one of the four codes of a wait that ended (see tenon_send).
 * @since 0.1. Any thread may call this function. From then on this process is a client of the
 *         manager until it ends.
 */
TENON_API tenon_status tenon_manager_start(const char *program, const tenon_wait *wait,
                                           char out[108], tenon_error **err) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
