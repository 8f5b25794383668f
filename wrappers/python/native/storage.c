/* StorageBase, the base class of tenon.Storage. */
#include "ext.h"

PyObject *wrap_storage(PyTypeObject *type, tenon_storage *storage) {
  PyObject *self = allocate(type);
  if (self == NULL) {
    give_back_storage(storage);
    return NULL;
  }
  ((StorageObject *)self)->storage = storage;
  return self;
}

PyObject *device_of(const tenon_storage *storage) {
  const tenon_device device = tenon_storage_device(storage);
  return Py_BuildValue("(ii)", (int)device.type, (int)device.id);
}

static void storage_dealloc(PyObject *self) {
  give_back_storage(((StorageObject *)self)->storage);
  finish_dealloc(self);
}

static PyObject *storage_close(PyObject *self, PyObject *unused UNUSED) {
  tenon_storage *storage = ((StorageObject *)self)->storage;
  ((StorageObject *)self)->storage = NULL;
  give_back_storage(storage);
  Py_RETURN_NONE;
}

static PyObject *storage_adopt(PyObject *type, PyObject *number) {
  tenon_storage *storage = pointer_from(number);
  if (storage == NULL) return PyErr_Occurred() ? NULL : raise_closed("storage");
  return wrap_storage((PyTypeObject *)type, storage);
}

static PyObject *storage_at_pointer(PyObject *type, PyObject *number) {
  tenon_storage *storage = pointer_from(number);
  if (storage == NULL) return PyErr_Occurred() ? NULL : raise_closed("storage");
  return wrap_storage((PyTypeObject *)type, tenon_storage_retain(storage));
}

/* at(address, nbytes) -> (the storage that has these bytes, the offset of the address in it) */
static PyObject *storage_at(PyObject *type, PyObject *args) {
  unsigned long long address, nbytes;
  if (!PyArg_ParseTuple(args, "KK:at", &address, &nbytes)) return NULL;
  tenon_storage *storage = NULL;
  uint64_t offset = 0;
  tenon_error *error = NULL;
  const tenon_status status =
      tenon_storage_at((const void *)(uintptr_t)address, nbytes, &storage, &offset, &error);
  if (status != TENON_OK) return raise_status(status, error);
  PyObject *found = wrap_storage((PyTypeObject *)type, storage);
  return found == NULL ? NULL : Py_BuildValue("(NK)", found, (unsigned long long)offset);
}

/* open_unsealed(fd, nbytes): the same as tenon.open_fd with allow_unsealed=True, for from_torch. It
   sets up the options here, which is faster than cffi at each call. */
static PyObject *storage_open_unsealed(PyObject *type, PyObject *args) {
  tenon_fd_handle handle = {.struct_size = sizeof handle};
  unsigned long long nbytes;
  if (!PyArg_ParseTuple(args, "iK:open_unsealed", &handle.fd, &nbytes)) return NULL;
  handle.nbytes = nbytes;
  tenon_open_options options = {.struct_size = sizeof options};
  options.flags = TENON_OPEN_ALLOW_UNSEALED;
  tenon_storage *storage = NULL;
  tenon_error *error = NULL;
  tenon_status status;
  Py_BEGIN_ALLOW_THREADS
    status = tenon_open_fd(&handle, &options, &storage, &error);
  Py_END_ALLOW_THREADS
  return status == TENON_OK ? wrap_storage((PyTypeObject *)type, storage)
                            : raise_status(status, error);
}

static PyObject *storage_retained(PyObject *self, PyObject *unused UNUSED) {
  tenon_storage *storage = open_storage(self);
  return storage == NULL ? NULL : PyLong_FromVoidPtr(tenon_storage_retain(storage));
}

/* _new(nbytes, or None if a buffer is copied, the buffer, mode, flags, alignment, address of a
   tenon_arena or 0) */
static PyObject *storage_new(PyObject *type, PyObject *args) {
  PyObject *size, *source;
  unsigned long long alignment, arena, nbytes = 0;
  tenon_storage_options options = {.struct_size = sizeof options};
  if (!PyArg_ParseTuple(args, "OOIIKK:new", &size, &source, &options.mode, &options.flags,
                        &alignment, &arena))
    return NULL;
  options.alignment = alignment;
  options.arena = (tenon_arena *)(uintptr_t)arena;
  const int copies = size == Py_None;
  Py_buffer view;
  if (copies && PyObject_GetBuffer(source, &view, PyBUF_SIMPLE) != 0) return NULL;
  if (!copies) {
    nbytes = PyLong_AsUnsignedLongLong(size);
    if (nbytes == (unsigned long long)-1 && PyErr_Occurred()) return NULL;
  }
  tenon_storage *storage = NULL;
  tenon_error *error = NULL;
  tenon_status status;
  Py_BEGIN_ALLOW_THREADS
    status = copies
                 ? tenon_storage_new_from(&options, view.buf, (uint64_t)view.len, &storage, &error)
                 : tenon_storage_new(&options, nbytes, &storage, &error);
  Py_END_ALLOW_THREADS
  if (copies) PyBuffer_Release(&view);
  return status == TENON_OK ? wrap_storage((PyTypeObject *)type, storage)
                            : raise_status(status, error);
}

static PyObject *storage_wrap(PyObject *type, PyObject *object) {
  Py_buffer *held = hold_buffer(object);
  if (held == NULL) return NULL;
  tenon_storage_options options = {.struct_size = sizeof options};
  options.flags = held->readonly ? (uint32_t)TENON_STORAGE_READ_ONLY : 0;
  tenon_storage *storage = NULL;
  tenon_error *error = NULL;
  const tenon_status status = tenon_storage_wrap(
      held->buf, (uint64_t)held->len, release_held_buffer, held, &options, &storage, &error);
  if (status != TENON_OK) {
    release_held_buffer(held);
    return raise_status(status, error);
  }
  return wrap_storage((PyTypeObject *)type, storage);
}

static PyObject *storage_get_closed(PyObject *self, void *unused UNUSED) {
  return PyBool_FromLong(((StorageObject *)self)->storage == NULL);
}

/* Defines the getter storage_get_<name>. Its value is an expression of `storage`, which is open. */
#define STORAGE_GETTER(name, value)                                          \
  static PyObject *storage_get_##name(PyObject *self, void *unused UNUSED) { \
    const tenon_storage *storage = open_storage(self);                       \
    return storage == NULL ? NULL : (value);                                 \
  }

STORAGE_GETTER(nbytes, PyLong_FromUnsignedLongLong(tenon_storage_nbytes(storage)))
STORAGE_GETTER(id, PyLong_FromUnsignedLongLong(tenon_storage_id(storage)))
STORAGE_GETTER(read_only, PyBool_FromLong(tenon_storage_is_read_only(storage)))
STORAGE_GETTER(device_numbers, device_of(storage))

static PyMethodDef storage_methods[] = {
    {"close", storage_close, METH_NOARGS,
     "Release this reference. Existing views stay valid. A second call does nothing."},
    {"_adopt", storage_adopt, METH_O | METH_CLASS, "Take over the reference at an address."},
    {"_at_pointer", storage_at_pointer, METH_O | METH_CLASS,
     "Make another reference to the storage at an address."},
    {"_new", storage_new, METH_VARARGS | METH_CLASS,
     "Make a storage of some bytes, or one that holds a copy of a buffer."},
    {"_open_unsealed", storage_open_unsealed, METH_VARARGS | METH_CLASS,
     "Open memory that other processes can cut short."},
    {"_at", storage_at, METH_VARARGS | METH_CLASS,
     "Find the storage that has the bytes at an address."},
    {"_wrap", storage_wrap, METH_O | METH_CLASS, "Make a private storage over an object's buffer."},
    {"_retained", storage_retained, METH_NOARGS,
     "Return the address, with one more reference for the caller."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef storage_getset[] = {
    {"closed", storage_get_closed, NULL, "Whether close was called.", NULL},
    {"nbytes", storage_get_nbytes, NULL, "The size in bytes.", NULL},
    {"id", storage_get_id, NULL, "A number that no other storage of this process ever has.", NULL},
    {"read_only", storage_get_read_only, NULL, "Whether this process must not write to the bytes.",
     NULL},
    {"_device_numbers", storage_get_device_numbers, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot storage_slots[] = {{Py_tp_dealloc, storage_dealloc},
                                      {Py_tp_new, object_new},
                                      {Py_tp_methods, storage_methods},
                                      {Py_tp_getset, storage_getset},
                                      {Py_bf_getbuffer, storage_getbuffer},
                                      {Py_bf_releasebuffer, storage_releasebuffer},
                                      {0, NULL}};

PyType_Spec storage_spec = {"tenon._native_ext.StorageBase", sizeof(StorageObject), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, storage_slots};
