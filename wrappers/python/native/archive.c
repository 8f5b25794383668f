/* Imports modules whose tensors are views of a Python object's bytes. tenon/archive.py calls it. */
#include "ext.h"

/* import_memory(object, address of a tenon_import_options) -> address of a tenon_module. The caller
   owns one reference. */
PyObject *import_memory(PyObject *module UNUSED, PyObject *args) {
  PyObject *object, *number;
  if (!PyArg_ParseTuple(args, "OO:import_memory", &object, &number)) return NULL;
  const tenon_import_options *options = pointer_from(number);
  if (options == NULL && PyErr_Occurred()) return NULL;
  Py_buffer *held = hold_buffer(object);
  if (held == NULL) return NULL;
  tenon_module *imported = NULL;
  tenon_error *error = NULL;
  tenon_status status;
  Py_BEGIN_ALLOW_THREADS
    status = tenon_import_module_memory(held->buf, (size_t)held->len, release_held_buffer, held,
                                        options, &imported, &error);
  Py_END_ALLOW_THREADS
  if (status != TENON_OK) {
    release_held_buffer(held);
    return raise_status(status, error);
  }
  PyObject *address = PyLong_FromVoidPtr(imported);
  if (address == NULL) tenon_module_release(imported);
  return address;
}
