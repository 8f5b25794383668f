#ifndef TENON_MODULE_H
#define TENON_MODULE_H

/**
 * @file
 * Modules: trees of objects with TorchScript code, which a program builds, inspects and changes
 * without PyTorch. tenon/archive.h reads modules from archives and writes them.
 */

#include <stddef.h>
#include <stdint.h>
#include <tenon/error.h>
#include <tenon/value.h>

TENON_BEGIN_DECLS

/**
 * A module, which PyTorch calls a ScriptModule: a tree of objects with typed attributes,
 * parameters, buffers and methods, and the code of their classes. A program builds a module with
 * the functions below, or reads one from an archive (tenon_import_module). It can change the module
 * and write it as an archive that torch.jit.load runs (tenon_export_module). Tenon never executes
 * the code of a module.
 *
 * A path names a member below a module, with dots between the names: "encoder.0.weight". A
 * submodule that is looked up is a tenon_module of its own over the same objects, so a change
 * through one of them shows in the other. Every value is checked against its declared type when it
 * is put into a module.
 *
 * States: where a class has the methods __getstate__ and __setstate__, an archive has no attributes
 * of its objects. It has the value that __getstate__ returned, which is called the state. PyTorch
 * gives the state to __setstate__, which makes the attributes. Quantised modules and objects of
 * PyTorch's own C++ classes have states. The path "conv.state" names the state of the object at
 * "conv", and "state" that of the module itself. Indices after such a path name a part of the
 * state: "conv.state[0]", or "conv.state['scale']" for the key of a dict. A class with only one of
 * the two methods has attributes.
 *
 * Threads: any thread may call any function of this header at any time, also while other threads
 * use the same tree. Functions that take a pointer to a const module run at the same time. A
 * function that changes a module waits until no call reads or changes any module, and other calls
 * wait for it. What a change removes, such as the memory of a tensor, is released when the change
 * is complete, so a function that Tenon calls then may use modules. While an export of the tree
 * runs, every change returns TENON_PERMISSION, also a change by a callback of that export. A change
 * that fails leaves the tree as it was. Two calls are not one step: another thread may change the
 * module between them.
 *
 * First use: an import of a flatbuffer (tenon/archive.h) checks the structure of the file and reads
 * its values and tensors. The first function that gets the module, other than tenon_module_retain
 * and tenon_module_release, reads the code and the bytecode, and checks every value against the
 * type that the code declares. If the code or a value is bad, this function and each later one
 * fails with the error of the file, which is TENON_CORRUPT in most cases, and does nothing else.
 * Until the first use the module keeps a copy of the file without its tensors. Several threads may
 * make the first use at once, and so may a child of fork. The bytecode is verified when an export
 * or tenon_module_warnings first needs it. Bad bytecode is no error: the module is good without it.
 * With TENON_IMPORT_CHECK_ALL an import of a flatbuffer does all of this at once. An archive is
 * always read and checked at once.
 *
 * A library that was built without modules (CMake's option TENON_MODULES=OFF) has all functions of
 * this header, of tenon/value.h, of tenon/archive.h and of tenon/package.h. Those that can fail
 * return TENON_UNSUPPORTED, so there is never a value or a module.
 */
typedef struct tenon_module tenon_module;

/** The kinds of members of a module. */
enum {
  TENON_MEMBER_PARAMETER = 0,
  TENON_MEMBER_BUFFER = 1,
  TENON_MEMBER_ATTRIBUTE = 2,
  TENON_MEMBER_CONSTANT = 3,
  TENON_MEMBER_SUBMODULE = 4,
  TENON_MEMBER_METHOD = 5,
  /** The state of an object, or a part of that state. */
  TENON_MEMBER_STATE = 6
};

enum {
  /** Parameters and buffers for which no tensor is given keep the tensors that they have. */
  TENON_LOAD_ALLOW_MISSING = 1,
  /** Paths that the caller gives and that the module does not have are ignored. */
  TENON_LOAD_ALLOW_UNEXPECTED = 2,
  /**
   * The call makes all checks and changes nothing. Combine it with the two flags above to get the
   * lists of missing and unexpected paths, because without them the call fails.
   */
  TENON_LOAD_CHECK_ONLY = 4
};

/** One member of a module. Everything in it is borrowed from the list that gave it. */
typedef struct tenon_member {
  /** sizeof(tenon_member), set by the caller. */
  size_t struct_size;
  /** TENON_MEMBER_*. */
  int32_t kind;
  /**
   * The member's name. For a state it is the part of the path from "state" on. In the list of
   * tenon_module_tensors it is the tensor's path.
   */
  const char *name;
  /** The declared type. For a submodule it is the name of its class, for a method it is "". */
  const char *type;
  /**
   * The source of a method, or the text of a constant as the source of its class contains it. ""
   * for other members.
   */
  const char *source;
  /**
   * The value. NULL for a submodule, for a method, and for a constant whose text is neither a
   * literal nor the name of one of tenon_module_constants. NULL for all attributes of a module that
   * has a state instead of attributes (tenon_value_is_opaque).
   */
  tenon_value *value;
  /** The submodule. NULL for other members. */
  tenon_module *module;
} tenon_member;

/** A list of members that were looked up. It never changes, even if the module does. */
typedef struct tenon_member_list tenon_member_list;

/** A list of names. It never changes. */
typedef struct tenon_name_list tenon_name_list;

/** Bytes with a name: an extra file, or a file of code. */
typedef struct tenon_file {
  const char *name;
  const void *data; /**< NULL is allowed if nbytes is 0. */
  size_t nbytes;    /**< How many bytes there are at data. */
} tenon_file;

/** A list of a module's files. It never changes, even if the module does. */
typedef struct tenon_file_list tenon_file_list;

/**
 * Makes a module of a new class. Its only member is the attribute `training`, which is True.
 * @param[in]  class_name  borrowed; copied by the call. "MLP" means "__torch__.MLP". A qualified
 *                         name, such as "__torch__.my.MLP", is allowed too.
 * @param[out] out         new reference; release it with tenon_module_release. Untouched on
 *                         failure.
 * @param[out] err         optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_module_new(const char *class_name, tenon_module **out,
                                        tenon_error **err) TENON_NOEXCEPT;

/**
 * Adds a reference.
 * @param[in] module  borrowed. NULL is allowed.
 * @return `module`, as a new reference that must be released too.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_module *tenon_module_retain(tenon_module *module) TENON_NOEXCEPT;

/**
 * Releases a reference.
 * @param[in] module  consumed. NULL is allowed.
 * @since 0.1. Any thread may call this function.
 */
TENON_API void tenon_module_release(tenon_module *module) TENON_NOEXCEPT;

/**
 * Writes the qualified name of a module's class.
 * @param[in]  module    borrowed.
 * @param[out] out       the caller's buffer, with room for `capacity` bytes. The call writes the
 *                       name, cut off if it does not fit, and a NUL. `out` may be NULL if capacity
 *                       is 0.
 * @param[in]  capacity  bytes.
 * @param[out] nbytes    the length of the whole name in bytes, without the NUL. May be NULL.
 *                       Untouched on failure.
 * @param[out] err       optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_module_class_name(const tenon_module *module, char *out,
                                               size_t capacity, size_t *nbytes,
                                               tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives the object of a module, as a value. Two modules are the same if and only if they give equal
 * pointers. A submodule with two owners is in the tree twice and gives the same pointer at both
 * places.
 * @param[in]  module  borrowed.
 * @param[out] out     new reference; release it with tenon_value_release. Untouched on failure.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_module_object(const tenon_module *module, tenon_value **out,
                                           tenon_error **err) TENON_NOEXCEPT;

/**
 * Adds a parameter.
 * @param[in]  module  borrowed.
 * @param[in]  name    borrowed; copied by the call. It is any text without dots and without control
 *                     characters, such as "weight" or "0".
 * @param[in]  tensor  borrowed, a value of kind tensor. The module takes a reference of its own.
 *                     NULL adds a parameter that is None, as `bias=None` does in PyTorch.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (also if the module has a member of that name),
 *         TENON_PERMISSION (an export runs), TENON_UNSUPPORTED (the module has a state instead of
 *         attributes, see tenon_value_is_opaque), TENON_CORRUPT (the module comes from an archive,
 *         and the code of its class cannot be parsed), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_module_add_parameter(tenon_module *module, const char *name,
                                                  tenon_value *tensor,
                                                  tenon_error **err) TENON_NOEXCEPT;

/**
 * Adds a buffer.
 * @param[in]  module  borrowed.
 * @param[in]  name    borrowed; copied by the call, as in tenon_module_add_parameter.
 * @param[in]  tensor  borrowed, as in tenon_module_add_parameter.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return the same codes as tenon_module_add_parameter.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_module_add_buffer(tenon_module *module, const char *name,
                                               tenon_value *tensor,
                                               tenon_error **err) TENON_NOEXCEPT;

/**
 * Adds an attribute with a declared type.
 * @param[in]  module  borrowed.
 * @param[in]  name    borrowed; copied by the call, as in tenon_module_add_parameter.
 * @param[in]  type    borrowed, such as "Dict[str, int]". A class is written with its qualified
 *                     name and must have been defined before. NULL means the value's own type
 *                     (tenon_value_type).
 * @param[in]  value   borrowed. The module takes a reference of its own.
 * @param[out] err     optional, see rule 2 in tenon.h. If the value does not fit the type, the
 *                     details "where", "wanted" and "found" say what does not fit.
 * @return the same codes as tenon_module_add_parameter.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_module_add_attribute(tenon_module *module, const char *name,
                                                  const char *type, tenon_value *value,
                                                  tenon_error **err) TENON_NOEXCEPT;

/**
 * Adds a constant, which PyTorch calls Final. It is part of the class and cannot change while the
 * module runs.
 * @param[in]  module  borrowed.
 * @param[in]  name    borrowed; copied by the call. It must be an identifier.
 * @param[in]  type    borrowed, as in tenon_module_add_attribute. May be NULL.
 * @param[in]  value   borrowed. The module takes a reference of its own. No tensor in it may
 *                     require a gradient.
 * @param[out] err     optional, see rule 2 in tenon.h, with details as in
 *                     tenon_module_add_attribute.
 * @return the same codes as tenon_module_add_parameter.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_module_add_constant(tenon_module *module, const char *name,
                                                 const char *type, tenon_value *value,
                                                 tenon_error **err) TENON_NOEXCEPT;

/**
 * Adds a submodule. One module may be added in several places. These places then share it, in this
 * process and in the archive.
 * @param[in]  module  borrowed.
 * @param[in]  name    borrowed; copied by the call, as in tenon_module_add_parameter.
 * @param[in]  child   borrowed, a module that was built or imported. `module` takes a reference to
 *                     it. `child` must not contain `module`.
 * @param[in]  type    borrowed, the qualified name of an interface that the child implements. NULL
 *                     means the child's own class.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return the same codes as tenon_module_add_parameter, or TENON_NOT_FOUND (no such interface is
 *         defined).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_module_add_submodule(tenon_module *module, const char *name,
                                                  tenon_module *child, const char *type,
                                                  tenon_error **err) TENON_NOEXCEPT;

/**
 * Defines methods. The source is one or more `def`s in TorchScript (docs/format/script.md). A
 * method that the module has already is replaced. No other module of the same class gets the
 * methods: if there are other such modules, this module gets a class of its own first.
 * @param[in]  module  borrowed.
 * @param[in]  source  borrowed; copied by the call.
 * @param[out] err     optional, see rule 2 in tenon.h. The details "file", "line", "column" and
 *                     "excerpt" name the place in the source.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (also if the source cannot be parsed), TENON_UNSUPPORTED
 *         (the source is Python that TorchScript lacks), TENON_PERMISSION (an export runs),
 *         TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_module_define(tenon_module *module, const char *source,
                                           tenon_error **err) TENON_NOEXCEPT;

/**
 * Defines functions and types that methods and declared types use: functions, NamedTuples, enums,
 * interfaces and plain classes, written as in `class P(NamedTuple): ...`.
 * @param[in]  module     borrowed. Its code gets the definitions.
 * @param[in]  qualifier  borrowed, "__torch__" or a name below it. `class P` becomes the class
 *                        "<qualifier>.P".
 * @param[in]  source     borrowed; copied by the call.
 * @param[out] err        optional, see rule 2 in tenon.h. The details "file", "line", "column" and
 *                        "excerpt" name the place in the source.
 * @return the same codes as tenon_module_define. A name that is defined already is
 *         TENON_INVALID_ARGUMENT.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_module_define_types(tenon_module *module, const char *qualifier,
                                                 const char *source,
                                                 tenon_error **err) TENON_NOEXCEPT;

/**
 * Sets the methods that PyTorch runs before or after forward.
 * @param[in]  module          borrowed.
 * @param[in]  before_forward  not 0: the methods run before forward. 0: they run after it.
 * @param[in]  names           borrowed array of n names of methods, in the order in which they run.
 *                             Copied by the call. May be NULL if n is 0.
 * @param[in]  n               how many methods. 0 removes all hooks of this kind.
 * @param[out] err             optional, see rule 2 in tenon.h.
 * @return the same codes as tenon_module_add_parameter, or TENON_NOT_FOUND (there is no such
 *         method).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_module_set_hooks(tenon_module *module, int before_forward,
                                              const char *const *names, size_t n,
                                              tenon_error **err) TENON_NOEXCEPT;

/**
 * Stores example inputs of a traced method. Archives of the module contain them, so that PyTorch
 * can give them to a program that asks for them. The archive has the shapes and element types of
 * their tensors, but not their bytes. Example inputs that were stored for that method before are
 * replaced.
 * @param[in]  module  borrowed.
 * @param[in]  method  borrowed, the name of a method.
 * @param[in]  inputs  borrowed array of n values. The module takes a reference to each. May be NULL
 *                     if n is 0.
 * @param[in]  n       how many inputs.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND (there is no such method),
 *         TENON_PERMISSION (an export runs), TENON_CORRUPT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_module_set_traced_inputs(tenon_module *module, const char *method,
                                                      tenon_value *const *inputs, size_t n,
                                                      tenon_error **err) TENON_NOEXCEPT;

/**
 * Adds an extra file, which every archive of the module contains as the record extra/NAME. A file
 * of the same name is replaced. The file belongs to this tenon_module: an export writes the extra
 * files of the module that it exports, and not those of its submodules.
 * @param[in]  module  borrowed.
 * @param[in]  name    borrowed; copied by the call.
 * @param[in]  data    borrowed, nbytes bytes; copied by the call. It may be NULL if nbytes is 0.
 * @param[in]  nbytes  how many bytes there are at `data`.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION (an export runs),
 *         TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_module_set_extra_file(tenon_module *module, const char *name,
                                                   const void *data, size_t nbytes,
                                                   tenon_error **err) TENON_NOEXCEPT;

/**
 * Removes an extra file.
 * @param[in]  module  borrowed.
 * @param[in]  name    borrowed.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND (there is no such file),
 *         TENON_PERMISSION (an export runs).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_module_remove_extra_file(tenon_module *module, const char *name,
                                                      tenon_error **err) TENON_NOEXCEPT;

/**
 * Replaces the value of a parameter, a buffer or an attribute, a state, or a part of a state. A new
 * tensor may have another shape and another element type. In the state of a C++ class the element
 * type must stay the same. Every other place below `module` that holds the same tensor gets the new
 * tensor too.
 *
 * If the old parameter requires a gradient, the new tensor will require one too, unless elements of
 * its type cannot have one. This holds also if the new tensor lacks TENON_TENSOR_REQUIRES_GRAD. To
 * freeze a parameter, remove it and add it again.
 * @param[in]  module  borrowed.
 * @param[in]  path    borrowed.
 * @param[in]  value   borrowed. The module takes a reference of its own. NULL means None.
 * @param[out] err     optional, see rule 2 in tenon.h, with the details "where", "wanted" and
 *                     "found".
 * @return TENON_OK, TENON_INVALID_ARGUMENT (the value does not fit the declared type; the path
 *         leads to a submodule, a constant or a method), TENON_NOT_FOUND (there is no such member),
 *         TENON_PERMISSION (an export runs), TENON_CORRUPT (the code of an archive cannot be
 *         parsed), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_module_set(tenon_module *module, const char *path, tenon_value *value,
                                        tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives an object a state. The new state replaces a state that the object has. A module that has
 * attributes loses their values, and its class keeps their types: PyTorch calls __setstate__, which
 * assigns values to them. tenon_module_set replaces a part of a state.
 *
 * An export and tenon_module_check refuse a class whose __getstate__ returns another type than
 * __setstate__ takes, or whose __setstate__ can end without assigning all attributes.
 * @param[in]  module  borrowed.
 * @param[in]  path    borrowed, the path of the object. "" means the module itself.
 * @param[in]  state   borrowed. The object takes a reference of its own. NULL means None.
 * @param[out] err     optional, see rule 2 in tenon.h, with the details "where", "wanted" and
 *                     "found".
 * @return TENON_OK, TENON_INVALID_ARGUMENT (the state is not of the type that __setstate__ takes;
 *         the module's class lacks one of the two methods; the path does not lead to an object),
 *         TENON_NOT_FOUND (there is no such member), TENON_UNSUPPORTED (the module has submodules,
 *         which no __setstate__ can make), TENON_PERMISSION (an export runs), TENON_CORRUPT (the
 *         code of an archive cannot be parsed), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_module_set_state(tenon_module *module, const char *path,
                                              tenon_value *state, tenon_error **err) TENON_NOEXCEPT;

/**
 * Replaces a submodule. The new submodule may be of another class. If the submodule is declared by
 * an interface, the new one must implement that interface.
 * @param[in]  module  borrowed.
 * @param[in]  path    borrowed.
 * @param[in]  child   borrowed, as in tenon_module_add_submodule.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return the same codes as tenon_module_set, or TENON_UNSUPPORTED (the submodule is declared
 *         neither by a class nor by an interface, for example as Optional).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_module_set_submodule(tenon_module *module, const char *path,
                                                  tenon_module *child,
                                                  tenon_error **err) TENON_NOEXCEPT;

/**
 * Removes a member: a parameter, a buffer, an attribute, a constant, a submodule or a method.
 * @param[in]  module  borrowed.
 * @param[in]  path    borrowed.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return the same codes as tenon_module_add_parameter, or TENON_NOT_FOUND (there is no such
 *         member).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_module_remove(tenon_module *module, const char *path,
                                           tenon_error **err) TENON_NOEXCEPT;

/**
 * Replaces parameters, buffers and tensors of states by their paths. The call replaces all of them
 * or, on failure, none. A parameter that requires a gradient still requires one afterwards, as in
 * tenon_module_set.
 * @param[in]  module      borrowed.
 * @param[in]  paths       borrowed array of n paths. May be NULL if n is 0.
 * @param[in]  tensors     borrowed array of n values of kind tensor. NULL in the array means None.
 *                         The module takes a reference to each. May be NULL if n is 0.
 * @param[in]  n           how many.
 * @param[in]  flags       TENON_LOAD_*.
 * @param[out] missing     new reference to the list of the module's paths for which no tensor was
 *                         given; release it with tenon_name_list_release. A path is not missing if
 *                         the module has None there, if a tensor was given for another path of the
 *                         same parameter or buffer, or if it leads into a state. May be NULL.
 *                         Untouched on failure.
 * @param[out] unexpected  new reference to the list of the given paths that the module does not
 *                         have, as for `missing`. May be NULL. Untouched on failure.
 * @param[out] err         optional, see rule 2 in tenon.h. The message names the first missing and
 *                         unexpected paths. The details "missing" and "unexpected" have the numbers
 *                         of such paths.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (a path is missing, unexpected or given twice; a tensor
 *         does not fit the declared type; two different tensors are given for one shared tensor),
 *         TENON_PERMISSION (an export runs), TENON_UNSUPPORTED (unknown flags), TENON_CORRUPT (the
 *         code of an archive cannot be parsed), TENON_RESOURCE_EXHAUSTED (also for a tree with too
 *         many paths, see tenon_module_tensors).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_module_load(tenon_module *module, const char *const *paths,
                                         tenon_value *const *tensors, size_t n, uint32_t flags,
                                         tenon_name_list **missing, tenon_name_list **unexpected,
                                         tenon_error **err) TENON_NOEXCEPT;

/**
 * Checks the code of a module as an export does: names, operators, and the number, the keywords and
 * the types of arguments. The call writes nothing. Code that the newest PyTorch refuses is an
 * error. A call that only PyTorch 1.13 refuses is not an error: tenon_module_warnings lists it. In
 * a module that was imported and whose code was not changed, a call that PyTorch 1.13 accepts is
 * not an error either. The check leaves operands to PyTorch if their type depends on values at run
 * time.
 * @param[in]  module  borrowed.
 * @param[out] err     optional, see rule 2 in tenon.h. The details "file", "line", "column" and
 *                     "excerpt" name the place in the code.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED (an object has attributes although
 *         its class has __getstate__ and __setstate__, or a state although its class lacks one of
 *         them; detail "class"), TENON_CORRUPT (the code of an archive cannot
 *         be parsed), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_module_check(const tenon_module *module,
                                          tenon_error **err) TENON_NOEXCEPT;

/**
 * Lists all members of a module, in the order in which its class declares them. Constants follow
 * the other attributes, and methods come last.
 * @param[in]  module  borrowed.
 * @param[out] out     new reference to a list; release it with tenon_member_list_release. Untouched
 *                     on failure.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_CORRUPT (the code of an archive cannot be
 *         parsed), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_module_members(const tenon_module *module, tenon_member_list **out,
                                            tenon_error **err) TENON_NOEXCEPT;

/**
 * Finds the member at a path.
 * @param[in]  module  borrowed.
 * @param[in]  path    borrowed, such as "encoder.0.weight".
 * @param[out] out     new reference to a list with this one member; release it with
 *                     tenon_member_list_release. Untouched on failure.
 * @param[out] err     optional, see rule 2 in tenon.h. The message names the part of the path that
 *                     does not exist.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND, TENON_CORRUPT (the code of an archive
 *         cannot be parsed), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_module_find(const tenon_module *module, const char *path,
                                         tenon_member_list **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Lists every parameter, every buffer and every tensor of a state below a module, in the order of
 * the tree. The name of each entry is its path. A shared tensor has an entry for each of its paths.
 * Parameters and buffers that are None are left out.
 * @param[in]  module  borrowed.
 * @param[out] out     new reference to a list; release it with tenon_member_list_release. Untouched
 *                     on failure.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_CORRUPT (the code of an archive cannot be
 *         parsed), TENON_RESOURCE_EXHAUSTED (also for a tree with more than 1,000,000 paths, limit
 *         "paths", or with more than 128 MiB of paths, limit "paths_nbytes").
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_module_tensors(const tenon_module *module, tenon_member_list **out,
                                            tenon_error **err) TENON_NOEXCEPT;

/**
 * Lists the states below a module: the states of modules, of objects that are attributes of
 * modules, and of objects in such states.
 * @param[in]  module  borrowed.
 * @param[out] out     new reference to a list of paths, such as "conv.state"; release it with
 *                     tenon_name_list_release. Untouched on failure.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return the same codes as tenon_module_tensors.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_module_states(const tenon_module *module, tenon_name_list **out,
                                           tenon_error **err) TENON_NOEXCEPT;

/**
 * Returns how many members a list has.
 * @param[in] list  borrowed. NULL is allowed.
 * @return the count; 0 for NULL.
 * @since 0.1. Any thread may call this function.
 */
TENON_API size_t tenon_member_list_count(const tenon_member_list *list) TENON_NOEXCEPT;

/**
 * Gives one member of a list.
 * @param[in]     list   borrowed.
 * @param[in]     index  counts from 0.
 * @param[in,out] out    struct_size set by the caller, the other fields filled in by the call. The
 *                       pointers are borrowed from the list and valid until its release. Untouched
 *                       on failure.
 * @param[out]    err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (also if `index` is past the last member).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_member_list_get(const tenon_member_list *list, size_t index,
                                             tenon_member *out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Releases a list.
 * @param[in] list  consumed. NULL is allowed.
 * @since 0.1. Any thread may call this function.
 */
TENON_API void tenon_member_list_release(tenon_member_list *list) TENON_NOEXCEPT;

/**
 * Lists the extra files of a module.
 * @param[in]  module  borrowed.
 * @param[out] out     new reference to a list; release it with tenon_file_list_release. Untouched
 *                     on failure.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_module_extra_files(const tenon_module *module, tenon_file_list **out,
                                                tenon_error **err) TENON_NOEXCEPT;

/**
 * Lists the code of a module's classes and functions, as an export writes it. There is one file for
 * each qualifier, with a name like "__torch__/my/layers.py".
 * @param[in]  module  borrowed.
 * @param[out] out     new reference to a list; release it with tenon_file_list_release. Untouched
 *                     on failure.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_CORRUPT (the code of an archive cannot be
 *         parsed), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_module_code_files(const tenon_module *module, tenon_file_list **out,
                                               tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives the values that the code from tenon_module_code_files calls CONSTANTS.c0, CONSTANTS.c1, …
 * @param[in]  module  borrowed.
 * @param[out] out     new reference to a tuple; release it with tenon_value_release. Untouched on
 *                     failure.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_CORRUPT (the code of an archive cannot be
 *         parsed), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_module_constants(const tenon_module *module, tenon_value **out,
                                              tenon_error **err) TENON_NOEXCEPT;

/**
 * Returns how many files a list has.
 * @param[in] list  borrowed. NULL is allowed.
 * @return the count; 0 for NULL.
 * @since 0.1. Any thread may call this function.
 */
TENON_API size_t tenon_file_list_count(const tenon_file_list *list) TENON_NOEXCEPT;

/**
 * Gives one file of a list.
 * @param[in]  list   borrowed.
 * @param[in]  index  counts from 0.
 * @param[out] out    the caller's, filled in by the call. Its pointers are borrowed from the list
 *                    and valid until its release. The byte after the data is a NUL. Untouched on
 *                    failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (also if `index` is past the last file).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_file_list_get(const tenon_file_list *list, size_t index,
                                           tenon_file *out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Releases a list.
 * @param[in] list  consumed. NULL is allowed.
 * @since 0.1. Any thread may call this function.
 */
TENON_API void tenon_file_list_release(tenon_file_list *list) TENON_NOEXCEPT;

/**
 * Returns how many names a list has.
 * @param[in] list  borrowed. NULL is allowed.
 * @return the count; 0 for NULL.
 * @since 0.1. Any thread may call this function.
 */
TENON_API size_t tenon_name_list_count(const tenon_name_list *list) TENON_NOEXCEPT;

/**
 * Returns one name of a list.
 * @param[in] list   borrowed. NULL is allowed.
 * @param[in] index  counts from 0.
 * @return the name, borrowed from the list and valid until its release. NULL if `index` is past the
 *         last name, and NULL for NULL.
 * @since 0.1. Any thread may call this function.
 */
TENON_API const char *tenon_name_list_get(const tenon_name_list *list, size_t index) TENON_NOEXCEPT;

/**
 * Releases a list.
 * @param[in] list  consumed. NULL is allowed.
 * @since 0.1. Any thread may call this function.
 */
TENON_API void tenon_name_list_release(tenon_name_list *list) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
