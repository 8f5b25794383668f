/* The behaviours of every way to lend, written once and run over each way, mode and access, between
   two processes that share only a socket. A behaviour is a pair of functions, one for each side. A
   way is a pair of functions that carry a message. */
#include "api/capi/check.h"

/* ---- the ways -------------------------------------------------------------------------------- */

struct side {
  int control;                  /* for the checks alone: one process waits for the other */
  int data;                     /* the socket on which the way sends, if it needs one */
  tenon_connection* connection; /* only of the ways that have one */
  tenon_descriptor* held;       /* bytes-only: a lender must hold it until it is opened */
};

struct way {
  const char* name;
  int socket_type;
  int names_and_bytes; /* carries names, user bytes and shapes; else only storages */
  int with_connection;
  void (*send)(struct side* side, const tenon_message* message);
  /* Opens with these options. Returns the status of the call that opens. */
  tenon_status (*recv)(struct side* side, const tenon_open_options* options, tenon_message** out,
                       tenon_error** err);
};

/* The way by handle: one for each tensor's storage, with its fd by SCM_RIGHTS. The borrower makes
 * tensors of bytes. */
static void handle_send(struct side* side, const tenon_message* message) {
  uint32_t n = (uint32_t)tenon_message_count(message), i;
  check_send(side->data, &n, sizeof(n), NULL, 0);
  for (i = 0; i < n; i++) {
    tenon_fd_handle handle = check_handle();
    OK(tenon_share_fd(tenon_tensor_storage(tenon_message_tensor(message, i)), NULL, &handle, ERR));
    check_send(side->data, &handle, sizeof(handle), &handle.fd, handle.fd >= 0 ? 1 : 0);
    tenon_fd_handle_close(&handle);
  }
}

static tenon_status handle_recv(struct side* side, const tenon_open_options* options,
                                tenon_message** out, tenon_error** err) {
  uint32_t n = 0, i;
  tenon_message* message = NULL;
  tenon_status status = TENON_OK;
  tenon_storage* storages[16] = {NULL};
  (void)check_recv(side->data, &n, sizeof(n), NULL, 0);
  CHECK(n <= 16);
  for (i = 0; i < n; i++) {
    tenon_fd_handle handle = check_handle();
    int fd = -1;
    (void)check_recv(side->data, &handle, sizeof(handle), &fd, 1);
    handle.fd = fd;
    if (status == TENON_OK) status = tenon_open_fd(&handle, options, &storages[i], err);
    tenon_fd_handle_close(&handle);
  }
  if (status == TENON_OK) {
    OK(tenon_message_new(&message, ERR));
    for (i = 0; i < n; i++) {
      tenon_tensor* tensor = check_bytes_tensor(storages[i]);
      /* The opened storages become a message, so that all ways give the same. A storage that cannot
       * be lent on, such as a private one, gives no message. */
      if (tenon_message_add(message, &tensor, NULL, 1, NULL, NULL) != TENON_OK) {
        tenon_message_release(message);
        message = NULL;
      }
      tenon_tensor_release(tensor);
      if (message == NULL) break;
    }
  }
  *out = message;
  for (i = 0; i < n; i++) tenon_storage_release(storages[i]);
  return status;
}

static void descriptor_send_with(struct side* side, const tenon_message* message, uint32_t flags) {
  tenon_descriptor_options options;
  const void* bytes;
  const int32_t* fds;
  size_t nbytes = 0, n_fds = 0;
  SIZED(options);
  options.flags = flags;
  tenon_descriptor_release(side->held);
  side->held = NULL;
  OK(tenon_descriptor_new(message, &options, &side->held, ERR));
  bytes = tenon_descriptor_bytes(side->held, &nbytes);
  fds = tenon_descriptor_fds(side->held, &n_fds);
  CHECK((n_fds == 0) == (flags != 0 || fds == NULL));
  check_send(side->data, &nbytes, sizeof(nbytes), fds, n_fds);
  check_send(side->data, bytes, nbytes, NULL, 0);
}

static void descriptor_send(struct side* side, const tenon_message* message) {
  descriptor_send_with(side, message, 0);
}
static void bytes_only_send(struct side* side, const tenon_message* message) {
  descriptor_send_with(side, message, TENON_DESCRIPTOR_BYTES_ONLY);
}

static tenon_status descriptor_recv(struct side* side, const tenon_open_options* options,
                                    tenon_message** out, tenon_error** err) {
  size_t nbytes = 0, n_fds, i;
  int fds[250];
  void* bytes;
  tenon_status status;
  n_fds = check_recv(side->data, &nbytes, sizeof(nbytes), fds, COUNT_OF(fds));
  bytes = malloc(nbytes);
  CHECK(bytes != NULL);
  (void)check_recv(side->data, bytes, nbytes, NULL, 0);
  status = tenon_descriptor_open(bytes, nbytes, n_fds > 0 ? fds : NULL, n_fds, options, out, err);
  for (i = 0; i < n_fds; i++) close(fds[i]);
  free(bytes);
  return status;
}

static void connection_send(struct side* side, const tenon_message* message) {
  if (side->connection == NULL) OK(tenon_connection_new(side->data, NULL, &side->connection, ERR));
  OK(tenon_send(side->connection, message, NULL, ERR));
}

static tenon_status connection_recv(struct side* side, const tenon_open_options* options,
                                    tenon_message** out, tenon_error** err) {
  if (side->connection == NULL) {
    tenon_connection_options how;
    SIZED(how);
    if (options != NULL) {
      how.open_access = options->access;
      how.open_flags = options->flags;
    }
    OK(tenon_connection_new(side->data, &how, &side->connection, ERR));
  }
  return tenon_recv(side->connection, NULL, out, err);
}

static const struct way kWays[] = {
    {"fd handle", SOCK_STREAM, 0, 0, handle_send, handle_recv},
    {"descriptor and fds", SOCK_STREAM, 1, 0, descriptor_send, descriptor_recv},
    {"descriptor, bytes only", SOCK_STREAM, 1, 0, bytes_only_send, descriptor_recv},
    {"connection on a stream", SOCK_STREAM, 1, 1, connection_send, connection_recv},
    {"connection on seqpackets", SOCK_SEQPACKET, 1, 1, connection_send, connection_recv},
};

/* ---- the frame ------------------------------------------------------------------------------- */

static const tenon_mode kModes[] = {TENON_MODE_SHARED, TENON_MODE_LENDER_WRITES, TENON_MODE_FROZEN};
static const char* const kModeNames[] = {"SHARED", "LENDER_WRITES", "FROZEN"};

struct setting {
  const struct way* way;
  tenon_mode mode;
  uint32_t storage_flags;
};

static struct setting setting;

static void borrow(struct side* side, const tenon_open_options* options, tenon_message** out) {
  tenon_error* error = NULL;
  tenon_status status;
  *out = NULL;
  status = setting.way->recv(side, options, out, &error);
  if (status != TENON_OK) check_fail_status(__FILE__, __LINE__, "borrow", TENON_OK, status, error);
  CHECK(*out != NULL);
}

static tenon_message* message_of(tenon_storage* const* storages, size_t n) {
  tenon_message* message = NULL;
  size_t i;
  OK(tenon_message_new(&message, ERR));
  for (i = 0; i < n; i++) {
    tenon_tensor* tensor = check_bytes_tensor(storages[i]);
    OK(tenon_message_add(message, &tensor, NULL, 1, NULL, ERR));
    tenon_tensor_release(tensor);
  }
  return message;
}

static void lend_storages(struct side* side, tenon_storage* const* storages, size_t n) {
  tenon_message* message = message_of(storages, n);
  setting.way->send(side, message);
  tenon_message_release(message);
}

static tenon_storage* storage_at(const tenon_message* message, size_t i) {
  return tenon_tensor_storage(tenon_message_tensor(message, i));
}

/* ---- the behaviours -------------------------------------------------------------------------- */

/* The lender's bytes arrive in place, with the right mode and access. The borrower sees the
 * lender's later writes. */
static void in_place_lender(struct side* side) {
  tenon_storage* storages[3];
  size_t i;
  for (i = 0; i < 3; i++)
    storages[i] = check_storage(setting.mode, setting.storage_flags, 1000 + 4096 * i, i);
  lend_storages(side, storages, 3);
  check_await(side->control);
  if (setting.mode == TENON_MODE_SHARED) {
    for (i = 0; i < 3; i++)
      CHECK(check_filled(tenon_storage_data(storages[i]), 1000 + 4096 * i,
                         i + 10)); /* the borrower wrote */
  } else {
    for (i = 0; i < 3; i++)
      CHECK(check_filled(tenon_storage_data(storages[i]), 1000 + 4096 * i, i));
  }
  if (setting.mode != TENON_MODE_FROZEN)
    OK(tenon_storage_write(storages[1], 100, "from the lender", 15, ERR));
  check_signal(side->control);
  check_await(side->control);
  for (i = 0; i < 3; i++) tenon_storage_release(storages[i]);
}

static void in_place_borrower(struct side* side) {
  tenon_message* message;
  size_t i;
  tenon_stats before, after;
  SIZED(before);
  after = before;
  OK(tenon_stats_get(&before, ERR));
  borrow(side, NULL, &message);
  CHECK(tenon_message_count(message) == 3);
  for (i = 0; i < 3; i++) {
    tenon_storage* storage = storage_at(message, i);
    void* data = PATTERN;
    CHECK(tenon_storage_nbytes(storage) == 1000 + 4096 * i &&
          tenon_storage_mode(storage) == setting.mode);
    CHECK(tenon_storage_is_shared(storage) == 1 && tenon_storage_is_sealed(storage) == 1);
    CHECK((uintptr_t)tenon_storage_data(storage) % 64 == 0);
    CHECK(check_filled(tenon_storage_data(storage), 1000 + 4096 * i, i));
    if (setting.mode == TENON_MODE_SHARED) {
      OK(tenon_storage_data_mut(storage, &data, ERR));
      check_fill(data, 1000 + 4096 * i, i + 10);
    } else {
      CHECK(tenon_storage_is_read_only(storage) == 1);
      FAILS_KEEPING(TENON_PERMISSION, data, tenon_storage_data_mut(storage, &data, ERR));
    }
  }
  OK(tenon_stats_get(&after, ERR));
  CHECK_EQ(after.bytes_copied, before.bytes_copied); /* lending copies nothing */
  CHECK_EQ(after.bytes_opened - before.bytes_opened, 3 * 1000 + 3 * 4096);
  check_signal(side->control);
  check_await(side->control);
  if (setting.mode != TENON_MODE_FROZEN)
    CHECK(memcmp((const char*)tenon_storage_data(storage_at(message, 1)) + 100, "from the lender",
                 15) == 0);
  tenon_message_release(message);
  check_signal(side->control);
}

/* Lent storages outlive the lender's references, and the lender's next storages must not reuse
 * their blocks. */
static void outlives_lender(struct side* side) {
  tenon_storage *storages[4], *later[64];
  size_t i;
  for (i = 0; i < 4; i++) storages[i] = check_storage(setting.mode, setting.storage_flags, 5000, i);
  lend_storages(side, storages, 4);
  for (i = 0; i < 4; i++) tenon_storage_release(storages[i]);
  check_await(side->control);
  for (i = 0; i < COUNT_OF(later); i++)
    later[i] = check_storage(setting.mode, setting.storage_flags, 5000, 1000 + i);
  check_signal(side->control);
  check_await(side->control);
  for (i = 0; i < COUNT_OF(later); i++) tenon_storage_release(later[i]);
}

static void outlives_borrower(struct side* side) {
  tenon_message* message;
  size_t i;
  borrow(side, NULL, &message);
  check_signal(side->control);
  check_await(side->control);
  for (i = 0; i < 4; i++) CHECK(check_filled(tenon_storage_data(storage_at(message, i)), 5000, i));
  tenon_message_release(message);
  check_signal(side->control);
}

/* Tensors of one message that share a storage share it on arrival. A storage that arrives again is
 * the one that the borrower already holds. */
static void identity_lender(struct side* side) {
  tenon_storage* storages[3];
  storages[0] = check_storage(setting.mode, setting.storage_flags, 2000, 1);
  storages[1] = storages[0];
  storages[2] = check_storage(setting.mode, setting.storage_flags, 2000, 2);
  lend_storages(side, storages, 3);
  check_await(side->control);
  lend_storages(side, storages, 3);
  check_await(side->control);
  lend_storages(side, storages, 3);
  check_await(side->control);
  tenon_storage_release(storages[0]);
  tenon_storage_release(storages[2]);
}

static void identity_borrower(struct side* side) {
  tenon_message *first, *second, *third;
  uint64_t id;
  borrow(side, NULL, &first);
  CHECK(storage_at(first, 0) == storage_at(first, 1) &&
        storage_at(first, 0) != storage_at(first, 2));
  CHECK(tenon_storage_same_memory(storage_at(first, 0), storage_at(first, 2)) == 0);
  check_signal(side->control);
  borrow(side, NULL, &second);
  CHECK(storage_at(second, 0) == storage_at(first, 0) &&
        storage_at(second, 2) == storage_at(first, 2));
  id = tenon_storage_id(storage_at(first, 0));
  CHECK(tenon_storage_id(storage_at(second, 1)) == id);
  tenon_message_release(first);
  tenon_message_release(second);
  check_signal(side->control);
  borrow(side, NULL, &third); /* nothing was held in between: the same bytes in another storage */
  CHECK(tenon_storage_id(storage_at(third, 0)) != id);
  CHECK(check_filled(tenon_storage_data(storage_at(third, 0)), 2000, 1) &&
        check_filled(tenon_storage_data(storage_at(third, 2)), 2000, 2));
  tenon_message_release(third);
  check_signal(side->control);
}

/* Empty storages are lent in the same way as others. */
static void empty_lender(struct side* side) {
  tenon_storage* storages[2];
  storages[0] = check_storage(setting.mode, setting.storage_flags, 0, 0);
  storages[1] = check_storage(setting.mode, setting.storage_flags, 10, 1);
  lend_storages(side, storages, 2);
  check_await(side->control);
  lend_storages(side, storages, 1);
  check_await(side->control);
  tenon_storage_release(storages[0]);
  tenon_storage_release(storages[1]);
}

static void empty_borrower(struct side* side) {
  tenon_message* message;
  borrow(side, NULL, &message);
  CHECK(tenon_storage_nbytes(storage_at(message, 0)) == 0 &&
        tenon_storage_data(storage_at(message, 0)) == NULL);
  CHECK(tenon_tensor_numel(tenon_message_tensor(message, 0)) == 0);
  CHECK(check_filled(tenon_storage_data(storage_at(message, 1)), 10, 1));
  tenon_message_release(message);
  check_signal(side->control);
  borrow(side, NULL, &message);
  CHECK(tenon_message_count(message) == 1 && tenon_storage_nbytes(storage_at(message, 0)) == 0);
  tenon_message_release(message);
  check_signal(side->control);
}

/* The borrower asks for more access than was lent, and is refused. Only SHARED memory allows it. */
static void refused_lender(struct side* side) {
  tenon_storage* storage = check_storage(setting.mode, setting.storage_flags, 100, 1);
  lend_storages(side, &storage, 1);
  check_await(side->control);
  CHECK(check_filled(tenon_storage_data(storage), 100, 1));
  tenon_storage_release(storage);
}

static void refused_borrower(struct side* side) {
  tenon_open_options want_write = check_open_options(TENON_ACCESS_WRITABLE, 0);
  tenon_message* message = NULL;
  tenon_error* error = NULL;
  tenon_status status = setting.way->recv(side, &want_write, &message, &error);
  if (setting.mode == TENON_MODE_SHARED) {
    CHECK(status == TENON_OK);
    tenon_message_release(message);
  } else {
    CHECK(status == TENON_PERMISSION && message == NULL);
    CHECK(tenon_error_code(error) == TENON_PERMISSION && tenon_error_message(error)[0] != '\0');
    tenon_error_release(error);
  }
  check_signal(side->control);
}

/* Private openings. The way by handle cannot put them into a message, so tests/api/capi/by_fd.c
 * tests it. */
static void private_lender(struct side* side) {
  tenon_storage* storages[2];
  if (!setting.way->names_and_bytes) return;
  storages[0] = check_storage(setting.mode, setting.storage_flags, 9000, 1);
  storages[1] = storages[0];
  lend_storages(side, storages, 2);
  check_await(side->control);
  CHECK(check_filled(tenon_storage_data(storages[0]), 9000,
                     1)); /* the borrower's writes stayed with the borrower */
  if (setting.mode != TENON_MODE_FROZEN) OK(tenon_storage_write(storages[0], 0, "changed", 7, ERR));
  check_signal(side->control);
  check_await(side->control);
  tenon_storage_release(storages[0]);
}

static void private_borrower_with(struct side* side, uint32_t flags) {
  tenon_open_options options = check_open_options(TENON_ACCESS_AUTO, flags);
  tenon_message* message;
  tenon_storage* storage;
  void* data = NULL;
  if (!setting.way->names_and_bytes) return;
  borrow(side, &options, &message);
  storage = storage_at(message, 0);
  CHECK(storage == storage_at(message, 1)); /* a new storage, shared by both tensors */
  CHECK(tenon_storage_is_shared(storage) == 0 && tenon_storage_is_read_only(storage) == 0);
  CHECK(check_filled(tenon_storage_data(storage), 9000, 1));
  OK(tenon_storage_data_mut(storage, &data, ERR));
  memset((char*)data + 8000, 0, 1000);
  check_signal(side->control);
  check_await(side->control);
  if (flags == TENON_OPEN_PRIVATE_COPY)
    CHECK(check_filled(data, 8000, 1)); /* a copy, which the lender's writes do not change */
  tenon_message_release(message);
  check_signal(side->control);
}

static void copy_borrower(struct side* side) {
  private_borrower_with(side, TENON_OPEN_PRIVATE_COPY);
}
static void cow_borrower(struct side* side) { private_borrower_with(side, TENON_OPEN_PRIVATE_COW); }

/* Shapes, strides, offsets, dtypes, flags, names and user bytes arrive unchanged. */
static const struct {
  tenon_dtype dtype;
  int32_t ndim;
  int64_t sizes[3], strides[3];
  uint64_t offset;
  uint32_t flags;
  const char* name;
} kShapes[] = {
    {{TENON_DTYPE_FLOAT, 32, 1}, 2, {3, 4, 0}, {4, 1, 0}, 0, 0, "plain"},
    {{TENON_DTYPE_FLOAT, 32, 1},
     2,
     {4, 3, 0},
     {1, 4, 0},
     5,
     TENON_TENSOR_REQUIRES_GRAD,
     "transposed"},
    {{TENON_DTYPE_INT, 64, 1}, 1, {7, 0, 0}, {-1, 0, 0}, 6, 0, "reversed"},
    {{TENON_DTYPE_BFLOAT, 16, 1},
     3,
     {2, 3, 4},
     {0, 0, 0},
     9,
     TENON_TENSOR_IS_PARAMETER,
     "repeated \xe2\x88\x9e"},
    {{TENON_DTYPE_COMPLEX, 128, 1}, 0, {0}, {0}, 3, TENON_TENSOR_CONJ | TENON_TENSOR_NEG, NULL},
    {{TENON_DTYPE_BOOL, 8, 1}, 1, {0, 0, 0}, {1, 0, 0}, 0, 0, "no elements"},
    {{TENON_DTYPE_FLOAT8_E4M3FN, 8, 1}, 1, {100, 0, 0}, {2, 0, 0}, 1, 0, ""},
    {{TENON_DTYPE_FLOAT4_E2M1FN, 4, 2}, 1, {64, 0, 0}, {1, 0, 0}, 0, 0, "packed"}};

static void shapes_lender(struct side* side) {
  tenon_storage* storage = check_storage(setting.mode, setting.storage_flags, 256, 1);
  tenon_message* message = NULL;
  size_t i;
  OK(tenon_message_new(&message, ERR));
  for (i = 0; i < COUNT_OF(kShapes); i++) {
    tenon_tensor_spec spec;
    tenon_tensor* tensor = NULL;
    SIZED(spec);
    spec.dtype = kShapes[i].dtype;
    spec.ndim = kShapes[i].ndim;
    spec.sizes = kShapes[i].sizes;
    spec.strides = kShapes[i].strides;
    spec.offset = kShapes[i].offset;
    spec.flags = kShapes[i].flags;
    OK(tenon_tensor_new(storage, &spec, &tensor, ERR));
    OK(tenon_message_add(message, &tensor, &kShapes[i].name, 1, NULL, ERR));
    tenon_tensor_release(tensor);
  }
  OK(tenon_message_set_user_bytes(message, "\0bytes\0", 7, ERR));
  if (setting.way->names_and_bytes) {
    setting.way->send(side, message);
    check_await(side->control);
  }
  tenon_message_release(message);
  tenon_storage_release(storage);
}

static void shapes_borrower(struct side* side) {
  tenon_message* message;
  size_t i, n = 0;
  int32_t k;
  if (!setting.way->names_and_bytes) return;
  borrow(side, NULL, &message);
  CHECK(tenon_message_count(message) == COUNT_OF(kShapes));
  CHECK(memcmp(tenon_message_user_bytes(message, &n), "\0bytes\0", 7) == 0 && n == 7);
  for (i = 0; i < COUNT_OF(kShapes); i++) {
    const tenon_tensor* tensor = tenon_message_tensor(message, i);
    const char* name = tenon_message_name(message, i);
    tenon_tensor_spec spec;
    SIZED(spec);
    OK(tenon_tensor_get_spec(tensor, &spec, ERR));
    CHECK(memcmp(&spec.dtype, &kShapes[i].dtype, sizeof(spec.dtype)) == 0 &&
          spec.ndim == kShapes[i].ndim);
    CHECK(spec.offset == kShapes[i].offset && spec.flags == kShapes[i].flags);
    for (k = 0; k < spec.ndim; k++)
      CHECK(spec.sizes[k] == kShapes[i].sizes[k] && spec.strides[k] == kShapes[i].strides[k]);
    CHECK(name == NULL ? kShapes[i].name == NULL : strcmp(name, kShapes[i].name) == 0);
    if (name != NULL) CHECK(tenon_message_find(message, kShapes[i].name) == tensor);
    CHECK(tenon_tensor_storage(tensor) == storage_at(message, 0));
  }
  CHECK(check_filled(tenon_storage_data(storage_at(message, 0)), 256, 1));
  tenon_message_release(message);
  check_signal(side->control);
}

/* The lender dies. The opened memory stays whole. */
static void death_lender(struct side* side) {
  tenon_storage* storages[2];
  storages[0] = check_storage(setting.mode, setting.storage_flags, 70000, 1);
  storages[1] = check_storage(setting.mode, setting.storage_flags, 100, 2);
  lend_storages(side, storages, 2);
  check_await(side->control);
  CHECK(raise(SIGKILL) == 0);
}

static void death_borrower(struct side* side) {
  tenon_message* message;
  char byte;
  borrow(side, NULL, &message);
  check_signal(side->control);
  CHECK(read(side->control, &byte, 1) == 0); /* the kernel closed the lender's end, so it is gone */
  CHECK(check_filled(tenon_storage_data(storage_at(message, 0)), 70000, 1) &&
        check_filled(tenon_storage_data(storage_at(message, 1)), 100, 2));
  tenon_message_release(message);
}

static const struct behaviour {
  const char* name;
  void (*lender)(struct side*);
  void (*borrower)(struct side*);
  int lender_is_killed;
} kBehaviours[] = {{"arrives in place", in_place_lender, in_place_borrower, 0},
                   {"outlives the lender's references", outlives_lender, outlives_borrower, 0},
                   {"keeps identity", identity_lender, identity_borrower, 0},
                   {"takes empty storages", empty_lender, empty_borrower, 0},
                   {"refuses more than was lent", refused_lender, refused_borrower, 0},
                   {"opens as a private copy", private_lender, copy_borrower, 0},
                   {"opens copy-on-write", private_lender, cow_borrower, 0},
                   {"carries shapes and names", shapes_lender, shapes_borrower, 0},
                   {"outlives the lender", death_lender, death_borrower, 1}};

/* One side runs in a process of its own, which counts what it holds before and after. */
static pid_t start_side(void (*role)(struct side*), int control, int data, int other_control,
                        int other_data) {
  pid_t child;
  fflush(NULL);
  child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    struct side side;
    struct check_held before;
    close(other_control);
    close(other_data);
    alarm(60 * (TENON_TEST_SANITIZED ? 4 : 1));
    before = check_hold();
    memset(&side, 0, sizeof(side));
    side.control = control;
    side.data = data;
    role(&side);
    tenon_connection_release(side.connection);
    tenon_descriptor_release(side.held);
    check_same_held(__FILE__, __LINE__, "one side", before, check_hold(), 0);
    fflush(NULL);
    _exit(0);
  }
  close(control);
  close(data);
  return child;
}

static void run_one(const struct behaviour* behaviour) {
  int control[2], data[2], status = 0;
  pid_t lender, borrower;
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control) == 0);
  CHECK(socketpair(AF_UNIX, setting.way->socket_type | SOCK_CLOEXEC, 0, data) == 0);
  fflush(NULL);
  lender = start_side(behaviour->lender, control[0], data[0], control[1], data[1]);
  borrower = start_side(behaviour->borrower, control[1], data[1], -1, -1);
  check_join(borrower);
  CHECK(waitpid(lender, &status, 0) == lender);
  if (behaviour->lender_is_killed) {
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  } else {
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

int main(void) {
  static const uint32_t flags[] = {0, TENON_STORAGE_ISOLATED};
  size_t w, m, f, b, n = 0;
  check_begin(180);
  for (w = 0; w < COUNT_OF(kWays); w++) {
    for (m = 0; m < COUNT_OF(kModes); m++) {
      for (f = 0; f < COUNT_OF(flags); f++) {
        printf("- %s, %s%s\n", kWays[w].name, kModeNames[m], flags[f] ? ", isolated" : "");
        setting.way = &kWays[w];
        setting.mode = kModes[m];
        setting.storage_flags = flags[f];
        for (b = 0; b < COUNT_OF(kBehaviours); b++, n++) {
          printf("  %s\n", kBehaviours[b].name);
          run_one(&kBehaviours[b]);
        }
      }
    }
  }
  printf("%zu combinations\n", n);
  return 0;
}
