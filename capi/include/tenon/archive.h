#ifndef TENON_ARCHIVE_H
#define TENON_ARCHIVE_H

/**
 * @file
 * Archives: these functions write modules (tenon/module.h) to files that torch.jit.load runs, and
 * read files that torch.jit.save wrote. No PyTorch is needed.
 */

#include <stddef.h>
#include <stdint.h>
#include <tenon/arena.h>
#include <tenon/error.h>
#include <tenon/module.h>

TENON_BEGIN_DECLS

/*
 * An archive is the zip file that torch.jit.save writes and torch.jit.load reads
 * (docs/format/archive.md). Its parts are called records. PyTorch's other file format for modules
 * is the flatbuffer (docs/format/flatbuffer.md), which an import accepts too. An import treats the
 * contents of a file as hostile: it checks every size, offset, name and type, and executes nothing.
 */

/** Whether the file is certainly on the disk when an export returns. */
enum {
  TENON_DURABILITY_NONE = 0, /**< The system writes the file at some later time. */
  TENON_DURABILITY_FILE = 1, /**< The export calls fsync on the file. */
  /** The export calls fsync on the file and on the directory that names it. */
  TENON_DURABILITY_FILE_AND_DIRECTORY = 2
};

enum {
  /**
   * The export writes the code as it is, without the check of tenon_module_check. An archive that
   * was imported and whose code has not changed is never checked. With bytecode of a version below
   * 8, which is for an old PyTorch, the check also accepts calls that the newest PyTorch refuses
   * and PyTorch 1.13 accepts.
   */
  TENON_EXPORT_UNCHECKED = 1,
  /**
   * Tensors on a CUDA device are written as tensors of that device, such as "cuda:0". A machine
   * without such a device cannot load them. Without this flag they are written as tensors of the
   * CPU.
   */
  TENON_EXPORT_KEEP_DEVICE = 2,
  /**
   * The export writes debug tables, from which PyTorch's errors name modules and source lines.
   * - With TENON_BYTECODE_COMPILE it makes tables for the new bytecode. Their lines are those of
   *   the files from which the module was made, if the import read the archive's tables
   *   (TENON_IMPORT_DEBUG_TABLES) and the code was not changed. Otherwise their lines are those of
   *   the archive's own code.
   * - Without TENON_BYTECODE_COMPILE it writes all tables of the archive from which the module
   *   came, or none if the code was changed or if the export does not write the bytecode to which
   *   some tables belong.
   *
   * Tables of an archive contain absolute paths of the person who saved the module.
   */
  TENON_EXPORT_DEBUG_TABLES = 4,
  /**
   * The export writes PyTorch's flatbuffer form instead of a zip archive: one buffer with the
   * bytecode, the values, the code and the extra files. torch.jit.load and the lite loader of
   * PyTorch 1.13 and later read this form. It always has bytecode: if the module's archive has none
   * that fits, the export makes new bytecode. It has no debug tables and says nothing about
   * devices. The whole buffer is in memory until it is written.
   *
   * TENON_UNSUPPORTED for contents that the form cannot hold: 2 GiB or more, tensors that are
   * sparse, meta or lazily conjugated, and a size, stride or offset of 2^31 elements or more.
   * TENON_UNSUPPORTED too if the library was built without FlatBuffers.
   */
  TENON_EXPORT_FLATBUFFER = 8
};

/** How an export treats bytecode, which the lite interpreter of PyTorch runs. */
enum {
  /**
   * The export writes the bytecode of the archive from which the module came, if it still fits: the
   * code, the version and the order of attributes must be those of that archive. The weights may
   * differ.
   */
  TENON_BYTECODE_KEEP = 0,
  /** The export writes no bytecode. */
  TENON_BYTECODE_DROP = 1,
  /** The export compiles bytecode from the code, whether or not the archive had any. */
  TENON_BYTECODE_COMPILE = 2
};

/**
 * The form of the bytecode of TENON_BYTECODE_COMPILE. PyTorch's exporter has the first four
 * switches too. The first three do not change what the bytecode does in PyTorch 1.13 or later.
 */
enum {
  /**
   * Each call of an operator passes all arguments, also those that equal their defaults. PyTorch:
   * default_value_for_unspecified_arg.
   */
  TENON_EMIT_DEFAULT_INPUTS = 1,
  /**
   * A call of an operator with an `out` argument passes all arguments before `out`, also those that
   * equal their defaults. PyTorch: default_args_before_out_args is off.
   */
  TENON_EMIT_DEFAULTS_BEFORE_OUT = 2,
  /**
   * The bytecode calls operators such as aten::dim like all others, although bytecode of version 8
   * has instructions for them. PyTorch: emit_promoted_ops is off.
   */
  TENON_EMIT_PLAIN_OPERATORS = 4,
  /**
   * Methods that are called through an interface get no functions. Such a call fails at run time.
   * PyTorch: mobile_interface_call_export is off.
   */
  TENON_EMIT_NO_INTERFACE_METHODS = 8,
  /**
   * A forked function runs at the place of the fork, in the same thread, and waiting for it gives
   * its result. Its exception comes from fork and not from wait. The lite interpreter has no fork:
   * without this switch, code that forks is TENON_UNSUPPORTED.
   */
  TENON_EMIT_FORKS_AT_ONCE = 16
};

/** Where an import puts tensors. */
enum {
  /**
   * The tensors are read-only views of the file. A tensor that cannot be a view is copied, and
   * tenon_import_report counts the reasons. Neither the views nor these copies can be lent.
   */
  TENON_IMPORT_MAP = 0,
  /** As TENON_IMPORT_MAP, but the views are writable. Writes stay in this process. */
  TENON_IMPORT_MAP_PRIVATE = 1,
  /** The tensors are copied into storages that can be lent, in an arena if one is given. */
  TENON_IMPORT_FILL = 2,
  /**
   * The tensors are copied to a CUDA device, where they can be lent. Without a device_map they lie
   * in one allocation, which is freed with the last tensor in it.
   */
  TENON_IMPORT_DEVICE = 3
};

enum {
  /**
   * The import reads the debug tables too, so that an export can write them
   * (TENON_EXPORT_DEBUG_TABLES).
   */
  TENON_IMPORT_DEBUG_TABLES = 1
};

/** The level of an import: how much of the file it verifies. */
enum {
  /**
   * The directory of the zip file, all headers, bounds, overlaps and references, and the checksums
   * of pickles and code.
   */
  TENON_IMPORT_CHECK_STRUCTURE = 0,
  /** As TENON_IMPORT_CHECK_STRUCTURE, and the checksum of each tensor that is copied. */
  TENON_IMPORT_CHECK_FILL = 1,
  /**
   * As TENON_IMPORT_CHECK_STRUCTURE, and the checksum of every record. A flatbuffer has no
   * checksums. Its code and bytecode are read and checked in the import, and not at the first use
   * of the module (tenon/module.h).
   */
  TENON_IMPORT_CHECK_ALL = 2
};

/**
 * A function that receives the bytes of an archive, in order and at most 1 GiB in one call. It must
 * not throw and cannot change the module.
 * @return nbytes if the function has taken all bytes. A negative errno ends the export with the
 *         code that this errno gives for a file: -ENOSPC gives TENON_RESOURCE_EXHAUSTED, most
 *         others give TENON_IO. Any other number ends the export with TENON_IO.
 */
typedef int64_t (*tenon_write_function)(void *context, const void *data, size_t nbytes);

/**
 * A function that gives more extra files. Each export calls it once, before anything is written.
 * Files whose names the export has already are skipped. The function must not throw and cannot
 * change the module.
 * @return TENON_OK, and then *files and *n, which must stay valid until the export returns. Any
 *         other code ends the export with that code.
 */
typedef tenon_status (*tenon_extra_files_hook)(void *context, const tenon_module *module,
                                               const tenon_file **files, size_t *n);

/** How to export. A NULL pointer to these options means that all fields are zero. */
typedef struct tenon_export_options {
  /** sizeof(tenon_export_options), set by the caller. */
  size_t struct_size;
  /**
   * An array of n_extra_files files for this export only, borrowed for the call. They replace the
   * module's own extra files of the same names.
   */
  const tenon_file *extra_files;
  /** How many files there are in extra_files. */
  size_t n_extra_files;
  /** A function that gives more extra files. May be NULL. */
  tenon_extra_files_hook hook;
  /** Handed to `hook`. */
  void *hook_context;
  /**
   * The folder inside the archive. NULL means the name of the file without its extension, or
   * "archive" for an export that has no path. With TENON_EXPORT_FLATBUFFER it must be NULL.
   */
  const char *archive_name;
  /**
   * The version of the archive. 0 means the version by the rule of docs/format/archive.md. A number
   * from 1 to 10 is used as it is. The export is refused if some code would mean something else in
   * that version.
   */
  int32_t file_version;
  /** TENON_DURABILITY_*. Must be 0 unless the export writes to a path. */
  int32_t durability;
  /** TENON_EXPORT_*. */
  uint32_t flags;
  /**
   * The stream in which tensors on a CUDA device were written, borrowed for the call. NULL means
   * the default stream.
   */
  void *stream;
  /** TENON_BYTECODE_*. */
  int32_t bytecode;
  /**
   * For TENON_BYTECODE_COMPILE: the methods of the module that get bytecode, with commas between
   * them, such as "forward,predict". Their bytecode includes the methods and functions that they
   * call. NULL means all methods. Otherwise it must be NULL.
   */
  const char *methods;
  /**
   * For TENON_BYTECODE_COMPILE: the version of the bytecode. A runtime refuses bytecode that is
   * newer than itself. The versions 4 to 7 are for the runtimes of old PyTorch versions
   * (docs/format/bytecode.md). 0 means 8, the version that PyTorch writes. Otherwise it must be 0.
   */
  int32_t bytecode_version;
  /** For TENON_BYTECODE_COMPILE: TENON_EMIT_*. Otherwise it must be 0. */
  uint32_t emit_flags;
} tenon_export_options;

/** The report of an export. */
typedef struct tenon_export_report {
  /** sizeof(tenon_export_report), set by the caller. */
  size_t struct_size;
  /** The size of the archive in bytes. */
  uint64_t nbytes;
  /** The number of records in the archive. 0 for a flatbuffer. */
  uint64_t records;
  /** The archive's version, which says what its operators mean. */
  int32_t version;
  /** How many files of the hook were skipped because their names were in use. */
  uint32_t skipped_files;
  /**
   * The oldest PyTorch that can run the archive, as far as operators and element types tell, such
   * as "1.13". "" if that is not known.
   */
  char oldest_pytorch[16];
  /** The number of functions in the archive's bytecode. 0 if it has none. */
  uint32_t bytecode_functions;
  /** The number of debug tables that were written. */
  uint32_t debug_tables;
} tenon_export_report;

/** How to import. A NULL pointer to these options means that all fields are zero. */
typedef struct tenon_import_options {
  /** sizeof(tenon_import_options), set by the caller. */
  size_t struct_size;
  /** Where the tensors go: TENON_IMPORT_MAP, MAP_PRIVATE, FILL or DEVICE. */
  int32_t tensors;
  /** TENON_IMPORT_CHECK_*. */
  int32_t check;
  /**
   * For TENON_IMPORT_FILL: the arena for the copies, borrowed for the call. NULL means one of the
   * library's own arenas. Otherwise it must be NULL.
   */
  tenon_arena *arena;
  /**
   * For TENON_IMPORT_FILL: the mode of the copies. With an arena it must be 0 or the arena's mode.
   * Otherwise it must be 0.
   */
  tenon_mode mode;
  /** For TENON_IMPORT_DEVICE: the device's ordinal in this process's numbering. Otherwise 0. */
  int32_t device;
  /** The most bytes that all compressed records together may have when inflated. 0 means 1 GiB. */
  uint64_t max_inflated_nbytes;
  /** The most records. 0 means 1,000,000. */
  uint64_t max_records;
  /** How deep values may be nested in values, up to 1,000. 0 means 512. */
  uint64_t max_depth;
  /**
   * Where to put tensors that were saved on certain devices. It is a list of pairs such as
   * "cuda:1=cuda:0,mps=cpu", borrowed for the call. The left side of a pair is a device as the
   * archive names it, or a kind of device ("cuda"), which stands for each number that has no pair
   * of its own. The right side is "cpu", or a CUDA device by its ordinal in this process, to which
   * the tensors are copied. Tensors of devices without a pair go where `tensors` says: to the
   * device with TENON_IMPORT_DEVICE, otherwise to the CPU. NULL means no pairs.
   */
  const char *device_map;
  /** TENON_IMPORT_DEBUG_TABLES, or 0. */
  uint32_t flags;
} tenon_import_options;

/** The report of an import. */
typedef struct tenon_import_report {
  /** sizeof(tenon_import_report), set by the caller. */
  size_t struct_size;
  /** The archive's version, which says what its operators mean. 0: the module was not imported. */
  int32_t version;
  /** The number of records in the archive. For a flatbuffer it is the number of storages. */
  uint32_t records;
  /** The number of storages that are views of the file. */
  uint64_t mapped_storages;
  /** The bytes in these storages. */
  uint64_t mapped_nbytes;
  /** The number of storages that were copied. */
  uint64_t filled_storages;
  /** The bytes in these storages. */
  uint64_t filled_nbytes;
  /** How many storages had to be copied because of their alignment in the file. */
  uint64_t misaligned;
  /** How many storages had to be copied because they are compressed. */
  uint64_t compressed;
  /** How many storages had to be copied because they have the other byte order. */
  uint64_t foreign_endian;
  /** How many records have no checksum, because their writer computed none. */
  uint64_t without_crc;
} tenon_import_report;

/**
 * Writes a module to a file. When the call returns, the path names either the complete new file or
 * the same file as before. The call leaves no other file behind.
 *
 * Tensors in host memory are written directly from where they lie. Tensors on a CUDA device go
 * through 8 MiB of pinned memory for each device. They are read after all work that was given to
 * options.stream before the call. The host waits for these reads, and no stream of the program
 * waits for them. When the call returns, the tensors have been read.
 * @param[in]     module   borrowed.
 * @param[in]     path     borrowed. Its directory must exist. A file of that name is replaced. If
 *                         the path is a symbolic link, the file to which it leads is replaced.
 * @param[in]     options  borrowed. NULL means the defaults.
 * @param[in,out] report   struct_size set by the caller, the other fields filled in by the call.
 *                         May be NULL. Untouched on failure.
 * @param[out]    err      optional, see rule 2 in tenon.h. For code, the details "file", "line",
 *                         "column" and "excerpt" name the place.
 * @return TENON_OK, or the code that the hook returned, or
 * - TENON_INVALID_ARGUMENT: also for code that PyTorch would refuse, and for code of versions that
 *   cannot be in one archive (details "operator", "module" and "other_module").
 * - TENON_UNSUPPORTED: unknown flags; tensors on a device in a child of fork; an object that has
 *   attributes although PyTorch reads a state of its class, or the other way round (detail
 *   "class"); code that bytecode cannot express, or that options.bytecode_version cannot (details
 *   "file", "line" and "column").
 * - TENON_PERMISSION: this process may not write there.
 * - TENON_NOT_FOUND: the directory does not exist.
 * - TENON_CORRUPT: code of an archive cannot be parsed, or a mapped file was cut short.
 * - TENON_RESOURCE_EXHAUSTED: also if the disk is full.
 * - TENON_PEER_GONE: the storage of a tensor was dropped (tenon_storage_check_lender).
 * - TENON_IO.
 * - Other codes for errors of CUDA's driver.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_export_module(const tenon_module *module, const char *path,
                                           const tenon_export_options *options,
                                           tenon_export_report *report,
                                           tenon_error **err) TENON_NOEXCEPT;

/**
 * Writes a module to an open file, a pipe or a socket, from its current position on. In all else
 * this function is like tenon_export_module.
 * @param[in]     module   borrowed.
 * @param[in]     fd       borrowed and not closed. After a failure, some bytes may have been
 *                         written to it.
 * @param[in]     options  borrowed. NULL means the defaults.
 * @param[in,out] report   as in tenon_export_module.
 * @param[out]    err      optional, see rule 2 in tenon.h.
 * @return the same codes as tenon_export_module. TENON_PEER_GONE also means that no process reads
 *         the pipe or the socket any more.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_export_module_fd(const tenon_module *module, int fd,
                                              const tenon_export_options *options,
                                              tenon_export_report *report,
                                              tenon_error **err) TENON_NOEXCEPT;

/**
 * Passes the bytes of a module's archive to a function. In all else this function is like
 * tenon_export_module.
 * @param[in]     module   borrowed.
 * @param[in]     write    called with one piece after another, on this thread. After a failure it
 *                         may have received some of the pieces.
 * @param[in]     context  handed to `write`.
 * @param[in]     options  borrowed. NULL means the defaults.
 * @param[in,out] report   as in tenon_export_module.
 * @param[out]    err      optional, see rule 2 in tenon.h.
 * @return the same codes as tenon_export_module, and the codes for the results of `write`
 *         (tenon_write_function).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_export_module_to(const tenon_module *module,
                                              tenon_write_function write, void *context,
                                              const tenon_export_options *options,
                                              tenon_export_report *report,
                                              tenon_error **err) TENON_NOEXCEPT;

/**
 * Lists the operators that bytecode of a module calls, such as "aten::add.Tensor". The list has
 * each operator once, sorted by name. A mobile build of PyTorch needs this list. The call writes no
 * file. It accepts code that forks, as TENON_EMIT_FORKS_AT_ONCE does.
 * @param[in]  module   borrowed.
 * @param[in]  methods  borrowed; as in tenon_export_options. NULL means all methods.
 * @param[out] out      new reference to a list; release it with tenon_name_list_release. Untouched
 *                      on failure.
 * @param[out] err      optional, see rule 2 in tenon.h. The details "file", "line", "column" and
 *                      "excerpt" name the place in the code.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND (a method), TENON_UNSUPPORTED (the lite
 *         interpreter cannot run some code), TENON_CORRUPT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_export_opnames(const tenon_module *module, const char *methods,
                                            tenon_name_list **out,
                                            tenon_error **err) TENON_NOEXCEPT;

/**
 * Reads an archive of PyTorch 1.4 or later, or a flatbuffer. The file must not be changed while
 * views of it are in use. Replacing the file by rename is harmless.
 *
 * The code and the bytecode of a flatbuffer are read and checked when the module is first used. See
 * "First use" in tenon/module.h.
 *
 * Tensors that were saved on another device than the CPU are put on the CPU, unless `tensors` or
 * `device_map` in the options says otherwise. Tensors that were copied to a CUDA device are
 * complete when the call returns, and every stream may use them.
 * @param[in]  path     borrowed.
 * @param[in]  options  borrowed. NULL means the defaults.
 * @param[out] out      new reference; release it with tenon_module_release. Untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h, with the details "record" and "offset".
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND, TENON_PERMISSION, TENON_CORRUPT,
 *         TENON_UNSUPPORTED (the file is of another kind, which the message names; there is no
 *         CUDA; PyTorch has no such version; it is a flatbuffer, and the library was built without
 *         FlatBuffers), TENON_RESOURCE_EXHAUSTED (also for the limits in the
 *         options, and for the device's memory), TENON_IO.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_import_module(const char *path, const tenon_import_options *options,
                                           tenon_module **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Reads an archive from an open file, whatever its position. In all else this function is like
 * tenon_import_module.
 * @param[in]  fd       borrowed. It must be a regular file that is open for reading. It may be
 *                      closed after the call.
 * @param[in]  options  borrowed. NULL means the defaults.
 * @param[out] out      new reference; release it with tenon_module_release. Untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return the same codes as tenon_import_module.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_import_module_fd(int fd, const tenon_import_options *options,
                                              tenon_module **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Reads an archive from memory. In all else this function is like tenon_import_module. With
 * TENON_IMPORT_MAP the tensors are views of that memory. With TENON_IMPORT_MAP_PRIVATE they are
 * copied.
 * @param[in]  data     borrowed, nbytes bytes. They must stay valid and must not change until
 *                      `release` is called.
 * @param[in]  nbytes   how many bytes there are at `data`.
 * @param[in]  release  called once, on any thread, when nothing needs the bytes any more. That is
 *                      at the latest when the last tensor over them is released. If the import
 *                      fails, `release` is not called. May be NULL.
 * @param[in]  context  handed to `release`.
 * @param[in]  options  borrowed. NULL means the defaults.
 * @param[out] out      new reference; release it with tenon_module_release. Untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return the same codes as tenon_import_module.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_import_module_memory(const void *data, size_t nbytes,
                                                  void (*release)(void *context), void *context,
                                                  const tenon_import_options *options,
                                                  tenon_module **out,
                                                  tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives the report of the import that made a module. For a module that no import function returned,
 * all fields are 0.
 * @param[in]     module  borrowed, a module that an import function returned.
 * @param[in,out] out     struct_size set by the caller, the other fields filled in by the call.
 *                        Untouched on failure.
 * @param[out]    err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, or an error of the file at the first use.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_module_import_report(const tenon_module *module,
                                                  tenon_import_report *out,
                                                  tenon_error **err) TENON_NOEXCEPT;

/**
 * Lists warnings about a module, one line each. For every module these are the calls that PyTorch
 * 1.13 refuses and the newest PyTorch accepts, or the reverse: "PyTorch 1.13 refuses
 * torch.scaled_dot_product_attention, and PyTorch 2.2 has it, in code/__torch__.py:3:12". A module
 * with code that both versions refuse has no lines about calls. A module that an import function
 * returned also has lines about the import. Examples are records that an export does not write
 * again, code that cannot be parsed, tensors that were saved on another device, and operators that
 * have another meaning in the archive's version than today.
 * @param[in]  module  borrowed.
 * @param[out] out     new reference to a list; release it with tenon_name_list_release. Untouched
 *                     on failure.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_module_warnings(const tenon_module *module, tenon_name_list **out,
                                             tenon_error **err) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
