#ifndef TENON_WEIGHTS_H
#define TENON_WEIGHTS_H

/**
 * @file
 * Files of weights: these functions read the tensors in a program that torch.export saved (.pt2),
 * in a safetensors file, in a file that torch.save or torch.jit.save wrote, in a file of NumPy
 * (.npy, .npz), and in a file of ExecuTorch (.ptd). No PyTorch is needed, and nothing in a file is
 * executed.
 */

#include <stddef.h>
#include <stdint.h>
#include <tenon/archive.h>
#include <tenon/error.h>
#include <tenon/module.h>
#include <tenon/value.h>

TENON_BEGIN_DECLS

/**
 * An opened file of weights (exported_program.md, safetensors.md and numpy.md in docs/format). Each
 * weight is a tensor with a name, such as "encoder.0.weight". In a program it is a parameter, a
 * buffer or a constant. If a file has several programs, the program's name and a slash come first.
 * In a file of torch.save the keys that lead to a tensor are its name, with dots between them. In a
 * module of TorchScript the names of the attributes are, and the module's code is not read. In an
 * .npz file the name of an array is its name, and in an .npy file the name is empty. An index of
 * shards (*.index.json) is opened with all its shards, which must lie in its folder.
 *
 * Any file but a .ptd file and an index can be written again with other weights
 * (tenon_weights_rewrite). Everything else in the file stays as it is.
 *
 * Threads: any thread may call any function of this header at any time. A rewrite contains the
 * weights that were replaced before it began.
 *
 * A library that was built without modules (CMake's option TENON_MODULES=OFF) has all functions of
 * this header. Those that can fail return TENON_UNSUPPORTED.
 */
typedef struct tenon_weights tenon_weights;

/** The forms of file that tenon_save_weights writes. */
enum {
  /** A safetensors file, as the package safetensors writes it (docs/format/safetensors.md). */
  TENON_WEIGHTS_SAFETENSORS = 0,
  /** A file as torch.save writes it of a dict of tensors. torch.load reads it, also with
   *  weights_only=True. Tensors whose memory overlaps share a storage in the file. */
  TENON_WEIGHTS_TORCH_SAVE = 1,
  /** An archive of arrays (.npz) as numpy.savez writes it. numpy.load reads it. NumPy has no
   *  bfloat16 and no 8-bit floats. */
  TENON_WEIGHTS_NPZ = 2
};

enum {
  /**
   * For TENON_WEIGHTS_SAFETENSORS and TENON_WEIGHTS_NPZ: write each tensor with its own elements,
   * also where tensors share memory. Without this flag such tensors are refused.
   */
  TENON_SAVE_DUPLICATE_SHARED = 1
};

/**
 * Called on the thread of tenon_save_weights, after each few MiB and at the end. It must not throw
 * or longjmp, and may not fork.
 * @param[in] context  options.progress_context.
 * @param[in] done     the bytes of elements that are written.
 * @param[in] total    the bytes of elements of all tensors.
 */
typedef void (*tenon_save_progress)(void *context, uint64_t done, uint64_t total);

/** How to save weights. A NULL pointer to these options means that all fields are zero. */
typedef struct tenon_save_weights_options {
  /** sizeof(tenon_save_weights_options), set by the caller. */
  size_t struct_size;
  /** TENON_WEIGHTS_*. */
  int32_t form;
  /** TENON_DURABILITY_*. */
  int32_t durability;
  /** TENON_SAVE_*. */
  uint32_t flags;
  /** Must be 0. */
  uint32_t reserved;
  /** Borrowed: the keys and texts of a safetensors file's `__metadata__`, `metadata_count` of each.
   *  A key may not come twice. */
  const char *const *metadata_keys;
  const char *const *metadata_texts;
  /** 0 unless the form is TENON_WEIGHTS_SAFETENSORS. */
  size_t metadata_count;
  /** May be NULL. */
  tenon_save_progress progress;
  /** The first argument of `progress`. */
  void *progress_context;
} tenon_save_weights_options;

/** How to write weights. A NULL pointer to these options means that all fields are zero. */
typedef struct tenon_weights_rewrite_options {
  /** sizeof(tenon_weights_rewrite_options), set by the caller. */
  size_t struct_size;
  /** TENON_DURABILITY_*. */
  int32_t durability;
  /** Must be 0. */
  uint32_t flags;
} tenon_weights_rewrite_options;

/**
 * Opens a file of weights and reads its tensors. The file must not be changed while views of it are
 * in use. Replacing the file by rename is harmless, also by tenon_weights_rewrite.
 * @param[in]  path     borrowed. The contents of the file, not its name, decide about its form.
 * @param[in]  options  borrowed. They say where the tensors go, as for a module.
 *                      TENON_IMPORT_DEBUG_TABLES has no effect. NULL means the defaults: read-only
 *                      views of the file.
 * @param[out] out      new reference; release it with tenon_weights_release. Untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND, TENON_PERMISSION, TENON_CORRUPT (also
 *         for an index that names a weight which its shard lacks: the details "name" and "path"
 * have both), TENON_UNSUPPORTED (the file is of another kind or of a newer version; the library was
 *         built without JSON and the file is a safetensors file or a .pt2 file of PyTorch's newest
 *         form; it was built without FlatBuffers and the file is a .ptd file),
 *         TENON_RESOURCE_EXHAUSTED, TENON_IO.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_open_weights(const char *path, const tenon_import_options *options,
                                          tenon_weights **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Adds a reference.
 * @param[in] weights  borrowed. NULL is allowed.
 * @return `weights`, as a new reference that must be released too.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_weights *tenon_weights_retain(tenon_weights *weights) TENON_NOEXCEPT;

/**
 * Releases a reference. Values that tenon_weights_tensor gave stay usable.
 * @param[in] weights  consumed. NULL is allowed.
 * @since 0.1. Any thread may call this function.
 */
TENON_API void tenon_weights_release(tenon_weights *weights) TENON_NOEXCEPT;

/**
 * Lists the names of all weights in the order of the file.
 * @param[in]  weights  borrowed.
 * @param[out] out      new reference to a list; release it with tenon_name_list_release. Untouched
 *                      on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_weights_names(const tenon_weights *weights, tenon_name_list **out,
                                           tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives a weight as a value. Weights that share a storage in the file share it in memory. Data of a
 * .ptd file that is not a tensor is given as a tensor of bytes. After tenon_weights_replace this
 * function gives the new elements. Values that it gave before keep the old elements.
 * @param[in]  weights  borrowed.
 * @param[in]  name     borrowed.
 * @param[out] out      new reference; release it with tenon_value_release. Untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND, TENON_UNSUPPORTED (the file has no
 *         plain elements of this weight; the message says why), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_weights_tensor(const tenon_weights *weights, const char *name,
                                            tenon_value **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Lists the names of the values in the file that are no tensors: the numbers, texts, booleans and
 * None in a file of torch.save or in a module, and the texts of `__metadata__` in a safetensors
 * file, as "__metadata__.format". The names are formed as those of tensors.
 * @param[in]  weights  borrowed.
 * @param[out] out      new reference to a list; release it with tenon_name_list_release. Untouched
 *                      on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_weights_value_names(const tenon_weights *weights,
                                                 tenon_name_list **out,
                                                 tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives a value of tenon_weights_value_names.
 * @param[in]  weights  borrowed.
 * @param[in]  name     borrowed.
 * @param[out] out      new reference; release it with tenon_value_release. Untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_weights_value(const tenon_weights *weights, const char *name,
                                           tenon_value **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Lists what the file has and the library cannot read, such as an object of a class of Python. Each
 * line has the name and the reason: "sampler: an object of 'mine.Sampler'". The list is empty if
 * everything in the file is a weight or a value.
 * @param[in]  weights  borrowed.
 * @param[out] out      new reference to a list of lines; release it with tenon_name_list_release.
 *                      Untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_weights_skipped(const tenon_weights *weights, tenon_name_list **out,
                                             tenon_error **err) TENON_NOEXCEPT;

/**
 * Replaces the elements of a weight. The element type and the shape must be those of the weight,
 * because the program depends on them. The layout may differ. Weights that share a storage with
 * this one change with it. The file does not change.
 *
 * The library may use the tensor's elements in place, without a copy. So they must not change
 * before the last tenon_weights_rewrite.
 * @param[in] weights  borrowed.
 * @param[in] name     borrowed.
 * @param[in] tensor   borrowed: a value of kind tensor in the memory of the CPU.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (also for another element type or shape),
 *         TENON_NOT_FOUND, TENON_UNSUPPORTED (a weight of a .ptd file, of a shard, of a compressed
 *         record or of a big-endian file, and a weight that is sparse, quantised or expanded; a
 * tensor on a device), TENON_CORRUPT (the file was cut short), TENON_PEER_GONE,
 *         TENON_RESOURCE_EXHAUSTED, TENON_IO.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_weights_replace(tenon_weights *weights, const char *name,
                                             const tenon_value *tensor,
                                             tenon_error **err) TENON_NOEXCEPT;

/**
 * Writes a copy of the opened file that contains the replaced weights. The new file has the same
 * size, and the same bytes except those of the replaced weights and their checksums. The file is
 * written whole or not at all: an old file of that name stays until the new one is complete. The
 * path may be the file that was opened.
 * @param[in]  weights  borrowed.
 * @param[in]  path     borrowed. Its directory must exist.
 * @param[in]  options  borrowed. NULL means the defaults.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND, TENON_PERMISSION, TENON_UNSUPPORTED (a
 *         .ptd file or an index), TENON_CORRUPT (the file was changed or cut short),
 * TENON_PEER_GONE, TENON_RESOURCE_EXHAUSTED, TENON_IO.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_weights_rewrite(const tenon_weights *weights, const char *path,
                                             const tenon_weights_rewrite_options *options,
                                             tenon_error **err) TENON_NOEXCEPT;

/**
 * Saves tensors under names as a new file. The elements are written from where they are, without a
 * second copy in memory. Only a tensor that is not contiguous is copied first. The file is written
 * whole or not at all: an old file of that name stays until the new one is complete.
 *
 * The elements must not change during the call.
 * @param[in]  path     borrowed. Its directory must exist.
 * @param[in]  names    borrowed: `count` names. A name may not come twice.
 * @param[in]  tensors  borrowed: `count` values of kind tensor, whose elements are in the memory of
 *                      the CPU.
 * @param[in]  count    may be 0. Then `names` and `tensors` may be NULL.
 * @param[in]  options  borrowed. NULL means the defaults.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, or
 * - TENON_INVALID_ARGUMENT: also for a name that comes twice, that is `__metadata__`, or that no
 *   record of an .npz file can have; for tensors that share memory in a safetensors or .npz file,
 *   or that share it and have different element types, whose names are the details "name" and
 *   "other"; and for metadata in a file of another form.
 * - TENON_NOT_FOUND, TENON_PERMISSION: the directory.
 * - TENON_UNSUPPORTED: a tensor that the form cannot express. It is sparse, lazily conjugated or
 *   negated, on a device, or of an element type that the form lacks; it is quantised, and the form
 *   is not TORCH_SAVE; or the library was built without JSON, and the form is SAFETENSORS. The
 *   detail "name" has the tensor's name.
 * - TENON_CORRUPT: the elements lie in a mapped file that was cut short.
 * - TENON_RESOURCE_EXHAUSTED, TENON_IO.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_save_weights(const char *path, const char *const *names,
                                          const tenon_value *const *tensors, size_t count,
                                          const tenon_save_weights_options *options,
                                          tenon_error **err) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
