#ifndef TENON_ARCHIVE_H
#define TENON_ARCHIVE_H

#include <stddef.h>
#include <stdint.h>
#include <tenon/arena.h>
#include <tenon/error.h>
#include <tenon/module.h>

TENON_BEGIN_DECLS

/*
 * An archive is the zip file that torch.jit.save writes and torch.jit.load runs (docs/format/archive.md). Here it is written and read
 * without PyTorch. What is in a file is hostile until it was checked: every size, offset, name and type is, and nothing is executed.
 */

/** How sure an export is that the file is on the disk when it returns. */
enum {
  TENON_DURABILITY_NONE = 0,              /**< the system writes it when it likes */
  TENON_DURABILITY_FILE = 1,              /**< fsync of the file */
  TENON_DURABILITY_FILE_AND_DIRECTORY = 2 /**< and of the directory that names it */
};

enum {
  TENON_EXPORT_UNCHECKED = 1,  /**< code is written as it is, without the check of tenon_module_check */
  TENON_EXPORT_KEEP_DEVICE = 2 /**< tensors on a CUDA device are written as its own ("cuda:0": others cannot load it); else as the CPU's */
};

/** Where an import's tensors are. */
enum {
  TENON_IMPORT_MAP = 0,         /**< read-only views of the file; where that cannot be, copies */
  TENON_IMPORT_MAP_PRIVATE = 1, /**< writable views; what is written stays in this process */
  TENON_IMPORT_FILL = 2,        /**< copies in storages of their own, in an arena if one is given */
  TENON_IMPORT_DEVICE = 3       /**< copies in memory of a CUDA device: one allocation, which goes with the last tensor in it */
};

/** What an import checks. */
enum {
  TENON_IMPORT_CHECK_STRUCTURE = 0, /**< directory, headers, bounds, overlaps, references; checksums of pickles and code */
  TENON_IMPORT_CHECK_FILL = 1,      /**< and the checksum of each tensor that is copied */
  TENON_IMPORT_CHECK_ALL = 2        /**< and that of every record */
};

/**
 * Gets bytes of an archive, in order. Must not throw, and cannot change the module.
 * @return nbytes; a negative errno, with which the export ends as it would for a file (-ENOSPC: TENON_RESOURCE_EXHAUSTED, most others:
 *         TENON_IO); every other number ends it with TENON_IO.
 */
typedef int64_t (*tenon_write_function)(void *context, const void *data, size_t nbytes);

/**
 * Asked once for each export, before anything is written, for more extra files.
 * @return TENON_OK and *files, *n: borrowed until the export returns; another code ends the export with it. Must not throw, and cannot
 *         change the module. Files whose names the export has already are left out.
 */
typedef tenon_status (*tenon_extra_files_hook)(void *context, const tenon_module *module, const tenon_file **files, size_t *n);

/** NULL, where one is taken, means all zero. */
typedef struct tenon_export_options {
  size_t struct_size;            /**< sizeof(tenon_export_options), set by the caller */
  const tenon_file *extra_files; /**< borrowed array of n_extra_files, of this export only; they win over the module's own */
  size_t n_extra_files;
  tenon_extra_files_hook hook; /**< may be NULL */
  void *hook_context;
  const char *archive_name; /**< the folder inside the archive; NULL: the file's name without its extension, else "archive" */
  int32_t file_version;     /**< 0: by the rule of docs/format/archive.md; else 1 to 10, refused if some code means something else there */
  int32_t durability;       /**< TENON_DURABILITY_*; 0 but for an export to a path */
  uint32_t flags;           /**< TENON_EXPORT_* */
  void *stream;             /**< borrowed: in which tensors on a CUDA device were written; NULL: the default stream */
} tenon_export_options;

/** What was written. */
typedef struct tenon_export_report {
  size_t struct_size;      /**< sizeof(tenon_export_report), set by the caller */
  uint64_t nbytes;         /**< of the archive */
  uint64_t records;        /**< in it */
  int32_t version;         /**< of the operators */
  uint32_t skipped_files;  /**< of the hook, because others had their names */
  char oldest_pytorch[16]; /**< that runs it, as far as operators and element types tell: "1.13"; "": nobody knows */
} tenon_export_report;

/** NULL, where one is taken, means all zero. */
typedef struct tenon_import_options {
  size_t struct_size;           /**< sizeof(tenon_import_options), set by the caller */
  int32_t tensors;              /**< TENON_IMPORT_MAP and so on */
  int32_t check;                /**< TENON_IMPORT_CHECK_* */
  tenon_arena *arena;           /**< borrowed, of TENON_IMPORT_FILL; NULL: the default home */
  tenon_mode mode;              /**< likewise, without an arena */
  int32_t device;               /**< of TENON_IMPORT_DEVICE: ordinal in this process's numbering; else 0 */
  uint64_t max_inflated_nbytes; /**< of all compressed records together; 0: 1 GiB */
  uint64_t max_records;         /**< 0: 1,000,000 */
  uint64_t max_depth;           /**< of values in values, up to 1,000; 0: 512 */
  /**
   * Where tensors go that were saved on certain devices: pairs like "cuda:1=cuda:0,mps=cpu", borrowed for the call. The left
   * side is a device as the archive names it, or a kind ("cuda") for each number that has no pair of its own. The right side is
   * "cpu", or a CUDA device by its ordinal in this process, whose memory gets copies. Tensors of other devices go as `tensors`
   * says: to the CPU, unless that is TENON_IMPORT_DEVICE. NULL: no pair.
   */
  const char *device_map;
} tenon_import_options;

/** What an import found. */
typedef struct tenon_import_report {
  size_t struct_size;       /**< sizeof(tenon_import_report), set by the caller */
  int32_t version;          /**< of the operators; 0: the module was not imported */
  uint32_t records;         /**< in the archive */
  uint64_t mapped_storages; /**< that are views of the file */
  uint64_t mapped_nbytes;
  uint64_t filled_storages; /**< that were copied */
  uint64_t filled_nbytes;
  uint64_t misaligned;     /**< storages that had to be copied because they lie badly in the file */
  uint64_t compressed;     /**< likewise, because they are compressed */
  uint64_t foreign_endian; /**< likewise, because their bytes are the other way round */
  uint64_t without_crc;    /**< records whose checksum nobody computed */
} tenon_import_report;

/**
 * Write a module as a file. Either all of it is there, under its name, or what was there before still is; nothing else is left behind.
 * Tensors go to the file from where they are; those on a CUDA device through 8 MiB of pinned memory, for each device that there is. What
 * was given to options.stream before the call is done before they are read, and this returns when they are: the host waits, no stream does.
 * @param[in]     module   borrowed.
 * @param[in]     path     borrowed; the directory exists, and a file of that name is replaced.
 * @param[in]     options  borrowed; may be NULL.
 * @param[in,out] report   report->struct_size set by the caller; may be NULL; untouched on failure.
 * @param[out]    err      optional, see rule 2 in tenon.h; of code with details "file", "line", "column" and "excerpt".
 * @return TENON_OK, TENON_INVALID_ARGUMENT (also for code that PyTorch would refuse, and for versions that do not go together: then with
 *         details "operator", "module" and "other_module"), TENON_UNSUPPORTED (unknown flags; tensors on a device in a child of fork),
 *         TENON_PERMISSION, TENON_NOT_FOUND (the directory), TENON_CORRUPT (code of an archive that cannot be parsed, a mapped file that
 *         was cut short), TENON_RESOURCE_EXHAUSTED (also a full disk), TENON_IO, others as CUDA's driver says.
 * @since 0.1. Any thread, not beside a change of the module.
 */
TENON_API tenon_status tenon_export_module(const tenon_module *module, const char *path, const tenon_export_options *options,
                                           tenon_export_report *report, tenon_error **err) TENON_NOEXCEPT;

/**
 * As tenon_export_module, to an open file, pipe or socket, from its current position on.
 * @param[in]     module   borrowed.
 * @param[in]     fd       borrowed, stays open; after a failure it may have got some of the bytes.
 * @param[in]     options  borrowed; may be NULL.
 * @param[in,out] report   as above.
 * @param[out]    err      optional, see rule 2 in tenon.h.
 * @return as tenon_export_module, and TENON_PEER_GONE (nobody reads the pipe or socket any more).
 * @since 0.1. Any thread, not beside a change of the module.
 */
TENON_API tenon_status tenon_export_module_fd(const tenon_module *module, int fd, const tenon_export_options *options,
                                              tenon_export_report *report, tenon_error **err) TENON_NOEXCEPT;

/**
 * As tenon_export_module, to a function.
 * @param[in]     module   borrowed.
 * @param[in]     write    called with one piece after the other, on this thread; after a failure it may have got some.
 * @param[in]     context  handed to it.
 * @param[in]     options  borrowed; may be NULL.
 * @param[in,out] report   as above.
 * @param[out]    err      optional, see rule 2 in tenon.h.
 * @return as tenon_export_module, and what `write` stands for.
 * @since 0.1. Any thread, not beside a change of the module.
 */
TENON_API tenon_status tenon_export_module_to(const tenon_module *module, tenon_write_function write, void *context,
                                              const tenon_export_options *options, tenon_export_report *report,
                                              tenon_error **err) TENON_NOEXCEPT;

/**
 * Read an archive of PyTorch 1.4 or later. The file must not be changed as long as views of it are used; replacing it by rename is
 * harmless. Tensors that were saved from another device come to the CPU, unless TENON_IMPORT_DEVICE is asked for; with that, they are whole
 * when this returns, for every stream.
 * @param[in]  path     borrowed.
 * @param[in]  options  borrowed; may be NULL.
 * @param[out] out      new reference, release with tenon_module_release; untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h; with details "record" and "offset".
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND, TENON_PERMISSION, TENON_CORRUPT, TENON_UNSUPPORTED (another kind of file,
 *         which the message names; no CUDA; a version that PyTorch has not), TENON_RESOURCE_EXHAUSTED (also the
 *         limits of options, and the device's memory), TENON_IO.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_import_module(const char *path, const tenon_import_options *options, tenon_module **out,
                                           tenon_error **err) TENON_NOEXCEPT;

/**
 * As tenon_import_module, from an open file, whatever its position.
 * @param[in]  fd       borrowed; may be closed afterwards.
 * @param[in]  options  borrowed; may be NULL.
 * @param[out] out      new reference, release with tenon_module_release; untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return as tenon_import_module.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_import_module_fd(int fd, const tenon_import_options *options, tenon_module **out,
                                              tenon_error **err) TENON_NOEXCEPT;

/**
 * As tenon_import_module, from memory.
 * @param[in]  data     borrowed, nbytes bytes, which must stay and not change until `release` is called; with TENON_IMPORT_MAP_PRIVATE they
 *                      are copied.
 * @param[in]  nbytes   how many.
 * @param[in]  release  called once, from any thread, when nothing needs the bytes any more, at the latest with the last tensor over them;
 *                      not called on failure; may be NULL.
 * @param[in]  context  handed to it.
 * @param[in]  options  borrowed; may be NULL.
 * @param[out] out      new reference, release with tenon_module_release; untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return as tenon_import_module.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_import_module_memory(const void *data, size_t nbytes, void (*release)(void *context), void *context,
                                                  const tenon_import_options *options, tenon_module **out,
                                                  tenon_error **err) TENON_NOEXCEPT;

/**
 * What the import of a module found. Of a module that no import gave, all of it is 0.
 * @param[in]     module  borrowed, the root that an import gave.
 * @param[in,out] out     out->struct_size set by the caller; untouched on failure.
 * @param[out]    err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_module_import_report(const tenon_module *module, tenon_import_report *out, tenon_error **err) TENON_NOEXCEPT;

/**
 * What an import found remarkable, one line each: records that an export does not write again, code that cannot be parsed, operators that
 * mean something else at this version than today.
 * @param[in]  module  borrowed, the root that an import gave.
 * @param[out] out     new reference to a list, release with tenon_name_list_release; untouched on failure.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread, not beside a change.
 */
TENON_API tenon_status tenon_module_warnings(const tenon_module *module, tenon_name_list **out, tenon_error **err) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
