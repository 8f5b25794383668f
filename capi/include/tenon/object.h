#ifndef TENON_OBJECT_H
#define TENON_OBJECT_H

/**
 * @file
 * Objects: plain data with tensors in it, such as a dict of numbers, text, lists and tensors. A
 * program in any language can send an object to another program, with or without Python on either
 * side. The Python functions are `Connection.send_object` and `recv_object`.
 *
 * An object travels in a message. Its storages are tensors of the message, which are lent and not
 * copied. The rest is a pickle that refers to them. Nothing that the pickle names is ever called.
 */

#include <stddef.h>
#include <stdint.h>
#include <tenon/by_fd.h>
#include <tenon/composite.h>
#include <tenon/error.h>
#include <tenon/message.h>
#include <tenon/tensor.h>

TENON_BEGIN_DECLS

/**
 * Plain data: one value, which can contain other values. An object never changes.
 *
 * An object is a tree. A value that stands in two places of a Python object becomes two equal
 * values. Two tensors over one storage share that storage in the receiver too.
 */
typedef struct tenon_object tenon_object;

/** The kinds of values. */
enum {
  TENON_OBJECT_NONE = 0,
  TENON_OBJECT_BOOL = 1,
  TENON_OBJECT_INT = 2,
  TENON_OBJECT_FLOAT = 3,
  TENON_OBJECT_COMPLEX = 4,
  TENON_OBJECT_STR = 5,
  TENON_OBJECT_BYTES = 6,
  TENON_OBJECT_TENSOR = 7,
  TENON_OBJECT_COMPOSITE = 8,
  TENON_OBJECT_TUPLE = 9,
  TENON_OBJECT_LIST = 10,
  TENON_OBJECT_SET = 11,
  TENON_OBJECT_DICT = 12
};

enum {
  TENON_OBJECT_MAX_DEPTH = 200 /**< How deep values can be nested. */
};

/**
 * One value of an object. The nodes of an object form an array, in the order in which the object is
 * written as text. The items of a tuple, list or set follow it. The keys and values of a dict
 * follow it in turn. Everything inside an item follows that item. For example, the dict
 * `{"a": [1, 2], "b": None}` is these seven nodes:
 *
 *     DICT of 2, STR "a", LIST of 2, INT 1, INT 2, STR "b", NONE
 */
typedef struct tenon_object_node {
  /** sizeof(tenon_object_node), set by the caller. */
  size_t struct_size;
  /** TENON_OBJECT_*. */
  int32_t kind;
  /**
   * TUPLE, LIST and SET: the number of items. DICT: the number of entries, each of which is two
   * values, first the key. Ignored on input and 0 on output for the other kinds.
   */
  uint32_t count;
  /**
   * The index of the first node behind this value and everything inside it. For an item of a
   * container that is the next item. Ignored on input.
   */
  size_t next;
  /** BOOL: 0 or 1. INT: the number. */
  int64_t integer;
  /** FLOAT: the number. COMPLEX: the real part. */
  double real;
  /** COMPLEX: the imaginary part. */
  double imaginary;
  /**
   * STR: UTF-8. BYTES: any bytes. No NUL follows. Borrowed: from the caller on input, and from the
   * object on output. It may be NULL if nbytes is 0.
   */
  const char *data;
  /** How many bytes there are at `data`. */
  size_t nbytes;
  /** TENSOR: the tensor. Borrowed, like `data`. */
  tenon_tensor *tensor;
  /** COMPOSITE: the composite. Borrowed, like `data`. */
  tenon_composite *composite;
} tenon_object_node;

/**
 * Makes an object from an array of nodes.
 * @param[in]  nodes  borrowed array of n nodes: one value and everything inside it. Only the fields
 *                    of a node's kind are read. nodes[0].struct_size is the size of every element.
 *                    Text and bytes are copied. The object takes a reference to each tensor and
 *                    composite.
 * @param[in]  n      the number of nodes, at least 1.
 * @param[out] out    new reference; release it with tenon_object_release. It is untouched on
 *                    failure.
 * @param[out] err    optional, see rule 2 in tenon.h. The detail `index` says which node is wrong.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (there is no such kind; the nodes are too few or too
 *         many for their counts; values are nested deeper than TENON_OBJECT_MAX_DEPTH; a text is
 *         not UTF-8; a key of a dict or an item of a set occurs twice, or is not None, a bool, a
 *         number, text, bytes or a tuple of these), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_object_new(const tenon_object_node *nodes, size_t n,
                                        tenon_object **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Adds a reference.
 * @param[in] object  borrowed. NULL is allowed.
 * @return `object`, as a new reference that must be released too.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_object *tenon_object_retain(tenon_object *object) TENON_NOEXCEPT;

/**
 * Releases a reference. The last release also releases the references to tensors and composites.
 * @param[in] object  consumed. NULL is allowed.
 * @since 0.1. Any thread may call this function.
 */
TENON_API void tenon_object_release(tenon_object *object) TENON_NOEXCEPT;

/**
 * Returns the number of nodes of an object.
 * @param[in] object  borrowed. NULL is allowed.
 * @return the count, at least 1; 0 for NULL.
 * @since 0.1. Any thread may call this function.
 */
TENON_API size_t tenon_object_count(const tenon_object *object) TENON_NOEXCEPT;

/**
 * Gives n nodes of an object, from an index on. Node 0 is the whole object.
 * @param[in]     object  borrowed.
 * @param[in]     begin   the index of the first node, counted from 0.
 * @param[in,out] out     the caller's array of n nodes. The caller sets out[0].struct_size, which
 *                        is the size of every element. The call writes it to the other elements and
 *                        fills in all fields. The pointers are borrowed from the object and valid
 *                        until its last release. It is untouched on failure.
 * @param[in]     n       how many nodes. May be 0.
 * @param[out]    err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (also if the object has fewer nodes).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_object_get_nodes(const tenon_object *object, size_t begin,
                                              tenon_object_node *out, size_t n,
                                              tenon_error **err) TENON_NOEXCEPT;

/**
 * Finds the value that a dict has for a text key. The cost grows with the number of entries.
 * @param[in]  object  borrowed.
 * @param[in]  dict    the index of a node of kind DICT; 0 if the whole object is a dict.
 * @param[in]  key     borrowed, UTF-8.
 * @param[out] out     the index of the value's node. It is untouched on failure.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (there is no such node, or it is of another kind),
 *         TENON_NOT_FOUND (the dict has no such key).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_object_find(const tenon_object *object, size_t dict, const char *key,
                                         size_t *out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Makes a message that carries an object. A receiver reads the object with
 * tenon_object_new_from_message, or in Python with `Connection.recv_object`. The storages of the
 * object's tensors are lent whole, even if a tensor is a small part of its storage.
 * @param[in]  object   borrowed.
 * @param[in]  options  borrowed. NULL means the defaults. They have the same meaning as in
 *                      tenon_share_fd, for every storage.
 * @param[out] out      new reference; release it with tenon_message_release. Nothing may be added
 *                      to the message. It is untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION, TENON_UNSUPPORTED (a tensor lies in
 *         private memory), TENON_RESOURCE_EXHAUSTED, TENON_PEER_GONE (a storage was dropped).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_message_new_from_object(const tenon_object *object,
                                                     const tenon_share_options *options,
                                                     tenon_message **out,
                                                     tenon_error **err) TENON_NOEXCEPT;

/**
 * Reads the object that a message carries. The sender is not trusted: nothing that it names is
 * called, and every tensor is checked against its storage. Tensors and storages of PyTorch become
 * tensors, an OrderedDict becomes a dict, a bytearray becomes bytes and a frozenset becomes a set.
 * The contents of composites are not checked; tenon_composite_check does that.
 * @param[in]  message  borrowed. The object takes references of its own to the tensors.
 * @param[out] out      new reference; release it with tenon_object_release. It is untouched on
 *                      failure.
 * @param[out] err      optional, see rule 2 in tenon.h. The detail `offset` says where in the
 *                      pickle an error is, in bytes.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_CORRUPT (the message carries no object, or one
 *         with errors), TENON_INCOMPATIBLE (a later version of Tenon wrote the object),
 *         TENON_UNSUPPORTED (the object has a class or function of Python, an integer of more than
 *         64 bits, a container that contains itself, or an element type that Tenon lacks; the error
 *         message names it), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_object_new_from_message(const tenon_message *message,
                                                     tenon_object **out,
                                                     tenon_error **err) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
