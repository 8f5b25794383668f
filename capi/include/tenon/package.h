#ifndef TENON_PACKAGE_H
#define TENON_PACKAGE_H

/**
 * @file
 * Packages: these functions read and write archives of torch.package. A package has any number of
 * script modules (tenon/module.h), pickles, Python sources and other files. No PyTorch is needed,
 * and nothing in a package is executed.
 */

#include <stddef.h>
#include <stdint.h>
#include <tenon/archive.h>
#include <tenon/error.h>
#include <tenon/module.h>

TENON_BEGIN_DECLS

/**
 * A package that was opened (docs/format/package.md). Its parts are called records. A record such
 * as "models/net.pkl" is the resource "net.pkl" of the Python package "models".
 *
 * A script module has an id in the package, such as "0". It also has the name of a resource, if
 * there is a record that holds this module and nothing else. A storage that several modules share
 * is in memory once.
 *
 * PyTorch writes and reads script modules in packages only after
 * torch.package.package_exporter._gate_torchscript_serialization was set to False.
 */
typedef struct tenon_package tenon_package;

/** One resource of a package that is written: a module, or a file. */
typedef struct tenon_package_entry {
  /** The name of the record, such as "models/net.pkl". Borrowed. */
  const char *name;
  /** A module, borrowed. NULL means a file with the bytes at `data`. */
  const tenon_module *module;
  /** The bytes of a file, borrowed. NULL for a module. */
  const void *data;
  /** How many bytes there are at `data`. 0 for a module. */
  size_t nbytes;
  /** Must be 0. */
  uint64_t reserved;
} tenon_package_entry;

/** How to write a package. A NULL pointer to these options means that all fields are zero. */
typedef struct tenon_package_options {
  /** sizeof(tenon_package_options), set by the caller. */
  size_t struct_size;
  /** TENON_EXPORT_UNCHECKED, TENON_EXPORT_KEEP_DEVICE. */
  uint32_t flags;
  /** TENON_DURABILITY_*. */
  int32_t durability;
  /**
   * A package, borrowed for the call. Everything in it that no entry replaces is written again: its
   * modules as they are now, and all other records byte for byte. A module of the base that no
   * record of the new package needs is left out, and so is its storage. NULL means no base.
   */
  tenon_package *base;
  /**
   * Names of Python modules that the package's pickles need and the package does not contain, such
   * as "numpy". Borrowed. The names of the base, and the name that script modules need, are written
   * anyway.
   */
  const char *const *externs;
  /** How many names there are. */
  size_t n_externs;
  /**
   * The name of the folder in the zip file, borrowed. NULL means the file's name without its
   * extension.
   */
  const char *archive_name;
  /** As in tenon_export_options. */
  void *stream;
} tenon_package_options;

/**
 * Opens a package. The file must not be changed while views of it are in use. Replacing the file
 * by rename is harmless.
 * @param[in]  path     borrowed.
 * @param[in]  options  borrowed. They hold for all modules of the package. The package keeps a
 *                      reference to their arena. TENON_IMPORT_DEBUG_TABLES has no effect. NULL
 *                      means the defaults.
 * @param[out] out      new reference; release it with tenon_package_release. Untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h, with the details "record" and "offset".
 * @return TENON_OK, TENON_UNSUPPORTED (the file is of another kind), and the other codes of
 *         tenon_import_module.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_package_open(const char *path, const tenon_import_options *options,
                                          tenon_package **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Adds a reference.
 * @param[in] package  borrowed. NULL is allowed.
 * @return `package`, as a new reference that must be released too.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_package *tenon_package_retain(tenon_package *package) TENON_NOEXCEPT;

/**
 * Releases a reference. Modules of the package stay usable.
 * @param[in] package  consumed. NULL is allowed.
 * @since 0.1. Any thread may call this function.
 */
TENON_API void tenon_package_release(tenon_package *package) TENON_NOEXCEPT;

/**
 * Lists the script modules of a package. Each is listed by its resource, or by its id if it has no
 * resource.
 * @param[in]  package  borrowed.
 * @param[out] out      new reference to a list; release it with tenon_name_list_release. Untouched
 *                      on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_package_modules(const tenon_package *package, tenon_name_list **out,
                                             tenon_error **err) TENON_NOEXCEPT;

/**
 * Reads a script module of a package. Every call for the same module gives a tenon_module over the
 * same objects, with the changes that were made to them. A module that cannot be read does not
 * affect other modules.
 * @param[in]  package  borrowed.
 * @param[in]  name     borrowed: a resource or an id.
 * @param[out] out      new reference; release it with tenon_module_release. Untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h, with the details "record" and "offset".
 * @return TENON_OK, TENON_NOT_FOUND (the message lists the names), and the other codes of
 *         tenon_import_module.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_package_module(tenon_package *package, const char *name,
                                            tenon_module **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Lists the records of a package in their order, also the records that PyTorch keeps below
 * ".data/".
 * @param[in]  package  borrowed.
 * @param[out] out      new reference to a list; release it with tenon_name_list_release. Untouched
 *                      on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_package_records(const tenon_package *package, tenon_name_list **out,
                                             tenon_error **err) TENON_NOEXCEPT;

/**
 * Copies the bytes of a record: a pickle, a Python source, a file, or a storage such as
 * ".data/0.storage".
 * @param[in]  package  borrowed.
 * @param[in]  name     borrowed.
 * @param[out] out      new reference to a list that has this one file; release it with
 *                      tenon_file_list_release. Untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND, TENON_CORRUPT,
 *         TENON_RESOURCE_EXHAUSTED, TENON_IO.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_package_read(const tenon_package *package, const char *name,
                                          tenon_file_list **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Writes a package that torch.package.PackageImporter reads. The package contains each class, each
 * constant and each storage once, however many of its modules use it. Where two modules have
 * different classes of one name, one class gets another name. The file is written whole or not at
 * all: an old file of that name stays until the new one is complete. The path may be the file of
 * `options.base`.
 * @param[in]     entries  borrowed array of n entries. Several entries may have the same module.
 * @param[in]     n        how many entries there are.
 * @param[in]     path     borrowed. Its directory must exist.
 * @param[in]     options  borrowed. NULL means the defaults.
 * @param[in,out] report   struct_size set by the caller, the other fields filled in by the call.
 *                         May be NULL. Untouched on failure.
 * @param[out]    err      optional, see rule 2 in tenon.h. For code, the details "file", "line",
 *                         "column" and "excerpt" name the place.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (also if a name is not valid or is given twice),
 *         TENON_UNSUPPORTED (also a base that is big-endian), and the other codes of
 *         tenon_export_module.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_export_package(const tenon_package_entry *entries, size_t n,
                                            const char *path, const tenon_package_options *options,
                                            tenon_export_report *report,
                                            tenon_error **err) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
