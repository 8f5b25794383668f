/* Objects: they are read from the user bytes of a case, described value by value, and written
 * again. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kinds.h"

static void release_object(void *object) { tenon_object_release((tenon_object *)object); }

static char said[1 << 16];

static void say(const char *format, ...) {
  const size_t length = strlen(said);
  va_list arguments;
  va_start(arguments, format);
  if (vsnprintf(said + length, sizeof(said) - length, format, arguments) >=
      (int)(sizeof(said) - length))
    abort();
  va_end(arguments);
}

static void say_hex(char letter, const tenon_object_node *node) {
  char *hex = hex_of_bytes(node->data, node->nbytes);
  say("%c%s", letter, hex);
}

static void say_real(double number) {
  uint64_t bits;
  memcpy(&bits, &number, sizeof(bits));
  say("%016" PRIx64, bits);
}

static void say_numbers(const int64_t *numbers, int32_t n) {
  int32_t i;
  for (i = 0; i < n; i++) say("%s%" PRId64, i == 0 ? ":" : ",", numbers[i]);
  if (n == 0) say(":-");
}

static int say_tensor(const tenon_message *message, tenon_tensor *tensor) {
  tenon_tensor_view view;
  size_t i;
  view.struct_size = sizeof(view);
  if (tenon_tensor_get_view(tensor, &view, NULL) != TENON_OK) return wrong("a tensor has no view");
  for (i = 0; i < tenon_message_count(message); i++) {
    if (tenon_tensor_storage(tenon_message_tensor(message, i)) == tenon_tensor_storage(tensor))
      break;
  }
  if (i == tenon_message_count(message)) return wrong("a tensor has a storage of its own");
  say("x%zu:%d:%d:%d", i, view.dtype.code, view.dtype.bits, view.dtype.lanes);
  say_numbers(view.sizes, view.ndim);
  say_numbers(view.strides, view.ndim);
  say(":%" PRIu64 ":%u", view.offset, (unsigned)view.flags);
  return 0;
}

static int say_node(const tenon_message *message, const tenon_object_node *node) {
  tenon_composite_spec spec;
  switch (node->kind) {
    case TENON_OBJECT_NONE: say("N"); break;
    case TENON_OBJECT_BOOL: say(node->integer != 0 ? "T" : "F"); break;
    case TENON_OBJECT_INT: say("i%" PRId64, node->integer); break;
    case TENON_OBJECT_FLOAT:
      say("f");
      say_real(node->real);
      break;
    case TENON_OBJECT_COMPLEX:
      say("c");
      say_real(node->real);
      say(",");
      say_real(node->imaginary);
      break;
    case TENON_OBJECT_STR: say_hex('s', node); break;
    case TENON_OBJECT_BYTES: say_hex('b', node); break;
    case TENON_OBJECT_TENSOR: return say_tensor(message, node->tensor);
    case TENON_OBJECT_COMPOSITE:
      spec.struct_size = sizeof(spec);
      if (tenon_composite_get_spec(node->composite, &spec, NULL) != TENON_OK)
        return wrong("no spec");
      say("k%d", (int)spec.layout);
      break;
    case TENON_OBJECT_TUPLE: say("t%u", (unsigned)node->count); break;
    case TENON_OBJECT_LIST: say("l%u", (unsigned)node->count); break;
    case TENON_OBJECT_SET: say("S%u", (unsigned)node->count); break;
    case TENON_OBJECT_DICT: say("d%u", (unsigned)node->count); break;
    default: return wrong("there is no kind %d", (int)node->kind);
  }
  return 0;
}

static int make_message(const struct test_case *test, tenon_message **message) {
  size_t n, i, nbytes;
  const char **storages = case_texts(test, "storages", &n);
  const unsigned char *user;
  if (tenon_message_new(message, NULL) != TENON_OK) return wrong("no message");
  keep_message(*message);
  for (i = 0; i < n; i++) {
    const unsigned char *bytes = bytes_of_hex(storages[i], &nbytes);
    tenon_storage *storage = make_storage(nbytes, 0);
    tenon_tensor *tensor = NULL;
    if (tenon_storage_write(storage, 0, bytes, nbytes, NULL) != TENON_OK)
      return wrong("storage %zu cannot be written", i);
    if (make_bytes_tensor(storage, &tensor) != TENON_OK)
      return wrong("storage %zu has no tensor", i);
    keep_tensor(tensor);
    if (tenon_message_add(*message, &tensor, NULL, 1, NULL, NULL) != TENON_OK)
      return wrong("tensor %zu is refused", i);
  }
  user = bytes_of_hex(case_text(test, "user"), &nbytes);
  if (tenon_message_set_user_bytes(*message, user, nbytes, NULL) != TENON_OK)
    return wrong("the user bytes are refused");
  return 0;
}

/* Compares the tensors of a message that is made from the object with the storages that the object
 * uses. The message has one tensor for each storage, in the order of first use. The header in
 * expect.user has their number. A composite ends the comparison of the order, because the text does
 * not list its parts. */
static int same_storages(const struct test_case *test, const tenon_object *object,
                         const tenon_message *again) {
  const size_t count = tenon_message_count(again);
  tenon_object_node node;
  size_t i, nbytes, index, next = 0, wanted = 0;
  const unsigned char *user = bytes_of_hex(case_text(test, "expect.user"), &nbytes);
  if (nbytes < 16) return wrong("%zu bytes are no object", nbytes);
  for (i = 4; i-- > 0;) wanted = wanted << 8 | user[12 + i];
  SAME("tensors", count, wanted);
  for (i = 0; i < tenon_object_count(object); i++) {
    node.struct_size = sizeof(node);
    if (tenon_object_get_nodes(object, i, &node, 1, NULL) != TENON_OK)
      return wrong("node %zu cannot be read", i);
    if (node.kind == TENON_OBJECT_COMPOSITE) return 0;
    if (node.kind != TENON_OBJECT_TENSOR) continue;
    for (index = 0; index < next; index++) {
      if (tenon_tensor_storage(tenon_message_tensor(again, index)) ==
          tenon_tensor_storage(node.tensor))
        break;
    }
    if (index < next) continue;
    if (next == count) return wrong("a storage is not in the new message");
    if (tenon_tensor_storage(tenon_message_tensor(again, next)) !=
        tenon_tensor_storage(node.tensor))
      return wrong("tensor %zu has another storage", next);
    next++;
  }
  SAME("storages", next, count);
  return 0;
}

int run_object(const struct test_case *test) {
  tenon_message *message = NULL, *again = NULL;
  tenon_object *object = NULL;
  tenon_error *error = NULL;
  tenon_object_node node;
  tenon_status status;
  const void *user;
  size_t i, nbytes;
  MUST(make_message(test, &message));
  status = tenon_object_new_from_message(message, &object, &error);
  MUST(outcome(test, status, error));
  if (status != TENON_OK) return 0;
  keep(object, release_object);
  said[0] = '\0';
  for (i = 0; i < tenon_object_count(object); i++) {
    node.struct_size = sizeof(node);
    if (tenon_object_get_nodes(object, i, &node, 1, NULL) != TENON_OK)
      return wrong("node %zu cannot be read", i);
    if (i > 0) say(" ");
    MUST(say_node(message, &node));
  }
  if (strcmp(said, case_text(test, "expect.text")) != 0) return wrong("the text is %s", said);
  if (case_find(test, "expect.user") == NULL) return 0;
  if (tenon_message_new_from_object(object, NULL, &again, NULL) != TENON_OK)
    return wrong("the object cannot be sent");
  keep_message(again);
  user = tenon_message_user_bytes(again, &nbytes);
  MUST(same_hex("user", user, nbytes, case_text(test, "expect.user")));
  return same_storages(test, object, again);
}
