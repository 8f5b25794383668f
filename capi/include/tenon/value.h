#ifndef TENON_VALUE_H
#define TENON_VALUE_H

/**
 * @file
 * Values: the contents of attributes of a module (tenon/module.h), of constants and of arguments. A
 * value is None, a number, a text, a tensor, a list, an object or one of a few other kinds.
 */

#include <stddef.h>
#include <stdint.h>
#include <tenon/composite.h>
#include <tenon/error.h>
#include <tenon/scalar_type.h>
#include <tenon/storage.h>
#include <tenon/tensor.h>

TENON_BEGIN_DECLS

/**
 * A value: the content of an attribute of a module, of an argument or of a constant. A value never
 * changes, with one exception: a change of a module changes the attributes of its objects. So a
 * program may put one value in several places.
 *
 * Equal pointers are the same value. A tensor, tuple, list, dict, complex number, enum member or
 * object that stands in two places is written once into an archive. It is one value again after the
 * import. Values of the other kinds are written again at each place.
 *
 * Types are written as in TorchScript: "Tensor", "int", "Optional[Tensor]", "Dict[str, List[int]]",
 * "Tuple[()]", "__torch__.my.Class".
 */
typedef struct tenon_value tenon_value;

/** The kinds of values. */
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

/** The tensors that make up a sparse or a quantised tensor. */
enum {
  /** The indices of COO, the row pointers of CSR and BSR, the column pointers of CSC and BSC. */
  TENON_TENSOR_PART_INDICES = 1,
  /** The column indices of CSR and BSR, the row indices of CSC and BSC. */
  TENON_TENSOR_PART_PLAIN_INDICES = 2,
  /** The values of every sparse tensor. */
  TENON_TENSOR_PART_VALUES = 3,
  /** The scales of a tensor that is quantised per channel. */
  TENON_TENSOR_PART_SCALES = 4,
  /** The zero points of a tensor that is quantised per channel. */
  TENON_TENSOR_PART_ZERO_POINTS = 5
};

/**
 * The full description of a tensor in PyTorch's terms, with properties that a tenon_tensor cannot
 * express. Sizes, strides and `offset` are in elements.
 */
typedef struct tenon_value_tensor_spec {
  /** sizeof(tenon_value_tensor_spec), set by the caller, also for output. */
  size_t struct_size;
  /**
   * TENON_SCALAR_TYPE_*. For a sparse tensor it is the type of its values, and it is ignored on
   * input.
   */
  tenon_scalar_type scalar_type;
  /** TENON_TENSOR_LAYOUT_*. */
  int32_t layout;
  /** The number of dimensions, 0 to TENON_TENSOR_MAX_NDIM. */
  int32_t ndim;
  /** TENON_TENSOR_REQUIRES_GRAD, TENON_TENSOR_CONJ, TENON_TENSOR_NEG. */
  uint32_t flags;
  /** ndim sizes, each >= 0. NULL if ndim is 0. */
  const int64_t *sizes;
  /**
   * ndim strides, each >= 0. NULL on input means contiguous elements. On output it is NULL for a
   * sparse tensor, and if ndim is 0.
   */
  const int64_t *strides;
  /** The distance from the first element of the storage to the element with index 0, 0, … */
  int64_t offset;
  /** The memory of the elements, borrowed. NULL for a sparse tensor and for a tensor on meta. */
  tenon_storage *storage;
  /**
   * Where PyTorch's storage of the tensor begins, in bytes from the start of `storage`. PyTorch's
   * storage can be a part of `storage`.
   */
  uint64_t storage_offset;
  /**
   * The size of PyTorch's storage in elements. 0 on input means the rest of `storage`, or, on meta,
   * as many elements as the tensor needs.
   */
  uint64_t storage_numel;
  /** "cpu", "cuda:0" or "meta", borrowed. NULL on input means the device of `storage`. */
  const char *device;
  /** The scale of a tensor that is quantised per tensor. */
  double scale;
  /** The zero point of a tensor that is quantised per tensor. */
  int64_t zero_point;
  /** The dimension of the channels of a tensor that is quantised per channel. */
  int64_t axis;
  /** TENON_QUANTIZER_*. */
  int32_t quantizer;
  /** TENON_COALESCED_*, for a COO tensor. */
  int32_t coalesced;
  /**
   * See TENON_TENSOR_PART_INDICES. This pointer and the next four are borrowed values of kind
   * tensor. They are NULL on output: use tenon_value_tensor_part.
   */
  tenon_value *indices;
  /** See TENON_TENSOR_PART_PLAIN_INDICES. Borrowed, and NULL on output. */
  tenon_value *plain_indices;
  /** See TENON_TENSOR_PART_VALUES. Borrowed, and NULL on output. */
  tenon_value *values;
  /** See TENON_TENSOR_PART_SCALES. Borrowed, and NULL on output. */
  tenon_value *scales;
  /** See TENON_TENSOR_PART_ZERO_POINTS. Borrowed, and NULL on output. */
  tenon_value *zero_points;
} tenon_value_tensor_spec;

/**
 * Makes the value None.
 * @param[out] out  new reference; release it with tenon_value_release. Untouched on failure.
 * @param[out] err  optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_value_new_none(tenon_value **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Makes a bool.
 * @param[in]  value  0 means False, any other number means True.
 * @param[out] out    new reference; release it with tenon_value_release. Untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_value_new_bool(int value, tenon_value **out,
                                            tenon_error **err) TENON_NOEXCEPT;

/**
 * Makes an int. A dtype, a layout and a memory format are ints too, in PyTorch's numbers
 * (TENON_SCALAR_TYPE_* for a dtype).
 * @param[in]  value  any number.
 * @param[out] out    new reference; release it with tenon_value_release. Untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_value_new_int(int64_t value, tenon_value **out,
                                           tenon_error **err) TENON_NOEXCEPT;

/**
 * Makes a float.
 * @param[in]  value  any number, including an infinity and a NaN.
 * @param[out] out    new reference; release it with tenon_value_release. Untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_value_new_float(double value, tenon_value **out,
                                             tenon_error **err) TENON_NOEXCEPT;

/**
 * Makes a complex number.
 * @param[in]  real       the real part.
 * @param[in]  imaginary  the imaginary part.
 * @param[out] out        new reference; release it with tenon_value_release. Untouched on failure.
 * @param[out] err        optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_value_new_complex(double real, double imaginary, tenon_value **out,
                                               tenon_error **err) TENON_NOEXCEPT;

/**
 * Makes a str.
 * @param[in]  utf8    borrowed, nbytes bytes of UTF-8; copied by the call. A NUL among them is part
 *                     of the text. May be NULL if nbytes is 0.
 * @param[in]  nbytes  how many bytes there are at `utf8`.
 * @param[out] out     new reference; release it with tenon_value_release. Untouched on failure.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (also if the bytes are not UTF-8),
 *         TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_value_new_str(const char *utf8, size_t nbytes, tenon_value **out,
                                           tenon_error **err) TENON_NOEXCEPT;

/**
 * Makes a device.
 * @param[in]  name  borrowed, such as "cpu" or "cuda:0"; copied by the call.
 * @param[out] out   new reference; release it with tenon_value_release. Untouched on failure.
 * @param[out] err   optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_value_new_device(const char *name, tenon_value **out,
                                              tenon_error **err) TENON_NOEXCEPT;

/**
 * Makes a value from a tensor. Nothing is copied. Tensors over one storage share that storage in an
 * archive too, if they have the same element type. An export writes the whole storage, even if the
 * tensor is a small part of it.
 * @param[in]  tensor  borrowed. The value keeps the tensor's storage alive.
 * @param[out] out     new reference; release it with tenon_value_release. Untouched on failure.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (also for negative strides, and for flags that the
 *         element type cannot have), TENON_UNSUPPORTED (PyTorch has no such element type),
 *         TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_value_new_tensor(tenon_tensor *tensor, tenon_value **out,
                                              tenon_error **err) TENON_NOEXCEPT;

/**
 * Makes a value from the description of a tensor. This also works for tensors that are quantised,
 * sparse or on meta, and for element types that DLPack lacks. Every element that the layout can
 * address must lie inside the storage. The contents of a sparse tensor's indices are not checked.
 * @param[in]  spec  borrowed for the call, with everything that it points to. The value takes
 *                   references of its own.
 * @param[out] out   new reference; release it with tenon_value_release. Untouched on failure.
 * @param[out] err   optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED (`device` is neither "cpu", "meta"
 *         nor the device of `storage`; unknown flags), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_value_new_tensor_from_spec(const tenon_value_tensor_spec *spec,
                                                        tenon_value **out,
                                                        tenon_error **err) TENON_NOEXCEPT;

/**
 * Makes a tuple.
 * @param[in]  class_name  borrowed, the qualified name of a NamedTuple; copied by the call. NULL
 *                         makes a plain tuple.
 * @param[in]  items       borrowed array of n values. The tuple takes a reference to each. May be
 *                         NULL if n is 0.
 * @param[in]  n           how many items.
 * @param[out] out         new reference; release it with tenon_value_release. Untouched on failure.
 * @param[out] err         optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_value_new_tuple(const char *class_name, tenon_value *const *items,
                                             size_t n, tenon_value **out,
                                             tenon_error **err) TENON_NOEXCEPT;

/**
 * Makes a list. The items are checked against the list's type.
 * @param[in]  type   borrowed, such as "List[Optional[int]]". NULL makes a list without a type of
 *                    its own. Such a list gets the type that is declared for the place where it is
 *                    put, for example by tenon_module_add_attribute.
 * @param[in]  items  borrowed array of n values. The list takes a reference to each. May be NULL if
 *                    n is 0.
 * @param[in]  n      how many items.
 * @param[out] out    new reference; release it with tenon_value_release. Untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (`type` is not the type of a list, with the detail
 *         "column" if it cannot be parsed; an item does not fit, with the details "where", "wanted"
 *         and "found"), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_value_new_list(const char *type, tenon_value *const *items, size_t n,
                                            tenon_value **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Makes a dict, which keeps the order of its entries. Keys and values are checked against the
 * dict's type.
 * @param[in]  type    borrowed, such as "Dict[str, Tensor]". NULL makes a dict without a type of
 *                     its own, as in tenon_value_new_list.
 * @param[in]  keys    borrowed array of n values, all different. The dict takes a reference to
 *                     each. May be NULL if n is 0.
 * @param[in]  values  borrowed array of n values. The dict takes a reference to each. May be NULL
 *                     if n is 0.
 * @param[in]  n       how many entries.
 * @param[out] out     new reference; release it with tenon_value_release. Untouched on failure.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (as in tenon_value_new_list; also if a key is given
 *         twice), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_value_new_dict(const char *type, tenon_value *const *keys,
                                            tenon_value *const *values, size_t n, tenon_value **out,
                                            tenon_error **err) TENON_NOEXCEPT;

/**
 * Makes a member of an enum.
 * @param[in]  class_name  borrowed, the qualified name of the enum; copied by the call.
 * @param[in]  value       borrowed, an int, a float or a str. The result takes a reference.
 * @param[out] out         new reference; release it with tenon_value_release. Untouched on failure.
 * @param[out] err         optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_value_new_enum(const char *class_name, tenon_value *value,
                                            tenon_value **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Makes an object of a plain class, with attributes. For a module, use tenon_module_new.
 * @param[in]  class_name  borrowed, the qualified name of the class; copied by the call.
 * @param[in]  names       borrowed array of n strings, all different; copied by the call. May be
 *                         NULL if n is 0.
 * @param[in]  values      borrowed array of n values. The object takes a reference to each. May be
 *                         NULL if n is 0.
 * @param[in]  n           how many attributes.
 * @param[out] out         new reference; release it with tenon_value_release. Untouched on failure.
 * @param[out] err         optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_value_new_object(const char *class_name, const char *const *names,
                                              tenon_value *const *values, size_t n,
                                              tenon_value **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Makes an object that has a state instead of attributes. Such an object is of a class with
 * __getstate__ or of a custom C++ class.
 * @param[in]  class_name  borrowed, such as
 *                         "__torch__.torch.classes.quantized.LinearPackedParamsBase"; copied by the
 *                         call.
 * @param[in]  state       borrowed. The object takes a reference.
 * @param[out] out         new reference; release it with tenon_value_release. Untouched on failure.
 * @param[out] err         optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_value_new_opaque(const char *class_name, tenon_value *state,
                                              tenon_value **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Adds a reference.
 * @param[in] value  borrowed. NULL is allowed.
 * @return `value`, as a new reference that must be released too.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_value *tenon_value_retain(tenon_value *value) TENON_NOEXCEPT;

/**
 * Releases a reference.
 * @param[in] value  consumed. NULL is allowed.
 * @since 0.1. Any thread may call this function.
 */
TENON_API void tenon_value_release(tenon_value *value) TENON_NOEXCEPT;

/**
 * Returns the kind of a value.
 * @param[in] value  borrowed. NULL is allowed.
 * @return TENON_VALUE_*; -1 for NULL.
 * @since 0.1. Any thread may call this function.
 */
TENON_API int32_t tenon_value_kind(const tenon_value *value) TENON_NOEXCEPT;

/**
 * Writes a value's own type. A list gives the type that it was made with, such as "List[int]", or
 * "List[Any]" if it was made without one. A tuple gives the types of its items, such as
 * "Tuple[int, str]", or "tuple" if it is too large for a type. A NamedTuple, an enum member and an
 * object give the name of their class.
 * @param[in]  value     borrowed.
 * @param[out] out       the caller's buffer, with room for `capacity` bytes. The call writes the
 *                       type, cut off if it does not fit, and a NUL. `out` may be NULL if capacity
 *                       is 0.
 * @param[in]  capacity  bytes.
 * @param[out] nbytes    the length of the whole type in bytes, without the NUL. May be NULL.
 *                       Untouched on failure.
 * @param[out] err       optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_value_type(const tenon_value *value, char *out, size_t capacity,
                                        size_t *nbytes, tenon_error **err) TENON_NOEXCEPT;

/**
 * Returns the qualified name of a NamedTuple, an enum or an object.
 * @param[in] value  borrowed. NULL is allowed.
 * @return a string, borrowed from the value and valid until the value's last release. It is "" for
 *         a value that has no such name and for NULL, and never NULL.
 * @since 0.1. Any thread may call this function.
 */
TENON_API const char *tenon_value_class_name(const tenon_value *value) TENON_NOEXCEPT;

/**
 * Tells whether an object has a state instead of attributes.
 * @param[in] value  borrowed. NULL is allowed.
 * @return 1 for an object with a state. 0 for any other value and for NULL.
 * @since 0.1. Any thread may call this function.
 */
TENON_API int tenon_value_is_opaque(const tenon_value *value) TENON_NOEXCEPT;

/**
 * Returns how many items a value has. A dict has one item for each entry, and an object has one for
 * each attribute. An enum member has one item, its value. An object with a state has one item, the
 * state.
 * @param[in] value  borrowed. NULL is allowed.
 * @return the number of items; 0 for a value that is neither a tuple, a list, a dict, an enum
 *         member nor an object, and for NULL.
 * @since 0.1. Any thread may call this function.
 */
TENON_API size_t tenon_value_count(const tenon_value *value) TENON_NOEXCEPT;

/**
 * Gives one of the items that tenon_value_count counts. For a dict it is the value of an entry, for
 * an object the value of an attribute.
 * @param[in]  value  borrowed.
 * @param[in]  index  counts from 0.
 * @param[out] out    new reference; release it with tenon_value_release. Untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (also if `index` is past the last item).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_value_item(const tenon_value *value, size_t index, tenon_value **out,
                                        tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives one key of a dict.
 * @param[in]  value  borrowed, a dict.
 * @param[in]  index  counts from 0.
 * @param[out] out    new reference; release it with tenon_value_release. Untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (also if `index` is past the last entry).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_value_key(const tenon_value *value, size_t index, tenon_value **out,
                                       tenon_error **err) TENON_NOEXCEPT;

/**
 * Returns the name of one attribute of an object.
 * @param[in] value  borrowed. NULL is allowed.
 * @param[in] index  counts from 0.
 * @return a string, borrowed from the object and valid until the object's last release, even if the
 *         attribute is removed. NULL if `index` is past the last attribute, if the value is not an
 *         object with attributes, for NULL, and if there is no memory for a copy of the name.
 * @since 0.1. Any thread may call this function.
 */
TENON_API const char *tenon_value_attribute_name(const tenon_value *value,
                                                 size_t index) TENON_NOEXCEPT;

/**
 * Finds a value by name: an attribute of an object, or the value of the dict entry whose key is
 * that str.
 * @param[in]  value  borrowed, an object or a dict.
 * @param[in]  name   borrowed.
 * @param[out] out    new reference; release it with tenon_value_release. Untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (the value is of another kind, or is an object with a
 *         state), TENON_NOT_FOUND.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_value_find(const tenon_value *value, const char *name,
                                        tenon_value **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives the number in a bool.
 * @param[in]  value  borrowed.
 * @param[out] out    0 or 1. Untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (the value is of another kind).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_value_get_bool(const tenon_value *value, int *out,
                                            tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives the number in an int.
 * @param[in]  value  borrowed.
 * @param[out] out    the number. Untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (the value is of another kind; a bool is not an int).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_value_get_int(const tenon_value *value, int64_t *out,
                                           tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives the number in a float.
 * @param[in]  value  borrowed.
 * @param[out] out    the number. Untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (the value is of another kind; an int is not a float).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_value_get_float(const tenon_value *value, double *out,
                                             tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives the two numbers in a complex number.
 * @param[in]  value      borrowed.
 * @param[out] real       the real part. Untouched on failure.
 * @param[out] imaginary  the imaginary part. Untouched on failure.
 * @param[out] err        optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (the value is of another kind).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_value_get_complex(const tenon_value *value, double *real,
                                               double *imaginary, tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives the text of a str.
 * @param[in]  value   borrowed.
 * @param[out] out     the text, borrowed from the value and valid until the value's last release. A
 *                     NUL follows it. Untouched on failure.
 * @param[out] nbytes  the length of the text in bytes, without that NUL. The text itself may
 *                     contain NULs. `nbytes` may be NULL. Untouched on failure.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (the value is of another kind).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_value_get_str(const tenon_value *value, const char **out,
                                           size_t *nbytes, tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives the name of a device.
 * @param[in]  value  borrowed.
 * @param[out] out    the name, borrowed from the value and valid until the value's last release.
 *                    Untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (the value is of another kind).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_value_get_device(const tenon_value *value, const char **out,
                                              tenon_error **err) TENON_NOEXCEPT;

/**
 * Makes a tenon_tensor from the tensor in a value, over the same bytes.
 * @param[in]  value  borrowed.
 * @param[out] out    new reference; release it with tenon_tensor_release. Untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (the value is of another kind), TENON_UNSUPPORTED (the
 *         tensor is quantised, sparse or on meta, or DLPack lacks its element type: use
 *         tenon_value_get_tensor_spec), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_value_get_tensor(const tenon_value *value, tenon_tensor **out,
                                              tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives the full description of the tensor in a value.
 * @param[in]     value  borrowed.
 * @param[in,out] out    struct_size set by the caller, the other fields filled in by the call. The
 *                       pointers are borrowed from the value and valid until its last release.
 *                       Untouched on failure.
 * @param[out]    err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (the value is of another kind).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_value_get_tensor_spec(const tenon_value *value,
                                                   tenon_value_tensor_spec *out,
                                                   tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives one of the tensors that make up a sparse or a quantised tensor.
 * @param[in]  value  borrowed.
 * @param[in]  part   TENON_TENSOR_PART_*.
 * @param[out] out    new reference to a value of kind tensor; release it with tenon_value_release.
 *                    Untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (the value is of another kind; `part` is not a part),
 *         TENON_NOT_FOUND (this tensor has no such part), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_value_tensor_part(const tenon_value *value, int32_t part,
                                               tenon_value **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Checks whether a value and everything in it fit a type. An int does not fit float. A list that
 * has a type of its own fits no other type of list, and the same holds for dicts. Classes are
 * compared by their names alone, because this function does not know their code. A tuple without a
 * class name fits every class, because the class may be a NamedTuple.
 * @param[in]  value  borrowed.
 * @param[in]  type   borrowed.
 * @param[out] err    optional, see rule 2 in tenon.h, with the details "where", "wanted" and
 *                    "found".
 * @return TENON_OK, TENON_INVALID_ARGUMENT (the value does not fit, or `type` is not a type),
 *         TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_value_check(tenon_value *value, const char *type,
                                         tenon_error **err) TENON_NOEXCEPT;

/**
 * Writes a type as PyTorch writes it. For example, "Union[str, None]" becomes "Optional[str]".
 * @param[in]  type      borrowed, in any form that TorchScript allows.
 * @param[out] out       the caller's buffer, with room for `capacity` bytes. The call writes the
 *                       type, cut off if it does not fit, and a NUL. `out` may be NULL if capacity
 *                       is 0.
 * @param[in]  capacity  bytes.
 * @param[out] nbytes    the length of the whole type in bytes, without the NUL. May be NULL.
 *                       Untouched on failure.
 * @param[out] err       optional, see rule 2 in tenon.h, with the detail "column".
 * @return TENON_OK, TENON_INVALID_ARGUMENT (`type` is not a type), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_type_text(const char *type, char *out, size_t capacity, size_t *nbytes,
                                       tenon_error **err) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
