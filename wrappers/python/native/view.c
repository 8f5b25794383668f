/* The views of a tensor: t[...], and the methods under Tensor.view. The library computes their
   layouts. */
#include "ext.h"

PyObject *tensor_reshape(PyObject *self, PyObject *shape) {
  Shape sizes;
  if (!PyTuple_Check(shape)) return PyErr_Format(PyExc_TypeError, "the shape is not a tuple");
  if (read_shape(shape, &sizes) != 0) return NULL;
  tenon_tensor *tensor = open_tensor(self), *view = NULL;
  tenon_error *error = NULL;
  if (tensor == NULL) return NULL;
  const tenon_status status =
      tenon_tensor_reshape(tensor, sizes.numbers, sizes.ndim, &view, &error);
  return status == TENON_OK ? wrap_tensor(Py_TYPE(self), view) : raise_status(status, error);
}

PyObject *tensor_view_dtype(PyObject *self, PyObject *number) {
  const unsigned long dtype = PyLong_AsUnsignedLong(number);
  if (dtype == (unsigned long)-1 && PyErr_Occurred()) return NULL;
  tenon_tensor *tensor = open_tensor(self), *view = NULL;
  tenon_error *error = NULL;
  if (tensor == NULL) return NULL;
  const tenon_status status =
      tenon_tensor_view_dtype(tensor, dtype_from((unsigned int)dtype), &view, &error);
  return status == TENON_OK ? wrap_tensor(Py_TYPE(self), view) : raise_status(status, error);
}

/* Picks part of a tensor. An error about an item is an IndexError, as for a list. */
static PyObject *pick(PyObject *self, const tenon_index *items, size_t n) {
  tenon_tensor *tensor = open_tensor(self), *view = NULL;
  tenon_error *error = NULL;
  if (tensor == NULL) return NULL;
  const tenon_status status = tenon_tensor_index(tensor, items, n, &view, &error);
  if (status == TENON_OK) return wrap_tensor(Py_TYPE(self), view);
  if (tenon_error_detail(error, "item") == NULL) return raise_status(status, error);
  PyErr_SetString(PyExc_IndexError, tenon_error_message(error));
  tenon_error_release(error);
  return NULL;
}

static int read_item(PyObject *object, tenon_index *out) {
  memset(out, 0, sizeof *out);
  out->struct_size = sizeof *out;
  if (PySlice_Check(object)) {
    Py_ssize_t start, stop, step;
    /* A bound that is not given becomes the lowest or the highest number. */
    if (PySlice_Unpack(object, &start, &stop, &step) != 0) return -1;
    out->kind = TENON_INDEX_SLICE;
    out->start = start;
    out->stop = stop;
    out->step = step;
  } else if (object == Py_None) {
    out->kind = TENON_INDEX_NEW_AXIS;
  } else if (object == Py_Ellipsis) {
    out->kind = TENON_INDEX_ELLIPSIS;
  } else if (PyIndex_Check(object)) {
    const Py_ssize_t number = PyNumber_AsSsize_t(object, PyExc_IndexError);
    if (number == -1 && PyErr_Occurred()) return -1;
    out->kind = TENON_INDEX_NUMBER;
    out->start = number;
  } else {
    PyObject *name = PyType_GetName(Py_TYPE(object));
    if (name != NULL)
      PyErr_Format(PyExc_TypeError, "an index is made of numbers, slices, ... and None, not of %U",
                   name);
    Py_XDECREF(name);
    return -1;
  }
  return 0;
}

PyObject *tensor_subscript(PyObject *self, PyObject *index) {
  tenon_index few[8], *items = few;
  if (!PyTuple_Check(index)) return read_item(index, few) == 0 ? pick(self, few, 1) : NULL;
  const Py_ssize_t n = PyTuple_Size(index);
  if (n > (Py_ssize_t)(sizeof few / sizeof *few)) {
    items = PyMem_Malloc((size_t)n * sizeof *items);
    if (items == NULL) return PyErr_NoMemory();
  }
  PyObject *view = NULL;
  Py_ssize_t i = 0;
  while (i < n && read_item(PyTuple_GetItem(index, i), &items[i]) == 0) ++i;
  if (i == n) view = pick(self, items, (size_t)n);
  if (items != few) PyMem_Free(items);
  return view;
}

PyObject *tensor_item(PyObject *self, Py_ssize_t index) {
  tenon_index item = {.struct_size = sizeof item};
  item.start = index;
  return pick(self, &item, 1);
}
