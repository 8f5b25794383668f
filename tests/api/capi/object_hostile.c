/* Tests tenon/object.h: objects from a hostile sender, and how they are refused. */
#include "object_kit.h"

/* A message as any sender can write it: the head of an object, a pickle, and the first `n_tensors`
   of three tensors of uint8. Each tensor is all of its storage: 64, 0 and 4096 bytes. */
static tenon_message *message_of(uint32_t version, uint32_t n_storages, const void *pickle,
                                 size_t nbytes, size_t n_tensors) {
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
/* Every pickle begins with this. It names protocol 4. */
#define PROTO "\x80\x04"
#define FUNCTION(module, name) module name "\x93"
#define TENON_PICKLE "\x8c\x0ctenon.pickle"
/* tenon.pickle._tensor(number, the element type uint8, (size,), (1,), offset 0, flags 0). The
   opcode K and one byte are a number. */
#define TENSOR_OF(arguments) FUNCTION(TENON_PICKLE, "\x8c\x07_tensor") "(" arguments "tR"
#define TENSOR(number, size) \
  TENSOR_OF("K" number "J\x01\x08\x01\x00K" size "\x85K\x01\x85K\x00K\x00")
/* tenon.pickle._composite(layout, parts by name, (3, 4), None, flags 0, None, {}). */
#define COMPOSITE(layout, parts) \
  FUNCTION(TENON_PICKLE, "\x8c\x0a_composite") "(" layout parts "K\x03K\x04\x86NK\x00N}tR"
#define CSR "\x8c\x0asparse_csr"
#define VALUES "\x8c\x06values"
#define INDICES "\x8c\x07indices"
#define PLAIN_INDICES "\x8c\x0dplain_indices"

/* The pickle is refused in a message that has all three storages. The detail `key` contains `part`,
   and the message of the error contains `text`. */
static void refuse_pickle(tenon_status code, const char *pickle, size_t nbytes, const char *key,
                          const char *part, const char *text) {
  tenon_message *message = message_of(1, 3, pickle, nbytes, 3);
  tenon_object *out = PATTERN;
  FAILS_KEEPING(code, out, tenon_object_new_from_message(message, &out, ERR));
  FAILS_SAYING(code, key, part, tenon_object_new_from_message(message, &out, ERR));
  FAILS_RAW(code, code, tenon_object_new_from_message(message, &out, ERR));
  if (strstr(tenon_error_message(check_error), text) == NULL)
    check_fail(__FILE__, __LINE__, tenon_error_message(check_error));
  tenon_error_release(check_error);
  tenon_message_release(message);
}
#define REFUSE(code, literal, key, part, text) \
  refuse_pickle(code, PICKLE(PROTO literal), key, part, text)

static void hostile_calls(void) {
  /* os.system("true"), by a function and its arguments */
  REFUSE(TENON_UNSUPPORTED, FUNCTION("\x8c\x05posix", "\x8c\x06system") "\x8c\x04true\x85R.",
         "offset", "25", "posix.system");
  REFUSE(TENON_UNSUPPORTED, "cos\nsystem\n\x8c\x04true\x85R.", "offset", "", "os.system");
  /* the function itself */
  REFUSE(TENON_UNSUPPORTED, FUNCTION("\x8c\x05posix", "\x8c\x06system") ".", "offset", "",
         "posix.system");
  /* an instance of a class, made by NEWOBJ */
  REFUSE(TENON_UNSUPPORTED, FUNCTION("\x8c\x0asubprocess", "\x8c\x05Popen") ")\x81.", "offset", "",
         "subprocess.Popen");
  /* inside plain data, and as an argument of a function that is known */
  REFUSE(TENON_UNSUPPORTED,
         "](K\x01" FUNCTION("\x8c\x05posix", "\x8c\x06system") "\x8c\x04true\x85Re.", "offset", "",
         "posix.system");
  REFUSE(TENON_CORRUPT,
         FUNCTION("\x8c\010builtins", "\x8c\007complex")
             FUNCTION("\x8c\x05posix", "\x8c\x06system") "K\x00\x86R.",
         "offset", "", "complex");
  /* No plain data needs these functions: _imported("posix", "system"), loads(). */
  REFUSE(TENON_UNSUPPORTED,
         FUNCTION(TENON_PICKLE, "\x8c\x09_imported") "\x8c\x05posix\x8c\x06system\x86R.", "offset",
         "", "_imported");
  REFUSE(TENON_UNSUPPORTED, FUNCTION(TENON_PICKLE, "\x8c\x05loads") ")R.", "offset", "", "loads");
  /* BUILD gives a tensor a state */
  REFUSE(TENON_UNSUPPORTED, TENSOR("\x00", "\x40") "}b.", "offset", "", "_tensor");
  /* an integer of 9 bytes, 2^64 */
  REFUSE(TENON_UNSUPPORTED, "\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01.", "offset", "2",
         "64 bits");
}

static void hostile_tensors(void) {
  tenon_message *message = message_of(1, 3, PICKLE(PROTO TENSOR("\x02", "\x40") "."), 3);
  tenon_object *object = NULL;
  tenon_object_node node;
  /* This pickle is right. Each pickle below differs from it in one place. */
  OK(tenon_object_new_from_message(message, &object, ERR));
  node = node_at(object, 0);
  CHECK(node.kind == TENON_OBJECT_TENSOR && tenon_tensor_numel(node.tensor) == 64);
  CHECK(tenon_tensor_storage(node.tensor) ==
        tenon_tensor_storage(tenon_message_tensor(message, 2)));
  CHECK(check_filled(tenon_tensor_data(node.tensor), 64, 2));
  tenon_object_release(object);
  tenon_message_release(message);

  REFUSE(TENON_CORRUPT, TENSOR("\x03", "\x40") ".", "offset", "27",
         "storage 3 is named, and 3 came");
  REFUSE(TENON_CORRUPT, FUNCTION(TENON_PICKLE, "\x8c\x08_storage") "J\xff\xff\xff\xff\x85R.",
         "offset", "", "storage -1");
  /* One element more than storage 0 has. */
  REFUSE(TENON_CORRUPT, TENSOR("\x00", "\x41") ".", "offset", "", "");
  /* Storage 1 has no element. */
  REFUSE(TENON_CORRUPT, TENSOR("\x01", "\x01") ".", "offset", "", "");
  /* N is the number of K, so the arguments shift. */
  REFUSE(TENON_CORRUPT, TENSOR("N", "\x01") ".", "offset", "", "");
  /* 8 elements with strides of 10: the last one is 7 behind the end */
  REFUSE(TENON_CORRUPT, TENSOR_OF("K\x00J\x01\x08\x01\x00K\x08\x85K\x0a\x85K\x00K\x00") ".",
         "offset", "", "");
  /* an offset that is beyond the end; one below 0 */
  REFUSE(TENON_CORRUPT, TENSOR_OF("K\x00J\x01\x08\x01\x00K\x01\x85K\x01\x85K\x40K\x00") ".",
         "offset", "", "");
  REFUSE(TENON_CORRUPT,
         TENSOR_OF("K\x00J\x01\x08\x01\x00K\x01\x85K\x01\x85J\xff\xff\xff\xffK\x00") ".", "offset",
         "", "offset");
  /* two sizes and one stride; an argument too few; no element type at all */
  REFUSE(TENON_CORRUPT, TENSOR_OF("K\x00J\x01\x08\x01\x00K\x01K\x01\x86K\x01\x85K\x00K\x00") ".",
         "offset", "", "strides");
  REFUSE(TENON_CORRUPT, TENSOR_OF("K\x00J\x01\x08\x01\x00K\x01\x85K\x01\x85K\x00") ".", "offset",
         "", "5 arguments");
  REFUSE(TENON_CORRUPT, TENSOR_OF("K\x00NK\x01\x85K\x01\x85K\x00K\x00") ".", "offset", "",
         "element type");
}

static void hostile_composites(void) {
  tenon_message *message;
  tenon_object *object = NULL;
  tenon_object_node node;
  /* a COO tensor of the sizes (3, 4): values of uint8 without elements, and no indices */
  REFUSE(TENON_CORRUPT, COMPOSITE("\x8c\x0asparse_coo", "}" VALUES TENSOR("\x01", "\x00") "s") ".",
         "part", "indices", "without indices");
  REFUSE(TENON_CORRUPT, COMPOSITE(CSR, "}") ".", "part", "values", "without values");
  /* all parts are there, and the indices are of uint8 */
  REFUSE(TENON_CORRUPT,
         COMPOSITE(CSR, "}" VALUES TENSOR("\x00", "\x03") "s" INDICES TENSOR(
                            "\x00", "\x04") "s" PLAIN_INDICES TENSOR("\x00", "\x03") "s") ".",
         "part", "indices", "");
  /* a part of another layout, a part twice, and a part that is no tensor */
  REFUSE(TENON_CORRUPT, COMPOSITE(CSR, "}\x8c\x07offsets" TENSOR("\x00", "\x03") "s") ".", "offset",
         "", "no part");
  REFUSE(
      TENON_CORRUPT,
      COMPOSITE(CSR, "}" VALUES TENSOR("\x00", "\x03") "s" VALUES TENSOR("\x00", "\x03") "s") ".",
      "offset", "", "twice");
  REFUSE(TENON_CORRUPT,
         COMPOSITE(CSR, "}" VALUES "K\x00s" INDICES "K\x00s" PLAIN_INDICES "K\x00s") ".", "offset",
         "", "expected a tensor");
  REFUSE(TENON_UNSUPPORTED, COMPOSITE("\x8c\x0asparse_xyz", "}") ".", "offset", "", "sparse_xyz");
  /* a jagged tensor without its number ragged_dim */
  REFUSE(TENON_CORRUPT,
         COMPOSITE("\x8c\x06jagged", "}" VALUES TENSOR("\x00", "\x03") "s\x8c\x07offsets" TENSOR(
                                         "\x00", "\x04") "s") ".",
         "offset", "", "ragged dimension 0");
  /* a composite of no parts that is right: meta, of 3 times 4 float32 */
  message =
      message_of(1, 0,
                 PICKLE(PROTO FUNCTION(
                     TENON_PICKLE,
                     "\x8c\x0a_composite") "(\x8c\x04meta}"
                                           "K\x03K\x04\x86K\x04K\x01\x86K\x00\x8c\007float32}tR."),
                 0);
  OK(tenon_object_new_from_message(message, &object, ERR));
  node = node_at(object, 0);
  CHECK(node.kind == TENON_OBJECT_COMPOSITE &&
        spec_of(node.composite).layout == TENON_TENSOR_LAYOUT_META);
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
  REFUSE(TENON_UNSUPPORTED, "]\x94h\000a.", "offset", "2", "contains itself");
  REFUSE(TENON_UNSUPPORTED, "]\x94h\x00\205a.", "offset", "2", "contains itself");

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
  refuse_pickle(TENON_RESOURCE_EXHAUSTED, (const char *)pickle, at, "limit", "nodes",
                "again and again");
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
  REFUSE(TENON_CORRUPT, "}(K\x01N\x88Nu.", "index", "3", "twice");
  REFUSE(TENON_CORRUPT, "}(]Nu.", "index", "1", "cannot be a key");
  REFUSE(TENON_UNSUPPORTED, "\x8c\x01\xff.", "offset", "2", "not UTF-8");
  REFUSE(TENON_CORRUPT, "K\x01Q.", "offset", "", "persistent id");
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
    FAILS_SAYING(TENON_INCOMPATIBLE, "version", text,
                 tenon_object_new_from_message(message, &out, ERR));
    tenon_message_release(message);
  }

  /* The number of storages is wrong. In version 2 one more tensor has the pickle. */
  for (i = 0; i < 6; i++) {
    static const uint32_t versions[] = {1, 1, 1, 2, 2, 2},
                          counts[] = {0, 2, UINT32_MAX, 1, UINT32_MAX, 2};
    message = message_of(versions[i], counts[i], kPickle, sizeof(kPickle) - 1, 1);
    FAILS_KEEPING(TENON_CORRUPT, out, tenon_object_new_from_message(message, &out, ERR));
    tenon_message_release(message);
  }
  {
    tenon_composite *csr = new_csr(TENON_MODE_SHARED, 1);
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
  RUN(hostile_calls);
  RUN(hostile_tensors);
  RUN(hostile_composites);
  RUN(hostile_sizes);
  RUN(hostile_heads);
  return 0;
}
