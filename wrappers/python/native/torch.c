/* Sends and receives torch tensors by multiprocessing's pickler, for the kinds of which most
   messages consist. tenon/torch/_reducers.py and _rebuild.py handle all kinds. If a function here
   returns NULL without an exception, they take over. So each function does the same as they do for
   its kind, and refuses nothing.

   This file calls PyTorch's Python methods, so it compiles without PyTorch and serves every version
   of it. The locks are those of _storage.py. This file only tries them: a thread that waited for
   one here would keep the GIL from the lock's holder. */
#include "ext.h"

#include <dlpack/dlpack.h>

#define SMALL_NBYTES \
  ((uint64_t)1 << 16) /* as _storage.SMALL_NBYTES: what is copied with the GIL held */

/* Python objects that torch_setup sets once for the life of the process. A process has only one
   interpreter that can import PyTorch. */
static struct {
  PyObject *tensor_class;   /* torch.Tensor. Subclasses, such as parameters, go through Python */
  PyObject *strided;        /* torch.strided */
  PyObject *numbers;        /* dict: torch.dtype -> Tenon's number */
  PyObject *dlpack_numbers; /* frozenset: the numbers that every PyTorch's DLPack knows */
  PyObject *from_dlpack;    /* torch._C._from_dlpack */
  PyObject *count_storage;  /* torch._C._storage_Use_Count, or None */
  PyObject *is_current;     /* tenon.torch._strategy.is_current */
  PyObject *recognise;      /* tenon.torch._strategy.recognise */
  PyObject *is_shared;      /* tenon.torch._strategy.is_shared_by_torch */
  PyObject *own_strategy;   /* the module tenon._strategy */
  PyObject *by_name;        /* its FILE_SYSTEM */
  PyObject *pickling;       /* tenon._mp_hook.pickling */
  PyObject *loading;        /* tenon.multiprocessing._loading */
  PyObject *known;          /* tenon.torch._storage.known */
  PyObject *locks;          /* list: tenon.torch._storage.locks */
  PyObject *wrapped;        /* tenon.Tensor */
  PyObject *picker;         /* tenon.torch._rebuild.pick_tensor */
  PyObject
      *has_names; /* "has_names" if tensors of this PyTorch can have named dimensions, else None */
  PyObject *untyped;       /* "untyped_storage", or "_storage" before PyTorch 2 */
  PyObject *swaps;         /* whether storages have _swap_data_ptr_ */
  PyObject *storage_class; /* torch.UntypedStorage */
  PyObject *let_go;        /* tenon.torch._storage.let_go */
} its;

#define N_OBJECTS (sizeof its / sizeof(PyObject *))

static struct {
  PyObject *acquire, *release, *collected, *current, *tensors, *references, *limit, *lock,
      *forget_expired;
  PyObject *layout, *is_cpu, *is_nested, *requires_grad, *hooks, *is_conj, *is_neg, *dtype,
      *data_ptr, *shape, *stride, *storage_offset;
  PyObject *nbytes, *cdata, *use_count, *weak_ref, *swap, *former, *is_inference, *data,
      *free_weak_ref;
} name;

static const char *const names[] = {
    "acquire",        "release",         "collected",     "current",
    "tensors",        "references",      "limit",         "lock",
    "forget_expired", "layout",          "is_cpu",        "is_nested",
    "requires_grad",  "_backward_hooks", "is_conj",       "is_neg",
    "dtype",          "data_ptr",        "shape",         "stride",
    "storage_offset", "nbytes",          "_cdata",        "_use_count",
    "_weak_ref",      "_swap_data_ptr_", "_tenon_former", "is_inference",
    "data",           "_free_weak_ref"};

_Static_assert(sizeof names / sizeof *names == sizeof name / sizeof(PyObject *), "a name for each");

/* torch_setup(tuple): sets the objects, in the order of `its` */
PyObject *torch_setup(PyObject *module UNUSED, PyObject *objects) {
  if (!PyTuple_Check(objects) || PyTuple_Size(objects) != (Py_ssize_t)N_OBJECTS)
    return PyErr_Format(PyExc_TypeError, "torch_setup takes a tuple of %d objects", (int)N_OBJECTS);
  PyObject **each = (PyObject **)&name;
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    if (each[i] == NULL && (each[i] = PyUnicode_InternFromString(names[i])) == NULL) return NULL;
  }
  each = (PyObject **)&its;
  for (size_t i = 0; i < N_OBJECTS; ++i) {
    PyObject *former = each[i];
    each[i] = Py_NewRef(PyTuple_GetItem(objects, (Py_ssize_t)i));
    Py_XDECREF(former);
  }
  Py_RETURN_NONE;
}

/* ---- calls. -1 and NULL mean that an exception is set */

static PyObject *ask(PyObject *object, PyObject *method) {
  return PyObject_CallMethodObjArgs(object, method, NULL);
}

/* 1 or 0. Gives the reference to the answer back. */
static int truth(PyObject *answer) {
  if (answer == NULL) return -1;
  const int result = PyObject_IsTrue(answer);
  Py_DECREF(answer);
  return result;
}

static int to_number(PyObject *answer, uint64_t *out) {
  if (answer == NULL) return -1;
  *out = PyLong_AsUnsignedLongLong(answer);
  Py_DECREF(answer);
  return *out == UINT64_MAX && PyErr_Occurred() ? -1 : 0;
}

/* Whether the attribute's value is this object. */
static int is_attribute(PyObject *object, PyObject *attribute, const PyObject *wanted) {
  PyObject *found = PyObject_GetAttr(object, attribute);
  Py_XDECREF(found);
  return found == NULL ? -1 : found == wanted;
}

/* 1: this thread has the lock now. 0: another thread has it. */
static int try_lock(PyObject *lock) {
  return truth(PyObject_CallMethodObjArgs(lock, name.acquire, Py_False, NULL));
}

/* Keeps a pending exception. */
static void unlock(PyObject *lock) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  Py_XDECREF(ask(lock, name.release));
  if (PyErr_Occurred()) PyErr_WriteUnraisable(lock);
  PyErr_Restore(type, value, traceback);
}

/* ---- the sender */

/* Whether a tensor has nothing but its elements: no gradient, no hooks, no conjugate or negative
   bit, no names. 1, 0 or -1. */
static int is_plain(PyObject *tensor) {
  if ((PyObject *)Py_TYPE(tensor) != its.tensor_class) return 0;
  int is;
  if ((is = is_attribute(tensor, name.layout, its.strided)) <= 0) return is;
  if ((is = truth(PyObject_GetAttr(tensor, name.is_cpu))) <= 0) return is;
  if ((is = is_attribute(tensor, name.hooks, Py_None)) <= 0) return is;
  PyObject *const without[] = {name.is_nested, name.requires_grad};
  for (size_t i = 0; i < 2; ++i) {
    if ((is = truth(PyObject_GetAttr(tensor, without[i]))) != 0) return is < 0 ? -1 : 0;
  }
  PyObject *const without_call[] = {name.is_conj, name.is_neg, its.has_names};
  for (size_t i = 0; i < 3; ++i) {
    if (without_call[i] == Py_None) continue;
    if ((is = truth(ask(tensor, without_call[i]))) != 0) return is < 0 ? -1 : 0;
  }
  return 1;
}

typedef struct Layout {
  Shape sizes, strides;
  tenon_tensor_spec spec;
} Layout;

/* Reads a tensor's element type, sizes and strides, with offset 0. 1: done. 0: Tenon has no such
   tensor. -1: raised. */
static int read_layout(PyObject *tensor, Layout *out) {
  PyObject *dtype = PyObject_GetAttr(tensor, name.dtype);
  if (dtype == NULL) return -1;
  PyObject *found = PyDict_GetItemWithError(its.numbers, dtype);
  Py_DECREF(dtype);
  if (found == NULL) return PyErr_Occurred() ? -1 : 0;
  const unsigned long dtype_number = PyLong_AsUnsignedLong(found);
  PyObject *shape = PyObject_GetAttr(tensor, name.shape);
  PyObject *strides = shape == NULL ? NULL : ask(tensor, name.stride);
  int result = -1;
  if (strides != NULL && PyTuple_Check(shape) && PyTuple_Check(strides)) {
    const Py_ssize_t ndim = PyTuple_Size(shape);
    if (ndim > TENON_TENSOR_MAX_NDIM || PyTuple_Size(strides) != ndim)
      result = 0;
    else if (read_shape(shape, &out->sizes) == 0 && read_shape(strides, &out->strides) == 0)
      result = 1;
  }
  Py_XDECREF(shape);
  Py_XDECREF(strides);
  if (result == 1) out->spec = spec_of((unsigned int)dtype_number, &out->sizes, &out->strides, 0);
  return result;
}

/* As read_layout, for a plain tensor only. Also reads the address of its first element. */
static int read_plain(PyObject *tensor, Layout *layout, uint64_t *address) {
  int is = is_plain(tensor);
  if (is == 1) is = read_layout(tensor, layout);
  if (is != 1) return is;
  return to_number(ask(tensor, name.data_ptr), address) == 0 ? 1 : -1;
}

/* Makes a torch tensor over all bytes of a storage that is on the host and writable. NULL: raised.
 */
static PyObject *torch_over(tenon_tensor *tensor) {
  PyObject *capsule = legacy_capsule(tensor);
  if (capsule == NULL) return NULL;
  PyObject *result = PyObject_CallFunctionObjArgs(its.from_dlpack, capsule, NULL);
  Py_DECREF(capsule);
  return result;
}

static PyObject *key_of(const tenon_storage *storage) {
  return Py_BuildValue("(KiK)", (unsigned long long)tenon_storage_id(storage), 0,
                       (unsigned long long)tenon_storage_nbytes(storage));
}

/* Notes which torch storage lies over a storage. The caller holds the lock of its.known, and no
   torch storage was noted. -1: raised. */
static int note(PyObject *references, PyObject *key, PyObject *untyped) {
  PyObject *reference = ask(untyped, name.weak_ref);
  if (reference == NULL) return -1;
  const int result = PyDict_SetItem(references, key, reference);
  Py_DECREF(reference);
  if (result != 0) return -1;
  uint64_t limit;
  if (to_number(PyObject_GetAttr(its.known, name.limit), &limit) != 0) return -1;
  if ((uint64_t)PyDict_Size(references) <= limit) return 0;
  PyObject *done = ask(its.known, name.forget_expired);
  Py_XDECREF(done);
  return done == NULL ? -1 : 0;
}

/* As note, for a new storage, so no other thread can have noted one. Without the lock nothing is
   noted, and a message that comes back here gets a second torch storage over the same bytes. 1:
   noted. 0: another thread has the lock. -1: raised. */
static int note_new(const tenon_storage *storage, PyObject *untyped) {
  PyObject *lock = PyObject_GetAttr(its.known, name.lock);
  if (lock == NULL) return -1;
  int result = try_lock(lock);
  if (result == 1) {
    PyObject *references = PyObject_GetAttr(its.known, name.references);
    PyObject *key = key_of(storage);
    if (references == NULL || key == NULL || note(references, key, untyped) != 0) result = -1;
    Py_XDECREF(references);
    Py_XDECREF(key);
    unlock(lock);
  }
  Py_DECREF(lock);
  return result;
}

/* Whether nobody else can look at the former memory of a tensor's storage. One count is the
   tensor's, and one the Python object's. */
static int is_alone(PyObject *tensor, PyObject *untyped) {
  if (its.count_storage == Py_None) return 0;
  PyObject *cdata = PyObject_GetAttr(untyped, name.cdata);
  if (cdata == NULL) return -1;
  uint64_t n = 0;
  int result = to_number(PyObject_CallFunctionObjArgs(its.count_storage, cdata, NULL), &n);
  Py_DECREF(cdata);
  if (result != 0) return -1;
  if (n > 2) return 0;
  if (to_number(ask(tensor, name.use_count), &n) != 0) return -1;
  return n <= 1;
}

/* Makes a Tenon tensor of a whole new storage with a copy of `nbytes` bytes, and a torch tensor
   over it. NULL: not made. */
static PyObject *copy_of(uint64_t address, uint64_t nbytes, const tenon_tensor_spec *spec,
                         tenon_tensor **own) {
  tenon_storage_options options = {.struct_size = sizeof options};
  options.flags = TENON_STORAGE_WILL_FILL;
  tenon_storage *storage = NULL;
  void *data = NULL;
  PyObject *result = NULL;
  *own = NULL;
  if (tenon_storage_new(&options, nbytes, &storage, NULL) == TENON_OK &&
      tenon_storage_data_mut(storage, &data, NULL) == TENON_OK &&
      tenon_tensor_new(storage, spec, own, NULL) == TENON_OK)
    result = torch_over(*own);
  if (result != NULL) memcpy(data, (const void *)(uintptr_t)address, nbytes);
  if (result == NULL) {
    give_back_tensor(*own);
    *own = NULL;
  }
  give_back_storage(storage);
  return result;
}

/* Gives a torch storage new memory with the same bytes, as _storage._swap does. Returns a Tenon
   tensor over the storage. NULL: not done. */
static tenon_tensor *swap(PyObject *tensor, PyObject *untyped, uint64_t address, uint64_t nbytes,
                          const tenon_tensor_spec *spec) {
  const int alone = is_alone(tensor, untyped);
  if (alone < 0) return NULL;
  Shape sizes = {1, {(int64_t)nbytes}};
  const tenon_tensor_spec bytes = spec_of(DTYPE_BYTES, &sizes, NULL, 0);
  tenon_tensor *whole = NULL, *result = NULL;
  PyObject *target = copy_of(address, nbytes, &bytes, &whole);
  PyObject *theirs = target == NULL ? NULL : ask(target, its.untyped);
  PyObject *swapped =
      theirs == NULL ? NULL : PyObject_CallMethodObjArgs(untyped, name.swap, theirs, NULL);
  /* A NumPy array or a DLPack consumer may point to the former memory. */
  if (swapped != NULL && (alone || PyObject_SetAttr(untyped, name.former, theirs) == 0) &&
      note_new(tenon_tensor_storage(whole), untyped) >= 0)
    (void)tenon_tensor_new(tenon_tensor_storage(whole), spec, &result, NULL);
  Py_XDECREF(swapped);
  Py_XDECREF(theirs);
  Py_XDECREF(target);
  give_back_tensor(whole);
  return result;
}

/* Gives a tensor that covers its whole storage another storage, if it has the former one alone, as
   _storage._replace does. It is for a PyTorch without _swap_data_ptr_. Only after the tensor has
   let go of its storage can we see whether it had it alone. Takes over `untyped`. NULL: not done.
 */
static tenon_tensor *replace(PyObject *tensor, PyObject *untyped, uint64_t address, uint64_t nbytes,
                             const tenon_tensor_spec *spec) {
  PyObject *former =
      truth(ask(tensor, name.is_inference)) == 0 ? ask(untyped, name.weak_ref) : NULL;
  tenon_tensor *own = NULL;
  PyObject *target = former == NULL ? NULL : copy_of(address, nbytes, spec, &own);
  Py_DECREF(untyped);
  int is_alone_now = 0;
  if (target != NULL && PyObject_SetAttr(tensor, name.data, target) == 0) {
    /* let_go frees the weak reference. */
    is_alone_now = truth(PyObject_CallFunctionObjArgs(its.let_go, tensor, former, NULL)) == 1;
    Py_CLEAR(former);
  }
  if (former != NULL) {
    PyObject *freed =
        PyObject_CallMethodObjArgs(its.storage_class, name.free_weak_ref, former, NULL);
    Py_XDECREF(freed);
    Py_DECREF(former);
  }
  PyObject *now = is_alone_now ? ask(target, its.untyped) : NULL;
  Py_XDECREF(target);
  if (now != NULL && note_new(tenon_tensor_storage(own), now) >= 0) {
    Py_DECREF(now);
    return own;
  }
  Py_XDECREF(now);
  give_back_tensor(own);
  return NULL;
}

/* Whether a tensor of this spec covers a storage of `nbytes` bytes, packed, and has an element type
   that every PyTorch accepts by DLPack. 1, 0 or -1. */
static int is_whole(const tenon_tensor_spec *spec, uint64_t nbytes) {
  int64_t packed = 1;
  for (int32_t i = spec->ndim - 1; i >= 0; --i) {
    if (spec->sizes[i] != 1 && spec->strides[i] != packed) return 0;
    packed *= spec->sizes[i];
  }
  if (spec->offset != 0 || extent_nbytes(spec) != nbytes) return 0;
  PyObject *dtype = PyLong_FromUnsignedLong(number_of_dtype(spec->dtype));
  if (dtype == NULL) return -1;
  const int result = PySet_Contains(its.dlpack_numbers, dtype);
  Py_DECREF(dtype);
  return result;
}

/* Moves a tensor's private memory to Tenon's, if it is small and can move in place. Its first
   element was at `address`, where no memory of Tenon's is. NULL: left to _storage.move_of_tensor.
 */
static tenon_tensor *move(PyObject *tensor, uint64_t address, tenon_tensor_spec *spec) {
  if (truth(PyObject_CallNoArgs(its.is_current)) != 1) return NULL;
  PyObject *untyped = ask(tensor, its.untyped);
  if (untyped == NULL) return NULL;
  tenon_tensor *result = NULL;
  uint64_t nbytes, cdata, now;
  if (to_number(ask(untyped, name.nbytes), &nbytes) == 0 && nbytes != 0 && nbytes <= SMALL_NBYTES &&
      to_number(PyObject_GetAttr(untyped, name.cdata), &cdata) == 0 &&
      to_number(ask(tensor, name.storage_offset), &spec->offset) == 0 &&
      truth(PyObject_CallFunctionObjArgs(its.is_shared, untyped, NULL)) == 0) {
    const uint64_t begin = address - spec->offset * (spec->dtype.bits * spec->dtype.lanes / 8u);
    PyObject *lock = Py_NewRef(
        PyList_GetItem(its.locks, (Py_ssize_t)((cdata >> 5) % (uint64_t)PyList_Size(its.locks))));
    if (try_lock(lock) == 1) {
      /* Another thread may have moved the memory meanwhile. */
      const int is_there = to_number(ask(untyped, name.data_ptr), &now) == 0 && now == begin;
      if (is_there && its.swaps == Py_True) {
        result = swap(tensor, untyped, begin, nbytes, spec);
      } else if (is_there && is_whole(spec, nbytes) == 1) {
        result = replace(tensor, untyped, begin, nbytes, spec);
        untyped = NULL;
      }
      unlock(lock);
    }
    Py_DECREF(lock);
  }
  Py_XDECREF(untyped);
  return result;
}

/* The reducer of a plain tensor, for a message that is being collected. NULL, with or without an
   exception: left to the reducer in Python. */
static PyObject *reduce_plain(PyObject *tensor) {
  if (its.pickling == NULL) return NULL; /* PyTorch is still being imported */
  PyObject *collected = PyObject_GetAttr(its.pickling, name.collected);
  PyObject *result = NULL;
  Layout layout;
  uint64_t address;
  if (collected != NULL && PyList_Check(collected) &&
      is_attribute(its.own_strategy, name.current, its.by_name) == 0 &&
      read_plain(tensor, &layout, &address) == 1) {
    tenon_tensor *found = tensor_at_address(address, &layout.spec);
    if (found == NULL && extent_nbytes(&layout.spec) != 0)
      found = move(tensor, address, &layout.spec);
    PyObject *own = found == NULL ? NULL : wrap_tensor((PyTypeObject *)its.wrapped, found);
    if (own != NULL && PyList_Append(collected, own) == 0)
      result = Py_BuildValue("(O(n))", its.picker, PyList_Size(collected) - 1);
    Py_XDECREF(own);
  }
  Py_XDECREF(collected);
  return result;
}

static PyObject *reduce(PyObject *in_python, PyObject *tensor) {
  PyObject *result = reduce_plain(tensor);
  if (result != NULL) return result;
  PyErr_Clear(); /* the reducer in Python says what is wrong with the tensor */
  return PyObject_CallFunctionObjArgs(in_python, tensor, NULL);
}

/* torch_reducer(in_python) -> the reducer of torch tensors: this file's for plain ones, and
   in_python for all others */
PyObject *torch_reducer(PyObject *module, PyObject *in_python) {
  static PyMethodDef definition = {"reduce_tensor", reduce, METH_O,
                                   "Reduce a torch tensor for multiprocessing's pickler."};
  (void)module;
  return PyCFunction_New(&definition, in_python);
}

/* torch_find(tensor) -> the Tenon tensor of a plain torch tensor that lies in Tenon's memory. None:
   left to from_torch in Python. */
PyObject *torch_find(PyObject *module UNUSED, PyObject *tensor) {
  Layout layout;
  uint64_t address;
  tenon_tensor *found = NULL;
  if (its.pickling != NULL && read_plain(tensor, &layout, &address) == 1)
    found = tensor_at_address(address, &layout.spec);
  if (found != NULL) return wrap_tensor((PyTypeObject *)its.wrapped, found);
  PyErr_Clear();
  Py_RETURN_NONE;
}

/* ---- the receiver */

/* Whether a received tensor covers its whole storage, and PyTorch may write to it. */
static int is_for_torch(PyObject *item) {
  tenon_tensor_spec spec;
  if (!PyObject_TypeCheck(item, interpreter()->tensor_type) || get_spec(item, &spec) == NULL ||
      spec.flags != 0)
    return 0;
  const tenon_storage *storage = tenon_tensor_storage(((TensorObject *)item)->tensor);
  return !tenon_storage_is_read_only(storage) && tenon_storage_device(storage).type == kDLCPU &&
         is_whole(&spec, tenon_storage_nbytes(storage)) == 1;
}

/* Makes a torch tensor over a whole storage over which no torch storage lies yet. NULL, with or
   without an exception: left to _storage.tensor_over. */
static PyObject *make_known(tenon_tensor *tensor) {
  PyObject *lock = PyObject_GetAttr(its.known, name.lock);
  if (lock == NULL) return NULL;
  PyObject *result = NULL;
  if (try_lock(lock) == 1) {
    PyObject *references = PyObject_GetAttr(its.known, name.references);
    PyObject *key = key_of(tenon_tensor_storage(tensor));
    if (references != NULL && key != NULL && PyDict_GetItemWithError(references, key) == NULL &&
        !PyErr_Occurred()) {
      result = torch_over(tensor);
      PyObject *untyped = result == NULL ? NULL : ask(result, its.untyped);
      if (untyped == NULL || note(references, key, untyped) != 0) Py_CLEAR(result);
      Py_XDECREF(untyped);
    }
    Py_XDECREF(references);
    Py_XDECREF(key);
    unlock(lock);
  }
  Py_DECREF(lock);
  return result;
}

/* torch_pick(number) -> a torch tensor of the message that this thread loads. None: left to
   pick_tensor in Python. */
PyObject *torch_pick(PyObject *module UNUSED, PyObject *index) {
  const Py_ssize_t i = PyLong_AsSsize_t(index);
  PyObject *tensors = i < 0 ? NULL : PyObject_GetAttr(its.loading, name.tensors);
  PyObject *result = NULL;
  if (tensors != NULL && PyList_Check(tensors) && i < PyList_Size(tensors)) {
    PyObject *item = Py_NewRef(PyList_GetItem(tensors, i));
    if (is_for_torch(item)) {
      PyObject *done = PyObject_CallNoArgs(its.recognise);
      result = done == NULL ? NULL : make_known(((TensorObject *)item)->tensor);
      Py_XDECREF(done);
    }
    Py_DECREF(item);
  }
  Py_XDECREF(tensors);
  if (result != NULL) return result;
  PyErr_Clear();
  Py_RETURN_NONE;
}
