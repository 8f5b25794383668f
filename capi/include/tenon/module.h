#ifndef TENON_MODULE_H
#define TENON_MODULE_H

#include <stddef.h>
#include <stdint.h>
#include <tenon/error.h>
#include <tenon/value.h>

TENON_BEGIN_DECLS

/**
 * An object tree with typed attributes, parameters, buffers and methods, and the code of its classes: what PyTorch calls a ScriptModule.
 * It is built here, or read from an archive (tenon_import_module), changed, and written as an archive that torch.jit.load runs
 * (tenon_export_module). Nothing in it is ever run here.
 *
 * A path names a member from a module on, with dots: "encoder.0.weight". A submodule that was looked up is a tenon_module of its own over
 * the same objects: what is changed through one shows in all. Every value is checked against its declared type when it is put in.
 *
 * Looking (const) is for any number of threads. Changing is for one thread, beside no other call on the same tree; during an export, also
 * from its callbacks, it is TENON_PERMISSION. After a failed change everything is as it was.
 */
typedef struct tenon_module tenon_module;

/** What a name of a module stands for. */
enum {
  TENON_MEMBER_PARAMETER = 0,
  TENON_MEMBER_BUFFER = 1,
  TENON_MEMBER_ATTRIBUTE = 2,
  TENON_MEMBER_CONSTANT = 3,
  TENON_MEMBER_SUBMODULE = 4,
  TENON_MEMBER_METHOD = 5
};

enum {
  TENON_LOAD_ALLOW_MISSING = 1,    /**< parameters and buffers that are not among the given ones keep what they have */
  TENON_LOAD_ALLOW_UNEXPECTED = 2, /**< given names that the module has not are left out */
  TENON_LOAD_CHECK_ONLY = 4        /**< change nothing, say what would be missing and unexpected */
};

/** One member. Everything in it is borrowed from the list that it came from. */
typedef struct tenon_member {
  size_t struct_size;   /**< sizeof(tenon_member), set by the caller */
  int32_t kind;         /**< TENON_MEMBER_* */
  const char *name;     /**< its name; a path in a list of tensors */
  const char *type;     /**< declared type, of submodules their class; "" for methods */
  const char *source;   /**< of methods, and of constants, as it stands in the class; else "" */
  tenon_value *value;   /**< NULL for submodules, methods, and constants that are no literals */
  tenon_module *module; /**< of submodules, else NULL */
} tenon_member;

/** Members that were looked up. Never changes, whatever happens to the module. */
typedef struct tenon_member_list tenon_member_list;

/** Names, one after the other. Never changes. */
typedef struct tenon_name_list tenon_name_list;

/** A named piece of bytes: an extra file, or a file of code. */
typedef struct tenon_file {
  const char *name;
  const void *data; /**< may be NULL if nbytes is 0 */
  size_t nbytes;
} tenon_file;

/** Files of a module, as they were when it was asked. Never changes. */
typedef struct tenon_file_list tenon_file_list;

/**
 * Make a module of a new class, with nothing but the attribute `training`, which is True.
 * @param[in]  class_name  borrowed, "MLP" or a qualified name as "__torch__.my.MLP"; copied.
 * @param[out] out         new reference, release with tenon_module_release; untouched on failure.
 * @param[out] err         optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_module_new(const char *class_name, tenon_module **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Take one more reference.
 * @param[in] module  borrowed; NULL is allowed.
 * @return `module`, now with one reference more, to be released too.
 * @since 0.1. Any thread.
 */
TENON_API tenon_module *tenon_module_retain(tenon_module *module) TENON_NOEXCEPT;

/**
 * Give one reference back.
 * @param[in] module  consumed; NULL is allowed.
 * @since 0.1. Any thread.
 */
TENON_API void tenon_module_release(tenon_module *module) TENON_NOEXCEPT;

/**
 * The qualified name of a module's class.
 * @param[in]  module    borrowed.
 * @param[out] out       borrowed, room for `capacity` bytes; gets the text, cut if it does not fit, and a NUL; may be NULL if capacity is
 * 0.
 * @param[in]  capacity  bytes.
 * @param[out] nbytes    bytes of the whole text, without the NUL; may be NULL; untouched on failure.
 * @param[out] err       optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread, not beside a change.
 */
TENON_API tenon_status tenon_module_class_name(const tenon_module *module, char *out, size_t capacity, size_t *nbytes,
                                               tenon_error **err) TENON_NOEXCEPT;

/**
 * The object that a module is. Equal pointers are the same module: a submodule with two owners is there twice.
 * @param[in]  module  borrowed.
 * @param[out] out     new reference, release with tenon_value_release; untouched on failure.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_module_object(const tenon_module *module, tenon_value **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Add a parameter.
 * @param[in]  module  borrowed.
 * @param[in]  name    borrowed; any text without dots, as "weight" or "0"; copied.
 * @param[in]  tensor  borrowed, a value of kind tensor; NULL: a parameter that is None, as `bias=None`. The module takes a reference.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (also a name that is taken), TENON_PERMISSION, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. One thread at a time.
 */
TENON_API tenon_status tenon_module_add_parameter(tenon_module *module, const char *name, tenon_value *tensor,
                                                  tenon_error **err) TENON_NOEXCEPT;

/**
 * Add a buffer.
 * @param[in]  module  borrowed.
 * @param[in]  name    borrowed; copied.
 * @param[in]  tensor  borrowed, as for a parameter.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return as for a parameter.
 * @since 0.1. One thread at a time.
 */
TENON_API tenon_status tenon_module_add_buffer(tenon_module *module, const char *name, tenon_value *tensor,
                                               tenon_error **err) TENON_NOEXCEPT;

/**
 * Add an attribute of a declared type.
 * @param[in]  module  borrowed.
 * @param[in]  name    borrowed; copied.
 * @param[in]  type    borrowed, as "Dict[str, int]"; classes by their qualified names, defined before. NULL: the type that the value
 * shows by itself (tenon_value_type).
 * @param[in]  value   borrowed; the module takes a reference.
 * @param[out] err     optional, see rule 2 in tenon.h; with details "where", "wanted" and "found" of what does not fit.
 * @return as for a parameter.
 * @since 0.1. One thread at a time.
 */
TENON_API tenon_status tenon_module_add_attribute(tenon_module *module, const char *name, const char *type, tenon_value *value,
                                                  tenon_error **err) TENON_NOEXCEPT;

/**
 * Add a constant, which PyTorch calls Final: it stands in the class and cannot change when the module runs.
 * @param[in]  module  borrowed.
 * @param[in]  name    borrowed; copied.
 * @param[in]  type    borrowed, as for an attribute.
 * @param[in]  value   borrowed; the module takes a reference.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return as for a parameter.
 * @since 0.1. One thread at a time.
 */
TENON_API tenon_status tenon_module_add_constant(tenon_module *module, const char *name, const char *type, tenon_value *value,
                                                 tenon_error **err) TENON_NOEXCEPT;

/**
 * Add a submodule. One module may be added in several places, and is shared by them then, here and in the archive.
 * @param[in]  module  borrowed.
 * @param[in]  name    borrowed; copied.
 * @param[in]  child   borrowed, built or imported; the module takes a reference. It must not contain `module`.
 * @param[in]  type    borrowed, the qualified name of an interface that the child has; NULL: the child's own class.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return as for a parameter, and TENON_NOT_FOUND (no such interface is defined).
 * @since 0.1. One thread at a time.
 */
TENON_API tenon_status tenon_module_add_submodule(tenon_module *module, const char *name, tenon_module *child, const char *type,
                                                  tenon_error **err) TENON_NOEXCEPT;

/**
 * Define methods: one `def` or more in TorchScript, docs/format/script.md. One that is there already is replaced.
 * @param[in]  module  borrowed; it alone gets the methods, and no other module of its class.
 * @param[in]  source  borrowed; copied.
 * @param[out] err     optional, see rule 2 in tenon.h; with details "file", "line", "column" and "excerpt".
 * @return TENON_OK, TENON_INVALID_ARGUMENT (also for what cannot be parsed), TENON_UNSUPPORTED (what is Python and not TorchScript),
 *         TENON_PERMISSION, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. One thread at a time.
 */
TENON_API tenon_status tenon_module_define(tenon_module *module, const char *source, tenon_error **err) TENON_NOEXCEPT;

/**
 * Define what methods and types use: functions, NamedTuples, enums, interfaces and plain classes, as `class P(NamedTuple): ...`.
 * @param[in]  module     borrowed; its code gets the definitions.
 * @param[in]  qualifier  borrowed, "__torch__" or a name below it: of `class P` comes "<qualifier>.P".
 * @param[in]  source     borrowed; copied.
 * @param[out] err        optional, see rule 2 in tenon.h; with details "file", "line", "column" and "excerpt".
 * @return as tenon_module_define.
 * @since 0.1. One thread at a time.
 */
TENON_API tenon_status tenon_module_define_types(tenon_module *module, const char *qualifier, const char *source,
                                                 tenon_error **err) TENON_NOEXCEPT;

/**
 * Say which methods PyTorch runs before or after forward.
 * @param[in]  module          borrowed.
 * @param[in]  before_forward  1: before; 0: after.
 * @param[in]  names           borrowed array of n names of methods, in the order of their runs; copied.
 * @param[in]  n               how many; 0: none any more.
 * @param[out] err             optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND (no such method), TENON_PERMISSION, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. One thread at a time.
 */
TENON_API tenon_status tenon_module_set_hooks(tenon_module *module, int before_forward, const char *const *names, size_t n,
                                              tenon_error **err) TENON_NOEXCEPT;

/**
 * Keep the example inputs of a traced method in the archive, for who asks PyTorch for them. Their tensors are written without bytes.
 * @param[in]  module  borrowed.
 * @param[in]  method  borrowed.
 * @param[in]  inputs  borrowed array of n; the module takes a reference to each.
 * @param[in]  n       how many.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. One thread at a time.
 */
TENON_API tenon_status tenon_module_set_traced_inputs(tenon_module *module, const char *method, tenon_value *const *inputs, size_t n,
                                                      tenon_error **err) TENON_NOEXCEPT;

/**
 * Put a file beside the module, which goes into every archive of it: extra/<name> there.
 * @param[in]  module  borrowed.
 * @param[in]  name    borrowed; copied. One of that name is replaced.
 * @param[in]  data    borrowed, nbytes bytes; copied; may be NULL if nbytes is 0.
 * @param[in]  nbytes  how many.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. One thread at a time.
 */
TENON_API tenon_status tenon_module_set_extra_file(tenon_module *module, const char *name, const void *data, size_t nbytes,
                                                   tenon_error **err) TENON_NOEXCEPT;

/**
 * Take such a file away.
 * @param[in]  module  borrowed.
 * @param[in]  name    borrowed.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_NOT_FOUND, TENON_PERMISSION.
 * @since 0.1. One thread at a time.
 */
TENON_API tenon_status tenon_module_remove_extra_file(tenon_module *module, const char *name, tenon_error **err) TENON_NOEXCEPT;

/**
 * Replace a parameter, buffer or attribute. The shape and the element type of a tensor may change. Whatever else below `module` held the
 * same tensor has the new one too. Where a parameter requires a gradient, what takes its place requires one too, if its elements can:
 * a tensor without TENON_TENSOR_REQUIRES_GRAD says nothing about it. To freeze a parameter, remove it and add it again.
 * @param[in]  module  borrowed.
 * @param[in]  path    borrowed.
 * @param[in]  value   borrowed; the module takes a reference. NULL: None.
 * @param[out] err     optional, see rule 2 in tenon.h; with details "where", "wanted" and "found".
 * @return TENON_OK, TENON_INVALID_ARGUMENT (it does not fit the declared type), TENON_NOT_FOUND, TENON_PERMISSION,
 *         TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. One thread at a time.
 */
TENON_API tenon_status tenon_module_set(tenon_module *module, const char *path, tenon_value *value, tenon_error **err) TENON_NOEXCEPT;

/**
 * Replace a submodule.
 * @param[in]  module  borrowed.
 * @param[in]  path    borrowed.
 * @param[in]  child   borrowed; as for tenon_module_add_submodule. Another class is fine unless an interface is declared that it has not.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return as tenon_module_set.
 * @since 0.1. One thread at a time.
 */
TENON_API tenon_status tenon_module_set_submodule(tenon_module *module, const char *path, tenon_module *child,
                                                  tenon_error **err) TENON_NOEXCEPT;

/**
 * Take a member away: a parameter, buffer, attribute, constant, submodule or method.
 * @param[in]  module  borrowed.
 * @param[in]  path    borrowed.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND, TENON_PERMISSION, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. One thread at a time.
 */
TENON_API tenon_status tenon_module_remove(tenon_module *module, const char *path, tenon_error **err) TENON_NOEXCEPT;

/**
 * Replace parameters and buffers by their paths, all of them or, on failure, none. A parameter that requires a gradient goes on to require
 * one, as in tenon_module_set.
 * @param[in]  module      borrowed.
 * @param[in]  paths       borrowed array of n.
 * @param[in]  tensors     borrowed array of n; values of kind tensor, or NULL for None; the module takes a reference to each.
 * @param[in]  n           how many.
 * @param[in]  flags       TENON_LOAD_*.
 * @param[out] missing     new reference to the paths of the module that are not among the given ones; release with tenon_name_list_release;
 * may be NULL; untouched on failure.
 * @param[out] unexpected  new reference to the given paths that the module has not; likewise.
 * @param[out] err         optional, see rule 2 in tenon.h; the message names the first missing and unexpected ones, the details "missing"
 *                         and "unexpected" have their numbers.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (something is missing, unexpected, twice there, or does not fit), TENON_PERMISSION,
 *         TENON_UNSUPPORTED (flags), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. One thread at a time.
 */
TENON_API tenon_status tenon_module_load(tenon_module *module, const char *const *paths, tenon_value *const *tensors, size_t n,
                                         uint32_t flags, tenon_name_list **missing, tenon_name_list **unexpected,
                                         tenon_error **err) TENON_NOEXCEPT;

/**
 * Check the code as an export does: names, operators, numbers and keywords of arguments. Types of operands are not checked. Nothing is
 * written.
 * @param[in]  module  borrowed.
 * @param[out] err     optional, see rule 2 in tenon.h; with details "file", "line", "column" and "excerpt".
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread, not beside a change.
 */
TENON_API tenon_status tenon_module_check(const tenon_module *module, tenon_error **err) TENON_NOEXCEPT;

/**
 * All members of a module, in the order in which its class declares them, methods last.
 * @param[in]  module  borrowed.
 * @param[out] out     new reference to a list, release with tenon_member_list_release; untouched on failure.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_CORRUPT (code of an archive that cannot be parsed), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread, not beside a change.
 */
TENON_API tenon_status tenon_module_members(const tenon_module *module, tenon_member_list **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * The member of a path.
 * @param[in]  module  borrowed.
 * @param[in]  path    borrowed, "encoder.0.weight".
 * @param[out] out     new reference to a list of this one member, release with tenon_member_list_release; untouched on failure.
 * @param[out] err     optional, see rule 2 in tenon.h; the message names the part of the path that is not there.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND, TENON_CORRUPT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread, not beside a change.
 */
TENON_API tenon_status tenon_module_find(const tenon_module *module, const char *path, tenon_member_list **out,
                                         tenon_error **err) TENON_NOEXCEPT;

/**
 * Every parameter and buffer below a module, named by its path, in the order of the tree; a shared one under each of its paths. Those that
 * are None are left out.
 * @param[in]  module  borrowed.
 * @param[out] out     new reference to a list, release with tenon_member_list_release; untouched on failure.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_CORRUPT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread, not beside a change.
 */
TENON_API tenon_status tenon_module_tensors(const tenon_module *module, tenon_member_list **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * How many members a list has.
 * @param[in] list  borrowed; NULL is allowed.
 * @return the count; 0 for NULL.
 * @since 0.1. Any thread.
 */
TENON_API size_t tenon_member_list_count(const tenon_member_list *list) TENON_NOEXCEPT;

/**
 * One member of a list.
 * @param[in]     list   borrowed.
 * @param[in]     index  from 0.
 * @param[in,out] out    out->struct_size set by the caller; what it points to is borrowed from the list, valid until its release;
 *                       untouched on failure.
 * @param[out]    err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (also past the end).
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_member_list_get(const tenon_member_list *list, size_t index, tenon_member *out,
                                             tenon_error **err) TENON_NOEXCEPT;

/**
 * Let a list go.
 * @param[in] list  consumed; NULL is allowed.
 * @since 0.1. Any thread.
 */
TENON_API void tenon_member_list_release(tenon_member_list *list) TENON_NOEXCEPT;

/**
 * The extra files that a module has.
 * @param[in]  module  borrowed.
 * @param[out] out     new reference to a list, release with tenon_file_list_release; untouched on failure.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread, not beside a change.
 */
TENON_API tenon_status tenon_module_extra_files(const tenon_module *module, tenon_file_list **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * The code of a module's classes and functions, as an export writes it: one file for each qualifier, "__torch__/my/layers.py".
 * @param[in]  module  borrowed.
 * @param[out] out     new reference to a list, release with tenon_file_list_release; untouched on failure.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_CORRUPT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread, not beside a change.
 */
TENON_API tenon_status tenon_module_code_files(const tenon_module *module, tenon_file_list **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * What CONSTANTS.c0, CONSTANTS.c1, … are in the code that tenon_module_code_files gives.
 * @param[in]  module  borrowed.
 * @param[out] out     new reference to a tuple, release with tenon_value_release; untouched on failure.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_CORRUPT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread, not beside a change.
 */
TENON_API tenon_status tenon_module_constants(const tenon_module *module, tenon_value **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * How many files a list has.
 * @param[in] list  borrowed; NULL is allowed.
 * @return the count; 0 for NULL.
 * @since 0.1. Any thread.
 */
TENON_API size_t tenon_file_list_count(const tenon_file_list *list) TENON_NOEXCEPT;

/**
 * One file of a list.
 * @param[in]  list   borrowed.
 * @param[in]  index  from 0.
 * @param[out] out    what it points to is borrowed from the list, valid until its release; there is a NUL behind data; untouched on
 * failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (also past the end).
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_file_list_get(const tenon_file_list *list, size_t index, tenon_file *out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Let a list go.
 * @param[in] list  consumed; NULL is allowed.
 * @since 0.1. Any thread.
 */
TENON_API void tenon_file_list_release(tenon_file_list *list) TENON_NOEXCEPT;

/**
 * How many names a list has.
 * @param[in] list  borrowed; NULL is allowed.
 * @return the count; 0 for NULL.
 * @since 0.1. Any thread.
 */
TENON_API size_t tenon_name_list_count(const tenon_name_list *list) TENON_NOEXCEPT;

/**
 * One name of a list.
 * @param[in] list   borrowed; NULL is allowed.
 * @param[in] index  from 0.
 * @return borrowed from the list, valid until its release; NULL past the end and for NULL.
 * @since 0.1. Any thread.
 */
TENON_API const char *tenon_name_list_get(const tenon_name_list *list, size_t index) TENON_NOEXCEPT;

/**
 * Let a list go.
 * @param[in] list  consumed; NULL is allowed.
 * @since 0.1. Any thread.
 */
TENON_API void tenon_name_list_release(tenon_name_list *list) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
