/* Adds, lists and names all tensors of a message in one call. tenon/message.py calls it. */
#include "ext.h"

/* The message at an address. -1: raised. */
static int message_from(PyObject *number, const tenon_message **out) {
  *out = pointer_from(number);
  return *out == NULL && PyErr_Occurred() ? -1 : 0;
}

int set_or_drop(PyObject *list, Py_ssize_t i, PyObject *item) {
  if (item != NULL && PyList_SetItem(list, i, item) == 0) return 0;
  Py_DECREF(list);
  return -1;
}

/* message_tensors(message, class) -> list */
PyObject *message_tensors(PyObject *module UNUSED, PyObject *args) {
  PyObject *number, *type;
  const tenon_message *message;
  if (!PyArg_ParseTuple(args, "OO:message_tensors", &number, &type) ||
      !is_subclass(type, interpreter()->tensor_type) || message_from(number, &message) != 0)
    return NULL;
  const Py_ssize_t n = (Py_ssize_t)tenon_message_count(message);
  PyObject *list = PyList_New(n);
  for (Py_ssize_t i = 0; list != NULL && i < n; ++i) {
    tenon_tensor *tensor = tenon_tensor_retain(tenon_message_tensor(message, (size_t)i));
    if (set_or_drop(list, i, wrap_tensor((PyTypeObject *)type, tensor)) != 0) return NULL;
  }
  return list;
}

/* message_names(message) -> list of str or None */
PyObject *message_names(PyObject *module UNUSED, PyObject *number) {
  const tenon_message *message;
  if (message_from(number, &message) != 0) return NULL;
  const Py_ssize_t n = (Py_ssize_t)tenon_message_count(message);
  PyObject *list = PyList_New(n);
  for (Py_ssize_t i = 0; list != NULL && i < n; ++i) {
    const char *name = tenon_message_name(message, (size_t)i);
    PyObject *item = name == NULL ? Py_NewRef(Py_None) : PyUnicode_FromString(name);
    if (set_or_drop(list, i, item) != 0) return NULL;
  }
  return list;
}

void drop_batch(Batch *batch) {
  for (Py_ssize_t i = 0; i < batch->n; ++i) give_back_tensor(batch->tensors[i]);
  PyMem_Free(batch->tensors);
  PyMem_Free(batch->names);
}

int fill_batch(Batch *batch, PyObject *tensors, PyObject *names) {
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
  PyTypeObject *tensor_type = interpreter()->tensor_type;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject *item = PyTuple_GetItem(tensors, i);
    if (!PyObject_TypeCheck(item, tensor_type)) {
      PyObject *type = PyType_GetName(Py_TYPE(item));
      if (type != NULL) {
        PyErr_Format(PyExc_TypeError,
                     "item %zd is of type %U and not a tenon.Tensor: make one of it "
                     "(tenon.from_numpy, tenon.torch.from_torch, "
                     "tenon.from_dlpack), and put other data into user_bytes",
                     i, type);
        Py_DECREF(type);
      }
      return -1;
    }
    if (((TensorObject *)item)->tensor == NULL) {
      PyErr_Format(
          PyExc_ValueError,
          "tensor %zd is already closed: send it before close() or the end of its with block", i);
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
PyObject *message_add(PyObject *module UNUSED, PyObject *args) {
  PyObject *number, *tensors, *names;
  tenon_share_options options = {.struct_size = sizeof options};
  if (!PyArg_ParseTuple(args, "OO!OI:message_add", &number, &PyTuple_Type, &tensors, &names,
                        &options.access))
    return NULL;
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
      status =
          tenon_message_add(message, batch.tensors, batch.names, (size_t)batch.n, &options, &error);
    Py_END_ALLOW_THREADS
    result = status == TENON_OK ? Py_NewRef(Py_None) : raise_status(status, error);
  }
  drop_batch(&batch);
  return result;
}

/* message_of(value, describe) -> the address of a message that carries a value, as queue_put puts
   it. The caller owns the message. */
PyObject *message_of(PyObject *module UNUSED, PyObject *args) {
  PyObject *value, *describe;
  if (!PyArg_ParseTuple(args, "OO:message_of", &value, &describe)) return NULL;
  tenon_message *message = message_of_value(value, describe);
  if (message == NULL) return NULL;
  PyObject *address = PyLong_FromVoidPtr(message);
  if (address == NULL) give_back_message(message);
  return address;
}

/* message_value(message, class of tensors, restore, corrupt) -> the value that a message carries */
PyObject *message_value(PyObject *module UNUSED, PyObject *args) {
  PyObject *number, *type, *restore, *corrupt;
  if (!PyArg_ParseTuple(args, "OOOO:message_value", &number, &type, &restore, &corrupt) ||
      !is_subclass(type, interpreter()->tensor_type))
    return NULL;
  const tenon_message *message = pointer_from(number);
  if (message == NULL && PyErr_Occurred()) return NULL;
  return value_of_message(message, (PyTypeObject *)type, restore, corrupt);
}
