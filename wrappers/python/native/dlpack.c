/* DLPack capsules of tenon.Tensor. */
#include "ext.h"

#include <dlpack/dlpack.h>

#define VERSIONED "dltensor_versioned"
#define LEGACY "dltensor"

static void delete_versioned(void *managed) {
  DLManagedTensorVersioned *it = managed;
  if (it->deleter != NULL) it->deleter(it);
}

static void delete_legacy(void *managed) {
  DLManagedTensor *it = managed;
  if (it->deleter != NULL) it->deleter(it);
}

/* A capsule that no consumer took. Its deleter is libtenon's own, and may run without the GIL. */
static void drop_versioned(PyObject *capsule) {
  if (PyCapsule_IsValid(capsule, VERSIONED))
    give_back_managed(PyCapsule_GetPointer(capsule, VERSIONED), delete_versioned);
}

static void drop_legacy(PyObject *capsule) {
  if (PyCapsule_IsValid(capsule, LEGACY))
    give_back_managed(PyCapsule_GetPointer(capsule, LEGACY), delete_legacy);
}

PyObject *legacy_capsule(tenon_tensor *tensor) {
  tenon_error *error = NULL;
  DLManagedTensor *managed = NULL;
  const tenon_status status = tenon_tensor_to_dlpack_legacy(tensor, &managed, &error);
  if (status != TENON_OK) return raise_status(status, error);
  PyObject *capsule = PyCapsule_New(managed, LEGACY, drop_legacy);
  if (capsule == NULL) give_back_managed(managed, delete_legacy);
  return capsule;
}

/* to_dlpack(versioned, is_copied, lets_write). With lets_write a versioned capsule does not say
   that its bytes are read-only. */
PyObject *tensor_to_dlpack(PyObject *self, PyObject *args) {
  int versioned, is_copied, lets_write = 0;
  if (!PyArg_ParseTuple(args, "pp|p:to_dlpack", &versioned, &is_copied, &lets_write)) return NULL;
  tenon_tensor *tensor = open_tensor(self);
  if (tensor == NULL) return NULL;
  if (versioned) {
    tenon_error *error = NULL;
    DLManagedTensorVersioned *managed = NULL;
    const tenon_status status = tenon_tensor_to_dlpack(tensor, &managed, &error);
    if (status != TENON_OK) return raise_status(status, error);
    if (is_copied) managed->flags |= DLPACK_FLAG_BITMASK_IS_COPIED;
    if (lets_write) managed->flags &= ~(uint64_t)DLPACK_FLAG_BITMASK_READ_ONLY;
    PyObject *capsule = PyCapsule_New(managed, VERSIONED, drop_versioned);
    if (capsule == NULL) give_back_managed(managed, delete_versioned);
    return capsule;
  }
  return legacy_capsule(tensor);
}

PyObject *tensor_from_dlpack(PyObject *type, PyObject *capsule) {
  tenon_tensor *tensor = NULL;
  tenon_error *error = NULL;
  const char *used;
  tenon_status status;
  if (PyCapsule_IsValid(capsule, VERSIONED)) {
    used = "used_" VERSIONED;
    status = tenon_tensor_from_dlpack(PyCapsule_GetPointer(capsule, VERSIONED), &tensor, &error);
  } else if (PyCapsule_IsValid(capsule, LEGACY)) {
    used = "used_" LEGACY;
    status =
        tenon_tensor_from_dlpack_legacy(PyCapsule_GetPointer(capsule, LEGACY), &tensor, &error);
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
