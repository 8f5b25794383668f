/* The part of the Python wrapper that cffi cannot do: types that export a buffer (Python 3.11 has no __buffer__ for classes), DLPack
   capsules, and one call for all the tensors of a message. Written for the limited API of 3.11, so that one file serves every later Python.

   Every object here owns one reference to a tenon object and nothing else; an exported buffer owns a reference of its own, so that
   closing an object never pulls memory from under a view. No deleter that libtenon keeps touches Python, but release_held_buffer. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlpack/dlpack.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

static PyObject *error_factory; /* tenon.error.from_status: (status, address of the tenon_error or 0) -> exception */
static int finalizing;          /* set by atexit: from then on nobody may ask for the GIL from a deleter */

static PyObject *raise_status(tenon_status status, tenon_error *error) {
  if (error_factory == NULL) {
    PyErr_Format(PyExc_RuntimeError, "%s: %s", tenon_status_name(status), tenon_error_message(error));
    tenon_error_release(error);
    return NULL;
  }
  PyObject *exception = PyObject_CallFunction(error_factory, "iK", (int)status, (unsigned long long)(uintptr_t)error);
  if (exception != NULL) {
    PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    Py_DECREF(exception);
  }
  return NULL;
}

static PyObject *raise_closed(const char *what) { return PyErr_Format(PyExc_ValueError, "this %s is already closed", what); }

static void *pointer_from(PyObject *number) { return PyLong_AsVoidPtr(number); }

/* ---- objects that own one reference ---- */

typedef struct {
  PyObject_HEAD tenon_tensor *tensor;
} TensorObject;

typedef struct {
  PyObject_HEAD tenon_storage *storage;
} StorageObject;

static PyTypeObject *tensor_type;
static PyTypeObject *storage_type;

static PyObject *allocate(PyTypeObject *type) {
  allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  return alloc(type, 0);
}

/* Takes over the reference, also on failure. */
static PyObject *wrap_tensor(PyTypeObject *type, tenon_tensor *tensor) {
  PyObject *self = allocate(type);
  if (self == NULL) {
    tenon_tensor_release(tensor);
    return NULL;
  }
  ((TensorObject *)self)->tensor = tensor;
  return self;
}

static PyObject *wrap_storage(PyTypeObject *type, tenon_storage *storage) {
  PyObject *self = allocate(type);
  if (self == NULL) {
    tenon_storage_release(storage);
    return NULL;
  }
  ((StorageObject *)self)->storage = storage;
  return self;
}

static int is_subclass(PyObject *type, PyTypeObject *base) {
  if (PyType_Check(type) && PyType_IsSubtype((PyTypeObject *)type, base)) return 1;
  PyErr_SetString(PyExc_TypeError, "not a subclass of the base type");
  return 0;
}

static PyObject *object_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  (void)args;
  (void)kwargs;
  PyErr_SetString(PyExc_TypeError, "use tenon.empty, tenon.zeros, tenon.from_numpy, tenon.from_dlpack or Storage.new");
  (void)type;
  return NULL;
}

static void finish_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

/* ---- exported buffers ---- */

static const char *buffer_format(tenon_dtype dtype) {
  if (dtype.lanes != 1) return NULL;
  switch (dtype.code) {
    case TENON_DTYPE_INT: return dtype.bits == 8 ? "b" : dtype.bits == 16 ? "h" : dtype.bits == 32 ? "i" : dtype.bits == 64 ? "q" : NULL;
    case TENON_DTYPE_UINT: return dtype.bits == 8 ? "B" : dtype.bits == 16 ? "H" : dtype.bits == 32 ? "I" : dtype.bits == 64 ? "Q" : NULL;
    case TENON_DTYPE_FLOAT: return dtype.bits == 16 ? "e" : dtype.bits == 32 ? "f" : dtype.bits == 64 ? "d" : NULL;
    case TENON_DTYPE_COMPLEX: return dtype.bits == 64 ? "Zf" : dtype.bits == 128 ? "Zd" : NULL;
    case TENON_DTYPE_BOOL: return dtype.bits == 8 ? "?" : NULL;
    default: return NULL;
  }
}

typedef struct {
  tenon_tensor *tensor;
  Py_ssize_t shape_and_strides[];
} TensorExport;

static int is_fortran(const tenon_tensor_spec *spec) {
  int64_t expected = 1;
  for (int32_t i = 0; i < spec->ndim; ++i) {
    if (spec->sizes[i] == 0) return 1;
    if (spec->sizes[i] != 1 && spec->strides[i] != expected) return 0;
    expected *= spec->sizes[i];
  }
  return 1;
}

static char nothing; /* what the pointer of an empty buffer points to: NULL confuses consumers */

static int wants(int flags, int all) { return (flags & all) == all; }

static int buffer_error(const char *text) {
  PyErr_SetString(PyExc_BufferError, text);
  return -1;
}

static int tensor_getbuffer(PyObject *self, Py_buffer *view, int flags) {
  view->obj = NULL;
  tenon_tensor *tensor = ((TensorObject *)self)->tensor;
  if (tensor == NULL) {
    raise_closed("tensor");
    return -1;
  }
  tenon_tensor_spec spec;
  memset(&spec, 0, sizeof spec);
  spec.struct_size = sizeof spec;
  tenon_error *error = NULL;
  tenon_status status = tenon_tensor_get_spec(tensor, &spec, &error);
  if (status != TENON_OK) {
    raise_status(status, error);
    return -1;
  }
  const int read_only = tenon_storage_is_read_only(tenon_tensor_storage(tensor));
  const int contiguous = tenon_tensor_is_contiguous(tensor);
  const char *format = buffer_format(spec.dtype);
  if (wants(flags, PyBUF_WRITABLE) && read_only) return buffer_error("the tensor is read-only");
  if (spec.flags & (TENON_TENSOR_CONJ | TENON_TENSOR_NEG))
    return buffer_error("the tensor's conjugate or negative bit is set: its bytes are not its values");
  if (((unsigned)spec.dtype.bits * spec.dtype.lanes) % 8 != 0)
    return buffer_error("elements smaller than a byte have no buffer: use the storage's data");
  if (wants(flags, PyBUF_FORMAT) && format == NULL)
    return buffer_error("this dtype has no buffer format: view it as an unsigned integer of the same size, such as view(dtype=\"uint16\")");
  if (!contiguous) {
    if (!wants(flags, PyBUF_STRIDES)) return buffer_error("the tensor is not contiguous");
    if (wants(flags, PyBUF_C_CONTIGUOUS)) return buffer_error("the tensor is not C-contiguous");
    if ((wants(flags, PyBUF_F_CONTIGUOUS) || wants(flags, PyBUF_ANY_CONTIGUOUS)) && !is_fortran(&spec))
      return buffer_error("the tensor is not contiguous");
  } else if (wants(flags, PyBUF_F_CONTIGUOUS) && !is_fortran(&spec)) {
    return buffer_error("the tensor is not Fortran-contiguous");
  }

  const Py_ssize_t ndim = spec.ndim;
  TensorExport *keep = PyMem_Malloc(sizeof(TensorExport) + 2 * (size_t)ndim * sizeof(Py_ssize_t));
  if (keep == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  const Py_ssize_t itemsize = (Py_ssize_t)spec.dtype.bits * spec.dtype.lanes / 8;
  Py_ssize_t nbytes = itemsize;
  for (Py_ssize_t i = 0; i < ndim; ++i) {
    keep->shape_and_strides[i] = (Py_ssize_t)spec.sizes[i];
    keep->shape_and_strides[ndim + i] = (Py_ssize_t)spec.strides[i] * itemsize;
    nbytes *= (Py_ssize_t)spec.sizes[i];
  }
  keep->tensor = tenon_tensor_retain(tensor);
  void *data = (void *)(uintptr_t)tenon_tensor_data(tensor);
  view->buf = data == NULL ? &nothing : data;
  view->len = nbytes;
  view->itemsize = itemsize;
  view->readonly = read_only;
  view->format = wants(flags, PyBUF_FORMAT) ? (char *)(uintptr_t)format : NULL;
  view->ndim = wants(flags, PyBUF_ND) ? (int)ndim : 1;
  view->shape = wants(flags, PyBUF_ND) ? keep->shape_and_strides : NULL;
  view->strides = wants(flags, PyBUF_STRIDES) ? keep->shape_and_strides + ndim : NULL;
  view->suboffsets = NULL;
  view->internal = keep;
  Py_INCREF(self);
  view->obj = self;
  return 0;
}

static void tensor_releasebuffer(PyObject *self, Py_buffer *view) {
  (void)self;
  TensorExport *keep = view->internal;
  tenon_tensor_release(keep->tensor);
  PyMem_Free(keep);
  view->internal = NULL;
}

static int storage_getbuffer(PyObject *self, Py_buffer *view, int flags) {
  view->obj = NULL;
  tenon_storage *storage = ((StorageObject *)self)->storage;
  if (storage == NULL) {
    raise_closed("storage");
    return -1;
  }
  const int read_only = tenon_storage_is_read_only(storage);
  void *data = (void *)(uintptr_t)tenon_storage_data(storage);
  const int rc = PyBuffer_FillInfo(view, self, data == NULL ? &nothing : data, (Py_ssize_t)tenon_storage_nbytes(storage), read_only, flags);
  if (rc == 0) view->internal = tenon_storage_retain(storage);
  return rc;
}

static void storage_releasebuffer(PyObject *self, Py_buffer *view) {
  (void)self;
  tenon_storage_release(view->internal);
  view->internal = NULL;
}

/* ---- TensorBase ---- */

static void tensor_dealloc(PyObject *self) {
  tenon_tensor_release(((TensorObject *)self)->tensor);
  finish_dealloc(self);
}

static PyObject *tensor_close(PyObject *self, PyObject *unused) {
  (void)unused;
  tenon_tensor *tensor = ((TensorObject *)self)->tensor;
  ((TensorObject *)self)->tensor = NULL;
  tenon_tensor_release(tensor);
  Py_RETURN_NONE;
}

static PyObject *tensor_adopt(PyObject *type, PyObject *number) {
  tenon_tensor *tensor = pointer_from(number);
  if (tensor == NULL) return PyErr_Occurred() ? NULL : raise_closed("tensor");
  return wrap_tensor((PyTypeObject *)type, tensor);
}

static PyObject *tensor_retained(PyObject *self, PyObject *unused) {
  (void)unused;
  tenon_tensor *tensor = ((TensorObject *)self)->tensor;
  if (tensor == NULL) return raise_closed("tensor");
  return PyLong_FromVoidPtr(tenon_tensor_retain(tensor));
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

/* new(storage, dtype, shape, strides or None, offset, flags); dtype = code | bits << 8 | lanes << 16 */
static PyObject *tensor_new(PyObject *type, PyObject *args) {
  PyObject *owner, *shape, *strides;
  unsigned int dtype, flags;
  unsigned long long offset;
  if (!PyArg_ParseTuple(args, "O!IO!OKI:new", storage_type, &owner, &dtype, &PyTuple_Type, &shape, &strides, &offset, &flags)) return NULL;
  tenon_storage *storage = ((StorageObject *)owner)->storage;
  if (storage == NULL) return raise_closed("storage");
  const Py_ssize_t ndim = PyTuple_Size(shape);
  if (ndim > TENON_TENSOR_MAX_NDIM)
    return PyErr_Format(PyExc_ValueError, "%zd dimensions, at most %d are allowed", ndim, TENON_TENSOR_MAX_NDIM);
  int64_t sizes[TENON_TENSOR_MAX_NDIM], steps[TENON_TENSOR_MAX_NDIM];
  if (read_numbers(shape, ndim, sizes) != 0) return NULL;
  if (strides != Py_None) {
    if (!PyTuple_Check(strides) || PyTuple_Size(strides) != ndim)
      return PyErr_Format(PyExc_ValueError, "strides must be a tuple of %zd numbers, as many as the shape has", ndim);
    if (read_numbers(strides, ndim, steps) != 0) return NULL;
  }
  tenon_tensor_spec spec;
  memset(&spec, 0, sizeof spec);
  spec.struct_size = sizeof spec;
  spec.dtype.code = (uint8_t)dtype;
  spec.dtype.bits = (uint8_t)(dtype >> 8);
  spec.dtype.lanes = (uint16_t)(dtype >> 16);
  spec.ndim = (int32_t)ndim;
  spec.sizes = ndim > 0 ? sizes : NULL;
  spec.strides = ndim > 0 && strides != Py_None ? steps : NULL;
  spec.offset = offset;
  spec.flags = flags;
  tenon_tensor *tensor = NULL;
  tenon_error *error = NULL;
  const tenon_status status = tenon_tensor_new(storage, &spec, &tensor, &error);
  if (status != TENON_OK) return raise_status(status, error);
  return wrap_tensor((PyTypeObject *)type, tensor);
}

static tenon_tensor *get_spec(PyObject *self, tenon_tensor_spec *spec) {
  tenon_tensor *tensor = ((TensorObject *)self)->tensor;
  if (tensor == NULL) {
    raise_closed("tensor");
    return NULL;
  }
  memset(spec, 0, sizeof *spec);
  spec->struct_size = sizeof *spec;
  tenon_error *error = NULL;
  const tenon_status status = tenon_tensor_get_spec(tensor, spec, &error);
  if (status != TENON_OK) {
    raise_status(status, error);
    return NULL;
  }
  return tensor;
}

static PyObject *tuple_of(const int64_t *numbers, int32_t n) {
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

static PyObject *tensor_get_shape(PyObject *self, void *unused) {
  (void)unused;
  tenon_tensor_spec spec;
  return get_spec(self, &spec) == NULL ? NULL : tuple_of(spec.sizes, spec.ndim);
}

static PyObject *tensor_get_strides(PyObject *self, void *unused) {
  (void)unused;
  tenon_tensor_spec spec;
  return get_spec(self, &spec) == NULL ? NULL : tuple_of(spec.strides, spec.ndim);
}

static PyObject *tensor_get_offset(PyObject *self, void *unused) {
  (void)unused;
  tenon_tensor_spec spec;
  return get_spec(self, &spec) == NULL ? NULL : PyLong_FromUnsignedLongLong(spec.offset);
}

static PyObject *tensor_get_flags(PyObject *self, void *unused) {
  (void)unused;
  tenon_tensor_spec spec;
  return get_spec(self, &spec) == NULL ? NULL : PyLong_FromUnsignedLong(spec.flags);
}

static PyObject *tensor_get_dtype_number(PyObject *self, void *unused) {
  (void)unused;
  tenon_tensor_spec spec;
  if (get_spec(self, &spec) == NULL) return NULL;
  return PyLong_FromUnsignedLong(spec.dtype.code | (unsigned long)spec.dtype.bits << 8 | (unsigned long)spec.dtype.lanes << 16);
}

static PyObject *tensor_get_ndim(PyObject *self, void *unused) {
  (void)unused;
  tenon_tensor_spec spec;
  return get_spec(self, &spec) == NULL ? NULL : PyLong_FromLong(spec.ndim);
}

static PyObject *tensor_get_closed(PyObject *self, void *unused) {
  (void)unused;
  return PyBool_FromLong(((TensorObject *)self)->tensor == NULL);
}

static PyObject *tensor_get_nbytes(PyObject *self, void *unused) {
  (void)unused;
  tenon_tensor *tensor = ((TensorObject *)self)->tensor;
  return tensor == NULL ? raise_closed("tensor") : PyLong_FromUnsignedLongLong(tenon_tensor_nbytes(tensor));
}

static PyObject *tensor_get_numel(PyObject *self, void *unused) {
  (void)unused;
  tenon_tensor *tensor = ((TensorObject *)self)->tensor;
  return tensor == NULL ? raise_closed("tensor") : PyLong_FromUnsignedLongLong(tenon_tensor_numel(tensor));
}

static PyObject *tensor_get_read_only(PyObject *self, void *unused) {
  (void)unused;
  tenon_tensor *tensor = ((TensorObject *)self)->tensor;
  return tensor == NULL ? raise_closed("tensor") : PyBool_FromLong(tenon_storage_is_read_only(tenon_tensor_storage(tensor)));
}

static PyObject *tensor_get_contiguous(PyObject *self, void *unused) {
  (void)unused;
  tenon_tensor *tensor = ((TensorObject *)self)->tensor;
  return tensor == NULL ? raise_closed("tensor") : PyBool_FromLong(tenon_tensor_is_contiguous(tensor));
}

static PyObject *tensor_get_address(PyObject *self, void *unused) {
  (void)unused;
  tenon_tensor *tensor = ((TensorObject *)self)->tensor;
  return tensor == NULL ? raise_closed("tensor") : PyLong_FromVoidPtr((void *)(uintptr_t)tenon_tensor_data(tensor));
}

static PyObject *tensor_storage_as(PyObject *self, PyObject *type) {
  tenon_tensor *tensor = ((TensorObject *)self)->tensor;
  if (tensor == NULL) return raise_closed("tensor");
  if (!is_subclass(type, storage_type)) return NULL;
  return wrap_storage((PyTypeObject *)type, tenon_storage_retain(tenon_tensor_storage(tensor)));
}

/* ---- DLPack ---- */

#define VERSIONED "dltensor_versioned"
#define LEGACY "dltensor"

/* A capsule that nobody consumed. The deleters are libtenon's own and need no interpreter. */
static void drop_versioned(PyObject *capsule) {
  if (!PyCapsule_IsValid(capsule, VERSIONED)) return;
  DLManagedTensorVersioned *managed = PyCapsule_GetPointer(capsule, VERSIONED);
  if (managed->deleter != NULL) managed->deleter(managed);
}

static void drop_legacy(PyObject *capsule) {
  if (!PyCapsule_IsValid(capsule, LEGACY)) return;
  DLManagedTensor *managed = PyCapsule_GetPointer(capsule, LEGACY);
  if (managed->deleter != NULL) managed->deleter(managed);
}

/* to_dlpack(versioned, is_copied) */
static PyObject *tensor_to_dlpack(PyObject *self, PyObject *args) {
  int versioned, is_copied;
  if (!PyArg_ParseTuple(args, "pp:to_dlpack", &versioned, &is_copied)) return NULL;
  tenon_tensor *tensor = ((TensorObject *)self)->tensor;
  if (tensor == NULL) return raise_closed("tensor");
  tenon_error *error = NULL;
  if (versioned) {
    DLManagedTensorVersioned *managed = NULL;
    const tenon_status status = tenon_tensor_to_dlpack(tensor, &managed, &error);
    if (status != TENON_OK) return raise_status(status, error);
    if (is_copied) managed->flags |= DLPACK_FLAG_BITMASK_IS_COPIED;
    PyObject *capsule = PyCapsule_New(managed, VERSIONED, drop_versioned);
    if (capsule == NULL) managed->deleter(managed);
    return capsule;
  }
  DLManagedTensor *managed = NULL;
  const tenon_status status = tenon_tensor_to_dlpack_legacy(tensor, &managed, &error);
  if (status != TENON_OK) return raise_status(status, error);
  PyObject *capsule = PyCapsule_New(managed, LEGACY, drop_legacy);
  if (capsule == NULL) managed->deleter(managed);
  return capsule;
}

static PyObject *tensor_from_dlpack(PyObject *type, PyObject *capsule) {
  tenon_tensor *tensor = NULL;
  tenon_error *error = NULL;
  const char *used;
  tenon_status status;
  if (PyCapsule_IsValid(capsule, VERSIONED)) {
    used = "used_" VERSIONED;
    status = tenon_tensor_from_dlpack(PyCapsule_GetPointer(capsule, VERSIONED), &tensor, &error);
  } else if (PyCapsule_IsValid(capsule, LEGACY)) {
    used = "used_" LEGACY;
    status = tenon_tensor_from_dlpack_legacy(PyCapsule_GetPointer(capsule, LEGACY), &tensor, &error);
  } else {
    PyErr_SetString(PyExc_ValueError, "not a DLPack capsule, or one that was consumed already");
    return NULL;
  }
  if (status != TENON_OK) return raise_status(status, error);
  PyObject *self = wrap_tensor((PyTypeObject *)type, tensor);
  /* The library has consumed it, whatever became of `self`. */
  if (PyCapsule_SetName(capsule, used) != 0) Py_CLEAR(self);
  return self;
}

static PyMethodDef tensor_methods[] = {
    {"close", tensor_close, METH_NOARGS, "Give this reference back; views that are out stay valid. Again: nothing."},
    {"_adopt", tensor_adopt, METH_O | METH_CLASS, "Take over a reference, given as an address."},
    {"_new", tensor_new, METH_VARARGS | METH_CLASS, "Make a tensor over a storage."},
    {"_retained", tensor_retained, METH_NOARGS, "The address, with one reference more for the caller."},
    {"_storage_as", tensor_storage_as, METH_O, "The storage, as an object of the given class."},
    {"_to_dlpack", tensor_to_dlpack, METH_VARARGS, "A capsule."},
    {"_from_dlpack", tensor_from_dlpack, METH_O | METH_CLASS, "Consume a capsule."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef tensor_getset[] = {
    {"closed", tensor_get_closed, NULL, "Whether close was called.", NULL},
    {"shape", tensor_get_shape, NULL, "Elements in each dimension.", NULL},
    {"strides", tensor_get_strides, NULL, "Elements from one index to the next, for each dimension.", NULL},
    {"offset", tensor_get_offset, NULL, "Elements from the start of the storage to the element with index 0, 0, ...", NULL},
    {"ndim", tensor_get_ndim, NULL, "Number of dimensions.", NULL},
    {"nbytes", tensor_get_nbytes, NULL, "Bytes that the elements take when packed.", NULL},
    {"numel", tensor_get_numel, NULL, "Number of elements.", NULL},
    {"read_only", tensor_get_read_only, NULL, "Whether this process must not write to the elements.", NULL},
    {"is_contiguous", tensor_get_contiguous, NULL, "Whether the elements lie packed, last dimension fastest.", NULL},
    {"_flags", tensor_get_flags, NULL, NULL, NULL},
    {"_dtype_number", tensor_get_dtype_number, NULL, NULL, NULL},
    {"_address", tensor_get_address, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot tensor_slots[] = {{Py_tp_dealloc, tensor_dealloc},
                                     {Py_tp_new, object_new},
                                     {Py_tp_methods, tensor_methods},
                                     {Py_tp_getset, tensor_getset},
                                     {Py_bf_getbuffer, tensor_getbuffer},
                                     {Py_bf_releasebuffer, tensor_releasebuffer},
                                     {0, NULL}};

static PyType_Spec tensor_spec = {"tenon._native_ext.TensorBase", sizeof(TensorObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                                  tensor_slots};

/* ---- StorageBase ---- */

static void storage_dealloc(PyObject *self) {
  tenon_storage_release(((StorageObject *)self)->storage);
  finish_dealloc(self);
}

static PyObject *storage_close(PyObject *self, PyObject *unused) {
  (void)unused;
  tenon_storage *storage = ((StorageObject *)self)->storage;
  ((StorageObject *)self)->storage = NULL;
  tenon_storage_release(storage);
  Py_RETURN_NONE;
}

static PyObject *storage_adopt(PyObject *type, PyObject *number) {
  tenon_storage *storage = pointer_from(number);
  if (storage == NULL) return PyErr_Occurred() ? NULL : raise_closed("storage");
  return wrap_storage((PyTypeObject *)type, storage);
}

static PyObject *storage_retained(PyObject *self, PyObject *unused) {
  (void)unused;
  tenon_storage *storage = ((StorageObject *)self)->storage;
  if (storage == NULL) return raise_closed("storage");
  return PyLong_FromVoidPtr(tenon_storage_retain(storage));
}

/* _new(nbytes, mode, flags, alignment) */
static PyObject *storage_new(PyObject *type, PyObject *args) {
  unsigned long long nbytes, alignment;
  tenon_storage_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  if (!PyArg_ParseTuple(args, "KIIK:new", &nbytes, &options.mode, &options.flags, &alignment)) return NULL;
  options.alignment = alignment;
  tenon_storage *storage = NULL;
  tenon_error *error = NULL;
  tenon_status status;
  Py_BEGIN_ALLOW_THREADS
    status = tenon_storage_new(&options, nbytes, &storage, &error);
  Py_END_ALLOW_THREADS
  if (status != TENON_OK) return raise_status(status, error);
  return wrap_storage((PyTypeObject *)type, storage);
}

/* _new_from(buffer, mode, flags, alignment) */
static PyObject *storage_new_from(PyObject *type, PyObject *args) {
  PyObject *data;
  unsigned long long alignment;
  tenon_storage_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  if (!PyArg_ParseTuple(args, "OIIK:new_from", &data, &options.mode, &options.flags, &alignment)) return NULL;
  options.alignment = alignment;
  Py_buffer view;
  if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) != 0) return NULL;
  tenon_storage *storage = NULL;
  tenon_error *error = NULL;
  tenon_status status;
  Py_BEGIN_ALLOW_THREADS
    status = tenon_storage_new_from(&options, view.buf, (uint64_t)view.len, &storage, &error);
  Py_END_ALLOW_THREADS
  PyBuffer_Release(&view);
  if (status != TENON_OK) return raise_status(status, error);
  return wrap_storage((PyTypeObject *)type, storage);
}

/* A buffer of some Python object under a wrapped storage. The last release may come from any thread at any time; once the
   interpreter is on its way out the buffer is left alone (the process ends with it). */
static void release_held_buffer(void *context) {
  if (__atomic_load_n(&finalizing, __ATOMIC_ACQUIRE)) return;
  PyGILState_STATE state = PyGILState_Ensure();
  PyBuffer_Release(context);
  free(context);
  PyGILState_Release(state);
}

static PyObject *storage_wrap(PyObject *type, PyObject *object) {
  Py_buffer *held = malloc(sizeof *held);
  if (held == NULL) return PyErr_NoMemory();
  if (PyObject_GetBuffer(object, held, PyBUF_WRITABLE) != 0) {
    PyErr_Clear();
    if (PyObject_GetBuffer(object, held, PyBUF_SIMPLE) != 0) {
      free(held);
      return NULL;
    }
  }
  tenon_storage_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.flags = held->readonly ? (uint32_t)TENON_STORAGE_READ_ONLY : 0;
  tenon_storage *storage = NULL;
  tenon_error *error = NULL;
  const tenon_status status = tenon_storage_wrap(held->buf, (uint64_t)held->len, release_held_buffer, held, &options, &storage, &error);
  if (status != TENON_OK) {
    PyBuffer_Release(held);
    free(held);
    return raise_status(status, error);
  }
  return wrap_storage((PyTypeObject *)type, storage);
}

static PyObject *storage_get_closed(PyObject *self, void *unused) {
  (void)unused;
  return PyBool_FromLong(((StorageObject *)self)->storage == NULL);
}

static PyObject *storage_get_nbytes(PyObject *self, void *unused) {
  (void)unused;
  tenon_storage *storage = ((StorageObject *)self)->storage;
  return storage == NULL ? raise_closed("storage") : PyLong_FromUnsignedLongLong(tenon_storage_nbytes(storage));
}

static PyObject *storage_get_id(PyObject *self, void *unused) {
  (void)unused;
  tenon_storage *storage = ((StorageObject *)self)->storage;
  return storage == NULL ? raise_closed("storage") : PyLong_FromUnsignedLongLong(tenon_storage_id(storage));
}

static PyObject *storage_get_read_only(PyObject *self, void *unused) {
  (void)unused;
  tenon_storage *storage = ((StorageObject *)self)->storage;
  return storage == NULL ? raise_closed("storage") : PyBool_FromLong(tenon_storage_is_read_only(storage));
}

static PyMethodDef storage_methods[] = {
    {"close", storage_close, METH_NOARGS, "Give this reference back; views that are out stay valid. Again: nothing."},
    {"_adopt", storage_adopt, METH_O | METH_CLASS, "Take over a reference, given as an address."},
    {"_new", storage_new, METH_VARARGS | METH_CLASS, "Make a storage."},
    {"_new_from", storage_new_from, METH_VARARGS | METH_CLASS, "Make a storage that holds a copy of a buffer."},
    {"_wrap", storage_wrap, METH_O | METH_CLASS, "Make a private storage over an object's buffer."},
    {"_retained", storage_retained, METH_NOARGS, "The address, with one reference more for the caller."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef storage_getset[] = {
    {"closed", storage_get_closed, NULL, "Whether close was called.", NULL},
    {"nbytes", storage_get_nbytes, NULL, "The size in bytes.", NULL},
    {"id", storage_get_id, NULL, "A number never given to another storage of this process.", NULL},
    {"read_only", storage_get_read_only, NULL, "Whether this process must not write to the bytes.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot storage_slots[] = {{Py_tp_dealloc, storage_dealloc},
                                      {Py_tp_new, object_new},
                                      {Py_tp_methods, storage_methods},
                                      {Py_tp_getset, storage_getset},
                                      {Py_bf_getbuffer, storage_getbuffer},
                                      {Py_bf_releasebuffer, storage_releasebuffer},
                                      {0, NULL}};

static PyType_Spec storage_spec = {"tenon._native_ext.StorageBase", sizeof(StorageObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                                   storage_slots};

/* ---- messages ---- */

/* message_tensors(message, class) -> list */
static PyObject *message_tensors(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *number, *type;
  if (!PyArg_ParseTuple(args, "OO:message_tensors", &number, &type) || !is_subclass(type, tensor_type)) return NULL;
  const tenon_message *message = pointer_from(number);
  if (message == NULL && PyErr_Occurred()) return NULL;
  const Py_ssize_t n = (Py_ssize_t)tenon_message_count(message);
  PyObject *list = PyList_New(n);
  if (list == NULL) return NULL;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject *item = wrap_tensor((PyTypeObject *)type, tenon_tensor_retain(tenon_message_tensor(message, (size_t)i)));
    if (item == NULL || PyList_SetItem(list, i, item) != 0) {
      Py_DECREF(list);
      return NULL;
    }
  }
  return list;
}

/* message_names(message) -> list of str or None */
static PyObject *message_names(PyObject *module, PyObject *number) {
  (void)module;
  const tenon_message *message = pointer_from(number);
  if (message == NULL && PyErr_Occurred()) return NULL;
  const Py_ssize_t n = (Py_ssize_t)tenon_message_count(message);
  PyObject *list = PyList_New(n);
  if (list == NULL) return NULL;
  for (Py_ssize_t i = 0; i < n; ++i) {
    const char *name = tenon_message_name(message, (size_t)i);
    PyObject *item = name == NULL ? Py_NewRef(Py_None) : PyUnicode_FromString(name);
    if (item == NULL || PyList_SetItem(list, i, item) != 0) {
      Py_DECREF(list);
      return NULL;
    }
  }
  return list;
}

typedef struct {
  Py_ssize_t n;
  tenon_tensor **tensors;
  const char **names;
} Batch;

static void drop_batch(Batch *batch) {
  for (Py_ssize_t i = 0; i < batch->n; ++i) tenon_tensor_release(batch->tensors[i]);
  PyMem_Free(batch->tensors);
  PyMem_Free(batch->names);
}

/* The tensors are retained, so that another thread that closes one while the GIL is free does no harm. */
static int fill_batch(Batch *batch, PyObject *tensors, PyObject *names) {
  const Py_ssize_t n = PyTuple_Size(tensors);
  if (names != Py_None && PyTuple_Size(names) != n) {
    PyErr_Format(PyExc_ValueError, "%zd names for %zd tensors", PyTuple_Size(names), n);
    return -1;
  }
  batch->tensors = PyMem_Malloc(((size_t)n + 1) * sizeof *batch->tensors);
  batch->names = names == Py_None ? NULL : PyMem_Malloc(((size_t)n + 1) * sizeof *batch->names);
  if (batch->tensors == NULL || (names != Py_None && batch->names == NULL)) {
    PyErr_NoMemory();
    return -1;
  }
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject *item = PyTuple_GetItem(tensors, i);
    if (!PyObject_TypeCheck(item, tensor_type)) {
      PyErr_Format(PyExc_TypeError, "item %zd is not a tenon.Tensor", i);
      return -1;
    }
    if (((TensorObject *)item)->tensor == NULL) {
      PyErr_Format(PyExc_ValueError, "tensor %zd is already closed", i);
      return -1;
    }
    batch->tensors[i] = tenon_tensor_retain(((TensorObject *)item)->tensor);
    batch->n = i + 1;
    if (names == Py_None) continue;
    PyObject *name = PyTuple_GetItem(names, i);
    if (name == Py_None) {
      batch->names[i] = NULL;
      continue;
    }
    Py_ssize_t length = 0;
    batch->names[i] = PyUnicode_AsUTF8AndSize(name, &length);
    if (batch->names[i] == NULL) return -1;
    if (strlen(batch->names[i]) != (size_t)length) {
      PyErr_Format(PyExc_ValueError, "name %zd contains a NUL", i);
      return -1;
    }
  }
  return 0;
}

/* message_add(message, tuple of tensors, tuple of names or None, access) */
static PyObject *message_add(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *number, *tensors, *names;
  tenon_share_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  if (!PyArg_ParseTuple(args, "OO!OI:message_add", &number, &PyTuple_Type, &tensors, &names, &options.access)) return NULL;
  if (names != Py_None && !PyTuple_Check(names)) {
    PyErr_SetString(PyExc_TypeError, "names must be a tuple or None");
    return NULL;
  }
  tenon_message *message = pointer_from(number);
  if (message == NULL && PyErr_Occurred()) return NULL;
  Batch batch = {0, NULL, NULL};
  PyObject *result = NULL;
  if (fill_batch(&batch, tensors, names) == 0) {
    tenon_error *error = NULL;
    tenon_status status;
    Py_BEGIN_ALLOW_THREADS
      status = tenon_message_add(message, batch.tensors, batch.names, (size_t)batch.n, &options, &error);
    Py_END_ALLOW_THREADS
    result = status == TENON_OK ? Py_NewRef(Py_None) : raise_status(status, error);
  }
  drop_batch(&batch);
  return result;
}

/* ---- the module ---- */

static PyObject *set_error_factory(PyObject *module, PyObject *factory) {
  (void)module;
  Py_INCREF(factory);
  Py_XDECREF(error_factory);
  error_factory = factory;
  Py_RETURN_NONE;
}

static PyObject *mark_finalizing(PyObject *module, PyObject *unused) {
  (void)module;
  (void)unused;
  __atomic_store_n(&finalizing, 1, __ATOMIC_RELEASE);
  Py_RETURN_NONE;
}

static PyMethodDef module_methods[] = {
    {"message_tensors", message_tensors, METH_VARARGS, "Every tensor of a message, in one call."},
    {"message_names", message_names, METH_O, "Every name of a message, in one call."},
    {"message_add", message_add, METH_VARARGS, "Add tensors to a message, in one call."},
    {"set_error_factory", set_error_factory, METH_O, "Who turns a status and an error into an exception."},
    {"mark_finalizing", mark_finalizing, METH_NOARGS, "For atexit."},
    {NULL, NULL, 0, NULL}};

static int module_exec(PyObject *module) {
  tensor_type = (PyTypeObject *)PyType_FromSpec(&tensor_spec);
  if (tensor_type == NULL || PyModule_AddType(module, tensor_type) != 0) return -1;
  storage_type = (PyTypeObject *)PyType_FromSpec(&storage_spec);
  if (storage_type == NULL || PyModule_AddType(module, storage_type) != 0) return -1;
  return 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT, "tenon._native_ext", "Buffers, capsules and batches.", 0, module_methods, module_slots, NULL, NULL, NULL};

__attribute__((visibility("default"))) PyObject *PyInit__native_ext(void) { return PyModuleDef_Init(&module_def); }
