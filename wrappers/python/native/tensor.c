/* TensorBase, the base class of tenon.Tensor. */
#include "ext.h"

PyObject *wrap_tensor(PyTypeObject *type, tenon_tensor *tensor) {
  PyObject *self = allocate(type);
  if (self == NULL) {
    give_back_tensor(tensor);
    return NULL;
  }
  ((TensorObject *)self)->tensor = tensor;
  return self;
}

static void tensor_dealloc(PyObject *self) {
  give_back_tensor(((TensorObject *)self)->tensor);
  finish_dealloc(self);
}

static PyObject *tensor_close(PyObject *self, PyObject *unused UNUSED) {
  tenon_tensor *tensor = ((TensorObject *)self)->tensor;
  ((TensorObject *)self)->tensor = NULL;
  give_back_tensor(tensor);
  Py_RETURN_NONE;
}

static PyObject *tensor_adopt(PyObject *type, PyObject *number) {
  tenon_tensor *tensor = pointer_from(number);
  if (tensor == NULL) return PyErr_Occurred() ? NULL : raise_closed("tensor");
  return wrap_tensor((PyTypeObject *)type, tensor);
}

static PyObject *tensor_retained(PyObject *self, PyObject *unused UNUSED) {
  tenon_tensor *tensor = open_tensor(self);
  return tensor == NULL ? NULL : PyLong_FromVoidPtr(tenon_tensor_retain(tensor));
}

static int read_numbers(PyObject *tuple, Py_ssize_t n, int64_t *out) {
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject *item = PyTuple_GetItem(tuple, i);
    if (item == NULL) return -1;
    const long long value = PyLong_AsLongLong(item);
    if (value == -1 && PyErr_Occurred()) return -1;
    out[i] = value;
  }
  return 0;
}

/* If there are more dimensions than a tensor may have, only ndim is set in full: the library
   refuses it and reads no number. */
int read_shape(PyObject *tuple, Shape *out) {
  const Py_ssize_t n = PyTuple_Size(tuple);
  out->ndim = n < INT32_MAX ? (int32_t)n : INT32_MAX;
  return read_numbers(tuple, n < TENON_TENSOR_MAX_NDIM ? n : TENON_TENSOR_MAX_NDIM, out->numbers);
}

unsigned int number_of_dtype(tenon_dtype dtype) {
  return dtype.code | (unsigned int)dtype.bits << 8 | (unsigned int)dtype.lanes << 16;
}

tenon_dtype dtype_from(unsigned int number) {
  const tenon_dtype dtype = {(uint8_t)number, (uint8_t)(number >> 8), (uint16_t)(number >> 16)};
  return dtype;
}

/* packed_nbytes(dtype, shape) -> the bytes that a storage needs to hold such a tensor */
PyObject *packed_nbytes(PyObject *module UNUSED, PyObject *args) {
  unsigned int dtype;
  PyObject *shape;
  if (!PyArg_ParseTuple(args, "IO!:packed_nbytes", &dtype, &PyTuple_Type, &shape)) return NULL;
  Shape sizes;
  if (read_shape(shape, &sizes) != 0) return NULL;
  uint64_t nbytes = 0;
  tenon_error *error = NULL;
  const tenon_status status =
      tenon_dtype_nbytes(dtype_from(dtype), sizes.numbers, sizes.ndim, &nbytes, &error);
  return status == TENON_OK ? PyLong_FromUnsignedLongLong(nbytes) : raise_status(status, error);
}

tenon_tensor_spec spec_of(unsigned int dtype, const Shape *sizes, const Shape *steps,
                          unsigned int flags) {
  tenon_tensor_spec spec = {.struct_size = sizeof spec};
  spec.dtype = dtype_from(dtype);
  spec.ndim = sizes->ndim;
  spec.sizes = sizes->ndim > 0 ? sizes->numbers : NULL;
  spec.strides = sizes->ndim > 0 && steps != NULL ? steps->numbers : NULL;
  spec.flags = flags;
  return spec;
}

PyObject *make_tensor(PyTypeObject *type, tenon_storage *storage, unsigned int dtype,
                      PyObject *shape, PyObject *strides, unsigned long long offset,
                      unsigned int flags) {
  Shape sizes, steps;
  if (read_shape(shape, &sizes) != 0) return NULL;
  if (strides != Py_None) {
    if (!PyTuple_Check(strides) || PyTuple_Size(strides) != PyTuple_Size(shape))
      return PyErr_Format(PyExc_ValueError,
                          "strides must be a tuple of %d numbers, as many as the shape has",
                          (int)sizes.ndim);
    if (read_shape(strides, &steps) != 0) return NULL;
  }
  tenon_tensor_spec spec = spec_of(dtype, &sizes, strides == Py_None ? NULL : &steps, flags);
  spec.offset = offset;
  tenon_tensor *tensor = NULL;
  tenon_error *error = NULL;
  const tenon_status status = tenon_tensor_new(storage, &spec, &tensor, &error);
  return status == TENON_OK ? wrap_tensor(type, tensor) : raise_status(status, error);
}

/* new(storage, dtype, shape, strides or None, offset, flags); dtype = code | bits << 8 | lanes <<
 * 16 */
static PyObject *tensor_new(PyObject *type, PyObject *args) {
  PyObject *owner, *shape, *strides;
  unsigned int dtype, flags;
  unsigned long long offset;
  if (!PyArg_ParseTuple(args, "O!IO!OKI:new", interpreter()->storage_type, &owner, &dtype,
                        &PyTuple_Type, &shape, &strides, &offset, &flags))
    return NULL;
  tenon_storage *storage = open_storage(owner);
  return storage == NULL
             ? NULL
             : make_tensor((PyTypeObject *)type, storage, dtype, shape, strides, offset, flags);
}

uint64_t extent_nbytes(const tenon_tensor_spec *spec) {
  const uint64_t bits = (uint64_t)spec->dtype.bits * spec->dtype.lanes;
  uint64_t last = 0, nbytes = 0;
  if (bits == 0 || bits % 8 != 0) return 0;
  for (int32_t i = 0; i < spec->ndim; ++i) {
    uint64_t step;
    if (spec->sizes[i] <= 0 || spec->strides[i] < 0) return 0;
    if (__builtin_mul_overflow((uint64_t)(spec->sizes[i] - 1), (uint64_t)spec->strides[i], &step))
      return 0;
    if (__builtin_add_overflow(last, step, &last)) return 0;
  }
  if (last == UINT64_MAX || __builtin_mul_overflow(last + 1, bits / 8, &nbytes)) return 0;
  return nbytes;
}

tenon_tensor *tensor_at_address(uint64_t address, tenon_tensor_spec *spec) {
  const uint64_t nbytes = extent_nbytes(spec);
  tenon_storage *storage = NULL;
  tenon_tensor *tensor = NULL;
  uint64_t offset = 0;
  if (nbytes == 0 || tenon_storage_at((const void *)(uintptr_t)address, nbytes, &storage, &offset,
                                      NULL) != TENON_OK)
    return NULL;
  const uint64_t itemsize = (uint64_t)spec->dtype.bits * spec->dtype.lanes / 8;
  spec->offset = offset / itemsize;
  if (offset % itemsize == 0) (void)tenon_tensor_new(storage, spec, &tensor, NULL);
  give_back_storage(storage);
  return tensor;
}

/* at(address, dtype, shape, strides, flags) -> a tensor over the storage that has all of these
   elements. None: no storage has them. */
static PyObject *tensor_at(PyObject *type, PyObject *args) {
  PyObject *shape, *strides;
  unsigned int dtype, flags;
  unsigned long long address;
  if (!PyArg_ParseTuple(args, "KIO!O!I:at", &address, &dtype, &PyTuple_Type, &shape, &PyTuple_Type,
                        &strides, &flags))
    return NULL;
  if (PyTuple_Size(strides) != PyTuple_Size(shape) || PyTuple_Size(shape) > TENON_TENSOR_MAX_NDIM)
    Py_RETURN_NONE;
  Shape sizes, steps;
  if (read_shape(shape, &sizes) != 0 || read_shape(strides, &steps) != 0) return NULL;
  tenon_tensor_spec spec = spec_of(dtype, &sizes, &steps, flags);
  tenon_tensor *tensor = tensor_at_address(address, &spec);
  if (tensor == NULL) Py_RETURN_NONE;
  return wrap_tensor((PyTypeObject *)type, tensor);
}

int read_spec(const tenon_tensor *tensor, tenon_tensor_spec *spec) {
  memset(spec, 0, sizeof *spec);
  spec->struct_size = sizeof *spec;
  tenon_error *error = NULL;
  const tenon_status status = tenon_tensor_get_spec(tensor, spec, &error);
  return raised(status, error);
}

tenon_tensor *get_spec(PyObject *self, tenon_tensor_spec *spec) {
  tenon_tensor *tensor = open_tensor(self);
  return tensor != NULL && read_spec(tensor, spec) == 0 ? tensor : NULL;
}

PyObject *tuple_of_numbers(const int64_t *numbers, int32_t n) {
  PyObject *tuple = PyTuple_New(n);
  if (tuple == NULL) return NULL;
  for (int32_t i = 0; i < n; ++i) {
    PyObject *item = PyLong_FromLongLong(numbers[i]);
    if (item == NULL || PyTuple_SetItem(tuple, i, item) != 0) {
      Py_DECREF(tuple);
      return NULL;
    }
  }
  return tuple;
}

/* Defines the getter tensor_get_<name>. Its value is an expression of `tensor`, which is open. */
#define TENSOR_GETTER(name, value)                                          \
  static PyObject *tensor_get_##name(PyObject *self, void *unused UNUSED) { \
    const tenon_tensor *tensor = open_tensor(self);                         \
    return tensor == NULL ? NULL : (value);                                 \
  }

/* As TENSOR_GETTER, with an expression of the tensor's `spec`. */
#define SPEC_GETTER(name, value)                                            \
  static PyObject *tensor_get_##name(PyObject *self, void *unused UNUSED) { \
    tenon_tensor_spec spec;                                                 \
    return get_spec(self, &spec) == NULL ? NULL : (value);                  \
  }

SPEC_GETTER(shape, tuple_of_numbers(spec.sizes, spec.ndim))
SPEC_GETTER(strides, tuple_of_numbers(spec.strides, spec.ndim))
SPEC_GETTER(offset, PyLong_FromUnsignedLongLong(spec.offset))
SPEC_GETTER(ndim, PyLong_FromLong(spec.ndim))
SPEC_GETTER(flags, PyLong_FromUnsignedLong(spec.flags))
SPEC_GETTER(dtype_number, PyLong_FromUnsignedLong(number_of_dtype(spec.dtype)))
TENSOR_GETTER(nbytes, PyLong_FromUnsignedLongLong(tenon_tensor_nbytes(tensor)))
TENSOR_GETTER(numel, PyLong_FromUnsignedLongLong(tenon_tensor_numel(tensor)))
TENSOR_GETTER(read_only, PyBool_FromLong(tenon_storage_is_read_only(tenon_tensor_storage(tensor))))
TENSOR_GETTER(contiguous, PyBool_FromLong(tenon_tensor_is_contiguous(tensor)))
TENSOR_GETTER(device_numbers, device_of(tenon_tensor_storage(tensor)))

static PyObject *tensor_get_closed(PyObject *self, void *unused UNUSED) {
  return PyBool_FromLong(((TensorObject *)self)->tensor == NULL);
}

static PyObject *tensor_get_address(PyObject *self, void *unused UNUSED) {
  const tenon_tensor *tensor = open_tensor(self);
  if (tensor == NULL) return NULL;
  const void *data = tensor_address(tensor);
  return data == NULL && PyErr_Occurred() ? NULL : PyLong_FromVoidPtr((void *)(uintptr_t)data);
}

static PyObject *tensor_storage_as(PyObject *self, PyObject *type) {
  const tenon_tensor *tensor = open_tensor(self);
  if (tensor == NULL || !is_subclass(type, interpreter()->storage_type)) return NULL;
  return wrap_storage((PyTypeObject *)type, tenon_storage_retain(tenon_tensor_storage(tensor)));
}

static PyMethodDef tensor_methods[] = {
    {"close", tensor_close, METH_NOARGS,
     "Release this reference. Existing views stay valid. A second call does nothing."},
    {"_adopt", tensor_adopt, METH_O | METH_CLASS, "Take over the reference at an address."},
    {"_new", tensor_new, METH_VARARGS | METH_CLASS, "Make a tensor over a storage."},
    {"_at", tensor_at, METH_VARARGS | METH_CLASS,
     "Make a tensor over the storage that has the bytes at an address, or return None."},
    {"_retained", tensor_retained, METH_NOARGS,
     "Return the address, with one more reference for the caller."},
    {"_storage_as", tensor_storage_as, METH_O,
     "Return the storage as an object of the given class."},
    {"_reshape", tensor_reshape, METH_O, "Return the same elements in the shape of a tuple."},
    {"_view_dtype", tensor_view_dtype, METH_O, "Return the same bytes as another element type."},
    {"_to_dlpack", tensor_to_dlpack, METH_VARARGS, "Return a DLPack capsule of the tensor."},
    {"_from_dlpack", tensor_from_dlpack, METH_O | METH_CLASS,
     "Make a tensor over the memory of a DLPack capsule, and consume the capsule."},
    {"_from_exchange", tensor_from_exchange, METH_VARARGS | METH_CLASS,
     "Make a tensor over an object's memory by the C exchange API of its type, or return None."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef tensor_getset[] = {
    {"closed", tensor_get_closed, NULL, "Whether close was called.", NULL},
    {"shape", tensor_get_shape, NULL, "The number of elements in each dimension.", NULL},
    {"strides", tensor_get_strides, NULL,
     "The number of elements from one index to the next, for each dimension.", NULL},
    {"offset", tensor_get_offset, NULL,
     "The number of elements from the start of the storage to the element at 0, 0, ...", NULL},
    {"ndim", tensor_get_ndim, NULL, "The number of dimensions.", NULL},
    {"nbytes", tensor_get_nbytes, NULL, "The number of bytes that the elements take when packed.",
     NULL},
    {"numel", tensor_get_numel, NULL, "The number of elements.", NULL},
    {"read_only", tensor_get_read_only, NULL,
     "Whether this process must not write to the elements.", NULL},
    {"is_contiguous", tensor_get_contiguous, NULL,
     "Whether the elements lie packed in row-major order.", NULL},
    {"_flags", tensor_get_flags, NULL, NULL, NULL},
    {"_dtype_number", tensor_get_dtype_number, NULL, NULL, NULL},
    {"_address", tensor_get_address, NULL, NULL, NULL},
    {"_device_numbers", tensor_get_device_numbers, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot tensor_slots[] = {{Py_tp_dealloc, tensor_dealloc},
                                     {Py_tp_new, object_new},
                                     {Py_tp_methods, tensor_methods},
                                     {Py_tp_getset, tensor_getset},
                                     {Py_mp_subscript, tensor_subscript},
                                     {Py_sq_item, tensor_item},
                                     {Py_bf_getbuffer, tensor_getbuffer},
                                     {Py_bf_releasebuffer, tensor_releasebuffer},
                                     {0, NULL}};

PyType_Spec tensor_spec = {"tenon._native_ext.TensorBase", sizeof(TensorObject), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, tensor_slots};
