/* Tests tenon/descriptor.h: messages in portable form, and every way in which bytes and fds can
 * lie. */
#include "check.h"

static tenon_message *const kNothing = PATTERN;

/* A message with two tensors over one storage, one over another and an empty one, with names and
 * user bytes. */
static tenon_message *make_message(tenon_mode mode) {
  static const char *const names[] = {"first", NULL, "third", "empty"};
  tenon_storage *storages[3];
  tenon_tensor *tensors[4];
  tenon_message *message = NULL;
  size_t i;
  storages[0] = check_storage(mode, 0, 1000, 1);
  storages[1] = check_storage(mode, TENON_STORAGE_ISOLATED, 5000, 2);
  storages[2] = check_storage(mode, 0, 0, 0);
  tensors[0] = check_bytes_tensor(storages[0]);
  tensors[1] = check_bytes_tensor(storages[0]);
  tensors[2] = check_bytes_tensor(storages[1]);
  tensors[3] = check_bytes_tensor(storages[2]);
  OK(tenon_message_new(&message, ERR));
  OK(tenon_message_add(message, tensors, names, 4, NULL, ERR));
  OK(tenon_message_set_user_bytes(message, "user bytes", 10, ERR));
  for (i = 0; i < 4; i++) tenon_tensor_release(tensors[i]);
  for (i = 0; i < 3; i++) tenon_storage_release(storages[i]);
  return message;
}

static void check_message(const tenon_message *message) {
  size_t n = 0;
  CHECK(tenon_message_count(message) == 4);
  CHECK(check_filled(tenon_tensor_data(tenon_message_tensor(message, 0)), 1000, 1));
  CHECK(check_filled(tenon_tensor_data(tenon_message_tensor(message, 1)), 1000, 1));
  CHECK(check_filled(tenon_tensor_data(tenon_message_find(message, "third")), 5000, 2));
  CHECK(tenon_tensor_numel(tenon_message_find(message, "empty")) == 0);
  CHECK(tenon_tensor_storage(tenon_message_tensor(message, 0)) ==
        tenon_tensor_storage(tenon_message_tensor(message, 1)));
  CHECK(strcmp(tenon_message_name(message, 0), "first") == 0 &&
        tenon_message_name(message, 1) == NULL);
  CHECK(memcmp(tenon_message_user_bytes(message, &n), "user bytes", 10) == 0 && n == 10);
}

static tenon_descriptor_options bytes_only_options(void) {
  tenon_descriptor_options options;
  SIZED(options);
  options.flags = TENON_DESCRIPTOR_BYTES_ONLY;
  return options;
}

static void round_trips(void) {
  static const tenon_mode modes[] = {TENON_MODE_SHARED, TENON_MODE_LENDER_WRITES,
                                     TENON_MODE_FROZEN};
  static const uint32_t opens[] = {0, TENON_OPEN_PRIVATE_COW, TENON_OPEN_PRIVATE_COPY};
  size_t m, o, b;
  for (m = 0; m < COUNT_OF(modes); m++) {
    for (b = 0; b < 2; b++) {
      tenon_descriptor_options options = bytes_only_options();
      tenon_message *message = make_message(modes[m]), *arrived = NULL;
      tenon_descriptor *descriptor = NULL;
      const void *bytes;
      const int32_t *fds;
      size_t nbytes = 0, n_fds = 99, i;
      OK(tenon_descriptor_new(message, b == 0 ? NULL : &options, &descriptor, ERR));
      tenon_message_release(message); /* the descriptor keeps what it needs */
      bytes = tenon_descriptor_bytes(descriptor, &nbytes);
      fds = tenon_descriptor_fds(descriptor, &n_fds);
      CHECK(bytes != NULL && nbytes > 0 && tenon_descriptor_bytes(descriptor, NULL) == bytes);
      /* Two segments, and the token of a lease for what lies in the arena. */
      CHECK(b == 0 ? (fds != NULL && n_fds == (modes[m] == TENON_MODE_FROZEN ? 2 : 3))
                   : (fds == NULL && n_fds == 0));
      for (i = 0; i < n_fds; i++) CHECK((fcntl(fds[i], F_GETFD) & FD_CLOEXEC) != 0);
      for (o = 0; o < COUNT_OF(opens); o++) {
        tenon_open_options open_options = check_open_options(TENON_ACCESS_AUTO, opens[o]);
        OK(tenon_descriptor_open(bytes, nbytes, fds, n_fds, &open_options, &arrived, ERR));
        check_message(arrived);
        tenon_message_release(arrived);
      }
      tenon_descriptor_release(descriptor);
    }
  }
}

static void same_bytes_twice(void) {
  tenon_message *message = make_message(TENON_MODE_SHARED);
  tenon_descriptor *first = NULL, *second = NULL;
  const void *bytes;
  size_t nbytes = 0, other = 0;
  OK(tenon_descriptor_new(message, NULL, &first, ERR));
  OK(tenon_descriptor_new(message, NULL, &second, ERR));
  bytes = tenon_descriptor_bytes(first, &nbytes);
  CHECK(memcmp(tenon_descriptor_bytes(second, &other), bytes, nbytes) == 0 && other == nbytes);
  tenon_descriptor_release(first);
  tenon_descriptor_release(second);
  tenon_message_release(message);
}

/* Corrupted bytes give an error. Nothing is opened, written or left. */
static void hostile_bytes(void) {
  tenon_message *message = make_message(TENON_MODE_SHARED), *out = kNothing;
  tenon_descriptor *descriptor = NULL;
  const unsigned char *bytes;
  const int32_t *fds;
  unsigned char *changed;
  size_t nbytes = 0, n_fds = 0, i;
  long held_fds, mappings;
  OK(tenon_descriptor_new(message, NULL, &descriptor, ERR));
  bytes = tenon_descriptor_bytes(descriptor, &nbytes);
  fds = tenon_descriptor_fds(descriptor, &n_fds);
  held_fds = check_count_fds();
  mappings = count_memfd_mappings();
  for (i = 0; i < nbytes;
       i++) { /* every length, in a block of exactly that length so that ASan sees a step past it */
    changed = malloc(i + 1);
    CHECK(changed != NULL);
    changed = realloc(changed, i == 0 ? 1 : i);
    memcpy(changed, bytes, i);
    FAILS_EITHER_KEEPING(TENON_CORRUPT, TENON_INVALID_ARGUMENT, out,
                         tenon_descriptor_open(changed, i, fds, n_fds, NULL, &out, ERR));
    free(changed);
  }
  changed = malloc(nbytes + 1);
  CHECK(changed != NULL);
  for (i = 0; i < nbytes; i++) { /* every byte, in three ways */
    static const unsigned char flips[] = {0x01, 0x80, 0xff};
    size_t f;
    for (f = 0; f < COUNT_OF(flips); f++) {
      memcpy(changed, bytes, nbytes);
      changed[i] ^= flips[f];
      FAILS_EITHER_KEEPING(TENON_CORRUPT, TENON_INCOMPATIBLE, out,
                           tenon_descriptor_open(changed, nbytes, fds, n_fds, NULL, &out, ERR));
    }
  }
  memcpy(changed, bytes, nbytes);
  changed[nbytes] = 0;
  FAILS_KEEPING(TENON_CORRUPT, out,
                tenon_descriptor_open(changed, nbytes + 1, fds, n_fds, NULL, &out, ERR));
  memset(changed, 0, nbytes);
  FAILS_EITHER_KEEPING(TENON_CORRUPT, TENON_INCOMPATIBLE, out,
                       tenon_descriptor_open(changed, nbytes, fds, n_fds, NULL, &out, ERR));
  memset(changed, 0xff, nbytes);
  FAILS_EITHER_KEEPING(TENON_CORRUPT, TENON_INCOMPATIBLE, out,
                       tenon_descriptor_open(changed, nbytes, fds, n_fds, NULL, &out, ERR));
  CHECK_EQ(check_count_fds(), held_fds);
  CHECK_EQ(count_memfd_mappings(), mappings);
  OK(tenon_descriptor_open(bytes, nbytes, fds, n_fds, NULL, &out,
                           ERR)); /* the original was valid all the time */
  check_message(out);
  tenon_message_release(out);
  free(changed);
  tenon_descriptor_release(descriptor);
  tenon_message_release(message);
}

static void wrong_fds(void) {
  tenon_message *message = make_message(TENON_MODE_SHARED), *out = kNothing;
  tenon_descriptor *descriptor = NULL;
  const void *bytes;
  const int32_t *fds;
  int32_t wrong[4];
  int pipes[2], i;
  size_t nbytes = 0, n_fds = 0;
  OK(tenon_descriptor_new(message, NULL, &descriptor, ERR));
  bytes = tenon_descriptor_bytes(descriptor, &nbytes);
  fds = tenon_descriptor_fds(descriptor, &n_fds);
  CHECK(n_fds == 3 && pipe2(pipes, O_CLOEXEC) == 0);
  FAILS_EITHER_KEEPING(TENON_INVALID_ARGUMENT, TENON_CORRUPT, out,
                       tenon_descriptor_open(bytes, nbytes, fds, 1, NULL, &out, ERR));
  FAILS_EITHER_KEEPING(TENON_INVALID_ARGUMENT, TENON_CORRUPT, out,
                       tenon_descriptor_open(bytes, nbytes, NULL, 0, NULL, &out, ERR));
  memcpy(wrong, fds, 3 * sizeof(wrong[0]));
  wrong[3] = fds[0]; /* this is no token of a lender further up */
  FAILS_EITHER_KEEPING(TENON_INVALID_ARGUMENT, TENON_CORRUPT, out,
                       tenon_descriptor_open(bytes, nbytes, wrong, 4, NULL, &out, ERR));
  for (i = 0; i < 2; i++) {
    memcpy(wrong, fds, 3 * sizeof(wrong[0]));
    wrong[i] = pipes[0];
    INVALID_KEEPING(out, tenon_descriptor_open(bytes, nbytes, wrong, 3, NULL, &out, ERR));
    wrong[i] = -1;
    INVALID_KEEPING(out, tenon_descriptor_open(bytes, nbytes, wrong, 3, NULL, &out, ERR));
    wrong[i] = 900000;
    INVALID_KEEPING(out, tenon_descriptor_open(bytes, nbytes, wrong, 3, NULL, &out, ERR));
    wrong[i] = memfd_create("short", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(wrong[i] >= 0 && fcntl(wrong[i], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
    FAILS_KEEPING(TENON_CORRUPT, out,
                  tenon_descriptor_open(bytes, nbytes, wrong, 3, NULL, &out, ERR));
    close(wrong[i]);
  }
  memcpy(wrong, fds, 3 * sizeof(wrong[0]));
  wrong[2] = pipes[0]; /* a pipe's read end is no token */
  FAILS_KEEPING(TENON_CORRUPT, out,
                tenon_descriptor_open(bytes, nbytes, wrong, 3, NULL, &out, ERR));
  wrong[2] = fds[0];
  FAILS_KEEPING(TENON_CORRUPT, out,
                tenon_descriptor_open(bytes, nbytes, wrong, 3, NULL, &out, ERR));
  FAILS_EITHER_KEEPING(TENON_INVALID_ARGUMENT, TENON_CORRUPT, out,
                       tenon_descriptor_open(bytes, nbytes, fds, 2, NULL, &out, ERR));
  close(pipes[0]);
  close(pipes[1]);
  tenon_descriptor_release(descriptor);
  tenon_message_release(message);
}

static void adopting(void) {
  tenon_message *message = make_message(TENON_MODE_SHARED), *out = NULL;
  tenon_descriptor *descriptor = NULL;
  tenon_open_options adopt = check_open_options(TENON_ACCESS_AUTO, TENON_OPEN_ADOPT_FD);
  const void *bytes;
  const int32_t *fds;
  int32_t mine[3];
  size_t nbytes = 0, n_fds = 0;
  long before;
  OK(tenon_descriptor_new(message, NULL, &descriptor, ERR));
  bytes = tenon_descriptor_bytes(descriptor, &nbytes);
  fds = tenon_descriptor_fds(descriptor, &n_fds);
  before = check_count_fds();
  mine[0] = fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
  mine[1] = fcntl(fds[1], F_DUPFD_CLOEXEC, 0);
  mine[2] = fcntl(fds[2], F_DUPFD_CLOEXEC, 0);
  out = kNothing; /* after a failure the fds still belong to the caller */
  FAILS_EITHER_KEEPING(TENON_CORRUPT, TENON_INVALID_ARGUMENT, out,
                       tenon_descriptor_open(bytes, nbytes - 1, mine, 3, &adopt, &out, ERR));
  CHECK(fcntl(mine[0], F_GETFD) >= 0 && fcntl(mine[1], F_GETFD) >= 0 &&
        fcntl(mine[2], F_GETFD) >= 0);
  OK(tenon_descriptor_open(bytes, nbytes, mine, 3, &adopt, &out, ERR));
  check_message(out);
  tenon_message_release(out);
  CHECK_EQ(check_count_fds(), before);
  tenon_descriptor_release(descriptor);
  tenon_message_release(message);
}

static void send_bytes_only(int sock) {
  tenon_message *message = make_message(TENON_MODE_FROZEN);
  tenon_descriptor_options options = bytes_only_options();
  tenon_descriptor *descriptor = NULL;
  const void *bytes;
  size_t nbytes = 0;
  OK(tenon_descriptor_new(message, &options, &descriptor, ERR));
  tenon_message_release(message);
  bytes = tenon_descriptor_bytes(descriptor, &nbytes);
  check_send(sock, &nbytes, sizeof(nbytes), NULL, 0);
  check_send(sock, bytes, nbytes, NULL, 0);
  check_await(sock);
  tenon_descriptor_release(descriptor);
  check_signal(sock);
  check_await(sock);
  { /* the fd numbers now lead to something else: the identity check must notice */
    int i;
    for (i = 0; i < 50; i++) CHECK(memfd_create("other", MFD_CLOEXEC) >= 0);
  }
  check_signal(sock);
  check_await(sock);
}

static void bytes_only_and_its_end(void) {
  int sock;
  pid_t child = check_spawn(SOCK_STREAM, send_bytes_only, &sock);
  tenon_message *out = NULL;
  unsigned char bytes[8192];
  size_t nbytes = 0;
  (void)check_recv(sock, &nbytes, sizeof(nbytes), NULL, 0);
  CHECK(nbytes <= sizeof(bytes));
  (void)check_recv(sock, bytes, nbytes, NULL, 0);
  OK(tenon_descriptor_open(bytes, nbytes, NULL, 0, NULL, &out, ERR));
  check_message(out);
  CHECK(tenon_storage_is_read_only(tenon_tensor_storage(tenon_message_tensor(out, 0))) == 1);
  tenon_message_release(out);
  out = kNothing;
  check_signal(sock);
  check_await(sock); /* the lender has released its memory */
  FAILS_KEEPING(TENON_PEER_GONE, out,
                tenon_descriptor_open(bytes, nbytes, NULL, 0, NULL, &out, ERR));
  check_signal(sock);
  check_await(sock); /* the lender has reused the numbers for other fds */
  FAILS_KEEPING(TENON_PEER_GONE, out,
                tenon_descriptor_open(bytes, nbytes, NULL, 0, NULL, &out, ERR));
  check_signal(sock);
  check_join(child); /* the lender has ended */
  FAILS_KEEPING(TENON_PEER_GONE, out,
                tenon_descriptor_open(bytes, nbytes, NULL, 0, NULL, &out, ERR));
  close(sock);
}

static void bad_input(void) {
  struct {
    tenon_descriptor_options options;
    unsigned char tail[16];
  } larger;
  tenon_message *message = make_message(TENON_MODE_SHARED), *opened = kNothing;
  tenon_descriptor *out = PATTERN, *descriptor = NULL;
  tenon_descriptor_options options = bytes_only_options();
  tenon_open_options open_options = check_open_options(TENON_ACCESS_AUTO, 0);
  const void *bytes;
  const int32_t *fds;
  size_t nbytes = 7, n_fds = 7;
  INVALID_KEEPING(out, tenon_descriptor_new(NULL, NULL, &out, ERR));
  INVALID(tenon_descriptor_new(message, NULL, NULL, ERR));
  options.struct_size = 0;
  INVALID_KEEPING(out, tenon_descriptor_new(message, &options, &out, ERR));
  options.struct_size = sizeof(options) - 1;
  INVALID_KEEPING(out, tenon_descriptor_new(message, &options, &out, ERR));
  options = bytes_only_options();
  options.flags = 1U << 31;
  FAILS_EITHER_KEEPING(TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED, out,
                       tenon_descriptor_new(message, &options, &out, ERR));
  options = bytes_only_options();
  options.reserved = 1;
  FAILS_EITHER_KEEPING(TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED, out,
                       tenon_descriptor_new(message, &options, &out, ERR));
  memset(&larger, 0, sizeof(larger));
  larger.options.struct_size = sizeof(larger);
  larger.tail[15] = 1;
  FAILS_KEEPING(TENON_UNSUPPORTED, out, tenon_descriptor_new(message, &larger.options, &out, ERR));
  larger.tail[15] = 0;
  OK(tenon_descriptor_new(message, &larger.options, &descriptor, ERR));

  CHECK(tenon_descriptor_bytes(NULL, &nbytes) == NULL && nbytes == 0);
  CHECK(tenon_descriptor_fds(NULL, &n_fds) == NULL && n_fds == 0);
  tenon_descriptor_release(NULL);
  bytes = tenon_descriptor_bytes(descriptor, &nbytes);
  fds = tenon_descriptor_fds(descriptor, &n_fds);
  INVALID_KEEPING(opened, tenon_descriptor_open(NULL, nbytes, fds, n_fds, NULL, &opened, ERR));
  INVALID_KEEPING(opened, tenon_descriptor_open(bytes, nbytes, NULL, n_fds, NULL, &opened, ERR));
  INVALID(tenon_descriptor_open(bytes, nbytes, fds, n_fds, NULL, NULL, ERR));
  INVALID_KEEPING(opened, tenon_descriptor_open(NULL, 1, NULL, 0, NULL, &opened, ERR));
  FAILS_KEEPING(TENON_CORRUPT, opened,
                tenon_descriptor_open(bytes, 0, fds, n_fds, NULL, &opened,
                                      ERR)); /* too short, as any other */
  FAILS_SAYING(TENON_CORRUPT, "field", "magic",
               tenon_descriptor_open(NULL, 0, NULL, 0, NULL, &opened, ERR));
  FAILS_EITHER_KEEPING(TENON_INVALID_ARGUMENT, TENON_CORRUPT, opened,
                       tenon_descriptor_open(bytes, nbytes, fds, SIZE_MAX, NULL, &opened, ERR));
  FAILS_EITHER_KEEPING(TENON_INVALID_ARGUMENT, TENON_CORRUPT, opened,
                       tenon_descriptor_open(bytes, SIZE_MAX, fds, n_fds, NULL, &opened, ERR));
  open_options.struct_size = 1;
  INVALID_KEEPING(opened,
                  tenon_descriptor_open(bytes, nbytes, fds, n_fds, &open_options, &opened, ERR));
  open_options = check_open_options(9, 0);
  FAILS_EITHER_KEEPING(
      TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED, opened,
      tenon_descriptor_open(bytes, nbytes, fds, n_fds, &open_options, &opened, ERR));
  open_options = check_open_options(0, 1U << 31);
  FAILS_EITHER_KEEPING(
      TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED, opened,
      tenon_descriptor_open(bytes, nbytes, fds, n_fds, &open_options, &opened, ERR));
  tenon_descriptor_release(descriptor);
  tenon_message_release(message);
}

int main(void) {
  check_begin(60);
  RUN(round_trips);
  RUN(same_bytes_twice);
  RUN(hostile_bytes);
  RUN(wrong_fds);
  RUN(adopting);
  RUN(bytes_only_and_its_end);
  RUN(bad_input);
  return 0;
}
