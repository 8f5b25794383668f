/* tenon/object.h: objects made and read, sent to another process and back, and what is refused. */
#include "check.h"

static tenon_object_node node_of(int32_t kind) {
  tenon_object_node node;
  memset(&node, 0, sizeof(node));
  node.struct_size = sizeof(node);
  node.kind = kind;
  return node;
}

static tenon_object_node container(int32_t kind, uint32_t count) {
  tenon_object_node node = node_of(kind);
  node.count = count;
  return node;
}

static tenon_object_node integer(int64_t number) {
  tenon_object_node node = node_of(TENON_OBJECT_INT);
  node.integer = number;
  return node;
}

static tenon_object_node boolean(int64_t number) {
  tenon_object_node node = node_of(TENON_OBJECT_BOOL);
  node.integer = number;
  return node;
}

static tenon_object_node real(double number) {
  tenon_object_node node = node_of(TENON_OBJECT_FLOAT);
  node.real = number;
  return node;
}

static tenon_object_node complex_of(double number, double imaginary) {
  tenon_object_node node = node_of(TENON_OBJECT_COMPLEX);
  node.real = number;
  node.imaginary = imaginary;
  return node;
}

static tenon_object_node text_of(int32_t kind, const char *text, size_t nbytes) {
  tenon_object_node node = node_of(kind);
  node.data = text;
  node.nbytes = nbytes;
  return node;
}

static tenon_object_node str(const char *text) { return text_of(TENON_OBJECT_STR, text, strlen(text)); }

static tenon_object_node tensor_node(tenon_tensor *tensor) {
  tenon_object_node node = node_of(TENON_OBJECT_TENSOR);
  node.tensor = tensor;
  return node;
}

static tenon_object_node composite_node(tenon_composite *composite) {
  tenon_object_node node = node_of(TENON_OBJECT_COMPOSITE);
  node.composite = composite;
  return node;
}

/* The tensor of n float32 from an element of a storage on. */
static tenon_tensor *floats_at(tenon_storage *storage, uint64_t offset, int64_t n) {
  tenon_tensor_spec spec;
  tenon_tensor *tensor = NULL;
  memset(&spec, 0, sizeof(spec));
  spec.struct_size = sizeof(spec);
  spec.dtype.code = TENON_DTYPE_FLOAT;
  spec.dtype.bits = 32;
  spec.dtype.lanes = 1;
  spec.ndim = 1;
  spec.sizes = &n;
  spec.offset = offset;
  OK(tenon_tensor_new(storage, &spec, &tensor, ERR));
  return tensor;
}

static uint64_t offset_of(const tenon_tensor *tensor) {
  tenon_tensor_spec spec;
  memset(&spec, 0, sizeof(spec));
  spec.struct_size = sizeof(spec);
  OK(tenon_tensor_get_spec(tensor, &spec, ERR));
  return spec.offset;
}

static tenon_tensor *numbers(tenon_dtype dtype, const void *data, int64_t n) {
  tenon_storage_options options = check_storage_options(TENON_MODE_SHARED, 0);
  tenon_tensor_spec spec;
  tenon_storage *storage = NULL;
  tenon_tensor *tensor = NULL;
  OK(tenon_storage_new_from(&options, data, (size_t)n * (dtype.bits / 8), &storage, ERR));
  memset(&spec, 0, sizeof(spec));
  spec.struct_size = sizeof(spec);
  spec.dtype = dtype;
  spec.ndim = 1;
  spec.sizes = &n;
  OK(tenon_tensor_new(storage, &spec, &tensor, ERR));
  tenon_storage_release(storage);
  return tensor;
}

/* [[1, 0, 0, 2], [0, 0, 0, 0], [0, 3, 0, 0]] */
static tenon_composite *new_csr(void) {
  static const tenon_dtype kFloat = {TENON_DTYPE_FLOAT, 32, 1}, kLong = {TENON_DTYPE_INT, 64, 1};
  static const int64_t sizes[] = {3, 4}, pointers[] = {0, 2, 2, 3}, columns[] = {0, 3, 1};
  static const float values[] = {1, 2, 3};
  tenon_composite_spec spec;
  tenon_composite *composite = NULL;
  memset(&spec, 0, sizeof(spec));
  spec.struct_size = sizeof(spec);
  spec.layout = TENON_TENSOR_LAYOUT_SPARSE_CSR;
  spec.ndim = 2;
  spec.sizes = sizes;
  spec.values = numbers(kFloat, values, 3);
  spec.indices = numbers(kLong, pointers, 4);
  spec.plain_indices = numbers(kLong, columns, 3);
  OK(tenon_composite_new(&spec, &composite, ERR));
  tenon_tensor_release(spec.values);
  tenon_tensor_release(spec.indices);
  tenon_tensor_release(spec.plain_indices);
  return composite;
}

static tenon_composite_spec spec_of(const tenon_composite *composite) {
  tenon_composite_spec spec;
  memset(&spec, 0, sizeof(spec));
  spec.struct_size = sizeof(spec);
  OK(tenon_composite_get_spec(composite, &spec, ERR));
  return spec;
}

static tenon_object *new_object(const tenon_object_node *nodes, size_t n) {
  tenon_object *object = NULL;
  OK(tenon_object_new(nodes, n, &object, ERR));
  return object;
}

static tenon_object_node node_at(const tenon_object *object, size_t index) {
  tenon_object_node node = node_of(-1);
  OK(tenon_object_get_nodes(object, index, &node, 1, ERR));
  return node;
}

static tenon_object_node value_of(const tenon_object *object, const char *key) {
  size_t index = SIZE_MAX;
  OK(tenon_object_find(object, 0, key, &index, ERR));
  return node_at(object, index);
}

static int is_text(tenon_object_node node, int32_t kind, const char *text, size_t nbytes) {
  return node.kind == kind && node.nbytes == nbytes && (nbytes == 0 || memcmp(node.data, text, nbytes) == 0);
}

static void made_and_read(void) {
  char key[] = "number";
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 64, 1);
  tenon_tensor *tensor = floats_at(storage, 4, 12);
  tenon_composite *csr = new_csr();
  tenon_object_node nodes[25], got[25];
  tenon_object *object, *again;
  size_t i, at = 99;
  nodes[0] = container(TENON_OBJECT_DICT, 9);
  nodes[1] = str(key);
  nodes[2] = integer(INT64_MIN);
  nodes[3] = node_of(TENON_OBJECT_NONE); /* a key too */
  nodes[4] = container(TENON_OBJECT_TUPLE, 3);
  nodes[5] = real(0.5);
  nodes[6] = complex_of(1, -2);
  nodes[7] = container(TENON_OBJECT_SET, 2);
  nodes[8] = boolean(7);
  nodes[9] = text_of(TENON_OBJECT_BYTES, "\xff\0", 2);
  nodes[10] = str("list");
  nodes[11] = container(TENON_OBJECT_LIST, 1);
  nodes[12] = container(TENON_OBJECT_LIST, 0);
  nodes[13] = str("tensor");
  nodes[14] = tensor_node(tensor);
  nodes[15] = str("csr");
  nodes[16] = composite_node(csr);
  nodes[17] = text_of(TENON_OBJECT_STR, NULL, 0);
  nodes[18] = text_of(TENON_OBJECT_BYTES, NULL, 0);
  nodes[19] = text_of(TENON_OBJECT_STR, "a\0\xc3\xa4", 4);
  nodes[20] = container(TENON_OBJECT_DICT, 0);
  nodes[21] = boolean(0);
  nodes[22] = container(TENON_OBJECT_TUPLE, 0);
  nodes[23] = str("last");
  nodes[24] = node_of(TENON_OBJECT_NONE);
  nodes[2].count = 77; /* fields of other kinds are not read */
  nodes[2].data = (const char *)PATTERN;
  nodes[2].tensor = (tenon_tensor *)PATTERN;
  nodes[14].composite = (tenon_composite *)PATTERN;
  object = new_object(nodes, COUNT_OF(nodes));
  key[0] = 'X'; /* texts are copied */
  CHECK_EQ(tenon_object_count(object), COUNT_OF(nodes));
  again = tenon_object_retain(object);
  CHECK(again == object);
  tenon_object_release(again);
  tenon_tensor_release(tensor);
  tenon_composite_release(csr);

  memset(got, 0x5a, sizeof(got));
  got[0].struct_size = sizeof(got[0]);
  OK(tenon_object_get_nodes(object, 0, got, COUNT_OF(got), ERR));
  for (i = 0; i < COUNT_OF(got); i++) {
    static const size_t containers[] = {0, 25, 4, 10, 7, 10, 11, 13, 12, 13, 20, 21, 22, 23};
    size_t next = i + 1, k;
    for (k = 0; k < COUNT_OF(containers); k += 2) next = containers[k] == i ? containers[k + 1] : next;
    CHECK(got[i].struct_size == sizeof(got[i]) && got[i].kind == nodes[i].kind && got[i].next == next);
    CHECK_EQ(got[i].count, i == 2 ? 0 : nodes[i].count);
    CHECK(got[i].real == nodes[i].real && got[i].imaginary == nodes[i].imaginary);
    CHECK(got[i].nbytes == nodes[i].nbytes && (i == 14) == (got[i].tensor != NULL) && (i == 16) == (got[i].composite != NULL));
  }
  CHECK(got[2].integer == INT64_MIN && got[8].integer == 1 && got[21].integer == 0);
  CHECK(is_text(got[1], TENON_OBJECT_STR, "number", 6) && is_text(got[9], TENON_OBJECT_BYTES, "\xff\0", 2));
  CHECK(is_text(got[19], TENON_OBJECT_STR, "a\0\xc3\xa4", 4));
  /* The object has a reference to each. */
  CHECK(got[14].tensor == tensor && got[16].composite == csr);
  CHECK(offset_of(tensor) == 4 && tenon_tensor_storage(tensor) == storage);

  OK(tenon_object_get_nodes(object, 11, got, 2, ERR));
  CHECK(got[0].kind == TENON_OBJECT_LIST && got[0].next == 13 && got[1].next == 13);
  OK(tenon_object_get_nodes(object, 25, NULL, 0, ERR));
  CHECK_EQ(value_of(object, "list").kind, TENON_OBJECT_LIST);
  CHECK_EQ(value_of(object, "").kind, TENON_OBJECT_BYTES);
  OK(tenon_object_find(object, 0, "last", &at, ERR));
  CHECK_EQ(at, 24);
  at = 99;
  FAILS_KEEPING(TENON_NOT_FOUND, at, tenon_object_find(object, 0, "Xumber", &at, ERR));
  FAILS_KEEPING(TENON_NOT_FOUND, at, tenon_object_find(object, 20, "last", &at, ERR));
  FAILS_KEEPING(TENON_INVALID_ARGUMENT, at, tenon_object_find(object, 25, "last", &at, ERR));
  FAILS_SAYING(TENON_INVALID_ARGUMENT, "index", "11", tenon_object_find(object, 11, "last", &at, ERR));
  FAILS(TENON_INVALID_ARGUMENT, tenon_object_find(object, 0, "\xff", &at, ERR));
  FAILS(TENON_INVALID_ARGUMENT, tenon_object_find(object, 0, NULL, &at, ERR));
  FAILS(TENON_INVALID_ARGUMENT, tenon_object_find(object, 0, "last", NULL, ERR));
  FAILS(TENON_INVALID_ARGUMENT, tenon_object_find(NULL, 0, "last", &at, ERR));

  again = new_object(nodes + 24, 1); /* a value alone is an object */
  CHECK_EQ(tenon_object_count(again), 1);
  FAILS(TENON_INVALID_ARGUMENT, tenon_object_find(again, 0, "last", &at, ERR));
  tenon_object_release(again);
  tenon_object_release(object);
  tenon_storage_release(storage);
  tenon_object_release(NULL);
  CHECK(tenon_object_retain(NULL) == NULL && tenon_object_count(NULL) == 0);
}

/* A program with a newer header has larger structs, and an array of them has larger steps. */
static void struct_sizes(void) {
  struct {
    tenon_object_node node;
    unsigned char tail[24];
  } larger[3];
  tenon_object_node nodes[2];
  tenon_object *object = NULL, *out = PATTERN;
  size_t i;
  memset(larger, 0, sizeof(larger));
  larger[0].node = container(TENON_OBJECT_LIST, 2);
  larger[1].node = integer(5);
  larger[2].node = str("text");
  for (i = 0; i < 3; i++) larger[i].node.struct_size = sizeof(larger[0]);
  OK(tenon_object_new(&larger[0].node, 3, &object, ERR));
  memset(larger, 0x5a, sizeof(larger));
  larger[0].node.struct_size = sizeof(larger[0]);
  OK(tenon_object_get_nodes(object, 0, &larger[0].node, 3, ERR));
  CHECK(larger[1].node.integer == 5 && is_text(larger[2].node, TENON_OBJECT_STR, "text", 4) && larger[2].node.next == 3);
  for (i = 0; i < 3; i++) CHECK(larger[i].node.struct_size == sizeof(larger[0]) && larger[i].tail[0] == 0x5a && larger[i].tail[23] == 0x5a);
  tenon_object_release(object);

  memset(larger[0].tail, 0, sizeof(larger[0].tail));
  memset(larger[1].tail, 0, sizeof(larger[1].tail));
  /* A field that this library lacks is set in the last node. */
  FAILS_KEEPING(TENON_UNSUPPORTED, out, tenon_object_new(&larger[0].node, 3, &out, ERR));
  nodes[0] = container(TENON_OBJECT_LIST, 1);
  nodes[1] = integer(5);
  nodes[1].struct_size += 8;
  FAILS_SAYING(TENON_INVALID_ARGUMENT, "index", "1", tenon_object_new(nodes, 2, &out, ERR));
  nodes[0].struct_size = nodes[1].struct_size = sizeof(nodes[0]) - 1;
  FAILS_KEEPING(TENON_INVALID_ARGUMENT, out, tenon_object_new(nodes, 2, &out, ERR));
  nodes[0].struct_size = 0;
  FAILS_KEEPING(TENON_INVALID_ARGUMENT, out, tenon_object_new(nodes, 2, &out, ERR));
  nodes[0] = integer(5);
  object = new_object(nodes, 1);
  nodes[0].struct_size = sizeof(nodes[0]) - 1;
  FAILS_KEEPING(TENON_INVALID_ARGUMENT, nodes, tenon_object_get_nodes(object, 0, nodes, 1, ERR));
  tenon_object_release(object);
}

/* Each case is refused at the node that `index` names. */
static void refuse(const tenon_object_node *nodes, size_t n, const char *index) {
  tenon_object *out = PATTERN;
  FAILS_KEEPING(TENON_INVALID_ARGUMENT, out, tenon_object_new(nodes, n, &out, ERR));
  FAILS_RAW(TENON_INVALID_ARGUMENT, TENON_INVALID_ARGUMENT, tenon_object_new(nodes, n, &out, ERR));
  CHECK(tenon_error_detail(check_error, "index") != NULL);
  if (strcmp(tenon_error_detail(check_error, "index"), index) != 0) check_fail(__FILE__, __LINE__, tenon_error_message(check_error));
  tenon_error_release(check_error);
}

static void wrong_nodes(void) {
  tenon_object_node nodes[4];
  tenon_object *out = PATTERN;
  nodes[0] = container(TENON_OBJECT_LIST, 2);
  nodes[1] = container(TENON_OBJECT_TUPLE, 1);
  nodes[2] = integer(1);
  nodes[3] = integer(2);
  refuse(nodes, 1, "0");
  refuse(nodes, 2, "1"); /* the innermost container that lacks a value */
  refuse(nodes, 3, "0");
  nodes[0].count = 1;
  refuse(nodes, 4, "3");
  nodes[0].count = UINT32_MAX;
  refuse(nodes, 4, "0");
  /* The dict has twice as many values, which are more than 32 bits count. */
  nodes[0] = container(TENON_OBJECT_DICT, UINT32_MAX);
  refuse(nodes, 4, "0");
  nodes[0] = container(TENON_OBJECT_DICT, 1);
  refuse(nodes, 3, "0"); /* the value of a key is missing */
  nodes[0] = container(TENON_OBJECT_LIST, 0);
  refuse(nodes, 2, "1");
  refuse(nodes + 2, 2, "1");

  nodes[0] = container(TENON_OBJECT_LIST, 1);
  nodes[1] = node_of(-1);
  refuse(nodes, 2, "1");
  nodes[1] = node_of(13);
  refuse(nodes, 2, "1");
  nodes[1] = node_of(256);
  refuse(nodes, 2, "1");
  nodes[1] = text_of(TENON_OBJECT_BYTES, NULL, 1);
  refuse(nodes, 2, "1");
  nodes[1] = text_of(TENON_OBJECT_STR, NULL, 1);
  refuse(nodes, 2, "1");
  nodes[1] = node_of(TENON_OBJECT_TENSOR);
  refuse(nodes, 2, "1");
  nodes[1] = node_of(TENON_OBJECT_COMPOSITE);
  refuse(nodes, 2, "1");
  nodes[1] = str("\xff");
  refuse(nodes, 2, "1");
  nodes[1] = str("\xed\xa0\x80"); /* half of a surrogate pair, which is no character */
  refuse(nodes, 2, "1");
  nodes[1] = text_of(TENON_OBJECT_STR, "\xc3\xa4", 1); /* a character that is cut */
  refuse(nodes, 2, "1");

  FAILS_KEEPING(TENON_INVALID_ARGUMENT, out, tenon_object_new(NULL, 1, &out, ERR));
  FAILS_KEEPING(TENON_INVALID_ARGUMENT, out, tenon_object_new(nodes, 0, &out, ERR));
  FAILS_KEEPING(TENON_INVALID_ARGUMENT, out, tenon_object_new(nodes, SIZE_MAX, &out, ERR));
  nodes[1] = integer(1);
  FAILS(TENON_INVALID_ARGUMENT, tenon_object_new(nodes, 2, NULL, ERR));
}

static void wrong_reads(void) {
  tenon_object_node nodes[3], got[3];
  tenon_object *object, *out = PATTERN;
  tenon_message *message = PATTERN;
  const tenon_share_options wrong_access = check_share_options(99);
  nodes[0] = container(TENON_OBJECT_LIST, 2);
  nodes[1] = integer(1);
  nodes[2] = integer(2);
  object = new_object(nodes, 3);
  memcpy(got, nodes, sizeof(got));
  FAILS_KEEPING(TENON_INVALID_ARGUMENT, got, tenon_object_get_nodes(object, 1, got, 3, ERR));
  FAILS_KEEPING(TENON_INVALID_ARGUMENT, got, tenon_object_get_nodes(object, 4, got, 0, ERR));
  FAILS_KEEPING(TENON_INVALID_ARGUMENT, got, tenon_object_get_nodes(object, SIZE_MAX, got, 2, ERR));
  FAILS_KEEPING(TENON_INVALID_ARGUMENT, got, tenon_object_get_nodes(object, 2, got, SIZE_MAX, ERR));
  FAILS_KEEPING(TENON_INVALID_ARGUMENT, got, tenon_object_get_nodes(NULL, 0, got, 3, ERR));
  FAILS(TENON_INVALID_ARGUMENT, tenon_object_get_nodes(object, 0, NULL, 3, ERR));
  FAILS_KEEPING(TENON_INVALID_ARGUMENT, message, tenon_message_new_from_object(NULL, NULL, &message, ERR));
  FAILS_KEEPING(TENON_INVALID_ARGUMENT, message, tenon_message_new_from_object(object, &wrong_access, &message, ERR));
  FAILS(TENON_INVALID_ARGUMENT, tenon_message_new_from_object(object, NULL, NULL, ERR));
  OK(tenon_message_new_from_object(object, NULL, &message, ERR));
  FAILS_KEEPING(TENON_INVALID_ARGUMENT, out, tenon_object_new_from_message(NULL, &out, ERR));
  FAILS(TENON_INVALID_ARGUMENT, tenon_object_new_from_message(message, NULL, ERR));
  tenon_message_release(message);
  tenon_object_release(object);
}

static void keys(void) {
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 8, 1);
  tenon_tensor *tensor = check_bytes_tensor(storage);
  tenon_composite *csr = new_csr();
  tenon_object_node nodes[9];
  tenon_object_node bad[6];
  size_t i;
  bad[0] = container(TENON_OBJECT_LIST, 0);
  bad[1] = container(TENON_OBJECT_SET, 0);
  bad[2] = container(TENON_OBJECT_DICT, 0);
  bad[3] = tensor_node(tensor);
  bad[4] = composite_node(csr);
  for (i = 0; i < 5; i++) {
    nodes[0] = container(TENON_OBJECT_SET, 1);
    nodes[1] = bad[i];
    refuse(nodes, 2, "1");
    nodes[0] = container(TENON_OBJECT_DICT, 1);
    nodes[2] = integer(0);
    refuse(nodes, 3, "1");
    nodes[1] = container(TENON_OBJECT_TUPLE, 2); /* a tuple is as good a key as what it holds */
    nodes[3] = bad[i];
    nodes[4] = integer(0);
    refuse(nodes, 5, "3");
    nodes[1] = integer(0); /* any value can stand behind a key */
    nodes[2] = bad[i];
    tenon_object_release(new_object(nodes, 3));
  }

  {
    /* In each row the second and the third key are equal in Python. */
    const tenon_object_node equal[][2] = {
        {integer(1), boolean(1)},
        {integer(1), real(1.0)},
        {boolean(1), complex_of(1, 0)},
        {real(0.0), real(-0.0)},
        {integer(INT64_MIN), real(-9223372036854775808.0)},
        {complex_of(0.5, 2), complex_of(0.5, 2)},
        {str("a"), text_of(TENON_OBJECT_STR, "ab", 1)},
        {node_of(TENON_OBJECT_NONE), node_of(TENON_OBJECT_NONE)},
        {container(TENON_OBJECT_TUPLE, 0), container(TENON_OBJECT_TUPLE, 0)},
    };
    const tenon_object_node different[][2] = {
        {integer(1), real(1.5)},
        {integer(INT64_MAX), real(9223372036854775808.0)},
        {integer(INT64_MIN), real(9223372036854775808.0)},
        {integer((INT64_C(1) << 53) + 1), real(9007199254740992.0)},
        {real(0.5), complex_of(0.5, 2)},
        {str("a"), text_of(TENON_OBJECT_BYTES, "a", 1)},
        {str(""), node_of(TENON_OBJECT_NONE)},
        {str("a"), text_of(TENON_OBJECT_STR, "a\0", 2)},
        {boolean(0), node_of(TENON_OBJECT_NONE)},
        {str(""), container(TENON_OBJECT_TUPLE, 0)},
    };
    for (i = 0; i < COUNT_OF(equal); i++) {
      nodes[0] = container(TENON_OBJECT_SET, 3);
      nodes[1] = str("another");
      nodes[2] = equal[i][0];
      nodes[3] = equal[i][1];
      refuse(nodes, 4, "3");
      nodes[0] = container(TENON_OBJECT_DICT, 2);
      nodes[1] = equal[i][1];
      nodes[2] = str("value");
      nodes[3] = equal[i][0];
      nodes[4] = str("value");
      refuse(nodes, 5, "3");
      nodes[0] = container(TENON_OBJECT_SET, 2);
      nodes[1] = nodes[3] = container(TENON_OBJECT_TUPLE, 1);
      nodes[2] = equal[i][0];
      nodes[4] = equal[i][1];
      refuse(nodes, 5, "3");
    }
    for (i = 0; i < COUNT_OF(different); i++) {
      nodes[0] = container(TENON_OBJECT_SET, 2);
      nodes[1] = different[i][0];
      nodes[2] = different[i][1];
      tenon_object_release(new_object(nodes, 3));
    }
  }
  nodes[0] = container(TENON_OBJECT_SET, 2); /* ((1,), 2) and ((1, 2),) */
  nodes[1] = nodes[6] = container(TENON_OBJECT_TUPLE, 2);
  nodes[2] = nodes[5] = container(TENON_OBJECT_TUPLE, 1);
  nodes[3] = nodes[7] = integer(1);
  nodes[4] = nodes[8] = integer(2);
  tenon_object_release(new_object(nodes, 9));
  tenon_tensor_release(tensor);
  tenon_composite_release(csr);
  tenon_storage_release(storage);
}

static void depth(void) {
  tenon_object_node nodes[TENON_OBJECT_MAX_DEPTH + 2];
  tenon_object *object, *got = NULL;
  tenon_message *message = NULL;
  size_t i;
  for (i = 0; i <= TENON_OBJECT_MAX_DEPTH; i++) nodes[i] = container(i % 2 == 0 ? TENON_OBJECT_LIST : TENON_OBJECT_TUPLE, 1);
  nodes[TENON_OBJECT_MAX_DEPTH + 1] = integer(1);
  refuse(nodes, COUNT_OF(nodes), "200");
  object = new_object(nodes + 1, COUNT_OF(nodes) - 1);
  OK(tenon_message_new_from_object(object, NULL, &message, ERR));
  OK(tenon_object_new_from_message(message, &got, ERR));
  CHECK_EQ(node_at(got, TENON_OBJECT_MAX_DEPTH).integer, 1);
  tenon_object_release(got);
  tenon_object_release(object);
  tenon_message_release(message);
  nodes[TENON_OBJECT_MAX_DEPTH] = integer(1); /* an empty container counts too */
  nodes[TENON_OBJECT_MAX_DEPTH - 1] = container(TENON_OBJECT_LIST, 1);
  tenon_object_release(new_object(nodes, TENON_OBJECT_MAX_DEPTH + 1));
  nodes[TENON_OBJECT_MAX_DEPTH] = container(TENON_OBJECT_SET, 0);
  refuse(nodes, TENON_OBJECT_MAX_DEPTH + 1, "200");
}

static tenon_object *receive(tenon_connection *connection) {
  tenon_message *message = NULL;
  tenon_object *object = NULL;
  OK(tenon_recv(connection, NULL, &message, ERR));
  OK(tenon_object_new_from_message(message, &object, ERR));
  tenon_message_release(message); /* the object keeps what it needs */
  return object;
}

static void send_object(tenon_connection *connection, const tenon_object *object) {
  tenon_message *message = NULL;
  OK(tenon_message_new_from_object(object, NULL, &message, ERR));
  OK(tenon_send(connection, message, NULL, ERR));
  tenon_message_release(message);
}

/* Another process: it changes an element and the step, and sends everything back in a list. */
static void receiver(int sock) {
  tenon_connection *connection = NULL;
  tenon_composite *checked = NULL;
  tenon_object *object, *changed;
  tenon_object_node nodes[8], first, second, csr;
  void *data = NULL;
  OK(tenon_connection_new(sock, NULL, &connection, ERR));
  object = receive(connection);
  first = value_of(object, "first");
  second = value_of(object, "second");
  csr = value_of(object, "csr");
  CHECK(first.kind == TENON_OBJECT_TENSOR && second.kind == TENON_OBJECT_TENSOR && csr.kind == TENON_OBJECT_COMPOSITE);
  CHECK(tenon_tensor_storage(first.tensor) == tenon_tensor_storage(second.tensor));
  CHECK(tenon_tensor_numel(first.tensor) == 16 && tenon_tensor_numel(second.tensor) == 12 && offset_of(second.tensor) == 4);
  OK(tenon_tensor_data_mut(second.tensor, &data, ERR));
  ((float *)data)[0] = 42;
  CHECK(((const float *)tenon_tensor_data(first.tensor))[4] == 42.0F);
  CHECK(((const float *)tenon_tensor_data(spec_of(csr.composite).values))[2] == 3.0F);
  OK(tenon_composite_check(csr.composite, &checked, ERR));
  tenon_composite_release(checked);
  nodes[0] = container(TENON_OBJECT_LIST, 5);
  nodes[1] = integer(value_of(object, "step").integer + 1);
  nodes[2] = value_of(object, "name"); /* what was read can be given back */
  nodes[3] = csr;
  nodes[4] = second;
  nodes[5] = container(TENON_OBJECT_TUPLE, 2);
  nodes[6] = complex_of(0.5, -1);
  nodes[7] = text_of(TENON_OBJECT_BYTES, "\0\xff", 2);
  changed = new_object(nodes, COUNT_OF(nodes));
  tenon_object_release(object);
  send_object(connection, changed);
  tenon_object_release(changed);
  object = receive(connection);
  CHECK_EQ(node_at(object, 0).kind, TENON_OBJECT_NONE); /* an object without tensors */
  tenon_object_release(object);
  tenon_connection_release(connection);
}

static void sent_to_another_process_and_back(void) {
  tenon_connection *connection = NULL;
  tenon_object_node nodes[11], got[8];
  tenon_storage *storage;
  tenon_tensor *first, *second;
  tenon_composite *csr;
  tenon_message *message = NULL;
  tenon_object *object;
  int sock = -1;
  const pid_t child = check_spawn(SOCK_SEQPACKET, receiver, &sock);
  storage = check_storage(TENON_MODE_SHARED, 0, 64, 1);
  first = floats_at(storage, 0, 16);
  second = floats_at(storage, 4, 12);
  csr = new_csr();
  nodes[0] = container(TENON_OBJECT_DICT, 5);
  nodes[1] = str("first");
  nodes[2] = tensor_node(first);
  nodes[3] = str("second");
  nodes[4] = tensor_node(second);
  nodes[5] = str("csr");
  nodes[6] = composite_node(csr);
  nodes[7] = str("step");
  nodes[8] = integer(INT64_C(1) << 40);
  nodes[9] = str("name");
  nodes[10] = str("\xc3\xa4");
  OK(tenon_connection_new(sock, NULL, &connection, ERR));
  object = new_object(nodes, COUNT_OF(nodes));
  OK(tenon_message_new_from_object(object, NULL, &message, ERR));
  /* The two tensors have one storage, and the composite has three. */
  CHECK_EQ(tenon_message_count(message), 4);
  tenon_message_release(message);
  send_object(connection, object);
  tenon_object_release(object);

  object = receive(connection);
  CHECK_EQ(tenon_object_count(object), 8);
  got[0].struct_size = sizeof(got[0]);
  OK(tenon_object_get_nodes(object, 0, got, 8, ERR));
  CHECK(got[0].kind == TENON_OBJECT_LIST && got[0].count == 5 && got[1].integer == (INT64_C(1) << 40) + 1);
  CHECK(is_text(got[2], TENON_OBJECT_STR, "\xc3\xa4", 2) && is_text(got[7], TENON_OBJECT_BYTES, "\0\xff", 2));
  CHECK(got[5].kind == TENON_OBJECT_TUPLE && got[6].real == 0.5 && got[6].imaginary == -1);
  CHECK(tenon_tensor_storage(got[4].tensor) == storage && ((const float *)tenon_tensor_data(got[4].tensor))[0] == 42.0F);
  CHECK(tenon_tensor_storage(spec_of(got[3].composite).values) == tenon_tensor_storage(spec_of(csr).values));
  CHECK(spec_of(got[3].composite).layout == TENON_TENSOR_LAYOUT_SPARSE_CSR && spec_of(got[3].composite).sizes[1] == 4);
  tenon_object_release(object);
  nodes[0] = node_of(TENON_OBJECT_NONE);
  object = new_object(nodes, 1);
  send_object(connection, object);
  tenon_object_release(object);
  check_join(child);
  tenon_tensor_release(first);
  tenon_tensor_release(second);
  tenon_composite_release(csr);
  tenon_storage_release(storage);
  tenon_connection_release(connection);
  close(sock);
}

enum { kLongKeys = 2000, kKeyRoom = 80 };

static void long_key(size_t number, char key[kKeyRoom]) {
  snprintf(key, kKeyRoom, "key number %zu of two thousand keys, with fifty bytes", number);
}

static void long_receiver(int sock) {
  tenon_connection *connection = NULL;
  tenon_object *object;
  char key[kKeyRoom];
  size_t i;
  OK(tenon_connection_new(sock, NULL, &connection, ERR));
  object = receive(connection);
  CHECK_EQ(tenon_object_count(object), 2 * kLongKeys + 1);
  CHECK_EQ(tenon_object_count(object), node_at(object, 0).next);
  for (i = 0; i < kLongKeys; i += 499) {
    long_key(i, key);
    CHECK_EQ(value_of(object, key).integer, i);
  }
  CHECK_EQ(tenon_tensor_numel(node_at(object, 2 * kLongKeys).tensor), 16);
  tenon_object_release(object);
  tenon_connection_release(connection);
}

/* The pickle does not fit into the user bytes, so it travels in a tensor of its own. */
static void long_objects_travel(void) {
  static char texts[kLongKeys][kKeyRoom];
  static tenon_object_node nodes[2 * kLongKeys + 1];
  tenon_connection *connection = NULL;
  tenon_storage *storage;
  tenon_message *message = NULL;
  tenon_object *object;
  tenon_tensor *tensor;
  size_t i, nbytes = 0;
  int sock = -1;
  const pid_t child = check_spawn(SOCK_STREAM, long_receiver, &sock);
  storage = check_storage(TENON_MODE_SHARED, 0, 64, 1);
  tensor = floats_at(storage, 0, 16);
  nodes[0] = container(TENON_OBJECT_DICT, kLongKeys);
  for (i = 0; i < kLongKeys; i++) {
    long_key(i, texts[i]);
    nodes[2 * i + 1] = str(texts[i]);
    nodes[2 * i + 2] = integer((int64_t)i);
  }
  nodes[2 * kLongKeys] = tensor_node(tensor);
  object = new_object(nodes, COUNT_OF(nodes));
  OK(tenon_message_new_from_object(object, NULL, &message, ERR));
  CHECK_EQ(tenon_message_count(message), 2);
  CHECK(tenon_message_user_bytes(message, &nbytes) != NULL && nbytes == 16);
  CHECK(tenon_storage_nbytes(tenon_tensor_storage(tenon_message_tensor(message, 1))) > TENON_MESSAGE_MAX_USER_NBYTES);
  OK(tenon_connection_new(sock, NULL, &connection, ERR));
  OK(tenon_send(connection, message, NULL, ERR));
  check_join(child);
  tenon_message_release(message);
  tenon_object_release(object);
  tenon_tensor_release(tensor);
  tenon_storage_release(storage);
  tenon_connection_release(connection);
  close(sock);
}

static void private_memory_stays(void) {
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, TENON_STORAGE_PRIVATE, 64, 1);
  tenon_tensor *tensor = check_bytes_tensor(storage);
  tenon_object_node node = tensor_node(tensor);
  tenon_object *object = new_object(&node, 1);
  tenon_message *message = PATTERN;
  FAILS_KEEPING(TENON_UNSUPPORTED, message, tenon_message_new_from_object(object, NULL, &message, ERR));
  tenon_object_release(object);
  tenon_tensor_release(tensor);
  tenon_storage_release(storage);
}

/* The options are those of a lend. Nobody can lend memory of the mode SHARED so that the kernel
   keeps its borrower from writing. */
static void access_is_that_of_a_lend(void) {
  const tenon_share_options read_only = check_share_options(TENON_ACCESS_READ_ONLY);
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 64, 1);
  tenon_tensor *tensor = check_bytes_tensor(storage);
  tenon_object_node node = tensor_node(tensor);
  tenon_object *object = new_object(&node, 1);
  tenon_message *message = PATTERN;
  FAILS_KEEPING(TENON_PERMISSION, message, tenon_message_new_from_object(object, &read_only, &message, ERR));
  tenon_object_release(object);
  tenon_tensor_release(tensor);
  tenon_storage_release(storage);
}

/* ---- what a hostile sender may send ---------------------------------------------------------- */

/* A message as any sender can write it: the head of an object, a pickle, and the first `n_tensors`
   of three tensors of uint8. Each tensor is all of its storage: 64, 0 and 4096 bytes. */
static tenon_message *message_of(uint32_t version, uint32_t n_storages, const void *pickle, size_t nbytes, size_t n_tensors) {
  static const uint64_t sizes[] = {64, 0, 4096};
  static unsigned char user[TENON_MESSAGE_MAX_USER_NBYTES];
  tenon_message *message = NULL;
  size_t i;
  OK(tenon_message_new(&message, ERR));
  for (i = 0; i < n_tensors; i++) {
    tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, sizes[i], i);
    tenon_tensor *tensor = check_bytes_tensor(storage);
    OK(tenon_message_add(message, &tensor, NULL, 1, NULL, ERR));
    tenon_tensor_release(tensor);
    tenon_storage_release(storage);
  }
  CHECK(16 + nbytes <= sizeof(user));
  memcpy(user, "tenonobj", 8);
  memcpy(user + 8, &version, 4);
  memcpy(user + 12, &n_storages, 4);
  memcpy(user + 16, pickle, nbytes);
  OK(tenon_message_set_user_bytes(message, user, 16 + nbytes, ERR));
  return message;
}

/* A pickle as a literal, and its length. */
#define PICKLE(literal) (literal), sizeof(literal) - 1
/* What a pickle begins with: it is of protocol 4. */
#define PROTO "\x80\x04"
#define FUNCTION(module, name) module name "\x93"
#define TENON_PICKLE "\x8c\x0ctenon.pickle"
/* tenon.pickle._tensor(number, the element type uint8, (size,), (1,), offset 0, flags 0). The
   opcode K and one byte are a number. */
#define TENSOR(number, size) FUNCTION(TENON_PICKLE, "\x8c\x07_tensor") "(K" number "J\x01\x08\x01\x00K" size "\x85K\x01\x85K\x00K\x00tR"
/* tenon.pickle._composite(layout, parts by name, (3, 4), None, flags 0, None, {}). */
#define COMPOSITE(layout, parts) FUNCTION(TENON_PICKLE, "\x8c\x0a_composite") "(" layout parts "K\x03K\x04\x86NK\x00N}tR"
#define CSR "\x8c\x0asparse_csr"
#define VALUES "\x8c\x06values"
#define INDICES "\x8c\x07indices"
#define PLAIN_INDICES "\x8c\x0dplain_indices"

/* The pickle is refused in a message that has all three storages. The detail `key` contains `part`,
   and the message of the error contains `text`. */
static void refuse_pickle(tenon_status code, const char *pickle, size_t nbytes, const char *key, const char *part, const char *text) {
  tenon_message *message = message_of(1, 3, pickle, nbytes, 3);
  tenon_object *out = PATTERN;
  FAILS_KEEPING(code, out, tenon_object_new_from_message(message, &out, ERR));
  FAILS_SAYING(code, key, part, tenon_object_new_from_message(message, &out, ERR));
  FAILS_RAW(code, code, tenon_object_new_from_message(message, &out, ERR));
  if (strstr(tenon_error_message(check_error), text) == NULL) check_fail(__FILE__, __LINE__, tenon_error_message(check_error));
  tenon_error_release(check_error);
  tenon_message_release(message);
}

static void hostile_calls(void) {
  /* os.system("true"), by a function and its arguments */
  refuse_pickle(TENON_UNSUPPORTED, PICKLE(PROTO FUNCTION("\x8c\x05posix", "\x8c\x06system") "\x8c\x04true\x85R."), "offset", "25",
                "posix.system");
  refuse_pickle(TENON_UNSUPPORTED, PICKLE(PROTO "cos\nsystem\n\x8c\x04true\x85R."), "offset", "", "os.system");
  /* the function itself */
  refuse_pickle(TENON_UNSUPPORTED, PICKLE(PROTO FUNCTION("\x8c\x05posix", "\x8c\x06system") "."), "offset", "", "posix.system");
  /* an instance of a class, made by NEWOBJ */
  refuse_pickle(TENON_UNSUPPORTED, PICKLE(PROTO FUNCTION("\x8c\x0asubprocess", "\x8c\x05Popen") ")\x81."), "offset", "",
                "subprocess.Popen");
  /* inside plain data, and as an argument of a function that is known */
  refuse_pickle(TENON_UNSUPPORTED,
                PICKLE(PROTO "](K\x01" FUNCTION("\x8c\x05posix", "\x8c\x06system") "\x8c\x04true\x85R"
                                                                                   "e."),
                "offset", "", "posix.system");
  refuse_pickle(TENON_CORRUPT,
                PICKLE(PROTO FUNCTION("\x8c\010builtins", "\x8c\007complex") FUNCTION("\x8c\x05posix", "\x8c\x06system") "K\x00\x86R."),
                "offset", "", "complex");
  /* No plain data needs these functions: _imported("posix", "system"), loads(). */
  refuse_pickle(TENON_UNSUPPORTED, PICKLE(PROTO FUNCTION(TENON_PICKLE, "\x8c\x09_imported") "\x8c\x05posix\x8c\x06system\x86R."), "offset",
                "", "_imported");
  refuse_pickle(TENON_UNSUPPORTED, PICKLE(PROTO FUNCTION(TENON_PICKLE, "\x8c\x05loads") ")R."), "offset", "", "loads");
  /* BUILD gives a tensor a state */
  refuse_pickle(TENON_UNSUPPORTED, PICKLE(PROTO TENSOR("\x00", "\x40") "}b."), "offset", "", "_tensor");
  /* an integer of 9 bytes, 2^64 */
  refuse_pickle(TENON_UNSUPPORTED, PICKLE(PROTO "\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01."), "offset", "2", "64 bits");
}

static void hostile_tensors(void) {
  tenon_message *message = message_of(1, 3, PICKLE(PROTO TENSOR("\x02", "\x40") "."), 3);
  tenon_object *object = NULL;
  tenon_object_node node;
  /* This pickle is right. Each pickle below differs from it in one place. */
  OK(tenon_object_new_from_message(message, &object, ERR));
  node = node_at(object, 0);
  CHECK(node.kind == TENON_OBJECT_TENSOR && tenon_tensor_numel(node.tensor) == 64);
  CHECK(tenon_tensor_storage(node.tensor) == tenon_tensor_storage(tenon_message_tensor(message, 2)));
  CHECK(check_filled(tenon_tensor_data(node.tensor), 64, 2));
  tenon_object_release(object);
  tenon_message_release(message);

  refuse_pickle(TENON_CORRUPT, PICKLE(PROTO TENSOR("\x03", "\x40") "."), "offset", "27", "storage 3 is named, and 3 came");
  refuse_pickle(TENON_CORRUPT, PICKLE(PROTO FUNCTION(TENON_PICKLE, "\x8c\x08_storage") "J\xff\xff\xff\xff\x85R."), "offset", "",
                "storage -1");
  /* One element more than storage 0 has. */
  refuse_pickle(TENON_CORRUPT, PICKLE(PROTO TENSOR("\x00", "\x41") "."), "offset", "", "");
  /* Storage 1 has no element. */
  refuse_pickle(TENON_CORRUPT, PICKLE(PROTO TENSOR("\x01", "\x01") "."), "offset", "", "");
  /* N is the number of K, so the arguments shift. */
  refuse_pickle(TENON_CORRUPT, PICKLE(PROTO TENSOR("N", "\x01") "."), "offset", "", "");
  /* 8 elements with strides of 10: the last one is 7 behind the end */
  refuse_pickle(TENON_CORRUPT,
                PICKLE(PROTO FUNCTION(TENON_PICKLE, "\x8c\x07_tensor") "(K\x00J\x01\x08\x01\x00K\x08\x85K\x0a\x85K\x00K\x00tR."), "offset",
                "", "");
  /* an offset that is beyond the end; one below 0 */
  refuse_pickle(TENON_CORRUPT,
                PICKLE(PROTO FUNCTION(TENON_PICKLE, "\x8c\x07_tensor") "(K\x00J\x01\x08\x01\x00K\x01\x85K\x01\x85K\x40K\x00tR."), "offset",
                "", "");
  refuse_pickle(
      TENON_CORRUPT,
      PICKLE(PROTO FUNCTION(TENON_PICKLE, "\x8c\x07_tensor") "(K\x00J\x01\x08\x01\x00K\x01\x85K\x01\x85J\xff\xff\xff\xffK\x00tR."),
      "offset", "", "offset");
  /* two sizes and one stride; an argument too few; no element type at all */
  refuse_pickle(TENON_CORRUPT,
                PICKLE(PROTO FUNCTION(TENON_PICKLE, "\x8c\x07_tensor") "(K\x00J\x01\x08\x01\x00K\x01K\x01\x86K\x01\x85K\x00K\x00tR."),
                "offset", "", "strides");
  refuse_pickle(TENON_CORRUPT, PICKLE(PROTO FUNCTION(TENON_PICKLE, "\x8c\x07_tensor") "(K\x00J\x01\x08\x01\x00K\x01\x85K\x01\x85K\x00tR."),
                "offset", "", "5 arguments");
  refuse_pickle(TENON_CORRUPT, PICKLE(PROTO FUNCTION(TENON_PICKLE, "\x8c\x07_tensor") "(K\x00NK\x01\x85K\x01\x85K\x00K\x00tR."), "offset",
                "", "element type");
}

static void hostile_composites(void) {
  tenon_message *message;
  tenon_object *object = NULL;
  tenon_object_node node;
  /* a COO tensor of the sizes (3, 4): values of uint8 without elements, and no indices */
  refuse_pickle(TENON_CORRUPT, PICKLE(PROTO COMPOSITE("\x8c\x0asparse_coo", "}" VALUES TENSOR("\x01", "\x00") "s") "."), "part", "indices",
                "without indices");
  refuse_pickle(TENON_CORRUPT, PICKLE(PROTO COMPOSITE(CSR, "}") "."), "part", "values", "without values");
  /* all parts are there, and the indices are of uint8 */
  refuse_pickle(TENON_CORRUPT,
                PICKLE(PROTO COMPOSITE(CSR, "}" VALUES TENSOR("\x00", "\x03") "s" INDICES TENSOR("\x00", "\x04") "s" PLAIN_INDICES TENSOR(
                                                "\x00", "\x03") "s") "."),
                "part", "indices", "");
  /* a part of another layout, a part twice, and a part that is no tensor */
  refuse_pickle(TENON_CORRUPT, PICKLE(PROTO COMPOSITE(CSR, "}\x8c\x07offsets" TENSOR("\x00", "\x03") "s") "."), "offset", "", "no part");
  refuse_pickle(TENON_CORRUPT, PICKLE(PROTO COMPOSITE(CSR, "}" VALUES TENSOR("\x00", "\x03") "s" VALUES TENSOR("\x00", "\x03") "s") "."),
                "offset", "", "twice");
  refuse_pickle(TENON_CORRUPT, PICKLE(PROTO COMPOSITE(CSR, "}" VALUES "K\x00s" INDICES "K\x00s" PLAIN_INDICES "K\x00s") "."), "offset", "",
                "expected a tensor");
  refuse_pickle(TENON_UNSUPPORTED, PICKLE(PROTO COMPOSITE("\x8c\x0asparse_xyz", "}") "."), "offset", "", "sparse_xyz");
  /* a jagged tensor without its number ragged_dim */
  refuse_pickle(
      TENON_CORRUPT,
      PICKLE(PROTO COMPOSITE("\x8c\x06jagged", "}" VALUES TENSOR("\x00", "\x03") "s\x8c\x07offsets" TENSOR("\x00", "\x04") "s") "."),
      "offset", "", "ragged dimension 0");
  /* a composite of no parts that is right: meta, of 3 times 4 float32 */
  message = message_of(
      1, 0, PICKLE(PROTO FUNCTION(TENON_PICKLE, "\x8c\x0a_composite") "(\x8c\x04meta}K\x03K\x04\x86K\x04K\x01\x86K\x00\x8c\007float32}tR."),
      0);
  OK(tenon_object_new_from_message(message, &object, ERR));
  node = node_at(object, 0);
  CHECK(node.kind == TENON_OBJECT_COMPOSITE && spec_of(node.composite).layout == TENON_TENSOR_LAYOUT_META);
  CHECK(spec_of(node.composite).dtype.bits == 32 && spec_of(node.composite).strides[0] == 4);
  tenon_object_release(object);
  tenon_message_release(message);
}

/* Appends to a pickle that is built in a loop. */
static size_t put(unsigned char *pickle, size_t at, const char *bytes, size_t nbytes) {
  memcpy(pickle + at, bytes, nbytes);
  return at + nbytes;
}

static void hostile_sizes(void) {
  static unsigned char pickle[8192];
  struct rusage before, after;
  int64_t begin_ns;
  size_t i, at;
  /* a list that has itself as its item, and a tuple in the list that it is in */
  refuse_pickle(TENON_UNSUPPORTED, PICKLE(PROTO "]\x94h\000a."), "offset", "2", "contains itself");
  refuse_pickle(TENON_UNSUPPORTED, PICKLE(PROTO "]\x94h\x00\205a."), "offset", "2", "contains itself");

  /* Thirty lists, of which each has the one before twice: 2^30 values. The list 0 is empty. */
  at = put(pickle, 0, PICKLE(PROTO "]\2240"));
  for (i = 0; i < 30; i++) {
    unsigned char list[] = "](h.h.e\2240";
    list[3] = list[5] = (unsigned char)i;
    at = put(pickle, at, (const char *)list, sizeof(list) - (i < 29 ? 1 : 2));
  }
  at = put(pickle, at, ".", 1);
  CHECK(getrusage(RUSAGE_SELF, &before) == 0);
  begin_ns = check_now_ns();
  refuse_pickle(TENON_RESOURCE_EXHAUSTED, (const char *)pickle, at, "limit", "nodes", "again and again");
  CHECK(check_now_ns() - begin_ns < INT64_C(10) * 1000000000);
  CHECK(getrusage(RUSAGE_SELF, &after) == 0);
  CHECK(after.ru_maxrss - before.ru_maxrss < 64 * 1024);

  /* 201 lists within each other */
  at = put(pickle, 0, PICKLE(PROTO));
  for (i = 0; i <= TENON_OBJECT_MAX_DEPTH; i++) at = put(pickle, at, "]", 1);
  for (i = 0; i < TENON_OBJECT_MAX_DEPTH; i++) at = put(pickle, at, "a", 1);
  at = put(pickle, at, ".", 1);
  refuse_pickle(TENON_RESOURCE_EXHAUSTED, (const char *)pickle, at, "limit", "depth", "200");
  refuse_pickle(TENON_RESOURCE_EXHAUSTED, (const char *)pickle, at, "limit_value", "200", "200");

  /* the keys 1 and True; the key []; a text that is no UTF-8; a persistent id */
  refuse_pickle(TENON_CORRUPT, PICKLE(PROTO "}(K\x01N\x88Nu."), "index", "3", "twice");
  refuse_pickle(TENON_CORRUPT, PICKLE(PROTO "}(]Nu."), "index", "1", "cannot be a key");
  refuse_pickle(TENON_UNSUPPORTED, PICKLE(PROTO "\x8c\x01\xff."), "offset", "2", "not UTF-8");
  refuse_pickle(TENON_CORRUPT, PICKLE(PROTO "K\x01Q."), "offset", "", "persistent id");
}

static void hostile_heads(void) {
  static const char kPickle[] = PROTO "](K\x01" TENSOR("\x00", "\x40") "\x8c\x04texte.";
  static unsigned char user[16 + sizeof(kPickle) - 1];
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 64, 1);
  tenon_tensor *tensor = check_bytes_tensor(storage), *floats = floats_at(storage, 0, 16);
  tenon_message *message;
  tenon_object *object = NULL, *out = PATTERN;
  size_t i, n = 0;

  /* Every message that is cut is refused, wherever it is cut. */
  message = message_of(1, 1, kPickle, sizeof(kPickle) - 1, 1);
  OK(tenon_object_new_from_message(message, &object, ERR));
  CHECK_EQ(tenon_object_count(object), 4);
  tenon_object_release(object);
  CHECK(tenon_message_user_bytes(message, &n) != NULL && n == sizeof(user));
  memcpy(user, tenon_message_user_bytes(message, &n), n);
  for (i = 0; i < sizeof(user); i++) {
    OK(tenon_message_set_user_bytes(message, user, i, ERR));
    FAILS_KEEPING(TENON_CORRUPT, out, tenon_object_new_from_message(message, &out, ERR));
  }
  user[0] = 'T';
  OK(tenon_message_set_user_bytes(message, user, sizeof(user), ERR));
  FAILS_KEEPING(TENON_CORRUPT, out, tenon_object_new_from_message(message, &out, ERR));
  tenon_message_release(message);

  /* A message that was sent as a message. */
  OK(tenon_message_new(&message, ERR));
  OK(tenon_message_add(message, &tensor, NULL, 1, NULL, ERR));
  FAILS_KEEPING(TENON_CORRUPT, out, tenon_object_new_from_message(message, &out, ERR));
  tenon_message_release(message);

  /* Later versions, and none. */
  for (i = 0; i < 4; i++) {
    static const uint32_t versions[] = {3, 0, 257, UINT32_MAX};
    char text[16];
    snprintf(text, sizeof(text), "%u", versions[i]);
    message = message_of(versions[i], 1, kPickle, sizeof(kPickle) - 1, 1);
    FAILS_KEEPING(TENON_INCOMPATIBLE, out, tenon_object_new_from_message(message, &out, ERR));
    FAILS_SAYING(TENON_INCOMPATIBLE, "version", text, tenon_object_new_from_message(message, &out, ERR));
    tenon_message_release(message);
  }

  /* The number of storages is wrong. In version 2 one more tensor has the pickle. */
  for (i = 0; i < 6; i++) {
    static const uint32_t versions[] = {1, 1, 1, 2, 2, 2}, counts[] = {0, 2, UINT32_MAX, 1, UINT32_MAX, 2};
    message = message_of(versions[i], counts[i], kPickle, sizeof(kPickle) - 1, 1);
    FAILS_KEEPING(TENON_CORRUPT, out, tenon_object_new_from_message(message, &out, ERR));
    tenon_message_release(message);
  }
  {
    tenon_composite *csr = new_csr();
    message = message_of(1, 4, kPickle, sizeof(kPickle) - 1, 1);
    OK(tenon_message_add_composites(message, &csr, NULL, 1, NULL, ERR));
    FAILS_KEEPING(TENON_CORRUPT, out, tenon_object_new_from_message(message, &out, ERR));
    tenon_message_release(message);
    tenon_composite_release(csr);
  }

  /* Version 2: the tensor for the pickle is of float32. Then it is of uint8 and has no pickle. */
  message = message_of(2, 1, "", 0, 1);
  OK(tenon_message_add(message, &floats, NULL, 1, NULL, ERR));
  FAILS_KEEPING(TENON_CORRUPT, out, tenon_object_new_from_message(message, &out, ERR));
  tenon_message_release(message);
  message = message_of(2, 0, "", 0, 1);
  FAILS_SAYING(TENON_CORRUPT, "offset", "", tenon_object_new_from_message(message, &out, ERR));
  tenon_message_release(message);
  /* A storage that is named came as a tensor of float32. */
  message = message_of(1, 1, kPickle, sizeof(kPickle) - 1, 0);
  OK(tenon_message_add(message, &floats, NULL, 1, NULL, ERR));
  FAILS_SAYING(TENON_CORRUPT, "offset", "", tenon_object_new_from_message(message, &out, ERR));
  tenon_message_release(message);
  tenon_tensor_release(tensor);
  tenon_tensor_release(floats);
  tenon_storage_release(storage);
}

int main(void) {
  check_begin(120);
  RUN(made_and_read);
  RUN(struct_sizes);
  RUN(wrong_nodes);
  RUN(wrong_reads);
  RUN(keys);
  RUN(depth);
  RUN(sent_to_another_process_and_back);
  RUN(long_objects_travel);
  RUN(private_memory_stays);
  RUN(access_is_that_of_a_lend);
  RUN(hostile_calls);
  RUN(hostile_tensors);
  RUN(hostile_composites);
  RUN(hostile_sizes);
  RUN(hostile_heads);
  return 0;
}
