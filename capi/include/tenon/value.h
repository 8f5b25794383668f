#ifndef TENON_VALUE_H
#define TENON_VALUE_H

#include <stddef.h>
#include <stdint.h>
#include <tenon/error.h>
#include <tenon/scalar_type.h>
#include <tenon/storage.h>
#include <tenon/tensor.h>

TENON_BEGIN_DECLS

/**
 * What an attribute of a module, an argument or a constant can be. A value never changes, but for an object's attributes while a module is
 * edited, so values are shared freely: the same value in two places is one object in an archive, and stays one through export and import.
 * Equal pointers are the same value.
 *
 * Types are written as in TorchScript: "Tensor", "int", "Optional[Tensor]", "Dict[str, List[int]]", "Tuple[()]", "__torch__.my.Class".
 */
typedef struct tenon_value tenon_value;

enum {
  TENON_VALUE_NONE = 0,
  TENON_VALUE_BOOL = 1,
  TENON_VALUE_INT = 2,
  TENON_VALUE_FLOAT = 3,
  TENON_VALUE_COMPLEX = 4,
  TENON_VALUE_STR = 5,
  TENON_VALUE_DEVICE = 6,
  TENON_VALUE_TENSOR = 7,
  TENON_VALUE_TUPLE = 8,
  TENON_VALUE_LIST = 9,
  TENON_VALUE_DICT = 10,
  TENON_VALUE_ENUM = 11,
  TENON_VALUE_OBJECT = 12
};

/** How the elements of a tensor lie, in PyTorch's numbers. */
enum {
  TENON_TENSOR_LAYOUT_STRIDED = 0,
  TENON_TENSOR_LAYOUT_SPARSE_COO = 1,
  TENON_TENSOR_LAYOUT_SPARSE_CSR = 2,
  TENON_TENSOR_LAYOUT_SPARSE_CSC = 4,
  TENON_TENSOR_LAYOUT_SPARSE_BSR = 5,
  TENON_TENSOR_LAYOUT_SPARSE_BSC = 6
};

/** How quantised elements stand for numbers. */
enum {
  TENON_QUANTIZER_NONE = 0,
  TENON_QUANTIZER_PER_TENSOR_AFFINE = 1,
  TENON_QUANTIZER_PER_CHANNEL_AFFINE = 2,
  TENON_QUANTIZER_PER_CHANNEL_AFFINE_FLOAT_QPARAMS = 3
};

/** The tensors that a sparse or quantised tensor is made of. */
enum {
  TENON_TENSOR_PART_INDICES = 1,       /**< of COO; of CSR and BSR the row pointers, of CSC and BSC the column pointers */
  TENON_TENSOR_PART_PLAIN_INDICES = 2, /**< of CSR and BSR the columns, of CSC and BSC the rows */
  TENON_TENSOR_PART_VALUES = 3,        /**< of all sparse ones */
  TENON_TENSOR_PART_SCALES = 4,        /**< quantised per channel */
  TENON_TENSOR_PART_ZERO_POINTS = 5    /**< quantised per channel */
};

enum {
  TENON_COALESCED_UNKNOWN = 0, /**< nobody said */
  TENON_COALESCED_NO = 1,
  TENON_COALESCED_YES = 2
};

/** All that PyTorch knows of a tensor, where a tenon_tensor has no word for it. Sizes, strides and offset count elements. */
typedef struct tenon_value_tensor_spec {
  size_t struct_size;            /**< sizeof(tenon_value_tensor_spec), set by the caller, also for output */
  tenon_scalar_type scalar_type; /**< TENON_SCALAR_TYPE_*; of a sparse tensor that of its values, and not read on input */
  int32_t layout;                /**< TENON_TENSOR_LAYOUT_* */
  int32_t ndim;                  /**< 0 to TENON_TENSOR_MAX_NDIM */
  uint32_t flags;                /**< TENON_TENSOR_REQUIRES_GRAD, TENON_TENSOR_CONJ, TENON_TENSOR_NEG */
  const int64_t *sizes;          /**< ndim numbers >= 0; NULL if ndim is 0 */
  const int64_t *strides;        /**< ndim numbers >= 0; NULL on input: contiguous; NULL on output if sparse */
  int64_t offset;                /**< of the element with index 0, 0, … from the first of the storage */
  tenon_storage *storage;        /**< borrowed; NULL if sparse or on meta */
  uint64_t storage_offset;       /**< bytes: where in `storage` the elements begin that PyTorch calls the tensor's storage */
  uint64_t storage_numel;        /**< how many these are; 0 on input: all of `storage`, on meta as many as are needed */
  const char *device;            /**< borrowed: "cpu", "cuda:0" or "meta"; NULL on input: where `storage` is */
  double scale;                  /**< quantised per tensor */
  int64_t zero_point;            /**< quantised per tensor */
  int64_t axis;                  /**< quantised per channel */
  int32_t quantizer;             /**< TENON_QUANTIZER_* */
  int32_t coalesced;             /**< TENON_COALESCED_*, of COO */
  tenon_value *indices;          /**< borrowed, and NULL on output: tenon_value_tensor_part gives it. A value of kind tensor, as the next */
  tenon_value *plain_indices;    /**< likewise */
  tenon_value *values;           /**< likewise */
  tenon_value *scales;           /**< likewise */
  tenon_value *zero_points;      /**< likewise */
} tenon_value_tensor_spec;

/**
 * Make None.
 * @param[out] out  new reference, release with tenon_value_release; untouched on failure.
 * @param[out] err  optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_value_new_none(tenon_value **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Make a bool.
 * @param[in]  value  0: False; everything else: True.
 * @param[out] out    new reference, release with tenon_value_release; untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_value_new_bool(int value, tenon_value **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Make an int. A dtype, a layout and a memory format are ints too, in PyTorch's numbers (TENON_SCALAR_TYPE_*).
 * @param[in]  value  any number.
 * @param[out] out    new reference, release with tenon_value_release; untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_value_new_int(int64_t value, tenon_value **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Make a float.
 * @param[in]  value  any number, an infinity or a NaN.
 * @param[out] out    new reference, release with tenon_value_release; untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_value_new_float(double value, tenon_value **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Make a complex number.
 * @param[in]  real       its real part.
 * @param[in]  imaginary  its imaginary part.
 * @param[out] out        new reference, release with tenon_value_release; untouched on failure.
 * @param[out] err        optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_value_new_complex(double real, double imaginary, tenon_value **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Make a str.
 * @param[in]  utf8    borrowed, nbytes bytes of UTF-8, any NUL among them is text too; copied; may be NULL if nbytes is 0.
 * @param[in]  nbytes  how many.
 * @param[out] out     new reference, release with tenon_value_release; untouched on failure.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (also for what is no UTF-8), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_value_new_str(const char *utf8, size_t nbytes, tenon_value **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Make a device.
 * @param[in]  name  borrowed, as "cpu" or "cuda:0"; copied.
 * @param[out] out   new reference, release with tenon_value_release; untouched on failure.
 * @param[out] err   optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_value_new_device(const char *name, tenon_value **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Make a value of a tensor. Nothing is copied. Tensors over one storage share it in an archive too, where they have one element type; a
 * storage goes there whole, even if the tensor is a small part of it.
 * @param[in]  tensor  borrowed; the value keeps its storage.
 * @param[out] out     new reference, release with tenon_value_release; untouched on failure.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (also for negative strides, and flags that the element type cannot have), TENON_UNSUPPORTED
 *         (PyTorch has no such element type), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_value_new_tensor(tenon_tensor *tensor, tenon_value **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Make a value of a tensor that is quantised, sparse, on meta, or of an element type that DLPack has not. Every element it can name must
 * lie inside its storage; what the indices of a sparse one say is not looked at.
 * @param[in]  spec  borrowed for the call, what it points to too; the value takes references of its own.
 * @param[out] out   new reference, release with tenon_value_release; untouched on failure.
 * @param[out] err   optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED (a device that is not the storage's), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_value_new_tensor_from_spec(const tenon_value_tensor_spec *spec, tenon_value **out,
                                                        tenon_error **err) TENON_NOEXCEPT;

/**
 * Make a tuple.
 * @param[in]  class_name  borrowed, a NamedTuple's qualified name; NULL for a plain tuple; copied.
 * @param[in]  items       borrowed array of n; the value takes a reference to each; may be NULL if n is 0.
 * @param[in]  n           how many.
 * @param[out] out         new reference, release with tenon_value_release; untouched on failure.
 * @param[out] err         optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_value_new_tuple(const char *class_name, tenon_value *const *items, size_t n, tenon_value **out,
                                             tenon_error **err) TENON_NOEXCEPT;

/**
 * Make a list. The items are checked against its type.
 * @param[in]  type   borrowed, as "List[Optional[int]]"; NULL: the list says none, and takes the one that is declared where it is put.
 * @param[in]  items  borrowed array of n; the value takes a reference to each; may be NULL if n is 0.
 * @param[in]  n      how many.
 * @param[out] out    new reference, release with tenon_value_release; untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (details "column" of a bad type; "where", "wanted" and "found" of an item),
 * TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_value_new_list(const char *type, tenon_value *const *items, size_t n, tenon_value **out,
                                            tenon_error **err) TENON_NOEXCEPT;

/**
 * Make a dict, which keeps the order of its entries. Keys and values are checked against its type.
 * @param[in]  type    borrowed, as "Dict[str, Tensor]"; NULL: as for a list.
 * @param[in]  keys    borrowed array of n, none of them twice; the value takes a reference to each; may be NULL if n is 0.
 * @param[in]  values  borrowed array of n; the value takes a reference to each; may be NULL if n is 0.
 * @param[in]  n       how many.
 * @param[out] out     new reference, release with tenon_value_release; untouched on failure.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (as for a list; also for a key that stands there twice), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_value_new_dict(const char *type, tenon_value *const *keys, tenon_value *const *values, size_t n,
                                            tenon_value **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Make a member of an enum.
 * @param[in]  class_name  borrowed, the enum's qualified name; copied.
 * @param[in]  value       borrowed, an int, a float or a str; the result takes a reference.
 * @param[out] out         new reference, release with tenon_value_release; untouched on failure.
 * @param[out] err         optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_value_new_enum(const char *class_name, tenon_value *value, tenon_value **out,
                                            tenon_error **err) TENON_NOEXCEPT;

/**
 * Make an object with attributes. Modules are made with tenon_module_new; this is for plain classes.
 * @param[in]  class_name  borrowed, its qualified name; copied.
 * @param[in]  names       borrowed array of n strings, none of them twice; copied; may be NULL if n is 0.
 * @param[in]  values      borrowed array of n; the object takes a reference to each; may be NULL if n is 0.
 * @param[in]  n           how many.
 * @param[out] out         new reference, release with tenon_value_release; untouched on failure.
 * @param[out] err         optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_value_new_object(const char *class_name, const char *const *names, tenon_value *const *values, size_t n,
                                              tenon_value **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Make an object that has a state and no attributes: of a class with __getstate__, or of a custom C++ class.
 * @param[in]  class_name  borrowed, as "__torch__.torch.classes.quantized.LinearPackedParamsBase"; copied.
 * @param[in]  state       borrowed; the object takes a reference.
 * @param[out] out         new reference, release with tenon_value_release; untouched on failure.
 * @param[out] err         optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_value_new_opaque(const char *class_name, tenon_value *state, tenon_value **out,
                                              tenon_error **err) TENON_NOEXCEPT;

/**
 * Take one more reference.
 * @param[in] value  borrowed; NULL is allowed.
 * @return `value`, now with one reference more, to be released too.
 * @since 0.1. Any thread.
 */
TENON_API tenon_value *tenon_value_retain(tenon_value *value) TENON_NOEXCEPT;

/**
 * Give one reference back.
 * @param[in] value  consumed; NULL is allowed.
 * @since 0.1. Any thread.
 */
TENON_API void tenon_value_release(tenon_value *value) TENON_NOEXCEPT;

/**
 * What a value is.
 * @param[in] value  borrowed; NULL is allowed.
 * @return TENON_VALUE_*; -1 for NULL.
 * @since 0.1. Any thread.
 */
TENON_API int32_t tenon_value_kind(const tenon_value *value) TENON_NOEXCEPT;

/**
 * The type that a value shows by itself: "List[int]" as the list says, "List[Any]" if it says none, "Tuple[int, str]" of its items, a class
 * by its name. Of a tuple that is too large for a type, "tuple".
 * @param[in]  value     borrowed.
 * @param[out] out       borrowed, room for `capacity` bytes; gets the text, cut if it does not fit, and a NUL; may be NULL if capacity is
 * 0.
 * @param[in]  capacity  bytes.
 * @param[out] nbytes    bytes of the whole text, without the NUL; may be NULL; untouched on failure.
 * @param[out] err       optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_value_type(const tenon_value *value, char *out, size_t capacity, size_t *nbytes,
                                        tenon_error **err) TENON_NOEXCEPT;

/**
 * The qualified name of a NamedTuple, an enum or an object.
 * @param[in] value  borrowed; NULL is allowed.
 * @return borrowed from the value, valid until its last release; "" for what has none; never NULL.
 * @since 0.1. Any thread.
 */
TENON_API const char *tenon_value_class_name(const tenon_value *value) TENON_NOEXCEPT;

/**
 * Whether an object has a state and no attributes.
 * @param[in] value  borrowed; NULL is allowed.
 * @return 1 if so, else 0; 0 for NULL.
 * @since 0.1. Any thread.
 */
TENON_API int tenon_value_is_opaque(const tenon_value *value) TENON_NOEXCEPT;

/**
 * How many items there are: of a tuple or a list; entries of a dict; attributes of an object; 1 of an enum (its value) and of an object
 * with a state.
 * @param[in] value  borrowed; NULL is allowed.
 * @return the count; 0 for every other kind and for NULL.
 * @since 0.1. Any thread; an object of a module not beside calls that change the module.
 */
TENON_API size_t tenon_value_count(const tenon_value *value) TENON_NOEXCEPT;

/**
 * One item, of those that tenon_value_count counts; of a dict the value of an entry, of an object that of an attribute.
 * @param[in]  value  borrowed.
 * @param[in]  index  from 0.
 * @param[out] out    new reference, release with tenon_value_release; untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (also past the end).
 * @since 0.1. Any thread; an object of a module not beside calls that change the module.
 */
TENON_API tenon_status tenon_value_item(const tenon_value *value, size_t index, tenon_value **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * One key of a dict.
 * @param[in]  value  borrowed, a dict.
 * @param[in]  index  from 0.
 * @param[out] out    new reference, release with tenon_value_release; untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (also past the end).
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_value_key(const tenon_value *value, size_t index, tenon_value **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * The name of one attribute of an object.
 * @param[in] value  borrowed; NULL is allowed.
 * @param[in] index  from 0.
 * @return borrowed from the object, valid until its last release or until the attribute is removed; NULL past the end, for what is no
 * object with attributes, and for NULL.
 * @since 0.1. Any thread; an object of a module not beside calls that change the module.
 */
TENON_API const char *tenon_value_attribute_name(const tenon_value *value, size_t index) TENON_NOEXCEPT;

/**
 * The value of a name: an attribute of an object, or what a dict has under that str.
 * @param[in]  value  borrowed, an object or a dict.
 * @param[in]  name   borrowed.
 * @param[out] out    new reference, release with tenon_value_release; untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (another kind), TENON_NOT_FOUND.
 * @since 0.1. Any thread; an object of a module not beside calls that change the module.
 */
TENON_API tenon_status tenon_value_find(const tenon_value *value, const char *name, tenon_value **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * The number in a bool.
 * @param[in]  value  borrowed.
 * @param[out] out    0 or 1; untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (another kind).
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_value_get_bool(const tenon_value *value, int *out, tenon_error **err) TENON_NOEXCEPT;

/**
 * The number in an int.
 * @param[in]  value  borrowed.
 * @param[out] out    the number; untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (another kind; a bool is no int).
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_value_get_int(const tenon_value *value, int64_t *out, tenon_error **err) TENON_NOEXCEPT;

/**
 * The number in a float.
 * @param[in]  value  borrowed.
 * @param[out] out    the number; untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (another kind; an int is no float).
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_value_get_float(const tenon_value *value, double *out, tenon_error **err) TENON_NOEXCEPT;

/**
 * The number in a complex.
 * @param[in]  value      borrowed.
 * @param[out] real       its real part; untouched on failure.
 * @param[out] imaginary  its imaginary part; untouched on failure.
 * @param[out] err        optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (another kind).
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_value_get_complex(const tenon_value *value, double *real, double *imaginary, tenon_error **err) TENON_NOEXCEPT;

/**
 * The text of a str.
 * @param[in]  value   borrowed.
 * @param[out] out     borrowed from the value, valid until its last release, with a NUL behind it; untouched on failure.
 * @param[out] nbytes  its bytes, without that NUL: there may be others in the text; may be NULL; untouched on failure.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (another kind).
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_value_get_str(const tenon_value *value, const char **out, size_t *nbytes, tenon_error **err) TENON_NOEXCEPT;

/**
 * The name in a device.
 * @param[in]  value  borrowed.
 * @param[out] out    borrowed from the value, valid until its last release; untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (another kind).
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_value_get_device(const tenon_value *value, const char **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * The tensor in a value, over the same bytes.
 * @param[in]  value  borrowed.
 * @param[out] out    new reference, release with tenon_tensor_release; untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (another kind), TENON_UNSUPPORTED (quantised, sparse, on meta, or of an element type that DLPack
 *         has not: see tenon_value_get_tensor_spec), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_value_get_tensor(const tenon_value *value, tenon_tensor **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * All that is known of the tensor in a value.
 * @param[in]     value  borrowed.
 * @param[in,out] out    out->struct_size set by the caller; pointers in it are borrowed from the value, valid until its last release;
 *                       untouched on failure.
 * @param[out]    err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (another kind).
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_value_get_tensor_spec(const tenon_value *value, tenon_value_tensor_spec *out,
                                                   tenon_error **err) TENON_NOEXCEPT;

/**
 * One of the tensors that a sparse or quantised tensor is made of.
 * @param[in]  value  borrowed.
 * @param[in]  part   TENON_TENSOR_PART_*.
 * @param[out] out    new reference to a value of kind tensor, release with tenon_value_release; untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (another kind, no such part), TENON_NOT_FOUND (this tensor has none), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_value_tensor_part(const tenon_value *value, int32_t part, tenon_value **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Check that a value fits a type, all the way down: an int is no float, and a list or dict that says its type says this one. Classes fit by
 * their names alone.
 * @param[in]  value  borrowed.
 * @param[in]  type   borrowed.
 * @param[out] err    optional, see rule 2 in tenon.h; with details "where", "wanted" and "found".
 * @return TENON_OK, TENON_INVALID_ARGUMENT (it does not fit, or `type` is none), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread; an object of a module not beside calls that change the module.
 */
TENON_API tenon_status tenon_value_check(tenon_value *value, const char *type, tenon_error **err) TENON_NOEXCEPT;

/**
 * A type in PyTorch's own text: "Union[str, None]" is "Optional[str]".
 * @param[in]  type      borrowed, as a person may write it.
 * @param[out] out       borrowed, room for `capacity` bytes; gets the text, cut if it does not fit, and a NUL; may be NULL if capacity is
 * 0.
 * @param[in]  capacity  bytes.
 * @param[out] nbytes    bytes of the whole text, without the NUL; may be NULL; untouched on failure.
 * @param[out] err       optional, see rule 2 in tenon.h; with the detail "column".
 * @return TENON_OK, TENON_INVALID_ARGUMENT (it is no type), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_type_text(const char *type, char *out, size_t capacity, size_t *nbytes, tenon_error **err) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
