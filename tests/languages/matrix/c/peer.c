/* usage: peer produce|consume. The C API in the matrix (tests/languages/matrix/README.md). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tenon/tenon.h>
#include <unistd.h>

#include "composite.h"
#include "cuda.h"
#include "device.h"
#include "object.h"
#include "support/sized.h"
#include "wire.h"

enum { SLOTS = 4096 };

struct held {
  long key;             /* 0: nothing is held here */
  tenon_tensor *tensor; /* a composite's values; NULL if it has none */
  tenon_descriptor *descriptor;
  tenon_composite *composite;
};

struct connection {
  long number;
  tenon_connection *tenon; /* NULL: a raw socket */
  int socket;
};

static struct held helds[SLOTS];
static struct connection connections[SLOTS];
static int listener = -1;
static char answer[WIRE_LINE];

static const tenon_wait ten_seconds = {sizeof(tenon_wait), WIRE_WAIT_SECONDS * 1000000000LL, NULL,
                                       0, 0};

static void say_failed(const char *status, const char *text) {
  answer[0] = '\0';
  wire_put(answer, "error %s %s", status, text);
}

/* 0 if the call succeeded. Otherwise the answer becomes the error, which is consumed. `error` is a
 * pointer, because the call in the same argument list may set it. */
static int failed(tenon_status status, tenon_error **error) {
  if (status != TENON_OK) say_failed(tenon_status_name(status), tenon_error_message(*error));
  tenon_error_release(*error);
  *error = NULL;
  return status != TENON_OK;
}

static struct held *find_held(const char *key) {
  int i;
  for (i = 0; i < SLOTS; i++) {
    if (helds[i].key != 0 && helds[i].key == atol(key)) return &helds[i];
  }
  say_failed("OTHER", "no such key");
  return NULL;
}

static struct held *find_composite(const char *key) {
  struct held *held = find_held(key);
  if (held == NULL || held->composite != NULL) return held;
  say_failed("OTHER", "no composite has that key");
  return NULL;
}

static struct held *hold(const char *key, tenon_tensor *tensor, tenon_descriptor *descriptor) {
  int i = 0;
  while (i < SLOTS && helds[i].key != 0) i++;
  if (i == SLOTS) abort();
  helds[i].key = atol(key);
  helds[i].tensor = tensor;
  helds[i].descriptor = descriptor;
  return &helds[i];
}

/* Takes over the caller's reference to the composite. */
static void hold_composite(const char *key, tenon_composite *composite) {
  tenon_composite_spec spec;
  spec.struct_size = sizeof(spec);
  if (tenon_composite_get_spec(composite, &spec, NULL) != TENON_OK) abort();
  hold(key, tenon_tensor_retain(spec.values), NULL)->composite = composite;
}

static void drop(struct held *held) {
  tenon_tensor_release(held->tensor);
  tenon_descriptor_release(held->descriptor);
  tenon_composite_release(held->composite);
  memset(held, 0, sizeof(*held));
}

static struct connection *find_connection(const char *number) {
  int i;
  for (i = 0; i < SLOTS; i++) {
    if (connections[i].number != 0 && connections[i].number == atol(number)) return &connections[i];
  }
  say_failed("OTHER", "no such connection");
  return NULL;
}

static void close_connection(struct connection *connection) {
  tenon_connection_release(connection->tenon);
  if (connection->tenon == NULL) close(connection->socket);
  memset(connection, 0, sizeof(*connection));
}

static void keep_connection(const char *number, const char *kind, int socket) {
  struct connection made = {atol(number), NULL, socket};
  tenon_connection_options options;
  tenon_error *error = NULL;
  int i = 0;
  SIZED(options);
  options.flags = TENON_CONNECTION_ADOPT_SOCKET;
  if (socket < 0) {
    say_failed("OTHER", strerror(errno));
    return;
  }
  if (strcmp(kind, "tenon") == 0 &&
      failed(tenon_connection_new(socket, &options, &made.tenon, &error), &error)) {
    close(socket);
    return;
  }
  while (i < SLOTS && connections[i].number != 0) i++;
  if (i == SLOTS) abort();
  connections[i] = made;
}

/* Copies a device's whole storage to the host and lets the view point there, or copies it back. */
static void stage(tenon_tensor *tensor, tenon_tensor_view *view, unsigned char **staged, int back) {
  tenon_storage *storage = tenon_tensor_storage(tensor);
  const uint64_t nbytes = tenon_storage_nbytes(storage),
                 device = (uint64_t)(uintptr_t)tenon_storage_data(storage);
  if (view->device.type != CUDA_DEVICE || nbytes == 0) return;
  if (!back) {
    if ((*staged = (unsigned char *)malloc(nbytes)) == NULL) abort();
    view->data = view->data_mut = *staged + ((uint64_t)(uintptr_t)view->data - device);
  }
  if (device_copy(view->device.id, *staged, device, nbytes, back) != 0) abort();
}

/* Copies the elements in logical order: out of the tensor into `packed`, or into the tensor. */
static void move_elements(const tenon_tensor_view *view, unsigned char *packed, int into_tensor) {
  const uint64_t itemsize = view->dtype.bits / 8U;
  int64_t index[WIRE_NDIM] = {0}, place;
  uint64_t i;
  int d;
  for (i = 0; i < view->numel; i++, packed += itemsize) {
    for (place = 0, d = 0; d < view->ndim; d++) place += index[d] * view->strides[d];
    place *= (int64_t)itemsize;
    if (into_tensor) {
      memcpy((unsigned char *)view->data_mut + place, packed, itemsize);
    } else {
      memcpy(packed, (const unsigned char *)view->data + place, itemsize);
    }
    for (d = view->ndim - 1; d >= 0 && ++index[d] == view->sizes[d]; d--) index[d] = 0;
  }
}

static unsigned char *content(tenon_tensor *tensor, tenon_tensor_view *view) {
  unsigned char *packed, *staged = NULL;
  view->struct_size = sizeof(*view);
  if (tenon_tensor_get_view(tensor, view, NULL) != TENON_OK) abort();
  packed = (unsigned char *)malloc(view->nbytes + 1);
  if (packed == NULL) abort();
  stage(tensor, view, &staged, 0);
  move_elements(view, packed, 0);
  free(staged);
  return packed;
}

static void put_content(tenon_tensor *tensor) {
  tenon_tensor_view view;
  unsigned char *packed = content(tensor, &view);
  wire_put_hex(answer, packed, view.nbytes);
  free(packed);
}

static void do_write(const struct held *held, unsigned seed) {
  tenon_tensor_view view;
  unsigned char *packed, *staged = NULL;
  tenon_error *error = NULL;
  void *data;
  uint64_t i;
  if (failed(tenon_tensor_data_mut(held->tensor, &data, &error), &error)) return;
  packed = content(held->tensor, &view);
  for (i = 0; i < view.nbytes; i++) packed[i] = wire_pattern(seed, i);
  if (tenon_tensor_get_view(held->tensor, &view, NULL) != TENON_OK) abort();
  stage(held->tensor, &view, &staged, 0);
  move_elements(&view, packed, 1);
  if (staged != NULL) stage(held->tensor, &view, &staged, 1);
  free(staged);
  free(packed);
}

static void do_fork(const struct held *held) {
  int ends[2], status = -1;
  size_t length = strlen(answer);
  ssize_t got;
  pid_t child;
  if (pipe(ends) != 0) abort();
  fflush(stdout);
  child = fork();
  if (child == 0) {
    answer[0] = '\0';
    put_content(held->tensor);
    length = strlen(answer);
    _exit(write(ends[1], answer, length) == (ssize_t)length ? 0 : 1);
  }
  close(ends[1]);
  while ((got = read(ends[0], answer + length, WIRE_LINE - 1 - length)) > 0) length += (size_t)got;
  answer[length] = '\0';
  close(ends[0]);
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
    say_failed("OTHER", "the child did not end well");
}

static void do_wait(struct connection *connection) {
  tenon_message *message = NULL;
  tenon_error *error = NULL;
  int came;
  if (connection->tenon != NULL) {
    if (!failed(tenon_recv(connection->tenon, &ten_seconds, &message, &error), &error))
      tenon_message_release(message);
    return;
  }
  came = wire_wait(connection->socket);
  if (came <= 0) say_failed(came == 0 ? "PEER_GONE" : "TIMEOUT", "no byte came");
}

static int make_tensor(tenon_storage *storage, const char **words, tenon_tensor **out) {
  int64_t sizes[WIRE_NDIM], strides[WIRE_NDIM];
  unsigned code, bits, lanes;
  tenon_tensor_spec spec;
  tenon_error *error = NULL;
  SIZED(spec);
  if (sscanf(words[0], "%u:%u:%u", &code, &bits, &lanes) != 3) abort();
  spec.dtype.code = (uint8_t)code;
  spec.dtype.bits = (uint8_t)bits;
  spec.dtype.lanes = (uint16_t)lanes;
  spec.ndim = wire_numbers(words[1], sizes);
  spec.sizes = sizes;
  wire_numbers(words[2], strides);
  spec.strides = spec.ndim == 0 ? NULL : strides;
  spec.offset = strtoull(words[3], NULL, 10);
  return failed(tenon_tensor_new(storage, &spec, out, &error), &error);
}

static int is_arena(const char *strategy) {
  return strcmp(strategy, "arena") == 0 || strcmp(strategy, "arena_fd") == 0;
}

static int is_fd(const char *strategy) {
  return strcmp(strategy, "raw_fd") == 0 || strcmp(strategy, "arena_fd") == 0;
}

static int is_sent(const char *strategy) {
  return strcmp(strategy, "fd") == 0 || strcmp(strategy, "read_only") == 0 ||
         strcmp(strategy, "arena") == 0 || strcmp(strategy, "cuda") == 0;
}

/* A storage that holds pattern(seed). */
static tenon_storage *make_storage(const char *strategy, uint64_t nbytes, unsigned seed) {
  tenon_storage *storage = NULL, *neighbour = NULL;
  tenon_error *error = NULL;
  unsigned char *data = (unsigned char *)malloc(nbytes + 1);
  tenon_status status;
  uint64_t i;
  if (data == NULL) abort();
  for (i = 0; i < nbytes; i++) data[i] = wire_pattern(seed, i);
  if (cuda_is(strategy)) {
    status = cuda_make_storage(strategy, data, nbytes, &storage, &error);
  } else if (strcmp(strategy, "filename") == 0) {
    tenon_filename_options options;
    SIZED(options);
    options.prefix = getenv("TENON_MATRIX_PREFIX");
    status = tenon_storage_new_filename(&options, nbytes, &storage, &error);
    if (status == TENON_OK) status = tenon_storage_write(storage, 0, data, nbytes, &error);
  } else {
    tenon_storage_options options;
    SIZED(options);
    options.mode = strcmp(strategy, "read_only") == 0 ? TENON_MODE_FROZEN : TENON_MODE_SHARED;
    status = TENON_OK;
    if (is_arena(strategy)) {
      /* The storage must not begin where the arena does. */
      tenon_arena_options megabyte;
      SIZED(megabyte);
      megabyte.capacity_nbytes = 1 << 20;
      status = tenon_arena_new(&megabyte, &options.arena, &error);
      if (status == TENON_OK) status = tenon_storage_new(&options, 100, &neighbour, &error);
    }
    if (status == TENON_OK)
      status = tenon_storage_new_from(&options, data, nbytes, &storage, &error);
    tenon_storage_release(neighbour);
    tenon_arena_release(options.arena);
  }
  free(data);
  if (failed(status, &error)) {
    tenon_storage_release(storage);
    return NULL;
  }
  return storage;
}

/* Lends by the strategies that carry a message. */
static int lend_message(tenon_tensor *tensor, const char *key, tenon_connection *connection,
                        tenon_descriptor **descriptor) {
  tenon_descriptor_options bytes_only = {sizeof(bytes_only), TENON_DESCRIPTOR_BYTES_ONLY, 0};
  tenon_message *message = NULL;
  tenon_error *error = NULL;
  tenon_status status;
  char room[32];
  const char *name = room;
  snprintf(room, sizeof(room), "t%s", key);
  status = tenon_message_new(&message, &error);
  if (status == TENON_OK) status = tenon_message_add(message, &tensor, &name, 1, NULL, &error);
  if (status == TENON_OK)
    status = tenon_message_set_user_bytes(message, name, strlen(name), &error);
  if (status == TENON_OK && connection != NULL)
    status = tenon_send(connection, message, &ten_seconds, &error);
  if (status == TENON_OK && connection == NULL)
    status = tenon_descriptor_new(message, &bytes_only, descriptor, &error);
  tenon_message_release(message);
  return failed(status, &error);
}

static int lend_name(tenon_storage *storage, int socket) {
  tenon_filename_options options;
  tenon_filename_handle handle;
  tenon_error *error = NULL;
  SIZED(options);
  options.flags = socket ? 0 : TENON_FILENAME_TORCH;
  options.directory = socket ? getenv("TENON_MATRIX_DIRECTORY") : NULL;
  handle.struct_size = sizeof(handle);
  if (failed(tenon_share_filename(storage, &options, NULL, &handle, &error), &error)) return 1;
  wire_put(answer, "%s %s %llu %llu", handle.manager[0] == '\0' ? "-" : handle.manager, handle.name,
           (unsigned long long)handle.offset, (unsigned long long)handle.nbytes);
  return 0;
}

static int lend_fd(tenon_storage *storage, int socket, int whole) {
  tenon_fd_handle handle;
  tenon_error *error = NULL;
  int sent;
  handle.struct_size = sizeof(handle);
  if (failed(tenon_share_fd(storage, NULL, &handle, &error), &error)) return 1;
  sent = wire_send_fd(socket, handle.fd);
  tenon_fd_handle_close(&handle);
  if (sent != 0) {
    say_failed("OTHER", strerror(errno));
    return 1;
  }
  wire_put(answer, "%llu %llu", (unsigned long long)handle.offset,
           (unsigned long long)handle.nbytes);
  if (whole) wire_put(answer, " %llu", (unsigned long long)handle.segment_nbytes);
  return 0;
}

/* connection: NULL if the strategy sends no fds. */
static int lend_cuda(tenon_storage *storage, const struct connection *connection) {
  tenon_cuda_handle handle;
  tenon_error *error = NULL;
  handle.struct_size = sizeof(handle);
  if (failed(tenon_share_cuda(storage, NULL, NULL, &handle, &error), &error)) return 1;
  if (connection != NULL && wire_send_fds(connection->socket, handle.fds, handle.n_fds) != 0) {
    say_failed("OTHER", strerror(errno));
    return 1;
  }
  cuda_put_words(answer, &handle);
  return 0;
}

/* lend K STRATEGY C NBYTES SEED DTYPE SIZES STRIDES OFFSET */
static void do_lend(const char **words) {
  const char *strategy = words[2];
  struct connection *connection = NULL;
  tenon_storage *storage;
  tenon_tensor *tensor = NULL;
  tenon_descriptor *descriptor = NULL;
  int wrong;
  if (strcmp(words[3], "-") != 0 && (connection = find_connection(words[3])) == NULL) return;
  storage = make_storage(strategy, strtoull(words[4], NULL, 10), (unsigned)atoi(words[5]));
  if (storage == NULL) return;
  if (make_tensor(storage, words + 6, &tensor)) {
    tenon_storage_release(storage);
    return;
  }
  if (is_sent(strategy)) {
    wrong = lend_message(tensor, words[1], connection->tenon, NULL);
  } else if (strcmp(strategy, "bytes") == 0) {
    wrong = lend_message(tensor, words[1], NULL, &descriptor);
    if (!wrong) {
      size_t nbytes;
      const void *bytes = tenon_descriptor_bytes(descriptor, &nbytes);
      wire_put_hex(answer, bytes, nbytes);
    }
  } else if (cuda_is(strategy)) {
    wrong = lend_cuda(storage, connection);
  } else if (is_fd(strategy)) {
    wrong = lend_fd(storage, connection->socket, is_arena(strategy));
  } else {
    wrong = lend_name(storage, strcmp(strategy, "socket") == 0);
  }
  tenon_storage_release(storage);
  if (wrong) {
    tenon_tensor_release(tensor);
  } else {
    hold(words[1], tensor, descriptor);
  }
}

/* Takes the tensor out of a message with one tensor, with a reference. Puts the message's name and
 * user bytes into `name` and `user`. NULL: the answer has the error. */
static tenon_tensor *take_tensor(tenon_status status, tenon_message *message, tenon_error *error,
                                 char *name, char *user) {
  tenon_tensor *tensor = NULL;
  if (failed(status, &error)) return NULL;
  if (tenon_message_count(message) == 1) {
    const char *found = tenon_message_name(message, 0);
    size_t nbytes = 0;
    const void *bytes = tenon_message_user_bytes(message, &nbytes);
    snprintf(name, 64, "%s", found == NULL ? "-" : found);
    if (nbytes != 0) snprintf(user, 64, "%.*s", (int)nbytes, (const char *)bytes);
    tensor = tenon_tensor_retain(tenon_message_tensor(message, 0));
  } else {
    say_failed("OTHER", "not one tensor");
  }
  tenon_message_release(message);
  return tensor;
}

static tenon_status open_cuda(const struct connection *connection, const char **words,
                              tenon_storage **storage, tenon_error **error) {
  tenon_cuda_handle handle;
  tenon_status status;
  int fds[WIRE_FDS], n;
  cuda_read_words(words, &handle);
  n = connection == NULL ? 0 : wire_receive_fds(connection->socket, fds);
  /* All fds that came. The library must refuse a number that does not fit the memory handle. */
  handle.fds = fds;
  handle.n_fds = (uint32_t)(n > 0 ? n : 0);
  status = tenon_open_cuda(&handle, NULL, NULL, storage, error);
  while (n > 0) close(fds[--n]);
  return status;
}

static tenon_storage *open_storage(const char *strategy, const struct connection *connection,
                                   const char **handle) {
  tenon_open_options options = {sizeof(options), 0,
                                strcmp(strategy, "socket") == 0 ? 0 : TENON_OPEN_ALLOW_UNSEALED};
  tenon_storage *storage = NULL;
  tenon_error *error = NULL;
  tenon_status status;
  if (cuda_is(strategy)) {
    status = open_cuda(connection, handle, &storage, &error);
  } else if (is_fd(strategy)) {
    tenon_fd_handle fd = {sizeof(fd), -1, 0, 0, 0, 0};
    fd.fd = wire_receive_fd(connection->socket);
    fd.offset = strtoull(handle[0], NULL, 10);
    fd.nbytes = strtoull(handle[1], NULL, 10);
    status = tenon_open_fd(&fd, &options, &storage, &error);
    tenon_fd_handle_close(&fd);
  } else {
    tenon_filename_handle name;
    SIZED(name);
    if (strcmp(handle[0], "-") != 0) snprintf(name.manager, sizeof(name.manager), "%s", handle[0]);
    snprintf(name.name, sizeof(name.name), "%s", handle[1]);
    name.offset = strtoull(handle[2], NULL, 10);
    name.nbytes = strtoull(handle[3], NULL, 10);
    status = tenon_open_filename(&name, &options, NULL, &storage, &error);
  }
  return failed(status, &error) ? NULL : storage;
}

/* open K STRATEGY C DTYPE SIZES STRIDES OFFSET HANDLE... */
static void do_open(const char **words) {
  const char *strategy = words[2];
  struct connection *connection = NULL;
  tenon_message *message = NULL;
  tenon_tensor *tensor = NULL;
  tenon_error *error = NULL;
  char name[64] = "-", user[64] = "-", sizes[256], strides[256];
  tenon_tensor_view view;
  tenon_status status;
  if (strcmp(words[3], "-") != 0 && (connection = find_connection(words[3])) == NULL) return;
  if (is_sent(strategy)) {
    status = tenon_recv(connection->tenon, &ten_seconds, &message, &error);
    tensor = take_tensor(status, message, error, name, user);
  } else if (strcmp(strategy, "bytes") == 0) {
    size_t nbytes;
    unsigned char *bytes = wire_bytes(words[8], &nbytes);
    status = tenon_descriptor_open(bytes, nbytes, NULL, 0, NULL, &message, &error);
    free(bytes);
    tensor = take_tensor(status, message, error, name, user);
  } else {
    tenon_storage *storage = open_storage(strategy, connection, words + 8);
    if (storage != NULL && make_tensor(storage, words + 4, &tensor)) tensor = NULL;
    tenon_storage_release(storage);
  }
  if (tensor == NULL) return;
  hold(words[1], tensor, NULL);
  view.struct_size = sizeof(view);
  if (tenon_tensor_get_view(tensor, &view, NULL) != TENON_OK) abort();
  wire_put(answer, "%u:%u:%u %s %s %llu %d %d:%d %s %s ", (unsigned)view.dtype.code,
           (unsigned)view.dtype.bits, (unsigned)view.dtype.lanes,
           wire_word(view.sizes, view.ndim, sizes), wire_word(view.strides, view.ndim, strides),
           (unsigned long long)view.offset,
           tenon_storage_is_read_only(tenon_tensor_storage(tensor)), (int)view.device.type,
           (int)view.device.id, name, user);
  put_content(tensor);
}

/* compose K COMPOSITE */
static void do_compose(const char **words) {
  tenon_composite *composite = NULL;
  tenon_error *error = NULL;
  if (!failed(composite_read_words(words + 2, &composite, &error), &error))
    hold_composite(words[1], composite);
}

/* send C K... */
static void do_send(const char **words) {
  const struct connection *connection = find_connection(words[1]);
  tenon_message *message = NULL;
  tenon_error *error = NULL;
  tenon_status status;
  int i;
  if (connection == NULL) return;
  status = tenon_message_new(&message, &error);
  for (i = 2; status == TENON_OK && words[i][0] != '\0'; i++) {
    const struct held *held = find_composite(words[i]);
    char room[32];
    const char *name = room;
    if (held == NULL) break;
    snprintf(room, sizeof(room), "c%s", words[i]);
    status = tenon_message_add_composites(message, &held->composite, &name, 1, NULL, &error);
  }
  if (status == TENON_OK && words[i][0] == '\0')
    status = tenon_send(connection->tenon, message, &ten_seconds, &error);
  tenon_message_release(message);
  failed(status, &error);
}

/* receive C K... */
static void do_receive(const char **words) {
  const struct connection *connection = find_connection(words[1]);
  tenon_message *message = NULL;
  tenon_error *error = NULL;
  size_t count, i;
  if (connection == NULL ||
      failed(tenon_recv(connection->tenon, &ten_seconds, &message, &error), &error))
    return;
  count = tenon_message_composite_count(message);
  for (i = 0; i < count && words[2 + i][0] != '\0'; i++) {
    const char *name = tenon_message_composite_name(message, i);
    hold_composite(words[2 + i], tenon_composite_retain(tenon_message_composite(message, i)));
    wire_put(answer, "%s%s", i == 0 ? "" : " ", name == NULL ? "-" : name);
  }
  tenon_message_release(message);
  if (i != count || words[2 + i][0] != '\0')
    say_failed("OTHER", "another number of composites came");
}

/* Replaces the received composite by the one with checked numbers. */
static void do_check(struct held *held) {
  tenon_composite *checked = NULL;
  tenon_error *error = NULL;
  if (failed(tenon_composite_check(held->composite, &checked, &error), &error)) return;
  tenon_composite_release(held->composite);
  held->composite = checked;
}

/* tensor K NBYTES SEED DTYPE SIZES STRIDES OFFSET */
static void do_tensor(const char **words) {
  tenon_storage *storage = make_storage("", strtoull(words[2], NULL, 10), (unsigned)atoi(words[3]));
  tenon_tensor *tensor = NULL;
  if (storage != NULL && !make_tensor(storage, words + 4, &tensor)) hold(words[1], tensor, NULL);
  tenon_storage_release(storage);
}

/* view K FROM DTYPE SIZES STRIDES OFFSET */
static void do_view(const char **words) {
  const struct held *from = find_held(words[2]);
  tenon_tensor *tensor = NULL;
  if (from != NULL && !make_tensor(tenon_tensor_storage(from->tensor), words + 3, &tensor))
    hold(words[1], tensor, NULL);
}

/* An unknown key leaves the node empty, and tenon_object_new refuses an empty node. */
static void find_part(const char *key, tenon_object_node *node) {
  const struct held *held = find_held(key);
  if (held == NULL) return;
  node->tensor = held->tensor;
  node->composite = held->composite;
}

/* send_object C OBJECT */
static void do_send_object(const char **words) {
  const struct connection *connection = find_connection(words[1]);
  tenon_object *object = NULL;
  tenon_message *message = NULL;
  tenon_error *error = NULL;
  tenon_status status;
  if (connection == NULL) return;
  status = object_read_word(words[2], find_part, &object, &error);
  if (status == TENON_OK) status = tenon_message_new_from_object(object, NULL, &message, &error);
  if (status == TENON_OK) status = tenon_send(connection->tenon, message, &ten_seconds, &error);
  tenon_message_release(message);
  tenon_object_release(object);
  failed(status, &error);
}

/* recv_object C K... */
static void do_recv_object(const char **words) {
  const struct connection *connection = find_connection(words[1]);
  const char **key = words + 2;
  tenon_message *message = NULL;
  tenon_object *object = NULL;
  tenon_error *error = NULL;
  tenon_object_node *nodes;
  tenon_status status;
  size_t n, i;
  if (connection == NULL) return;
  status = tenon_recv(connection->tenon, &ten_seconds, &message, &error);
  if (status == TENON_OK) status = tenon_object_new_from_message(message, &object, &error);
  tenon_message_release(message);
  if (failed(status, &error)) return;
  nodes = object_nodes(object, &n);
  for (i = 0; i < n; i++) {
    if (i > 0) wire_put(answer, ";");
    object_put_node(answer, &nodes[i], *key, put_content);
    if (nodes[i].kind != TENON_OBJECT_TENSOR && nodes[i].kind != TENON_OBJECT_COMPOSITE) continue;
    if ((*key)[0] == '\0') break;
    if (nodes[i].kind == TENON_OBJECT_TENSOR)
      hold(*key++, tenon_tensor_retain(nodes[i].tensor), NULL);
    else
      hold_composite(*key++, tenon_composite_retain(nodes[i].composite));
  }
  if (i < n || (*key)[0] != '\0')
    say_failed("OTHER", "another number of tensors and composites came");
  free(nodes);
  tenon_object_release(object);
}

static void do_settle(void) {
  tenon_stats stats;
  uint64_t waiting;
  tenon_storage_trim();
  waiting = tenon_cuda_collect();
  stats.struct_size = sizeof(stats);
  if (tenon_stats_get(&stats, NULL) != TENON_OK) abort();
  wire_put(answer, "%llu %llu %llu %llu", (unsigned long long)stats.storages,
           (unsigned long long)stats.segments, (unsigned long long)stats.segment_fds,
           (unsigned long long)waiting);
}

static void give_all_back(void) {
  int i;
  for (i = 0; i < SLOTS; i++) {
    if (helds[i].key != 0) drop(&helds[i]);
    if (connections[i].number != 0) close_connection(&connections[i]);
  }
  if (listener >= 0) close(listener);
}

static void run(const char **words) {
  const char *command = words[0];
  struct held *held;
  struct connection *connection;
  if (strcmp(command, "listen") == 0) {
    listener = wire_listen(words[1]);
    if (listener < 0) say_failed("OTHER", strerror(errno));
  } else if (strcmp(command, "accept") == 0) {
    keep_connection(words[1], words[2], wire_accept(listener));
  } else if (strcmp(command, "connect") == 0) {
    keep_connection(words[1], words[2], wire_connect(words[3]));
  } else if (strcmp(command, "lend") == 0) {
    do_lend(words);
  } else if (strcmp(command, "open") == 0) {
    do_open(words);
  } else if (strcmp(command, "compose") == 0) {
    do_compose(words);
  } else if (strcmp(command, "send") == 0) {
    do_send(words);
  } else if (strcmp(command, "receive") == 0) {
    do_receive(words);
  } else if (strcmp(command, "composite") == 0) {
    if ((held = find_composite(words[1])) != NULL)
      composite_put_words(answer, held->composite, put_content);
  } else if (strcmp(command, "check") == 0) {
    if ((held = find_composite(words[1])) != NULL) do_check(held);
  } else if (strcmp(command, "tensor") == 0) {
    do_tensor(words);
  } else if (strcmp(command, "view") == 0) {
    do_view(words);
  } else if (strcmp(command, "send_object") == 0) {
    do_send_object(words);
  } else if (strcmp(command, "recv_object") == 0) {
    do_recv_object(words);
  } else if (strcmp(command, "settle") == 0) {
    do_settle();
  } else if (strcmp(command, "close") == 0) {
    if ((connection = find_connection(words[1])) != NULL) close_connection(connection);
  } else if (strcmp(command, "wait") == 0) {
    if ((connection = find_connection(words[1])) != NULL) do_wait(connection);
  } else if (strcmp(command, "read") == 0) {
    if ((held = find_held(words[1])) != NULL) put_content(held->tensor);
  } else if (strcmp(command, "write") == 0) {
    if ((held = find_held(words[1])) != NULL) do_write(held, (unsigned)atoi(words[2]));
  } else if (strcmp(command, "drop") == 0) {
    if ((held = find_held(words[1])) != NULL) drop(held);
  } else if (strcmp(command, "fork") == 0) {
    if ((held = find_held(words[1])) != NULL) do_fork(held);
  } else {
    say_failed("OTHER", "no such command");
  }
}

int main(void) {
  static char line[WIRE_LINE];
  const char *words[WIRE_WORDS];
  puts("ready");
  fflush(stdout);
  while (fgets(line, sizeof(line), stdin) != NULL) {
    if (wire_split(line, words) == 0) continue;
    if (strcmp(words[0], "quit") == 0) break;
    strcpy(answer, "ok ");
    run(words);
    puts(answer);
    fflush(stdout);
  }
  give_all_back();
  puts("ok");
  return 0;
}
