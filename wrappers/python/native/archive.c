/* Imports modules whose tensors are views of a Python object's bytes, and lists the names in files.
   tenon/archive.py and tenon/module.py call it. */
#include <string.h>

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

/* listed_names(address of a tenon_name_list) -> list of str. A file may have 10,000 names. Calls
   through cffi for all of them take several milliseconds. */
PyObject *listed_names(PyObject *module UNUSED, PyObject *number) {
  const tenon_name_list *names = pointer_from(number);
  if (names == NULL && PyErr_Occurred()) return NULL;
  const Py_ssize_t n = (Py_ssize_t)tenon_name_list_count(names);
  PyObject *list = PyList_New(n);
  for (Py_ssize_t i = 0; list != NULL && i < n; ++i) {
    const char *name = tenon_name_list_get(names, (size_t)i);
    PyObject *item = PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), "surrogateescape");
    if (set_or_drop(list, i, item) != 0) return NULL;
  }
  return list;
}
