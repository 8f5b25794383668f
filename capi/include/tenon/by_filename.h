#ifndef TENON_BY_FILENAME_H
#define TENON_BY_FILENAME_H

#include <stddef.h>
#include <stdint.h>
#include <tenon/by_fd.h>
#include <tenon/error.h>
#include <tenon/storage.h>
#include <tenon/wait.h>

TENON_BEGIN_DECLS

/*
 * A name is one of two things in a directory that both sides see:
 *  - a file in PyTorch's layout (64 bytes with a count, then the payload). Both sides can be PyTorch; its holders can write it and cut it
 *    short, so opening it takes TENON_OPEN_ALLOW_UNSEALED. It lives as long as some process holds it, whoever made it. The maker is not
 *    safe from its holders either: if one of them cuts the file short, the maker's own next load or store there is a SIGBUS. A maker that
 *    does not trust every process that may write the file lends by a socket instead.
 *  - a socket on which the lender hands out the sealed memory of a segment. One name holds the whole segment, offset and nbytes say where,
 *    so many tensors meet under one name. It lives as long as its lender holds the storage. Nobody can cut that memory short: every
 *    storage that tenon_storage_new or an arena made is lent so.
 * Whoever dies leaves nothing that lasts: each holder has a lock that the kernel takes back, and the next process that looks removes what
 * nobody holds (docs/format/filename.md).
 */

enum {
  TENON_FILENAME_TORCH = 1,     /**< share: PyTorch must be able to open it, so a manager is asked to guard the name */
  TENON_FILENAME_IN_FLIGHT = 2, /**< share: also do what tenon_filename_incref does */
  TENON_FILENAME_GROUP = 4      /**< the members of options.group may open it too */
};

/** How a name is made. NULL, where one is taken, means all zero. All strings are borrowed for the call. */
typedef struct tenon_filename_options {
  size_t struct_size;    /**< sizeof(tenon_filename_options), set by the caller */
  tenon_access access;   /**< share: what borrowers get; a file cannot be lent TENON_ACCESS_READ_ONLY to its own user */
  uint32_t flags;        /**< TENON_FILENAME_* */
  uint32_t mode;         /**< permission bits; 0: 0600, this user alone. 0644 lets other users read a file, and open a socket's memory */
  uint32_t group;        /**< gid, with TENON_FILENAME_GROUP */
  const char *directory; /**< absolute; NULL: /dev/shm, the only one in which PyTorch looks */
  const char *prefix;    /**< of the name; 128 unguessable bits follow it; NULL: "tenon-" */
  const char *name;      /**< the whole name, without a slash; NULL: prefix and random bits */
  const char *manager;   /**< with TENON_FILENAME_TORCH, the socket of a running manager; NULL: this user's, started if there is none */
} tenon_filename_options;

/** How to reach a storage by name. For a file that PyTorch shares: its tuple (manager, name, nbytes), offset 0. */
typedef struct tenon_filename_handle {
  size_t struct_size;  /**< sizeof(tenon_filename_handle), set by the caller, also for output */
  tenon_access access; /**< what the handle allows; on input AUTO: what the name gives */
  uint32_t reserved;   /**< 0 */
  uint64_t offset;     /**< bytes: of the storage in the payload of a file, or in the segment behind a socket */
  uint64_t nbytes;     /**< bytes of the storage */
  char manager[108];   /**< the socket of the manager that guards the name; "" if none does */
  char name[256];      /**< "/leaf" in /dev/shm, or an absolute path; "" for an empty storage that has none */
} tenon_filename_handle;

/**
 * Make a storage that lives in a named file of its own, in PyTorch's layout, TENON_MODE_SHARED. The file appears whole, under its name, or
 * not at all. Its memory is reserved first: a full directory is an error here and no SIGBUS later. A process that may write the file can
 * still cut it short, which is a SIGBUS for all who use it, this process among them. Memory from tenon_storage_new that
 * tenon_share_filename lends by a socket is sealed against that.
 * @param[in]  options  borrowed; NULL: defaults. access is not looked at.
 * @param[in]  nbytes   payload bytes, all 0 at first. 0 is allowed: PyTorch makes a file of a header alone for it, and so does this.
 * @param[out] out      new reference, release with tenon_storage_release; untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (name or directory), TENON_PERMISSION (the name is taken, or the directory is closed),
 *         TENON_RESOURCE_EXHAUSTED (detail "limit": what was met), TENON_NOT_FOUND (no such directory), TENON_UNSUPPORTED.
 *         On failure no file is left.
 * @since 0.1. Any thread. A child of fork holds what it inherited; the name goes when the last of them lets go.
 */
TENON_API tenon_status tenon_storage_new_filename(const tenon_filename_options *options, uint64_t nbytes, tenon_storage **out,
                                                  tenon_error **err) TENON_NOEXCEPT;

/**
 * Lend a storage by name. No byte is copied or moved, but for private memory (below).
 *  - A storage in a named file gives that name.
 *  - Any other shared storage gets a socket: the segment's, or one of its own if options name it. The first such lend starts the library's
 *    one thread (rule 10 in tenon.h). TENON_FILENAME_TORCH is refused: PyTorch opens files only, and memory that has no name cannot get
 * one.
 *  - Private memory that the library made and whose bytes were never handed out (tenon_storage_data and the like) moves into a new file;
 *    any other is refused, since a pointer to the old place may be in use.
 * @param[in]     storage  borrowed.
 * @param[in]     options  borrowed; NULL: defaults.
 * @param[in]     wait     borrowed; how long to wait for a manager; NULL: 5 seconds.
 * @param[in,out] out      out->struct_size set by the caller, the rest is filled in; nothing in it needs to be freed; untouched on failure.
 * @param[out]    err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION (access, name taken), TENON_UNSUPPORTED (detail "option"),
 *         TENON_RESOURCE_EXHAUSTED, TENON_NOT_FOUND (no manager program, no directory), TENON_PEER_GONE, TENON_CORRUPT, TENON_TIMEOUT,
 *         TENON_INTERRUPTED, TENON_CANCELLED (of the manager; detail "path").
 * @since 0.1. Any thread; moving private memory must not run beside other calls on the same storage.
 */
TENON_API tenon_status tenon_share_filename(tenon_storage *storage, const tenon_filename_options *options, const tenon_wait *wait,
                                            tenon_filename_handle *out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Open what was lent by name, by Tenon or by PyTorch. The same memory, range and access that this process already holds, by name or by fd,
 * gives the same storage with one reference more. If handle->manager is set, the name is registered there, as PyTorch does.
 * @param[in]  handle   borrowed.
 * @param[in]  options  borrowed; NULL: defaults. Besides the flags of tenon_open_fd: TENON_OPEN_OTHER_USER, TENON_OPEN_NO_MANAGER,
 *                      TENON_OPEN_DECREF.
 * @param[in]  wait     borrowed; how long to wait for the lender behind a socket, or for a manager; NULL: 5 seconds.
 * @param[out] out      new reference, release with tenon_storage_release; untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND (no such name, or its last holder just let go), TENON_PERMISSION (unsealed,
 *         read-only, another user's; detail "option"), TENON_CORRUPT (a link, a pipe, a file too small, a count that cannot be, a socket
 *         that speaks something else), TENON_PEER_GONE (nobody behind the socket, or the manager died), TENON_TIMEOUT,
 *         TENON_RESOURCE_EXHAUSTED, TENON_INCOMPATIBLE. Details name the object: "path". On failure nothing is held or counted.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_open_filename(const tenon_filename_handle *handle, const tenon_open_options *options, const tenon_wait *wait,
                                           tenon_storage **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Count one message in flight: the name outlives the sender's own references until somebody opens it with TENON_OPEN_DECREF or calls
 * tenon_filename_decref (PyTorch's receivers do), as long as this process lives, and for 60 seconds after an orderly exit. What a killed
 * process had in flight goes with it.
 * @param[in]  handle  borrowed; of a storage that this process holds.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND (this process holds no such storage).
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_filename_incref(const tenon_filename_handle *handle, tenon_error **err) TENON_NOEXCEPT;

/**
 * Take back one tenon_filename_incref: the message was received, or will never be.
 * @param[in]  handle  borrowed.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, also if the name is gone; TENON_INVALID_ARGUMENT, TENON_PERMISSION, TENON_CORRUPT, TENON_TIMEOUT.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_filename_decref(const tenon_filename_handle *handle, tenon_error **err) TENON_NOEXCEPT;

/**
 * Do now what exit() does for names: take this process's part out of their counts, keep the files that it has in flight for 60 seconds, and
 * end the names behind which it hands out memory. For a process that ends in order but with _exit(), such as one that Python's
 * multiprocessing forked, or a Go program; others need not call it.
 * @since 0.1. Any thread. Storages stay valid.
 */
TENON_API void tenon_filename_leave(void) TENON_NOEXCEPT;

/**
 * Take a name away. Who has it open keeps the memory; nobody opens it any more. A process of PyTorch's that holds it aborts when it lets
 * go: leave such names to their holders.
 * @param[in]  name  borrowed; as in tenon_filename_handle.name.
 * @param[out] err   optional, see rule 2 in tenon.h.
 * @return TENON_OK, also if there is no such name; TENON_INVALID_ARGUMENT, TENON_PERMISSION (also for what is neither a file nor a socket).
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_filename_unlink(const char *name, tenon_error **err) TENON_NOEXCEPT;

enum {
  TENON_SWEEP_DRY_RUN = 1, /**< count, remove nothing */
  TENON_SWEEP_TORCH = 2    /**< also remove PyTorch's own dead files (name torch_PID_…, nobody holds it, its maker is gone) */
};

/** What to sweep. NULL, where one is taken, means all zero. */
typedef struct tenon_sweep_options {
  size_t struct_size;    /**< sizeof(tenon_sweep_options), set by the caller */
  uint32_t flags;        /**< TENON_SWEEP_* */
  uint32_t reserved;     /**< 0 */
  const char *directory; /**< absolute; NULL: /dev/shm */
  int64_t min_age_ns;    /**< PyTorch's files younger than this stay, they may be in a message; 0: 60 seconds */
} tenon_sweep_options;

/** What a sweep found. */
typedef struct tenon_sweep_result {
  size_t struct_size;      /**< sizeof(tenon_sweep_result), set by the caller */
  uint64_t live;           /**< names that somebody holds */
  uint64_t in_flight;      /**< names that nobody holds and a message may be about */
  uint64_t dead;           /**< names that nobody holds: those removed, or, in a dry run, to be removed */
  uint64_t unsure;         /**< names of other users, and others that could not be looked at: left alone */
  uint64_t removed_nbytes; /**< bytes of memory that the dead ones have or had */
} tenon_sweep_result;

/**
 * Remove the names in a directory that nobody holds: files that Tenon made, sockets without a lender, and on request PyTorch's. The kernel
 * is asked (a write lease is given only on a file that nobody has open or mapped), so a holder in any container, Tenon or not, is seen.
 * Making and releasing names sweeps a little too, and the library's thread removes what a killed process leaves: this call is for the rest.
 * @param[in]     options  borrowed; NULL: defaults.
 * @param[in,out] out      out->struct_size set by the caller, the rest is filled in; NULL is allowed; untouched on failure.
 * @param[out]    err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND, TENON_PERMISSION (the directory), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_filename_sweep(const tenon_sweep_options *options, tenon_sweep_result *out, tenon_error **err) TENON_NOEXCEPT;

/**
 * The socket of this user's manager, which is started if there is none: a small process that speaks PyTorch's protocol, guards the names
 * that PyTorch processes hold, and ends by itself when its last client is gone. Hand it to PyTorch as the first item of its tuple.
 * @param[in]  program  borrowed; the path of tenon-manager; NULL: TENON_MANAGER of the environment, else beside the library.
 * @param[in]  wait     borrowed; NULL: 5 seconds.
 * @param[out] out      108 bytes of the caller's, filled with a NUL-terminated path; untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND (no such program), TENON_PERMISSION, TENON_PEER_GONE (it ended at once),
 *         TENON_TIMEOUT, TENON_INTERRUPTED, TENON_CANCELLED, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread. The caller is a client of the manager from then on, until the process ends.
 */
TENON_API tenon_status tenon_manager_start(const char *program, const tenon_wait *wait, char out[108], tenon_error **err) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
