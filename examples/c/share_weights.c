/* A borrower of a model's weights. usage: share_weights FD, where FD is one end of a connected
 * AF_UNIX socket.
 *
 * It says "ready". Then the first message brings the tensors. After that each message asks for
 * something in its user bytes, and gets an answer:
 *
 *   sum      reads every float32 weight in place
 *   add N    adds 1 to weight N of the first tensor, in place
 *
 * It ends when the lender closes its end. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <time.h>

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int give_up(tenon_error *err) {
  fprintf(stderr, "share_weights: %s\n", tenon_error_message(err));
  tenon_error_release(err);
  return 1;
}

static double sum_of(const tenon_message *weights) {
  double sum = 0;
  for (size_t i = 0; i < tenon_message_count(weights); i++) {
    const tenon_tensor *tensor = tenon_message_tensor(weights, i);
    const float *values = tenon_tensor_data(tensor);
    uint64_t count = tenon_tensor_numel(tensor);
    for (uint64_t k = 0; k < count; k++) sum += (double)values[k];
  }
  return sum;
}

static tenon_status say(tenon_connection *connection, const char *text, size_t length,
                        tenon_error **err) {
  tenon_message *message = NULL;
  tenon_status status = tenon_message_new(&message, err);
  if (status == TENON_OK) status = tenon_message_set_user_bytes(message, text, length, err);
  if (status == TENON_OK) status = tenon_send(connection, message, NULL, err);
  tenon_message_release(message);
  return status;
}

static tenon_status answer(tenon_connection *connection, double sum, int64_t first_byte_ns,
                           tenon_error **err) {
  tenon_stats stats = {0};
  stats.struct_size = sizeof stats;
  tenon_status status = tenon_stats_get(&stats, err);
  if (status != TENON_OK) return status;
  char text[160];
  int length =
      snprintf(text, sizeof text,
               "{\"sum\": %.17g, \"first_byte_ns\": %" PRId64 ", \"bytes_copied\": %" PRIu64 "}",
               sum, first_byte_ns, stats.bytes_copied);
  return say(connection, text, (size_t)length, err);
}

int main(int argc, char **argv) {
  tenon_error *err = NULL;
  tenon_connection *connection = NULL;
  tenon_message *weights = NULL;
  if (argc != 2) return fprintf(stderr, "usage: share_weights FD\n"), 2;
  if (tenon_connection_new(atoi(argv[1]), NULL, &connection, &err) != TENON_OK) return give_up(err);
  if (say(connection, "ready", 5, &err) != TENON_OK) return give_up(err);
  if (tenon_recv(connection, NULL, &weights, &err) != TENON_OK) return give_up(err);
  tenon_tensor *first = tenon_message_tensor(weights, 0);
  volatile const char *byte = tenon_tensor_data(first);
  (void)*byte;
  int64_t first_byte_ns = now_ns();
  tenon_status status = answer(connection, 0, first_byte_ns, &err);
  while (status == TENON_OK) {
    tenon_message *message = NULL;
    status = tenon_recv(connection, NULL, &message, &err);
    if (status != TENON_OK) break;
    size_t length = 0;
    char command[32] = "";
    const void *bytes = tenon_message_user_bytes(message, &length);
    if (bytes != NULL && length < sizeof command) memcpy(command, bytes, length);
    tenon_message_release(message);
    uint64_t at = 0;
    void *values = NULL;
    if (sscanf(command, "add %" SCNu64, &at) == 1 && at < tenon_tensor_numel(first)) {
      status = tenon_tensor_data_mut(first, &values, &err);
      if (status == TENON_OK) ((float *)values)[at] += 1.0F;
    }
    if (status == TENON_OK)
      status = answer(connection, strcmp(command, "sum") == 0 ? sum_of(weights) : 0, first_byte_ns,
                      &err);
  }
  tenon_message_release(weights);
  tenon_connection_release(connection);
  if (status != TENON_PEER_GONE) return give_up(err);
  tenon_error_release(err);
  return 0;
}
