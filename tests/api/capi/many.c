/* Tests large messages: 10,000 tensors in one call, and more segments than one packet can carry
 * fds. */
#include "check.h"

enum { kTensors = 10000, kTensorBytes = 64, kUserBytes = TENON_MESSAGE_MAX_USER_NBYTES };

static void name_of(size_t i, char *name, size_t n) { snprintf(name, n, "layer.%zu.weight", i); }

static void receive_10000(int sock) {
  tenon_connection *connection = NULL;
  tenon_message *got = NULL;
  char name[64];
  size_t i, n = 0;
  long fds;
  OK(tenon_connection_new(sock, NULL, &connection, ERR));
  fds = check_count_fds();
  OK(tenon_recv(connection, NULL, &got, ERR));
  CHECK(tenon_message_count(got) == kTensors);
  CHECK(check_count_fds() - fds <= 4); /* one segment, whatever the number of tensors */
  CHECK(check_filled(tenon_message_user_bytes(got, &n), kUserBytes, 5) && n == kUserBytes);
  for (i = 0; i < kTensors; i++) {
    tenon_tensor *tensor = tenon_message_tensor(got, i);
    void *data = NULL;
    CHECK(check_filled(tenon_tensor_data(tensor), kTensorBytes, i));
    name_of(i, name, sizeof(name));
    if (i % 3 == 0) {
      CHECK(tenon_message_name(got, i) == NULL);
    } else {
      CHECK(strcmp(tenon_message_name(got, i), name) == 0);
    }
    CHECK(tenon_tensor_data_mut(tensor, &data, NULL) == TENON_OK);
    check_fill(data, kTensorBytes, i + 1);
  }
  name_of(9998, name, sizeof(name));
  CHECK(tenon_message_find(got, name) == tenon_message_tensor(got, 9998));
  tenon_message_release(got);
  tenon_connection_release(connection);
  check_signal(sock);
}

static void send_10000(int type) {
  int sock;
  pid_t child = check_spawn(type, receive_10000, &sock);
  tenon_tensor **tensors = calloc(kTensors, sizeof(*tensors));
  const char **names = calloc(kTensors, sizeof(*names));
  char(*texts)[32] = calloc(kTensors, sizeof(*texts));
  unsigned char *user = malloc(kUserBytes);
  tenon_connection *connection = NULL;
  tenon_message *message = NULL;
  size_t i;
  CHECK(tensors != NULL && names != NULL && texts != NULL && user != NULL);
  for (i = 0; i < kTensors; i++) {
    tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, kTensorBytes, i);
    tensors[i] = check_bytes_tensor(storage);
    tenon_storage_release(storage);
    name_of(i, texts[i], sizeof(texts[i]));
    names[i] = i % 3 == 0 ? NULL : texts[i];
  }
  check_fill(user, kUserBytes, 5);
  OK(tenon_connection_new(sock, NULL, &connection, ERR));
  OK(tenon_message_new(&message, ERR));
  OK(tenon_message_add(message, tensors, names, kTensors, NULL, ERR));
  OK(tenon_message_set_user_bytes(message, user, kUserBytes, ERR));
  OK(tenon_send(connection, message, NULL, ERR));
  check_await(sock);
  for (i = 0; i < kTensors; i++)
    CHECK(check_filled(tenon_tensor_data(tensors[i]), kTensorBytes,
                       i + 1)); /* written in place by the borrower */
  tenon_message_release(message);
  tenon_connection_release(connection);
  for (i = 0; i < kTensors; i++) tenon_tensor_release(tensors[i]);
  free(tensors);
  free(names);
  free(texts);
  free(user);
  check_join(child);
  close(sock);
}

static void ten_thousand_on_stream(void) { send_10000(SOCK_STREAM); }
static void ten_thousand_on_seqpacket(void) { send_10000(SOCK_SEQPACKET); }

static size_t segments;

static void receive_isolated(int sock) {
  tenon_connection *connection = NULL;
  tenon_message *got = NULL;
  size_t i;
  OK(tenon_connection_new(sock, NULL, &connection, ERR));
  OK(tenon_recv(connection, NULL, &got, ERR));
  CHECK(tenon_message_count(got) == segments);
  for (i = 0; i < segments; i++)
    CHECK(check_filled(tenon_tensor_data(tenon_message_tensor(got, i)), 200, i));
  tenon_message_release(got);
  OK(tenon_recv(connection, NULL, &got,
                ERR)); /* once more: known by now, or fetched anew, as the library likes */
  for (i = 0; i < segments; i++)
    CHECK(check_filled(tenon_tensor_data(tenon_message_tensor(got, i)), 200, i));
  tenon_message_release(got);
  tenon_connection_release(connection);
  check_signal(sock);
}

static void send_isolated(int type) {
  int sock;
  pid_t child = check_spawn(type, receive_isolated, &sock);
  tenon_connection *connection = NULL;
  tenon_message *message = NULL;
  size_t i;
  OK(tenon_connection_new(sock, NULL, &connection, ERR));
  OK(tenon_message_new(&message, ERR));
  for (i = 0; i < segments; i++) {
    tenon_storage *storage = check_storage(TENON_MODE_SHARED, TENON_STORAGE_ISOLATED, 200, i);
    tenon_tensor *tensor = check_bytes_tensor(storage);
    OK(tenon_message_add(message, &tensor, NULL, 1, NULL, ERR));
    tenon_tensor_release(tensor);
    tenon_storage_release(storage);
  }
  OK(tenon_send(connection, message, NULL, ERR));
  OK(tenon_send(connection, message, NULL, ERR));
  check_await(sock);
  tenon_message_release(message);
  tenon_connection_release(connection);
  check_join(child);
  close(sock);
}

static void isolated_on_stream(void) { send_isolated(SOCK_STREAM); }
static void isolated_on_seqpacket(void) { send_isolated(SOCK_SEQPACKET); }

int main(void) {
  struct rlimit limit;
  check_begin(120);
  CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  limit.rlim_cur = limit.rlim_max;
  CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  segments = 1000;
  if (limit.rlim_cur < 2 * segments + 200) segments = (size_t)limit.rlim_cur / 2 - 100;
  CHECK(segments > 253); /* fewer would fit into one packet */
  RUN_ONCE(ten_thousand_on_stream);
  RUN_ONCE(ten_thousand_on_seqpacket);
  RUN_ONCE(isolated_on_stream);
  RUN_ONCE(isolated_on_seqpacket);
  return 0;
}
