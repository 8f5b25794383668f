/* Puts Python values into a queue and gets them out, in one call each. tenon/queue.py calls it.

   A call that need not wait runs no Python function. It looks once, and asks Python how long it may
   wait only if it must. */
#include "ext.h"

#include <pthread.h>
#include <time.h>

/* A signal that arrives between the last check and the kernel's wait does not end the wait. So the
   thread that runs Python's signal handlers waits in slices, as in tenon/wait.py. */
#define SLICE_NS 50000000

typedef struct {
  tenon_wait wait;
  int64_t timeout_ns; /* less than 0: for ever. 0: not at all */
  int64_t deadline;   /* nanoseconds on CLOCK_MONOTONIC */
} Waiting;

static int64_t clock_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void start_waiting(Waiting *it, long long timeout_ns, int interruptible) {
  memset(it, 0, sizeof *it);
  it->wait.struct_size = sizeof it->wait;
  it->wait.flags = interruptible ? TENON_WAIT_INTERRUPTIBLE : 0;
  it->timeout_ns = timeout_ns;
  if (timeout_ns > 0) it->deadline = clock_ns() + timeout_ns;
}

/* Sets the time of the next call. */
static void next_slice(Waiting *it) {
  const int64_t most = it->wait.flags != 0 ? SLICE_NS : -1;
  int64_t left = it->timeout_ns;
  if (left > 0) {
    left = it->deadline - clock_ns();
    if (left < 1) left = 1;
  }
  it->wait.timeout_ns = left < 0 || (most > 0 && left > most) ? most : left;
}

enum { WAIT_ENDED = 0, WAIT_AGAIN = 1, WAIT_RAISED = -1 };

/* What follows the status of a call: its time was over (which takes the error over), another call,
   or an exception. */
static int judge(Waiting *it, tenon_status status, tenon_error *error) {
  const int is_over = status == TENON_WOULD_BLOCK || status == TENON_TIMEOUT;
  const int is_slice = status == TENON_TIMEOUT && it->timeout_ns != 0 &&
                       (it->timeout_ns < 0 || clock_ns() < it->deadline);
  if (status == TENON_INTERRUPTED || is_slice) {
    tenon_error_release(error);
    return PyErr_CheckSignals() == 0 ? WAIT_AGAIN : WAIT_RAISED;
  }
  /* A time that is over because a sender does not answer is an error that names the sender. */
  if (is_over && tenon_error_detail(error, "pid") == NULL) {
    tenon_error_release(error);
    return WAIT_ENDED;
  }
  raise_status(status, error);
  return WAIT_RAISED;
}

/* How often this process was forked since it loaded the extension. */
static long forks = 0;

static void note_fork(void) { ++forks; }

static void watch_forks(void) { (void)pthread_atfork(NULL, NULL, note_fork); }

/* fork_count() -> a number that is another one in each forked child */
PyObject *fork_count(PyObject *module UNUSED, PyObject *unused UNUSED) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  if (pthread_once(&once, watch_forks) != 0) return PyErr_NoMemory();
  return PyLong_FromLong(forks);
}

/* The queue of a membership, which is the tuple (owner, address, fork_count() when it joined). NULL
   without an exception: it is None, or the membership of a process from which this one was forked.
 */
static tenon_queue *queue_of(PyObject *joined) {
  if (joined == Py_None) return NULL;
  PyObject *address = PyTuple_GetItem(joined, 1);
  PyObject *count = address == NULL ? NULL : PyTuple_GetItem(joined, 2);
  if (count == NULL) return NULL;
  const long joined_at = PyLong_AsLong(count);
  if (joined_at != forks) return NULL;
  return pointer_from(address);
}

/* Whether a call may wait for ever: the answer that needs no Python function. */
static int waits_for_ever(PyObject *block, PyObject *timeout) {
  return block == Py_True && timeout == Py_None;
}

/* Asks limits(block, timeout) -> (nanoseconds, whether signals end the wait). -1: raised. */
static int ask_limits(Waiting *it, PyObject *limits, PyObject *block, PyObject *timeout) {
  PyObject *found = PyObject_CallFunctionObjArgs(limits, block, timeout, NULL);
  long long timeout_ns = 0;
  int interruptible = 0;
  const int parsed = found != NULL && PyArg_ParseTuple(found, "Lp", &timeout_ns, &interruptible);
  Py_XDECREF(found);
  if (!parsed) return -1;
  start_waiting(it, timeout_ns, interruptible);
  return 0;
}

static int check_count(const char *name, Py_ssize_t n, Py_ssize_t wanted) {
  if (n == wanted) return 0;
  PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, not %zd", name, wanted, n);
  return -1;
}

/* queue_put(membership or None, value, describe, block, timeout, limits) -> whether there was room
   in time. NotImplemented: this process has not joined. */
PyObject *queue_put(PyObject *module UNUSED, PyObject *const *args, Py_ssize_t n) {
  if (check_count("queue_put", n, 6) != 0) return NULL;
  PyObject *const value = args[1], *const describe = args[2], *const block = args[3];
  PyObject *const timeout = args[4], *const limits = args[5];
  tenon_queue *queue = queue_of(args[0]);
  if (queue == NULL) return PyErr_Occurred() ? NULL : Py_NewRef(Py_NotImplemented);
  Waiting it;
  /* A message that need not wait needs no limits. */
  start_waiting(&it, 0, 0);
  int is_asked = !waits_for_ever(block, timeout);
  if (is_asked && ask_limits(&it, limits, block, timeout) != 0) return NULL;
  tenon_message *message = message_of_value(value, describe);
  if (message == NULL) return NULL;
  int next;
  tenon_status status;
  do {
    next_slice(&it);
    tenon_error *error = NULL;
    /* A send may end leases, and with them memory whose release waits for Python code. */
    Py_BEGIN_ALLOW_THREADS
      status = tenon_queue_send(queue, message, &it.wait, &error);
      if (status == TENON_OK) tenon_message_release(message);
    Py_END_ALLOW_THREADS
    if (status == TENON_OK) Py_RETURN_TRUE;
    if (!is_asked && status == TENON_WOULD_BLOCK) {
      tenon_error_release(error);
      is_asked = 1;
      next = ask_limits(&it, limits, block, timeout) == 0 ? WAIT_AGAIN : WAIT_RAISED;
    } else {
      next = judge(&it, status, error);
    }
  } while (next == WAIT_AGAIN);
  give_back_message(message);
  return next == WAIT_RAISED ? NULL : Py_NewRef(Py_False);
}

/* queue_get(membership or None, class of tensors, restore, corrupt, block, timeout, limits,
   nothing) -> the value, or `nothing` if none came in time. A message without a readable value is
   lost. NotImplemented: this process has not joined. */
PyObject *queue_get(PyObject *module UNUSED, PyObject *const *args, Py_ssize_t n) {
  if (check_count("queue_get", n, 8) != 0) return NULL;
  PyObject *const type = args[1], *const restore = args[2], *const corrupt = args[3];
  PyObject *const block = args[4], *const timeout = args[5], *const limits = args[6];
  if (!is_subclass(type, interpreter()->tensor_type)) return NULL;
  tenon_queue *queue = queue_of(args[0]);
  if (queue == NULL) return PyErr_Occurred() ? NULL : Py_NewRef(Py_NotImplemented);
  Waiting it;
  start_waiting(&it, 0, 0);
  int is_asked = !waits_for_ever(block, timeout);
  if (is_asked && ask_limits(&it, limits, block, timeout) != 0) return NULL;
  tenon_message *message = NULL;
  tenon_error *error = NULL;
  /* Getting the GIL back can take long, so it is kept for the first look, which does not wait. */
  const tenon_wait look = {.struct_size = sizeof look};
  tenon_status status = tenon_queue_recv(queue, &look, &message, &error);
  if (status == TENON_WOULD_BLOCK && !(is_asked && it.timeout_ns == 0)) {
    tenon_error_release(error);
    if (!is_asked && ask_limits(&it, limits, block, timeout) != 0) return NULL;
    int next;
    do {
      next_slice(&it);
      error = NULL;
      Py_BEGIN_ALLOW_THREADS
        status = tenon_queue_recv(queue, &it.wait, &message, &error);
      Py_END_ALLOW_THREADS
      next = status == TENON_OK ? WAIT_ENDED : judge(&it, status, error);
    } while (next == WAIT_AGAIN);
    if (next == WAIT_RAISED) return NULL;
  } else if (status != TENON_OK && judge(&it, status, error) != WAIT_ENDED) {
    return NULL;
  }
  if (message == NULL) return Py_NewRef(args[7]);
  PyObject *value = value_of_message(message, (PyTypeObject *)type, restore, corrupt);
  /* A value keeps all memory of its message. So this release ends no memory, and waits for nobody.
   */
  if (value != NULL)
    tenon_message_release(message);
  else
    give_back_message(message);
  return value;
}

/* Takes the exception that is set. */
static PyObject *take_exception(void) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace != NULL) (void)PyException_SetTraceback(value, trace);
  Py_XDECREF(type);
  Py_XDECREF(trace);
  return value;
}

/* The messages of `values`. Returns how many there are; fewer than there are values after an
   exception. */
static Py_ssize_t messages_of_values(PyObject *values, PyObject *describe, tenon_message **out) {
  Py_ssize_t n = PyTuple_Size(values), i;
  for (i = 0; i < n; i++) {
    PyObject *value = PyTuple_GetItem(values, i);
    out[i] = value == NULL ? NULL : message_of_value(value, describe);
    if (out[i] == NULL) break;
  }
  return i;
}

/* queue_put_many(queue, tuple of values, describe, nanoseconds, whether signals end the wait) ->
   (how many were put, the exception that ended the call or None) */
PyObject *queue_put_many(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *number, *values, *describe, *raised = NULL;
  long long timeout_ns;
  int interruptible;
  if (!PyArg_ParseTuple(args, "OO!OLp:queue_put_many", &number, &PyTuple_Type, &values, &describe,
                        &timeout_ns, &interruptible))
    return NULL;
  tenon_queue *queue = pointer_from(number);
  if (queue == NULL && PyErr_Occurred()) return NULL;
  const size_t n = (size_t)PyTuple_Size(values);
  tenon_message **messages = PyMem_Calloc(n + 1, sizeof *messages);
  if (messages == NULL) return PyErr_NoMemory();
  const size_t made = (size_t)messages_of_values(values, describe, messages);
  size_t sent = 0;
  int next = made == n ? WAIT_AGAIN : WAIT_RAISED;
  Waiting it;
  start_waiting(&it, timeout_ns, interruptible);
  while (sent < n && next == WAIT_AGAIN) {
    next_slice(&it);
    tenon_error *error = NULL;
    tenon_status status;
    size_t now = 0;
    Py_BEGIN_ALLOW_THREADS
      status = tenon_queue_send_many(queue, (const tenon_message *const *)messages + sent, n - sent,
                                     &it.wait, &now, &error);
    Py_END_ALLOW_THREADS
    sent += now;
    if (status != TENON_OK) next = judge(&it, status, error);
  }
  for (size_t i = 0; i < made; i++) give_back_message(messages[i]);
  PyMem_Free(messages);
  if (next == WAIT_RAISED) {
    if (sent == 0) return NULL;
    raised = take_exception();
  }
  PyObject *result = Py_BuildValue("(nO)", (Py_ssize_t)sent, raised == NULL ? Py_None : raised);
  Py_XDECREF(raised);
  return result;
}

/* queue_get_many(queue, class of tensors, restore, corrupt, nanoseconds, whether signals end the
   wait, the most values) -> (list of values, list of the exceptions of messages without a readable
   value, which are lost). Both are empty if no message came in time. */
PyObject *queue_get_many(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *number, *type, *restore, *corrupt;
  long long timeout_ns;
  int interruptible;
  Py_ssize_t most;
  if (!PyArg_ParseTuple(args, "OOOOLpn:queue_get_many", &number, &type, &restore, &corrupt,
                        &timeout_ns, &interruptible, &most) ||
      !is_subclass(type, interpreter()->tensor_type))
    return NULL;
  tenon_queue *queue = pointer_from(number);
  if (queue == NULL && PyErr_Occurred()) return NULL;
  PyObject *values = PyList_New(0), *errors = PyList_New(0);
  tenon_message **messages = PyMem_Calloc((size_t)most + 1, sizeof *messages);
  PyObject *result = NULL;
  size_t n = 0;
  if (messages == NULL) (void)PyErr_NoMemory();
  if (values == NULL || errors == NULL || messages == NULL) goto end;
  Waiting it;
  start_waiting(&it, timeout_ns, interruptible);
  int next;
  do {
    next_slice(&it);
    tenon_error *error = NULL;
    tenon_status status;
    Py_BEGIN_ALLOW_THREADS
      status = tenon_queue_recv_many(queue, &it.wait, messages, (size_t)most, &n, &error);
    Py_END_ALLOW_THREADS
    next = status == TENON_OK ? WAIT_ENDED : judge(&it, status, error);
  } while (next == WAIT_AGAIN);
  if (next == WAIT_RAISED) goto end;
  int is_whole = 1;
  for (size_t i = 0; i < n; i++) {
    PyObject *value = value_of_message(messages[i], (PyTypeObject *)type, restore, corrupt);
    give_back_message(messages[i]);
    PyObject *list = value != NULL ? values : errors;
    if (value == NULL) value = take_exception();
    if (value == NULL || PyList_Append(list, value) < 0) is_whole = 0;
    Py_XDECREF(value);
  }
  if (is_whole) result = Py_BuildValue("(OO)", values, errors);
end:
  PyMem_Free(messages);
  Py_XDECREF(values);
  Py_XDECREF(errors);
  return result;
}
