/* Deposits and fetches messages in pieces, with one call for all tensors of a message.
   tenon/multiprocessing.py calls it. */
#include "ext.h"

#include <time.h>

enum { MOST = 16 }; /* the most tensors, and the most storages, of such a message */

typedef struct {
  Batch batch;
  int numbers[MOST]; /* the index in `storages` for each tensor */
  int n_storages;
  tenon_storage *storages[MOST]; /* borrowed from the tensors */
  unsigned char records[MOST][TENON_DEPOSIT_RECORD_NBYTES];
  size_t record_nbytes[MOST];
} Parts;

static int number_of_storage(Parts *parts, tenon_storage *storage) {
  int number = 0;
  while (number < parts->n_storages &&
         tenon_storage_id(parts->storages[number]) != tenon_storage_id(storage))
    ++number;
  if (number == parts->n_storages) parts->storages[parts->n_storages++] = storage;
  return number;
}

static int take_parts(Parts *parts, PyObject *tensors) {
  const Py_ssize_t n = PyList_Size(tensors);
  if (n > MOST) {
    PyErr_Format(PyExc_ValueError, "%zd tensors, and a message in pieces has at most %d", n,
                 (int)MOST);
    return -1;
  }
  PyObject *tuple = PyList_AsTuple(tensors);
  const int result = tuple == NULL ? -1 : fill_batch(&parts->batch, tuple, Py_None);
  Py_XDECREF(tuple);
  for (Py_ssize_t i = 0; i < parts->batch.n; ++i)
    parts->numbers[i] = number_of_storage(parts, tenon_tensor_storage(parts->batch.tensors[i]));
  return result;
}

static tenon_status deposit(Parts *parts, tenon_deposit **out, tenon_error **error) {
  tenon_status status = tenon_deposit_new(out, error);
  for (int i = 0; status == TENON_OK && i < parts->n_storages; ++i)
    status = tenon_deposit_add(*out, parts->storages[i], TENON_ACCESS_AUTO, parts->records[i],
                               &parts->record_nbytes[i], error);
  if (status != TENON_OK) (void)tenon_deposit_withdraw(*out);
  return status;
}

static int append(PyObject *list, PyObject *item) {
  const int result = item == NULL ? -1 : PyList_Append(list, item);
  Py_XDECREF(item);
  return result;
}

/* (number of the storage, dtype, shape, strides or None, offset, flags), as Tensor._new takes them
 */
static PyObject *form_of(const tenon_tensor *tensor, int number) {
  tenon_tensor_spec spec;
  if (read_spec(tensor, &spec) != 0) return NULL;
  PyObject *shape = tuple_of_numbers(spec.sizes, spec.ndim);
  PyObject *strides = tenon_tensor_is_contiguous(tensor)
                          ? Py_NewRef(Py_None)
                          : tuple_of_numbers(spec.strides, spec.ndim);
  PyObject *form = NULL;
  if (shape != NULL && strides != NULL)
    form = Py_BuildValue("(iIOOKI)", number, number_of_dtype(spec.dtype), shape, strides,
                         (unsigned long long)spec.offset, spec.flags);
  Py_XDECREF(shape);
  Py_XDECREF(strides);
  return form;
}

static PyObject *result_of_deposit(const Parts *parts, const tenon_deposit *made) {
  size_t nbytes = 0;
  const void *head = tenon_deposit_head(made, &nbytes);
  PyObject *records = PyList_New(0), *forms = PyList_New(0), *result = NULL;
  int failed = records == NULL || forms == NULL;
  for (int i = 0; !failed && i < parts->n_storages; ++i)
    failed = append(records, PyBytes_FromStringAndSize((const char *)parts->records[i],
                                                       (Py_ssize_t)parts->record_nbytes[i])) != 0;
  for (int i = 0; !failed && i < (int)parts->batch.n; ++i)
    failed = append(forms, form_of(parts->batch.tensors[i], parts->numbers[i])) != 0;
  if (!failed)
    result = Py_BuildValue("(y#OO)", (const char *)head, (Py_ssize_t)nbytes, records, forms);
  Py_XDECREF(records);
  Py_XDECREF(forms);
  return result;
}

/* deposit_tensors(list of tensors) -> (head, the storages' records, the tensors' forms) */
PyObject *deposit_tensors(PyObject *module UNUSED, PyObject *tensors) {
  if (!PyList_Check(tensors)) return PyErr_Format(PyExc_TypeError, "tensors must be a list");
  Parts *parts = PyMem_Calloc(1, sizeof *parts);
  if (parts == NULL) return PyErr_NoMemory();
  PyObject *result = NULL;
  if (take_parts(parts, tensors) == 0) {
    tenon_deposit *made = NULL;
    tenon_error *error = NULL;
    tenon_status status;
    Py_BEGIN_ALLOW_THREADS
      status = deposit(parts, &made, &error);
    Py_END_ALLOW_THREADS
    result = status == TENON_OK ? result_of_deposit(parts, made) : raise_status(status, error);
    if (result == NULL) (void)tenon_deposit_withdraw(made);
    tenon_deposit_release(made);
  }
  drop_batch(&parts->batch);
  PyMem_Free(parts);
  return result;
}

typedef struct {
  const char *head;
  Py_ssize_t head_nbytes;
  PyObject *records; /* a list of bytes */
  tenon_open_options options;
  tenon_wait wait;
  int64_t deadline; /* nanoseconds on CLOCK_MONOTONIC */
  tenon_fetched *fetched;
  int n_storages; /* how many are open */
  tenon_storage *storages[MOST];
} Fetch;

static int64_t now_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Runs without the GIL. After a signal has ended it, a further call resumes it. The caller alone
   uses the records. */
static tenon_status fetch(Fetch *it, const char *const *records, const size_t *nbytes, int n,
                          tenon_error **error) {
  tenon_status status = TENON_OK;
  if (it->fetched == NULL)
    status = tenon_fetched_new(it->head, (size_t)it->head_nbytes, &it->options, &it->wait,
                               &it->fetched, error);
  while (status == TENON_OK && it->n_storages < n) {
    const int i = it->n_storages;
    status = tenon_fetched_storage(it->fetched, records[i], nbytes[i], &it->wait, &it->storages[i],
                                   error);
    if (status == TENON_OK) it->n_storages = i + 1;
  }
  return status;
}

static int fetch_storages(Fetch *it) {
  const char *records[MOST];
  size_t nbytes[MOST];
  const Py_ssize_t n = PyList_Size(it->records);
  if (n > MOST) {
    PyErr_Format(PyExc_ValueError, "%zd storages, and a message in pieces has at most %d", n,
                 (int)MOST);
    return -1;
  }
  for (Py_ssize_t i = 0; i < n; ++i) {
    char *bytes = NULL;
    Py_ssize_t length = 0;
    if (PyBytes_AsStringAndSize(PyList_GetItem(it->records, i), &bytes, &length) != 0) return -1;
    records[i] = bytes;
    nbytes[i] = (size_t)length;
  }
  for (;;) {
    const int64_t left = it->deadline - now_ns();
    it->wait.timeout_ns = left > 1 ? left : 1;
    tenon_error *error = NULL;
    tenon_status status;
    Py_BEGIN_ALLOW_THREADS
      status = fetch(it, records, nbytes, (int)n, &error);
    Py_END_ALLOW_THREADS
    if (status == TENON_OK) return 0;
    if (status != TENON_INTERRUPTED) {
      raise_status(status, error);
      return -1;
    }
    tenon_error_release(error);
    if (PyErr_CheckSignals() != 0) return -1;
  }
}

static PyObject *tensor_of_form(PyTypeObject *type, const Fetch *it, PyObject *form) {
  int number;
  unsigned int dtype, flags;
  unsigned long long offset;
  PyObject *shape, *strides;
  if (!PyTuple_Check(form)) return PyErr_Format(PyExc_TypeError, "a tensor's form must be a tuple");
  if (!PyArg_ParseTuple(form, "iIO!OKI", &number, &dtype, &PyTuple_Type, &shape, &strides, &offset,
                        &flags))
    return NULL;
  if (number < 0 || number >= it->n_storages)
    return PyErr_Format(PyExc_ValueError, "storage %d of %d", number, it->n_storages);
  return make_tensor(type, it->storages[number], dtype, shape, strides, offset, flags);
}

static PyObject *tensors_of_forms(PyTypeObject *type, const Fetch *it, PyObject *forms) {
  PyObject *result = PyList_New(0);
  const Py_ssize_t n = PyList_Size(forms);
  for (Py_ssize_t i = 0; result != NULL && i < n; ++i)
    if (append(result, tensor_of_form(type, it, PyList_GetItem(forms, i))) != 0) Py_CLEAR(result);
  return result;
}

/* fetch_tensors(class, head, records, forms, nanoseconds to wait, whether signals end the wait) ->
   list of tensors. Storages that were not opened are given back. The sender is trusted, so memory
   that the sender can cut short is accepted too. */
PyObject *fetch_tensors(PyObject *module UNUSED, PyObject *args) {
  PyObject *type, *forms;
  long long timeout_ns;
  int interruptible;
  Fetch it;
  memset(&it, 0, sizeof it);
  if (!PyArg_ParseTuple(args, "Oy#O!O!Lp:fetch_tensors", &type, &it.head, &it.head_nbytes,
                        &PyList_Type, &it.records, &PyList_Type, &forms, &timeout_ns,
                        &interruptible) ||
      !is_subclass(type, interpreter()->tensor_type))
    return NULL;
  it.options.struct_size = sizeof it.options;
  it.options.flags = TENON_OPEN_ALLOW_UNSEALED;
  it.wait.struct_size = sizeof it.wait;
  it.wait.flags = interruptible ? TENON_WAIT_INTERRUPTIBLE : 0;
  it.deadline = now_ns() + timeout_ns;
  PyObject *result =
      fetch_storages(&it) == 0 ? tensors_of_forms((PyTypeObject *)type, &it, forms) : NULL;
  for (int i = 0; i < it.n_storages; ++i) give_back_storage(it.storages[i]);
  tenon_fetched_release(it.fetched);
  return result;
}
