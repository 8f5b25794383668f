/* Tests tenon/object.h: objects that are made, read, sent to another process and back, and refused.
 */
#include "object_kit.h"

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

static tenon_object_node str(const char *text) {
  return text_of(TENON_OBJECT_STR, text, strlen(text));
}

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

static uint64_t offset_of(const tenon_tensor *tensor) {
  tenon_tensor_spec spec;
  SIZED(spec);
  OK(tenon_tensor_get_spec(tensor, &spec, ERR));
  return spec.offset;
}

static tenon_object *new_object(const tenon_object_node *nodes, size_t n) {
  tenon_object *object = NULL;
  OK(tenon_object_new(nodes, n, &object, ERR));
  return object;
}

static tenon_object_node value_of(const tenon_object *object, const char *key) {
  size_t index = SIZE_MAX;
  OK(tenon_object_find(object, 0, key, &index, ERR));
  return node_at(object, index);
}

static int is_text(tenon_object_node node, int32_t kind, const char *text, size_t nbytes) {
  return node.kind == kind && node.nbytes == nbytes &&
         (nbytes == 0 || memcmp(node.data, text, nbytes) == 0);
}

static void made_and_read(void) {
  char key[] = "number";
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 64, 1);
  tenon_tensor *tensor = floats_at(storage, 4, 12);
  tenon_composite *csr = new_csr(TENON_MODE_SHARED, 1);
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
    for (k = 0; k < COUNT_OF(containers); k += 2)
      next = containers[k] == i ? containers[k + 1] : next;
    CHECK(got[i].struct_size == sizeof(got[i]) && got[i].kind == nodes[i].kind &&
          got[i].next == next);
    CHECK_EQ(got[i].count, i == 2 ? 0 : nodes[i].count);
    CHECK(got[i].real == nodes[i].real && got[i].imaginary == nodes[i].imaginary);
    CHECK(got[i].nbytes == nodes[i].nbytes && (i == 14) == (got[i].tensor != NULL) &&
          (i == 16) == (got[i].composite != NULL));
  }
  CHECK(got[2].integer == INT64_MIN && got[8].integer == 1 && got[21].integer == 0);
  CHECK(is_text(got[1], TENON_OBJECT_STR, "number", 6) &&
        is_text(got[9], TENON_OBJECT_BYTES, "\xff\0", 2));
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
  INVALID_KEEPING(at, tenon_object_find(object, 25, "last", &at, ERR));
  INVALID_SAYING("index", "11", tenon_object_find(object, 11, "last", &at, ERR));
  INVALID(tenon_object_find(object, 0, "\xff", &at, ERR));
  INVALID(tenon_object_find(object, 0, NULL, &at, ERR));
  INVALID(tenon_object_find(object, 0, "last", NULL, ERR));
  INVALID(tenon_object_find(NULL, 0, "last", &at, ERR));

  again = new_object(nodes + 24, 1); /* a value alone is an object */
  CHECK_EQ(tenon_object_count(again), 1);
  INVALID(tenon_object_find(again, 0, "last", &at, ERR));
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
  CHECK(larger[1].node.integer == 5 && is_text(larger[2].node, TENON_OBJECT_STR, "text", 4) &&
        larger[2].node.next == 3);
  for (i = 0; i < 3; i++)
    CHECK(larger[i].node.struct_size == sizeof(larger[0]) && larger[i].tail[0] == 0x5a &&
          larger[i].tail[23] == 0x5a);
  tenon_object_release(object);

  memset(larger[0].tail, 0, sizeof(larger[0].tail));
  memset(larger[1].tail, 0, sizeof(larger[1].tail));
  /* A field that this library lacks is set in the last node. */
  FAILS_KEEPING(TENON_UNSUPPORTED, out, tenon_object_new(&larger[0].node, 3, &out, ERR));
  nodes[0] = container(TENON_OBJECT_LIST, 1);
  nodes[1] = integer(5);
  nodes[1].struct_size += 8;
  INVALID_SAYING("index", "1", tenon_object_new(nodes, 2, &out, ERR));
  nodes[0].struct_size = nodes[1].struct_size = sizeof(nodes[0]) - 1;
  INVALID_KEEPING(out, tenon_object_new(nodes, 2, &out, ERR));
  nodes[0].struct_size = 0;
  INVALID_KEEPING(out, tenon_object_new(nodes, 2, &out, ERR));
  nodes[0] = integer(5);
  object = new_object(nodes, 1);
  nodes[0].struct_size = sizeof(nodes[0]) - 1;
  INVALID_KEEPING(nodes, tenon_object_get_nodes(object, 0, nodes, 1, ERR));
  tenon_object_release(object);
}

/* Each case is refused at the node that `index` names. */
static void refuse(const tenon_object_node *nodes, size_t n, const char *index) {
  tenon_object *out = PATTERN;
  INVALID_KEEPING(out, tenon_object_new(nodes, n, &out, ERR));
  FAILS_RAW(TENON_INVALID_ARGUMENT, TENON_INVALID_ARGUMENT, tenon_object_new(nodes, n, &out, ERR));
  CHECK(tenon_error_detail(check_error, "index") != NULL);
  if (strcmp(tenon_error_detail(check_error, "index"), index) != 0)
    check_fail(__FILE__, __LINE__, tenon_error_message(check_error));
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

  INVALID_KEEPING(out, tenon_object_new(NULL, 1, &out, ERR));
  INVALID_KEEPING(out, tenon_object_new(nodes, 0, &out, ERR));
  INVALID_KEEPING(out, tenon_object_new(nodes, SIZE_MAX, &out, ERR));
  nodes[1] = integer(1);
  INVALID(tenon_object_new(nodes, 2, NULL, ERR));
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
  INVALID_KEEPING(got, tenon_object_get_nodes(object, 1, got, 3, ERR));
  INVALID_KEEPING(got, tenon_object_get_nodes(object, 4, got, 0, ERR));
  INVALID_KEEPING(got, tenon_object_get_nodes(object, SIZE_MAX, got, 2, ERR));
  INVALID_KEEPING(got, tenon_object_get_nodes(object, 2, got, SIZE_MAX, ERR));
  INVALID_KEEPING(got, tenon_object_get_nodes(NULL, 0, got, 3, ERR));
  INVALID(tenon_object_get_nodes(object, 0, NULL, 3, ERR));
  INVALID_KEEPING(message, tenon_message_new_from_object(NULL, NULL, &message, ERR));
  INVALID_KEEPING(message, tenon_message_new_from_object(object, &wrong_access, &message, ERR));
  INVALID(tenon_message_new_from_object(object, NULL, NULL, ERR));
  OK(tenon_message_new_from_object(object, NULL, &message, ERR));
  INVALID_KEEPING(out, tenon_object_new_from_message(NULL, &out, ERR));
  INVALID(tenon_object_new_from_message(message, NULL, ERR));
  tenon_message_release(message);
  tenon_object_release(object);
}

static void keys(void) {
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 8, 1);
  tenon_tensor *tensor = check_bytes_tensor(storage);
  tenon_composite *csr = new_csr(TENON_MODE_SHARED, 1);
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
  for (i = 0; i <= TENON_OBJECT_MAX_DEPTH; i++)
    nodes[i] = container(i % 2 == 0 ? TENON_OBJECT_LIST : TENON_OBJECT_TUPLE, 1);
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

/* The other process: it changes an element and the step, and sends everything back in a list. */
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
  CHECK(first.kind == TENON_OBJECT_TENSOR && second.kind == TENON_OBJECT_TENSOR &&
        csr.kind == TENON_OBJECT_COMPOSITE);
  CHECK(tenon_tensor_storage(first.tensor) == tenon_tensor_storage(second.tensor));
  CHECK(tenon_tensor_numel(first.tensor) == 16 && tenon_tensor_numel(second.tensor) == 12 &&
        offset_of(second.tensor) == 4);
  OK(tenon_tensor_data_mut(second.tensor, &data, ERR));
  ((float *)data)[0] = 42;
  CHECK(((const float *)tenon_tensor_data(first.tensor))[4] == 42.0F);
  CHECK(((const float *)tenon_tensor_data(spec_of(csr.composite).values))[2] == 3.0F);
  OK(tenon_composite_check(csr.composite, &checked, ERR));
  tenon_composite_release(checked);
  nodes[0] = container(TENON_OBJECT_LIST, 5);
  nodes[1] = integer(value_of(object, "step").integer + 1);
  nodes[2] = value_of(object, "name"); /* a node that was read makes the value again */
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
  csr = new_csr(TENON_MODE_SHARED, 1);
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
  CHECK(got[0].kind == TENON_OBJECT_LIST && got[0].count == 5 &&
        got[1].integer == (INT64_C(1) << 40) + 1);
  CHECK(is_text(got[2], TENON_OBJECT_STR, "\xc3\xa4", 2) &&
        is_text(got[7], TENON_OBJECT_BYTES, "\0\xff", 2));
  CHECK(got[5].kind == TENON_OBJECT_TUPLE && got[6].real == 0.5 && got[6].imaginary == -1);
  CHECK(tenon_tensor_storage(got[4].tensor) == storage &&
        ((const float *)tenon_tensor_data(got[4].tensor))[0] == 42.0F);
  CHECK(tenon_tensor_storage(spec_of(got[3].composite).values) ==
        tenon_tensor_storage(spec_of(csr).values));
  CHECK(spec_of(got[3].composite).layout == TENON_TENSOR_LAYOUT_SPARSE_CSR &&
        spec_of(got[3].composite).sizes[1] == 4);
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

/* The pickle is larger than the user bytes can be, so it travels in a tensor of its own. */
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
  CHECK(tenon_storage_nbytes(tenon_tensor_storage(tenon_message_tensor(message, 1))) >
        TENON_MESSAGE_MAX_USER_NBYTES);
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
  FAILS_KEEPING(TENON_UNSUPPORTED, message,
                tenon_message_new_from_object(object, NULL, &message, ERR));
  tenon_object_release(object);
  tenon_tensor_release(tensor);
  tenon_storage_release(storage);
}

/* The options are those of a lend. The kernel cannot keep a borrower from writing memory of the
 * mode SHARED. */
static void access_is_that_of_a_lend(void) {
  const tenon_share_options read_only = check_share_options(TENON_ACCESS_READ_ONLY);
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 64, 1);
  tenon_tensor *tensor = check_bytes_tensor(storage);
  tenon_object_node node = tensor_node(tensor);
  tenon_object *object = new_object(&node, 1);
  tenon_message *message = PATTERN;
  FAILS_KEEPING(TENON_PERMISSION, message,
                tenon_message_new_from_object(object, &read_only, &message, ERR));
  tenon_object_release(object);
  tenon_tensor_release(tensor);
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
  return 0;
}
