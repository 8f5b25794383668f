/* DLPack's C exchange API (since DLPack 1.3): a table of functions by which two libraries in one
   process exchange tensors without capsules and without calling Python methods. A type announces
   its table in the attribute __dlpack_c_exchange_api__. */
#include "ext.h"

#include <dlpack/dlpack.h>

#if DLPACK_MAJOR_VERSION == 1 && DLPACK_MINOR_VERSION >= 3

#define API_NAME "dlpack_exchange_api"

/* Gives the tensor of a Python object, and its layout. Refuses a conjugate or negative bit, which
   DLPack lacks. NULL: raised. */
static tenon_tensor *plain_tensor(void *object, tenon_tensor_spec *spec) {
  if (!PyObject_TypeCheck((PyObject *)object, interpreter()->tensor_type)) {
    PyErr_SetString(PyExc_TypeError, "not a tenon.Tensor");
    return NULL;
  }
  tenon_tensor *tensor = get_spec(object, spec);
  if (tensor == NULL || (spec->flags & (TENON_TENSOR_CONJ | TENON_TENSOR_NEG)) == 0) return tensor;
  PyErr_SetString(PyExc_BufferError,
                  "DLPack has no conjugate and no negative bit, and one of the tensor's is set");
  return NULL;
}

static int managed_from_object(void *object, DLManagedTensorVersioned **out) {
  tenon_tensor_spec spec;
  tenon_tensor *tensor = plain_tensor(object, &spec);
  if (tensor == NULL) return -1;
  tenon_error *error = NULL;
  const tenon_status status = tenon_tensor_to_dlpack(tensor, out, &error);
  if (status == TENON_OK) return 0;
  raise_status(status, error);
  return -1;
}

/* The library consumes `managed` only on success. */
static PyObject *take_managed(PyTypeObject *type, DLManagedTensorVersioned *managed) {
  tenon_tensor *tensor = NULL;
  tenon_error *error = NULL;
  const tenon_status status = tenon_tensor_from_dlpack(managed, &tensor, &error);
  if (status == TENON_OK) return wrap_tensor(type, tensor);
  if (managed->deleter != NULL) managed->deleter(managed);
  return raise_status(status, error);
}

static int managed_to_object(DLManagedTensorVersioned *managed, void **out) {
  *out = take_managed(interpreter()->exported_type, managed);
  return *out == NULL ? -1 : 0;
}

/* The sizes and strides are the tensor's own, and the caller keeps the tensor. A DLTensor cannot
   say that its bytes are read-only, so a read-only tensor is refused. */
static int view_of_object(void *object, DLTensor *out) {
  tenon_tensor_spec spec;
  tenon_tensor *tensor = plain_tensor(object, &spec);
  if (tensor == NULL) return -1;
  const tenon_storage *storage = tenon_tensor_storage(tensor);
  if (tenon_storage_is_read_only(storage)) {
    PyErr_SetString(PyExc_BufferError,
                    "the tensor is read-only, and a DLTensor cannot say so: use "
                    "managed_tensor_from_py_object_no_sync");
    return -1;
  }
  const void *data = tensor_address(tensor);
  if (data == NULL && PyErr_Occurred()) return -1;
  const tenon_device device = tenon_storage_device(storage);
  out->data = (void *)(uintptr_t)data;
  out->device.device_type = (DLDeviceType)device.type;
  out->device.device_id = device.id;
  out->ndim = spec.ndim;
  out->dtype.code = spec.dtype.code;
  out->dtype.bits = spec.dtype.bits;
  out->dtype.lanes = spec.dtype.lanes;
  out->shape = (int64_t *)(uintptr_t)spec.sizes;
  out->strides = (int64_t *)(uintptr_t)spec.strides;
  out->byte_offset = 0;
  return 0;
}

/* Tenon has no stream of its own, so it names the default stream. */
static int current_stream(DLDeviceType device_type UNUSED, int32_t device_id UNUSED, void **out) {
  *out = NULL;
  return 0;
}

/* Makes a new shared tensor of the CPU. The caller need not hold the GIL. */
static int allocate_managed(DLTensor *prototype, DLManagedTensorVersioned **out, void *context,
                            void (*set_error)(void *context, const char *kind,
                                              const char *message)) {
  if (prototype->device.device_type != kDLCPU) {
    set_error(context, "BufferError", "Tenon allocates tensors on the CPU only");
    return -1;
  }
  const tenon_dtype dtype = {prototype->dtype.code, prototype->dtype.bits, prototype->dtype.lanes};
  tenon_storage_options options = {.struct_size = sizeof options};
  tenon_tensor_spec spec = {.struct_size = sizeof spec};
  spec.dtype = dtype;
  spec.ndim = prototype->ndim;
  spec.sizes = prototype->shape;
  uint64_t nbytes = 0;
  tenon_error *error = NULL;
  tenon_storage *storage = NULL;
  tenon_tensor *tensor = NULL;
  tenon_status status = tenon_dtype_nbytes(dtype, spec.sizes, spec.ndim, &nbytes, &error);
  if (status == TENON_OK) status = tenon_storage_new(&options, nbytes, &storage, &error);
  if (status == TENON_OK) status = tenon_tensor_new(storage, &spec, &tensor, &error);
  if (status == TENON_OK) status = tenon_tensor_to_dlpack(tensor, out, &error);
  tenon_tensor_release(tensor);
  tenon_storage_release(storage);
  if (status == TENON_OK) return 0;
  set_error(context, status == TENON_RESOURCE_EXHAUSTED ? "MemoryError" : "BufferError",
            tenon_error_message(error));
  tenon_error_release(error);
  return -1;
}

static const DLPackExchangeAPI exchange = {
    .header = {.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION}, .prev_api = NULL},
    .managed_tensor_allocator = allocate_managed,
    .managed_tensor_from_py_object_no_sync = managed_from_object,
    .managed_tensor_to_py_object_no_sync = managed_to_object,
    .dltensor_from_py_object_no_sync = view_of_object,
    .current_work_stream = current_stream,
};

/* exchange_api(class) -> the capsule of Tenon's table, or None. The table makes objects of the
   class. */
PyObject *exchange_api(PyObject *module UNUSED, PyObject *type) {
  Interpreter *its = interpreter();
  if (!is_subclass(type, its->tensor_type)) return NULL;
  PyObject *former = (PyObject *)its->exported_type;
  its->exported_type = (PyTypeObject *)Py_NewRef(type);
  Py_XDECREF(former);
  return PyCapsule_New((void *)(uintptr_t)&exchange, API_NAME, NULL);
}

/* from_exchange(class, capsule, object) -> a tensor over the object's memory. None: the capsule's
   table has another major version. The object must be of the type that has the capsule. */
PyObject *tensor_from_exchange(PyObject *type, PyObject *args) {
  PyObject *capsule, *object;
  if (!PyArg_ParseTuple(args, "OO:from_exchange", &capsule, &object)) return NULL;
  const DLPackExchangeAPI *api = PyCapsule_GetPointer(capsule, API_NAME);
  if (api == NULL) return NULL;
  if (api->header.version.major != DLPACK_MAJOR_VERSION) Py_RETURN_NONE;
  DLManagedTensorVersioned *managed = NULL;
  if (api->managed_tensor_from_py_object_no_sync(object, &managed) != 0) return NULL;
  return take_managed((PyTypeObject *)type, managed);
}

#else /* the header of an older DLPack has no such table */

PyObject *exchange_api(PyObject *module UNUSED, PyObject *type UNUSED) { Py_RETURN_NONE; }

PyObject *tensor_from_exchange(PyObject *type UNUSED, PyObject *args UNUSED) { Py_RETURN_NONE; }

#endif
