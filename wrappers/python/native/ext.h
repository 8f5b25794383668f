#pragma once

/* The part of the Python wrapper that cffi cannot do: types that export a buffer (Python 3.11 has
   no __buffer__ for classes), DLPack capsules, and one call for all tensors of a message. It uses
   the limited API of 3.11, so one build serves every later Python.

   Every object here owns one reference to a tenon object and nothing else. An exported buffer owns
   a reference of its own, so that closing an object never removes memory under a view.

   The deleters that libtenon keeps do not touch Python, with two exceptions: release_held_buffer,
   and the deleters that other frameworks hand in by DLPack. So references are given back only by
   the give_back functions of release.c, with one exception: allocate_managed in exchange.c may run
   without the GIL and releases its own directly. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#define UNUSED __attribute__((unused))

typedef struct {
  PyObject_HEAD tenon_tensor *tensor;
} TensorObject;

typedef struct {
  PyObject_HEAD tenon_storage *storage;
} StorageObject;

/* module.c */

/* The module's state. Each Python interpreter of the process has its own. */
typedef struct Interpreter {
  int64_t id;
  PyTypeObject *tensor_type;   /* the base of tenon.Tensor */
  PyTypeObject *storage_type;  /* the base of tenon.Storage */
  PyTypeObject *exported_type; /* tenon.Tensor: managed_tensor_to_py_object makes such objects */
  PyObject *error_factory; /* tenon.error.from_status: (status, address of the tenon_error or 0) ->
                              exception */
  struct Interpreter *next;
} Interpreter;

/* The state of the calling thread's interpreter. The caller holds the GIL. All fields are NULL once
   the interpreter has unloaded the module. */
Interpreter *interpreter(void);

PyObject *raise_status(tenon_status status,
                       tenon_error *error);          /* takes over the error; always NULL */
int raised(tenon_status status, tenon_error *error); /* 0: the status is TENON_OK; -1: raised */
PyObject *raise_closed(const char *what);
int is_finalizing(void);
void *pointer_from(PyObject *number);
PyObject *allocate(PyTypeObject *type);
/* Sets an item of a list, and takes over the reference. -1: raised, and the list is released. */
int set_or_drop(PyObject *list, Py_ssize_t i, PyObject *item);
int is_subclass(PyObject *type, PyTypeObject *base);
PyObject *object_new(PyTypeObject *type, PyObject *args, PyObject *kwargs);
void finish_dealloc(PyObject *self);

/* release.c. A NULL argument is ignored. A pending exception is kept, whatever code runs. */
void give_back_tensor(tenon_tensor *tensor);
void give_back_storage(tenon_storage *storage);
void give_back_managed(void *managed, void (*deleter)(void *managed));
void give_back_message(tenon_message *message);
void give_back_object(tenon_object *object);

/* tensor.c and storage.c. wrap_* takes over the reference, also on failure. */
PyObject *wrap_tensor(PyTypeObject *type, tenon_tensor *tensor);
PyObject *wrap_storage(PyTypeObject *type, tenon_storage *storage);

/* The tensor of a TensorObject, which the caller borrows. NULL: raised, because it is closed. */
static inline tenon_tensor *open_tensor(PyObject *self) {
  tenon_tensor *tensor = ((TensorObject *)self)->tensor;
  if (tensor == NULL) raise_closed("tensor");
  return tensor;
}

static inline tenon_storage *open_storage(PyObject *self) {
  tenon_storage *storage = ((StorageObject *)self)->storage;
  if (storage == NULL) raise_closed("storage");
  return storage;
}

int read_spec(const tenon_tensor *tensor, tenon_tensor_spec *spec); /* -1: raised */
tenon_tensor *get_spec(PyObject *self,
                       tenon_tensor_spec *spec);   /* of a TensorObject; NULL: raised */
PyObject *device_of(const tenon_storage *storage); /* (type, number), in DLPack's numbering */
PyObject *tuple_of_numbers(const int64_t *numbers, int32_t n);
/* Makes a tensor over a storage. The caller keeps its reference to the storage. The shape is a
   tuple, and the strides are a tuple or None. */
PyObject *make_tensor(PyTypeObject *type, tenon_storage *storage, unsigned int dtype,
                      PyObject *shape, PyObject *strides, unsigned long long offset,
                      unsigned int flags);
extern PyType_Spec tensor_spec;
PyObject *packed_nbytes(PyObject *module, PyObject *args);

typedef struct Shape {
  int32_t ndim;
  int64_t numbers[TENON_TENSOR_MAX_NDIM];
} Shape;

/* An element type as Python knows it: code | bits << 8 | lanes << 16. */
#define DTYPE_BYTES (TENON_DTYPE_UINT | 8u << 8 | 1u << 16)
unsigned int number_of_dtype(tenon_dtype dtype);
tenon_dtype dtype_from(unsigned int number);

int read_shape(PyObject *tuple, Shape *out); /* -1: raised */

/* The spec borrows sizes and steps (the strides). If steps is NULL the tensor is packed. */
tenon_tensor_spec spec_of(unsigned int dtype, const Shape *sizes, const Shape *steps,
                          unsigned int flags);

/* How many bytes lie from the start of the first element to the end of the last one. 0 means that
   this function cannot tell: there are no elements, a stride is negative, or an element is no whole
   number of bytes. */
uint64_t extent_nbytes(const tenon_tensor_spec *spec);

/* Makes a tensor over the storage that has all of these elements, the first one at this address.
   Sets the offset in the spec. NULL if no storage has them. */
tenon_tensor *tensor_at_address(uint64_t address, tenon_tensor_spec *spec);

extern PyType_Spec storage_spec;

/* view.c */
PyObject *tensor_reshape(PyObject *self, PyObject *shape);
PyObject *tensor_view_dtype(PyObject *self, PyObject *number);
PyObject *tensor_subscript(PyObject *self, PyObject *index);
PyObject *tensor_item(PyObject *self, Py_ssize_t index);

/* buffer.c */
const void *tensor_address(
    const tenon_tensor *tensor); /* NULL and raised: its lender is gone; NULL alone: it is empty */
int check_on_cpu(const tenon_storage *storage); /* 0: the host can read the bytes; -1: raised */
int tensor_getbuffer(PyObject *self, Py_buffer *view, int flags);
void tensor_releasebuffer(PyObject *self, Py_buffer *view);
int storage_getbuffer(PyObject *self, Py_buffer *view, int flags);
void storage_releasebuffer(PyObject *self, Py_buffer *view);
Py_buffer *hold_buffer(PyObject *object); /* writable if possible; NULL: raised */
void release_held_buffer(void *context);  /* a deleter that the library keeps */

/* dlpack.c */
PyObject *tensor_to_dlpack(PyObject *self, PyObject *args);
PyObject *tensor_from_dlpack(PyObject *type, PyObject *capsule);
PyObject *legacy_capsule(tenon_tensor *tensor); /* in the form before DLPack 1.0. NULL: raised */

/* exchange.c */
PyObject *exchange_api(PyObject *module, PyObject *type);
PyObject *tensor_from_exchange(PyObject *type, PyObject *args);

/* message.c */

/* The tensors of a message. They are retained, so that another thread may close one while the GIL
   is free. A batch starts as zeros, and must be dropped whether or not fill_batch succeeded. */
typedef struct {
  Py_ssize_t n;
  tenon_tensor **tensors;
  const char **names; /* NULL: none has a name */
} Batch;

int fill_batch(Batch *batch, PyObject *tensors,
               PyObject *names); /* tuples, names may be None; -1: raised */
void drop_batch(Batch *batch);
PyObject *message_tensors(PyObject *module, PyObject *args);
PyObject *message_names(PyObject *module, PyObject *number);
PyObject *message_add(PyObject *module, PyObject *args);
PyObject *message_of(PyObject *module, PyObject *args);
PyObject *message_value(PyObject *module, PyObject *args);

/* deposit.c */
PyObject *deposit_tensors(PyObject *module, PyObject *tensors);
PyObject *fetch_tensors(PyObject *module, PyObject *args);

/* object.c */
tenon_message *message_of_value(PyObject *value, PyObject *describe); /* NULL: raised */
PyObject *value_of_message(const tenon_message *message, PyTypeObject *type, PyObject *restore,
                           PyObject *corrupt);

/* queue.c */
PyObject *fork_count(PyObject *module, PyObject *unused);
PyObject *queue_put(PyObject *module, PyObject *const *args, Py_ssize_t n);
PyObject *queue_get(PyObject *module, PyObject *const *args, Py_ssize_t n);
PyObject *queue_put_many(PyObject *module, PyObject *args);
PyObject *queue_get_many(PyObject *module, PyObject *args);

/* carrier.c */
PyObject *send_with_marker(PyObject *module, PyObject *args);
PyObject *watch_queue(PyObject *module, PyObject *args);

/* archive.c */
PyObject *import_memory(PyObject *module, PyObject *args);
PyObject *listed_names(PyObject *module, PyObject *number);

/* torch.c */
PyObject *torch_setup(PyObject *module, PyObject *objects);
PyObject *torch_reducer(PyObject *module, PyObject *in_python);
PyObject *torch_find(PyObject *module, PyObject *tensor);
PyObject *torch_pick(PyObject *module, PyObject *index);
