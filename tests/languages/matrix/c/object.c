#include "object.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "wire.h"

/* The letter of each kind, at the index that is the kind's number. A bool has T or F. */
static const char letters[] = "N?ifcsbxktlSd";

static double read_real(const char *digits) {
  const uint64_t bits = strtoull(digits, NULL, 16);
  double number;
  memcpy(&number, &bits, sizeof(number));
  return number;
}

static void put_real(char *line, double number) {
  uint64_t bits;
  memcpy(&bits, &number, sizeof(bits));
  wire_put(line, "%016" PRIx64, bits);
}

/* The text or bytes overwrite their own hexadecimal digits. */
static void read_node(char *word, void (*find)(const char *key, tenon_object_node *node),
                      tenon_object_node *node) {
  char *const value = word + 1;
  const char *letter = strchr(letters, word[0]);
  const char *comma;
  unsigned char *bytes;
  node->struct_size = sizeof(*node);
  if (word[0] == 'T' || word[0] == 'F') {
    node->kind = TENON_OBJECT_BOOL;
    node->integer = word[0] == 'T';
    return;
  }
  if (letter == NULL) abort();
  node->kind = (int32_t)(letter - letters);
  switch (node->kind) {
    case TENON_OBJECT_NONE: break;
    case TENON_OBJECT_INT: node->integer = strtoll(value, NULL, 10); break;
    case TENON_OBJECT_FLOAT: node->real = read_real(value); break;
    case TENON_OBJECT_COMPLEX:
      if ((comma = strchr(value, ',')) == NULL) abort();
      node->real = read_real(value);
      node->imaginary = read_real(comma + 1);
      break;
    case TENON_OBJECT_STR:
    case TENON_OBJECT_BYTES:
      bytes = wire_bytes(value, &node->nbytes);
      memcpy(value, bytes, node->nbytes);
      free(bytes);
      node->data = value;
      break;
    case TENON_OBJECT_TENSOR:
    case TENON_OBJECT_COMPOSITE: find(value, node); break;
    default: node->count = (uint32_t)strtoul(value, NULL, 10);
  }
}

tenon_status object_read_word(const char *word,
                              void (*find)(const char *key, tenon_object_node *node),
                              tenon_object **out, tenon_error **error) {
  const size_t length = strlen(word);
  /* Each node has at least a letter and a semicolon. */
  tenon_object_node *nodes = (tenon_object_node *)calloc(length / 2 + 1, sizeof(*nodes));
  char *copy = (char *)malloc(length + 1), *part;
  tenon_status status;
  size_t n = 0;
  if (nodes == NULL || copy == NULL) abort();
  memcpy(copy, word, length + 1);
  for (part = strtok(copy, ";"); part != NULL; part = strtok(NULL, ";"))
    read_node(part, find, &nodes[n++]);
  status = tenon_object_new(nodes, n, out, error);
  free(nodes);
  free(copy);
  return status;
}

tenon_object_node *object_nodes(const tenon_object *object, size_t *n) {
  tenon_object_node *nodes;
  *n = tenon_object_count(object);
  nodes = (tenon_object_node *)malloc(*n * sizeof(*nodes));
  if (nodes == NULL) abort();
  nodes[0].struct_size = sizeof(*nodes);
  if (tenon_object_get_nodes(object, 0, nodes, *n, NULL) != TENON_OK) abort();
  return nodes;
}

static void put_tensor(char *line, tenon_tensor *tensor, const char *key,
                       void (*put_content)(tenon_tensor *tensor)) {
  char sizes[256], strides[256];
  tenon_tensor_view view;
  view.struct_size = sizeof(view);
  if (tenon_tensor_get_view(tensor, &view, NULL) != TENON_OK) abort();
  wire_put(line, "x%s/%" PRIu64 "/%u:%u:%u/%s/%s/%" PRIu64 "/", key,
           tenon_storage_id(tenon_tensor_storage(tensor)), (unsigned)view.dtype.code,
           (unsigned)view.dtype.bits, (unsigned)view.dtype.lanes,
           wire_word(view.sizes, view.ndim, sizes), wire_word(view.strides, view.ndim, strides),
           view.offset);
  put_content(tensor);
}

void object_put_node(char *line, const tenon_object_node *node, const char *key,
                     void (*put_content)(tenon_tensor *tensor)) {
  if (node->kind < TENON_OBJECT_NONE || node->kind > TENON_OBJECT_DICT) abort();
  switch (node->kind) {
    case TENON_OBJECT_BOOL: wire_put(line, node->integer != 0 ? "T" : "F"); return;
    case TENON_OBJECT_TENSOR: put_tensor(line, node->tensor, key, put_content); return;
    default: wire_put(line, "%c", letters[node->kind]);
  }
  switch (node->kind) {
    case TENON_OBJECT_NONE: break;
    case TENON_OBJECT_INT: wire_put(line, "%" PRId64, node->integer); break;
    case TENON_OBJECT_FLOAT: put_real(line, node->real); break;
    case TENON_OBJECT_COMPLEX:
      put_real(line, node->real);
      wire_put(line, ",");
      put_real(line, node->imaginary);
      break;
    case TENON_OBJECT_STR:
    case TENON_OBJECT_BYTES: wire_put_hex(line, node->data, node->nbytes); break;
    case TENON_OBJECT_COMPOSITE: wire_put(line, "%s", key); break;
    default: wire_put(line, "%" PRIu32, node->count);
  }
}
