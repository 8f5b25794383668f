/* Turns Python values into objects of the library (tenon/object.h) and back. queue.c calls it.

   An object has fewer kinds of values than Python. A value of another type, such as a NamedTuple,
   is replaced by a plain value, and a note says how to make the first of the second again. The
   notes of an object travel in it, so such an object is a dict of the value and the notes. An
   object without notes is the value itself, which programs in other languages can read as it is.

   tenon/_queue_values.py describes values of other types and restores them. */
#include "ext.h"

#define KEY_OF_VALUE "value"
#define KEY_OF_NOTES "__tenon_notes__"

enum { N_WRAPPER = 2 }; /* the nodes before the value: the dict, and the key of the value */

enum { FEW = 8 };                  /* so many nodes need no memory of their own */
enum { SMALL_NBYTES = 16 * 1024 }; /* so many bytes are read or written in a few microseconds */

typedef struct {
  size_t n, room;
  size_t nbytes; /* of texts and bytes */
  tenon_object_node *nodes;
  PyObject **owners; /* they keep the text, the bytes or the composite of each node alive */
  PyObject
      *describe;   /* a function: value -> (plain value or address, note or None, is composite) */
  PyObject *notes; /* a list of (index, note), or NULL */
  tenon_object_node few_nodes[FEW];
  PyObject *few_owners[FEW];
} Encoder;

/* -1: raised */
static int grow(Encoder *it) {
  const size_t room = 4 * it->room;
  const int is_few = it->nodes == it->few_nodes;
  void *nodes = PyMem_Realloc(is_few ? NULL : it->nodes, room * sizeof *it->nodes);
  void *owners = PyMem_Realloc(is_few ? NULL : it->owners, room * sizeof *it->owners);
  if (is_few && nodes != NULL && owners != NULL) {
    memcpy(nodes, it->few_nodes, sizeof it->few_nodes);
    memcpy(owners, it->few_owners, sizeof it->few_owners);
  }
  if (nodes == NULL || owners == NULL) {
    if (is_few) {
      PyMem_Free(nodes);
      PyMem_Free(owners);
    } else {
      if (nodes != NULL) it->nodes = nodes;
      if (owners != NULL) it->owners = owners;
    }
    PyErr_NoMemory();
    return -1;
  }
  it->nodes = nodes;
  it->owners = owners;
  it->room = room;
  return 0;
}

/* The node at this index. `owner` is retained. NULL: raised. */
static tenon_object_node *add_node(Encoder *it, int32_t kind, PyObject *owner) {
  if (it->n == it->room && grow(it) != 0) return NULL;
  tenon_object_node *node = &it->nodes[it->n];
  memset(node, 0, sizeof *node);
  node->struct_size = sizeof *node;
  node->kind = kind;
  it->owners[it->n] = owner;
  Py_XINCREF(owner);
  ++it->n;
  return node;
}

static int encode(Encoder *it, PyObject *value, int depth);

static int encode_text(Encoder *it, const char *text) {
  tenon_object_node *node = add_node(it, TENON_OBJECT_STR, NULL);
  if (node == NULL) return -1;
  node->data = text;
  node->nbytes = strlen(text);
  return 0;
}

static tenon_object_node *add_container(Encoder *it, int32_t kind, Py_ssize_t count) {
  tenon_object_node *node = add_node(it, kind, NULL);
  if (node == NULL) return NULL;
  if (count > UINT32_MAX) {
    PyErr_Format(PyExc_ValueError, "a container of %zd items can be no part of a message", count);
    return NULL;
  }
  node->count = (uint32_t)count;
  return node;
}

/* A function that describes a value releases the GIL, so another thread may change a container. */
static int raise_changed(PyObject *value) {
  PyErr_Format(PyExc_RuntimeError, "a %R changed while it was being sent",
               (PyObject *)Py_TYPE(value));
  return -1;
}

static int encode_items(Encoder *it, int32_t kind, PyObject *value, Py_ssize_t n,
                        PyObject *(*item)(PyObject *, Py_ssize_t), int depth) {
  if (add_container(it, kind, n) == NULL) return -1;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject *each = item(value, i);
    if (each == NULL) {
      PyErr_Clear();
      return raise_changed(value);
    }
    Py_INCREF(each);
    const int result = encode(it, each, depth + 1);
    Py_DECREF(each);
    if (result != 0) return -1;
  }
  return 0;
}

static int encode_dict(Encoder *it, PyObject *value, int depth) {
  const Py_ssize_t n = PyDict_Size(value);
  if (add_container(it, TENON_OBJECT_DICT, n) == NULL) return -1;
  Py_ssize_t at = 0, seen = 0;
  PyObject *key, *item;
  while (PyDict_Next(value, &at, &key, &item)) {
    Py_INCREF(key);
    Py_INCREF(item);
    int result = seen < n ? encode(it, key, depth + 1) : raise_changed(value);
    if (result == 0) result = encode(it, item, depth + 1);
    Py_DECREF(key);
    Py_DECREF(item);
    if (result != 0) return -1;
    ++seen;
  }
  return seen == n ? 0 : raise_changed(value);
}

static int encode_set(Encoder *it, PyObject *value, int depth) {
  const Py_ssize_t n = PySet_Size(value);
  if (add_container(it, TENON_OBJECT_SET, n) == NULL) return -1;
  PyObject *iterator = PyObject_GetIter(value), *each;
  if (iterator == NULL) return -1;
  int result = 0;
  while (result == 0 && (each = PyIter_Next(iterator)) != NULL) {
    result = encode(it, each, depth + 1);
    Py_DECREF(each);
  }
  Py_DECREF(iterator);
  return result == 0 && !PyErr_Occurred() ? 0 : -1;
}

/* 0: done. 1: the value has another type, or a number or a text of it does not fit. -1: raised. */
static int encode_plain(Encoder *it, PyObject *value, int depth) {
  tenon_object_node *node;
  if (value == Py_None) return add_node(it, TENON_OBJECT_NONE, NULL) == NULL ? -1 : 0;
  if (PyBool_Check(value)) {
    if ((node = add_node(it, TENON_OBJECT_BOOL, NULL)) == NULL) return -1;
    node->integer = value == Py_True;
    return 0;
  }
  if (PyLong_CheckExact(value)) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow != 0) return 1;
    if ((node = add_node(it, TENON_OBJECT_INT, NULL)) == NULL) return -1;
    node->integer = number;
    return 0;
  }
  if (PyUnicode_CheckExact(value)) {
    Py_ssize_t nbytes = 0;
    const char *text = PyUnicode_AsUTF8AndSize(value, &nbytes);
    if (text == NULL) {
      if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) return -1;
      PyErr_Clear();
      return 1;
    }
    if ((node = add_node(it, TENON_OBJECT_STR, value)) == NULL) return -1;
    node->data = text;
    node->nbytes = (size_t)nbytes;
    it->nbytes += (size_t)nbytes;
    return 0;
  }
  if (PyObject_TypeCheck(value, interpreter()->tensor_type)) {
    tenon_tensor *tensor = open_tensor(value);
    if (tensor == NULL || (node = add_node(it, TENON_OBJECT_TENSOR, NULL)) == NULL) return -1;
    /* Another thread may close the Python object. drop_encoder gives this reference back. */
    node->tensor = tenon_tensor_retain(tensor);
    return 0;
  }
  if (PyFloat_CheckExact(value)) {
    if ((node = add_node(it, TENON_OBJECT_FLOAT, NULL)) == NULL) return -1;
    node->real = PyFloat_AsDouble(value);
    return 0;
  }
  if (PyComplex_CheckExact(value)) {
    if ((node = add_node(it, TENON_OBJECT_COMPLEX, NULL)) == NULL) return -1;
    node->real = PyComplex_RealAsDouble(value);
    node->imaginary = PyComplex_ImagAsDouble(value);
    return 0;
  }
  if (PyBytes_CheckExact(value)) {
    char *data = NULL;
    Py_ssize_t nbytes = 0;
    if (PyBytes_AsStringAndSize(value, &data, &nbytes) != 0 ||
        (node = add_node(it, TENON_OBJECT_BYTES, value)) == NULL)
      return -1;
    node->data = data;
    node->nbytes = (size_t)nbytes;
    it->nbytes += (size_t)nbytes;
    return 0;
  }
  if (PyList_CheckExact(value))
    return encode_items(it, TENON_OBJECT_LIST, value, PyList_Size(value), PyList_GetItem, depth);
  if (PyTuple_CheckExact(value))
    return encode_items(it, TENON_OBJECT_TUPLE, value, PyTuple_Size(value), PyTuple_GetItem, depth);
  if (PyDict_CheckExact(value)) return encode_dict(it, value, depth);
  if (PySet_CheckExact(value)) return encode_set(it, value, depth);
  return 1;
}

static int add_note(Encoder *it, PyObject *note) {
  if (it->notes == NULL) it->notes = PyList_New(0);
  PyObject *entry =
      it->notes == NULL ? NULL : Py_BuildValue("(nO)", (Py_ssize_t)it->n - N_WRAPPER, note);
  const int result = entry == NULL ? -1 : PyList_Append(it->notes, entry);
  Py_XDECREF(entry);
  return result;
}

static int encode_composite(Encoder *it, PyObject *value, PyObject *address) {
  void *composite = pointer_from(address);
  if (composite == NULL) return -1;
  tenon_object_node *node = add_node(it, TENON_OBJECT_COMPOSITE, value);
  if (node == NULL) return -1;
  node->composite = composite;
  return 0;
}

static int encode_other(Encoder *it, PyObject *value, int depth) {
  if (it->describe == NULL) {
    PyErr_SetString(PyExc_RuntimeError, "a value was described by one that is not plain");
    return -1;
  }
  PyObject *described = PyObject_CallFunctionObjArgs(it->describe, value, NULL);
  if (described == NULL) return -1;
  PyObject *plain, *note;
  int is_composite, result = -1;
  if (PyArg_ParseTuple(described, "OOp", &plain, &note, &is_composite)) {
    if (is_composite) {
      /* The tuple has the composite as its note, which keeps the address in use. */
      result = encode_composite(it, note, plain);
    } else if (add_note(it, note) == 0) {
      result = encode_plain(it, plain, depth);
      if (result == 1) {
        PyErr_SetString(PyExc_RuntimeError, "a value was described by one that is not plain");
        result = -1;
      }
    }
  }
  Py_DECREF(described);
  return result;
}

static int encode(Encoder *it, PyObject *value, int depth) {
  if (depth >= TENON_OBJECT_MAX_DEPTH - 1) { /* the dict with the notes is one level more */
    PyErr_Format(PyExc_ValueError,
                 "the value is nested deeper than %d, or contains itself: make it flatter, or make "
                 "the queue with pickled=True",
                 TENON_OBJECT_MAX_DEPTH - 1);
    return -1;
  }
  const int result = encode_plain(it, value, depth);
  return result == 1 ? encode_other(it, value, depth) : result;
}

static void drop_encoder(Encoder *it) {
  for (size_t i = 0; i < it->n; ++i) {
    if (it->nodes[i].kind == TENON_OBJECT_TENSOR) give_back_tensor(it->nodes[i].tensor);
    Py_XDECREF(it->owners[i]);
  }
  if (it->nodes != it->few_nodes) {
    PyMem_Free(it->nodes);
    PyMem_Free(it->owners);
  }
  Py_XDECREF(it->notes);
}

/* Whether a value without notes looks like a dict with notes. */
static int is_ambiguous(PyObject *value) {
  if (!PyDict_CheckExact(value)) return 0;
  PyObject *key = PyUnicode_FromString(KEY_OF_NOTES);
  const int result = key == NULL ? -1 : PyDict_Contains(value, key);
  Py_XDECREF(key);
  return result;
}

/* Encodes the dict with the notes around the value. The first nodes are there already. */
static int encode_notes(Encoder *it, PyObject *value) {
  if (it->notes == NULL) {
    const int ambiguous = is_ambiguous(value);
    if (ambiguous <= 0) return ambiguous;
    it->notes = PyList_New(0);
    if (it->notes == NULL) return -1;
  }
  PyObject *notes = it->notes;
  it->describe = NULL; /* notes are plain */
  return encode_text(it, KEY_OF_NOTES) != 0 || encode(it, notes, 1) != 0 ? -1 : 1;
}

/* Makes the message of an object of these nodes. */
static tenon_status make_message(const tenon_object_node *nodes, size_t n, tenon_message **message,
                                 tenon_error **error) {
  tenon_object *object = NULL;
  tenon_status status = tenon_object_new(nodes, n, &object, error);
  if (status == TENON_OK) status = tenon_message_new_from_object(object, NULL, message, error);
  tenon_object_release(object);
  return status;
}

tenon_message *message_of_value(PyObject *value, PyObject *describe) {
  Encoder it;
  it.n = it.nbytes = 0;
  it.room = FEW;
  it.nodes = it.few_nodes;
  it.owners = it.few_owners;
  it.describe = describe;
  it.notes = NULL;
  tenon_message *message = NULL;
  int has_notes = -1;
  if (add_container(&it, TENON_OBJECT_DICT, 2) != NULL && encode_text(&it, KEY_OF_VALUE) == 0 &&
      encode(&it, value, 0) == 0)
    has_notes = encode_notes(&it, value);
  if (has_notes >= 0) {
    const size_t skipped = has_notes ? 0 : N_WRAPPER;
    tenon_error *error = NULL;
    tenon_status status;
    /* The encoder keeps a reference to each tensor, so nothing ends in here. */
    if (it.n <= FEW && it.nbytes <= SMALL_NBYTES) {
      status = make_message(it.nodes + skipped, it.n - skipped, &message, &error);
    } else {
      Py_BEGIN_ALLOW_THREADS
        status = make_message(it.nodes + skipped, it.n - skipped, &message, &error);
      Py_END_ALLOW_THREADS
    }
    if (status != TENON_OK) raise_status(status, error);
  }
  drop_encoder(&it);
  return message;
}

/* ---- from an object to a Python value */

typedef struct {
  const tenon_object_node *nodes;
  size_t first;         /* the index of the value's node */
  PyTypeObject *type;   /* of tensors */
  PyObject *restore;    /* a function: (plain value or address, note or None) -> value */
  PyObject *notes;      /* a list of (index, note), or NULL */
  Py_ssize_t next_note; /* the first note that belongs to a later node */
} Decoder;

static PyObject *decode(Decoder *it, size_t index);

static PyObject *decode_list(Decoder *it, size_t index) {
  PyObject *list = PyList_New((Py_ssize_t)it->nodes[index].count);
  size_t at = index + 1;
  for (uint32_t i = 0; list != NULL && i < it->nodes[index].count; ++i) {
    PyObject *item = decode(it, at);
    if (item == NULL || PyList_SetItem(list, (Py_ssize_t)i, item) != 0) Py_CLEAR(list);
    at = it->nodes[at].next;
  }
  return list;
}

static PyObject *decode_tuple(Decoder *it, size_t index) {
  PyObject *tuple = PyTuple_New((Py_ssize_t)it->nodes[index].count);
  size_t at = index + 1;
  for (uint32_t i = 0; tuple != NULL && i < it->nodes[index].count; ++i) {
    PyObject *item = decode(it, at);
    if (item == NULL || PyTuple_SetItem(tuple, (Py_ssize_t)i, item) != 0) Py_CLEAR(tuple);
    at = it->nodes[at].next;
  }
  return tuple;
}

static PyObject *decode_set(Decoder *it, size_t index) {
  PyObject *set = PySet_New(NULL);
  size_t at = index + 1;
  for (uint32_t i = 0; set != NULL && i < it->nodes[index].count; ++i) {
    PyObject *item = decode(it, at);
    if (item == NULL || PySet_Add(set, item) != 0) Py_CLEAR(set);
    Py_XDECREF(item);
    at = it->nodes[at].next;
  }
  return set;
}

static PyObject *decode_dict(Decoder *it, size_t index) {
  PyObject *dict = PyDict_New();
  size_t at = index + 1;
  for (uint32_t i = 0; dict != NULL && i < it->nodes[index].count; ++i) {
    PyObject *key = decode(it, at);
    at = it->nodes[at].next;
    PyObject *item = key == NULL ? NULL : decode(it, at);
    at = it->nodes[at].next;
    if (item == NULL || PyDict_SetItem(dict, key, item) != 0) Py_CLEAR(dict);
    Py_XDECREF(key);
    Py_XDECREF(item);
  }
  return dict;
}

static PyObject *decode_composite(Decoder *it, tenon_composite *composite) {
  return PyObject_CallFunction(it->restore, "KO", (unsigned long long)(uintptr_t)composite,
                               Py_None);
}

static PyObject *decode_plain(Decoder *it, size_t index) {
  const tenon_object_node *node = &it->nodes[index];
  switch (node->kind) {
    case TENON_OBJECT_NONE: return Py_NewRef(Py_None);
    case TENON_OBJECT_BOOL: return PyBool_FromLong(node->integer != 0);
    case TENON_OBJECT_INT: return PyLong_FromLongLong(node->integer);
    case TENON_OBJECT_FLOAT: return PyFloat_FromDouble(node->real);
    case TENON_OBJECT_COMPLEX: return PyComplex_FromDoubles(node->real, node->imaginary);
    case TENON_OBJECT_STR: return PyUnicode_DecodeUTF8(node->data, (Py_ssize_t)node->nbytes, NULL);
    case TENON_OBJECT_BYTES: return PyBytes_FromStringAndSize(node->data, (Py_ssize_t)node->nbytes);
    case TENON_OBJECT_TENSOR: return wrap_tensor(it->type, tenon_tensor_retain(node->tensor));
    case TENON_OBJECT_COMPOSITE: return decode_composite(it, node->composite);
    case TENON_OBJECT_TUPLE: return decode_tuple(it, index);
    case TENON_OBJECT_LIST: return decode_list(it, index);
    case TENON_OBJECT_SET: return decode_set(it, index);
    case TENON_OBJECT_DICT: return decode_dict(it, index);
    default:
      return PyErr_Format(PyExc_ValueError, "a value of the unknown kind %d", (int)node->kind);
  }
}

/* The note of a node, borrowed. NULL: it has none, or (raised) the next note is no note. */
static PyObject *take_note(Decoder *it, size_t index) {
  if (it->notes == NULL || it->next_note >= PyList_Size(it->notes)) return NULL;
  PyObject *entry = PyList_GetItem(it->notes, it->next_note), *note;
  Py_ssize_t at;
  if (entry == NULL || !PyTuple_Check(entry))
    return PyErr_Format(PyExc_ValueError, "note %zd is no tuple", it->next_note);
  if (!PyArg_ParseTuple(entry, "nO", &at, &note)) return NULL;
  if ((size_t)at != index - it->first) return NULL;
  ++it->next_note;
  return note;
}

static PyObject *decode(Decoder *it, size_t index) {
  PyObject *note = take_note(it, index);
  if (note == NULL && PyErr_Occurred()) return NULL;
  PyObject *plain = decode_plain(it, index);
  if (plain == NULL || note == NULL) return plain;
  PyObject *value = PyObject_CallFunctionObjArgs(it->restore, plain, note, NULL);
  Py_DECREF(plain);
  return value;
}

static int is_text(const tenon_object_node *node, const char *text) {
  return node->kind == TENON_OBJECT_STR && node->nbytes == strlen(text) &&
         memcmp(node->data, text, node->nbytes) == 0;
}

/* The index of the notes' node, or 0: the object is the value itself. */
static size_t find_notes(const tenon_object_node *nodes) {
  if (nodes[0].kind != TENON_OBJECT_DICT || nodes[0].count != 2 ||
      !is_text(&nodes[1], KEY_OF_VALUE))
    return 0;
  const size_t key = nodes[N_WRAPPER].next;
  return is_text(&nodes[key], KEY_OF_NOTES) && nodes[key + 1].kind == TENON_OBJECT_LIST ? key + 1
                                                                                        : 0;
}

static PyObject *decode_all(const tenon_object_node *nodes, PyTypeObject *type, PyObject *restore) {
  Decoder it = {nodes, 0, type, restore, NULL, 0};
  const size_t notes = find_notes(nodes);
  if (notes == 0) return decode(&it, 0);
  PyObject *list = decode_list(&it, notes);
  if (list == NULL) return NULL;
  it.notes = list;
  it.first = N_WRAPPER;
  PyObject *value = decode(&it, N_WRAPPER);
  if (value != NULL && it.next_note != PyList_Size(list)) {
    PyErr_Format(PyExc_ValueError, "note %zd belongs to no value", it.next_note);
    Py_CLEAR(value);
  }
  Py_DECREF(list);
  return value;
}

/* Turns the exception of a value that cannot be made into the one that corrupt(exception) gives. */
static PyObject *raise_corrupt(PyObject *corrupt) {
  if (!PyErr_ExceptionMatches(PyExc_ValueError) && !PyErr_ExceptionMatches(PyExc_TypeError))
    return NULL;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyObject *made = PyObject_CallFunctionObjArgs(corrupt, value, NULL);
  if (made != NULL) PyErr_SetObject((PyObject *)Py_TYPE(made), made);
  Py_XDECREF(made);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return NULL;
}

PyObject *value_of_message(const tenon_message *message, PyTypeObject *type, PyObject *restore,
                           PyObject *corrupt) {
  tenon_object *object = NULL;
  tenon_error *error = NULL;
  tenon_object_node few[FEW], *nodes = few;
  tenon_status status;
  size_t nbytes = 0;
  (void)tenon_message_user_bytes(message, &nbytes);
  /* A short pickle that is the last tensor is taken for a long one. */
  if (nbytes <= SMALL_NBYTES && tenon_message_count(message) <= 1) {
    status = tenon_object_new_from_message(message, &object, &error);
  } else {
    Py_BEGIN_ALLOW_THREADS
      status = tenon_object_new_from_message(message, &object, &error);
    Py_END_ALLOW_THREADS
  }
  const size_t n = tenon_object_count(object);
  if (status == TENON_OK) {
    if (n > FEW) nodes = PyMem_Malloc(n * sizeof *nodes);
    if (nodes == NULL) {
      tenon_object_release(object);
      return PyErr_NoMemory();
    }
    nodes[0].struct_size = sizeof *nodes;
    status = tenon_object_get_nodes(object, 0, nodes, n, &error);
  }
  PyObject *value = NULL;
  if (raised(status, error) == 0 && (value = decode_all(nodes, type, restore)) == NULL)
    raise_corrupt(corrupt);
  if (nodes != few) PyMem_Free(nodes);
  /* The value has a reference to everything in the object. */
  if (value != NULL)
    tenon_object_release(object);
  else
    give_back_object(object);
  return value;
}
