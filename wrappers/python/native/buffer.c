/* Buffers: those that tensors and storages export, and those that are held for the library. */
#include "ext.h"

static const char *buffer_format(tenon_dtype dtype) {
  /* The formats of elements of 8, 16, 32, 64 and 128 bits. */
  static const char *const formats[][5] = {
      [TENON_DTYPE_INT] = {"b", "h", "i", "q"},
      [TENON_DTYPE_UINT] = {"B", "H", "I", "Q"},
      [TENON_DTYPE_FLOAT] = {NULL, "e", "f", "d"},
      [TENON_DTYPE_COMPLEX] = {NULL, NULL, NULL, "Zf", "Zd"},
      [TENON_DTYPE_BOOL] = {"?"},
  };
  if (dtype.lanes != 1 || dtype.code >= sizeof formats / sizeof *formats) return NULL;
  for (int i = 0; i < 5; ++i)
    if (dtype.bits == 8 << i) return formats[dtype.code][i];
  return NULL;
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

static char nothing; /* the target of an empty buffer's pointer: NULL confuses consumers */

static int wants(int flags, int all) { return (flags & all) == all; }

static int buffer_error(const char *text) {
  PyErr_SetString(PyExc_BufferError, text);
  return -1;
}

/* A consumer of a buffer follows its pointer, so the memory must be on the host. */
int check_on_cpu(const tenon_storage *storage) {
  tenon_error *error = NULL;
  const tenon_status status = tenon_device_check_host(tenon_storage_device(storage), &error);
  return raised(status, error);
}

/* A caller that asks for the bytes of a dropped storage must not take it for an empty one. */
static int check_lender(const tenon_storage *storage) {
  tenon_error *error = NULL;
  const tenon_status status = tenon_storage_check_lender(storage, &error);
  return raised(status, error);
}

const void *tensor_address(const tenon_tensor *tensor) {
  const void *data = tenon_tensor_data(tensor);
  if (data == NULL) (void)check_lender(tenon_tensor_storage(tensor));
  return data;
}

int tensor_getbuffer(PyObject *self, Py_buffer *view, int flags) {
  view->obj = NULL;
  tenon_tensor_spec spec;
  tenon_tensor *tensor = get_spec(self, &spec);
  if (tensor == NULL || check_on_cpu(tenon_tensor_storage(tensor)) != 0) return -1;
  const int read_only = tenon_storage_is_read_only(tenon_tensor_storage(tensor));
  const int contiguous = tenon_tensor_is_contiguous(tensor);
  const char *format = buffer_format(spec.dtype);
  if (wants(flags, PyBUF_WRITABLE) && read_only) return buffer_error("the tensor is read-only");
  if (spec.flags & (TENON_TENSOR_CONJ | TENON_TENSOR_NEG))
    return buffer_error(
        "the tensor's conjugate or negative bit is set: its bytes are not its values");
  if (((unsigned)spec.dtype.bits * spec.dtype.lanes) % 8 != 0)
    return buffer_error("elements smaller than a byte have no buffer: use the storage's data");
  if (wants(flags, PyBUF_FORMAT) && format == NULL)
    return buffer_error(
        "this dtype has no buffer format: view it as an unsigned integer of the same size, such as "
        "view(dtype=\"uint16\")");
  if (!contiguous) {
    if (!wants(flags, PyBUF_STRIDES)) return buffer_error("the tensor is not contiguous");
    if (wants(flags, PyBUF_C_CONTIGUOUS)) return buffer_error("the tensor is not C-contiguous");
    if ((wants(flags, PyBUF_F_CONTIGUOUS) || wants(flags, PyBUF_ANY_CONTIGUOUS)) &&
        !is_fortran(&spec))
      return buffer_error("the tensor is not contiguous");
  } else if (wants(flags, PyBUF_F_CONTIGUOUS) && !is_fortran(&spec)) {
    return buffer_error("the tensor is not Fortran-contiguous");
  }

  void *data = (void *)(uintptr_t)tensor_address(tensor);
  if (data == NULL && PyErr_Occurred()) return -1;
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

void tensor_releasebuffer(PyObject *self UNUSED, Py_buffer *view) {
  TensorExport *keep = view->internal;
  give_back_tensor(keep->tensor);
  PyMem_Free(keep);
  view->internal = NULL;
}

int storage_getbuffer(PyObject *self, Py_buffer *view, int flags) {
  view->obj = NULL;
  tenon_storage *storage = open_storage(self);
  if (storage == NULL || check_on_cpu(storage) != 0) return -1;
  const int read_only = tenon_storage_is_read_only(storage);
  void *data = (void *)(uintptr_t)tenon_storage_data(storage);
  if (data == NULL && check_lender(storage) != 0) return -1;
  const int rc = PyBuffer_FillInfo(view, self, data == NULL ? &nothing : data,
                                   (Py_ssize_t)tenon_storage_nbytes(storage), read_only, flags);
  if (rc == 0) view->internal = tenon_storage_retain(storage);
  return rc;
}

void storage_releasebuffer(PyObject *self UNUSED, Py_buffer *view) {
  give_back_storage(view->internal);
  view->internal = NULL;
}

Py_buffer *hold_buffer(PyObject *object) {
  Py_buffer *held = malloc(sizeof *held);
  if (held == NULL) {
    PyErr_NoMemory();
    return NULL;
  }
  if (PyObject_GetBuffer(object, held, PyBUF_WRITABLE) == 0) return held;
  PyErr_Clear();
  if (PyObject_GetBuffer(object, held, PyBUF_SIMPLE) == 0) return held;
  free(held);
  return NULL;
}

/* The last release may come from any thread at any time. Once the interpreter is shutting down, the
   buffer is not released: it ends with the process. */
void release_held_buffer(void *context) {
  if (is_finalizing()) return;
  PyGILState_STATE state = PyGILState_Ensure();
  PyBuffer_Release(context);
  free(context);
  PyGILState_Release(state);
}
