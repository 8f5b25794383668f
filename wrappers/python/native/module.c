/* The extension module: its state, how it raises, and the functions that the two types share. */
#include "ext.h"

static int finalizing; /* set by atexit: from then on no deleter may ask for the GIL */

/* The states of all interpreters. A process can have several interpreters (mod_wsgi runs many), and
   each imports the module for itself. The GIL guards this list, because all these interpreters
   share one GIL: Python does not let an interpreter with its own GIL import the module. Python
   never uses an id twice. */
static Interpreter *interpreters;

Interpreter *interpreter(void) {
  static Interpreter none; /* for objects that are freed after the module was unloaded */
  const int64_t id = PyInterpreterState_GetID(PyInterpreterState_Get());
  for (Interpreter *each = interpreters; each != NULL; each = each->next) {
    if (each->id == id) return each;
  }
  return &none;
}

PyObject *raise_status(tenon_status status, tenon_error *error) {
  PyObject *factory = interpreter()->error_factory;
  if (factory == NULL) {
    PyErr_Format(PyExc_RuntimeError, "%s: %s", tenon_status_name(status),
                 tenon_error_message(error));
    tenon_error_release(error);
    return NULL;
  }
  PyObject *exception =
      PyObject_CallFunction(factory, "iK", (int)status, (unsigned long long)(uintptr_t)error);
  if (exception != NULL) {
    PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    Py_DECREF(exception);
  }
  return NULL;
}

int raised(tenon_status status, tenon_error *error) {
  if (status == TENON_OK) return 0;
  raise_status(status, error);
  return -1;
}

PyObject *raise_closed(const char *what) {
  return PyErr_Format(
      PyExc_ValueError,
      "this %s is already closed: use it before close() or the end of its with block", what);
}

void *pointer_from(PyObject *number) { return PyLong_AsVoidPtr(number); }

int is_finalizing(void) { return __atomic_load_n(&finalizing, __ATOMIC_ACQUIRE); }

PyObject *allocate(PyTypeObject *type) {
  allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  return alloc(type, 0);
}

int is_subclass(PyObject *type, PyTypeObject *base) {
  if (PyType_Check(type) && PyType_IsSubtype((PyTypeObject *)type, base)) return 1;
  PyErr_SetString(PyExc_TypeError, "not a subclass of the base type");
  return 0;
}

PyObject *object_new(PyTypeObject *type UNUSED, PyObject *args UNUSED, PyObject *kwargs UNUSED) {
  PyErr_SetString(
      PyExc_TypeError,
      "use tenon.empty, tenon.zeros, tenon.from_numpy, tenon.from_dlpack or Storage.new");
  return NULL;
}

void finish_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

static PyObject *set_error_factory(PyObject *module UNUSED, PyObject *factory) {
  Interpreter *its = interpreter();
  PyObject *former = its->error_factory;
  its->error_factory = Py_NewRef(factory);
  Py_XDECREF(former);
  Py_RETURN_NONE;
}

static PyObject *mark_finalizing(PyObject *module UNUSED, PyObject *unused UNUSED) {
  /* Deleters run in the main interpreter, so they stay allowed when another interpreter ends. */
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) == 0)
    __atomic_store_n(&finalizing, 1, __ATOMIC_RELEASE);
  Py_RETURN_NONE;
}

static PyMethodDef module_methods[] = {
    {"packed_nbytes", packed_nbytes, METH_VARARGS, "Return how many bytes a packed tensor needs."},
    {"message_tensors", message_tensors, METH_VARARGS, "Return every tensor of a message."},
    {"message_names", message_names, METH_O, "Return every name of a message."},
    {"message_add", message_add, METH_VARARGS, "Add tensors to a message."},
    {"message_of", message_of, METH_VARARGS, "Make a message that carries a value."},
    {"message_value", message_value, METH_VARARGS, "Return the value that a message carries."},
    {"import_memory", import_memory, METH_VARARGS, "Import a module from an object's buffer."},
    {"listed_names", listed_names, METH_O, "Return the names in a list of the C library."},
    {"exchange_api", exchange_api, METH_O, "Return the capsule of DLPack's C exchange API."},
    {"send_with_marker", send_with_marker, METH_VARARGS,
     "Send a message over a socket, with the end of a pipe as its marker."},
    {"watch_queue", watch_queue, METH_VARARGS,
     "Withdraw a message some time after no process has the read end of its pipe."},
    {"deposit_tensors", deposit_tensors, METH_O, "Deposit some tensors in pieces."},
    {"fetch_tensors", fetch_tensors, METH_VARARGS, "Fetch some tensors in pieces."},
    {"fork_count", fork_count, METH_NOARGS, "Return how often this process was forked."},
    {"queue_put", (PyCFunction)(void (*)(void))queue_put, METH_FASTCALL,
     "Put a value into a queue."},
    {"queue_get", (PyCFunction)(void (*)(void))queue_get, METH_FASTCALL,
     "Get a value out of a queue."},
    {"queue_put_many", queue_put_many, METH_VARARGS, "Put several values into a queue."},
    {"queue_get_many", queue_get_many, METH_VARARGS, "Get several values out of a queue."},
    {"torch_setup", torch_setup, METH_O,
     "Set the Python objects that the reducer of torch tensors needs."},
    {"torch_reducer", torch_reducer, METH_O,
     "Return the reducer of torch tensors, which calls the one in Python for special tensors."},
    {"torch_find", torch_find, METH_O,
     "Return the Tenon tensor of a torch tensor that lies in Tenon's memory, or None."},
    {"torch_pick", torch_pick, METH_O,
     "Return a torch tensor of the message that this thread loads, or None."},
    {"set_error_factory", set_error_factory, METH_O,
     "Set the function that turns a status and an error into an exception."},
    {"mark_finalizing", mark_finalizing, METH_NOARGS,
     "Stop deleters from using the interpreter. atexit calls this."},
    {NULL, NULL, 0, NULL}};

static int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **kept) {
  /* The type keeps the module alive, so its methods always find the state. */
  *kept = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
  return *kept == NULL ? -1 : PyModule_AddType(module, *kept);
}

static int module_exec(PyObject *module) {
  Interpreter *its = PyModule_GetState(module);
  its->id = PyInterpreterState_GetID(PyInterpreterState_Get());
  its->next = interpreters; /* The newest import in an interpreter comes first. */
  interpreters = its;
  return add_type(module, &tensor_spec, &its->tensor_type) != 0
             ? -1
             : add_type(module, &storage_spec, &its->storage_type);
}

static int module_traverse(PyObject *module, visitproc visit, void *arg) {
  Interpreter *its = PyModule_GetState(module);
  if (its == NULL) return 0; /* not executed yet */
  Py_VISIT(its->tensor_type);
  Py_VISIT(its->storage_type);
  Py_VISIT(its->exported_type);
  Py_VISIT(its->error_factory);
  return 0;
}

static int module_clear(PyObject *module) {
  Interpreter *its = PyModule_GetState(module);
  if (its == NULL) return 0;
  Py_CLEAR(its->tensor_type);
  Py_CLEAR(its->storage_type);
  Py_CLEAR(its->exported_type);
  Py_CLEAR(its->error_factory);
  return 0;
}

static void module_free(void *module) {
  Interpreter **link = &interpreters;
  while (*link != NULL && *link != PyModule_GetState(module)) link = &(*link)->next;
  if (*link != NULL) *link = (*link)->next;
  module_clear(module);
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT, "tenon._native_ext", "Buffers, capsules and batches.",
    sizeof(Interpreter),   module_methods,      module_slots,
    module_traverse,       module_clear,        module_free};

__attribute__((visibility("default"))) PyObject *PyInit__native_ext(void) {
  return PyModuleDef_Init(&module_def);
}
