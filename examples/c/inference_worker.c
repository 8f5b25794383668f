/* A worker of the example inference_server. usage: inference_worker FD, where FD is its socket to
 * the front end.
 *
 * The first message over the socket brings two queues and the weights. After that everything goes
 * through the queues. A request is a tensor, and its user bytes are its number. The worker says
 * that it has the request (the number and its own pid, without a tensor), and sends the answer in a
 * tensor of its own with the same user bytes. A request without a tensor ends the worker. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <unistd.h>

#define NUMBER_NBYTES 8

static void need(tenon_status status, const char *what, const tenon_error *error) {
  if (status == TENON_OK) return;
  fprintf(stderr, "inference_worker: %s: %s\n", what, tenon_error_message(error));
  exit(1);
}

static void need_that(int condition, const char *what) {
  if (condition) return;
  fprintf(stderr, "inference_worker: %s\n", what);
  exit(1);
}

static tenon_queue *join(const tenon_message *start, const char *name, uint32_t flags) {
  tenon_queue_options options = {0};
  tenon_tensor *bytes = tenon_message_find(start, name);
  tenon_queue *queue = NULL;
  tenon_error *error = NULL;
  need_that(bytes != NULL, "the first message lacks a queue");
  options.struct_size = sizeof options;
  options.flags = flags;
  need(tenon_queue_join(tenon_tensor_storage(bytes), &options, &queue, &error), "join", error);
  return queue;
}

static void send(tenon_queue *answers, const unsigned char *mark, tenon_tensor *tensor) {
  tenon_message *message = NULL;
  tenon_error *error = NULL;
  need(tenon_message_new(&message, &error), "message", error);
  need(tenon_message_set_user_bytes(message, mark, NUMBER_NBYTES + 4, &error), "message", error);
  if (tensor != NULL)
    need(tenon_message_add(message, &tensor, NULL, 1, NULL, &error), "tensor", error);
  need(tenon_queue_send(answers, message, NULL, &error), "send", error);
  tenon_message_release(message);
}

static tenon_tensor_view view_of(tenon_tensor *tensor) {
  tenon_tensor_view view = {0};
  tenon_error *error = NULL;
  view.struct_size = sizeof view;
  need(tenon_tensor_get_view(tensor, &view, &error), "view", error);
  need_that(view.dtype.code == TENON_DTYPE_FLOAT && view.dtype.bits == 32 && view.ndim == 2 &&
                view.is_contiguous && view.data != NULL,
            "a tensor that is no matrix of float32");
  return view;
}

/* Gives relu(x * weights) in a new tensor. */
static tenon_tensor *multiply(tenon_tensor *input, tenon_tensor *weights) {
  const tenon_tensor_view x = view_of(input), w = view_of(weights);
  const float *from = x.data, *by = w.data;
  const int64_t width = x.sizes[1];
  tenon_tensor_spec spec = {0};
  tenon_storage *storage = NULL;
  tenon_tensor *answer = NULL;
  tenon_error *error = NULL;
  float *to;
  int64_t row, column, i;
  need_that(w.sizes[0] == width && w.sizes[1] == width, "a request of another width");
  need(tenon_storage_new(NULL, x.nbytes, &storage, &error), "storage", error);
  spec.struct_size = sizeof spec;
  spec.dtype = x.dtype;
  spec.ndim = 2;
  spec.sizes = x.sizes;
  need(tenon_tensor_new(storage, &spec, &answer, &error), "tensor", error);
  need(tenon_storage_data_mut(storage, (void **)&to, &error), "data", error);
  for (row = 0; row < x.sizes[0]; row++) {
    for (column = 0; column < width; column++) {
      float sum = 0;
      for (i = 0; i < width; i++) sum += from[row * width + i] * by[i * width + column];
      to[row * width + column] = sum > 0 ? sum : 0;
    }
  }
  tenon_storage_release(storage); /* the tensor keeps it */
  return answer;
}

int main(int argc, char **argv) {
  tenon_connection *connection = NULL;
  tenon_message *start = NULL, *ready = NULL;
  tenon_queue *requests, *answers;
  tenon_tensor *weights;
  tenon_error *error = NULL;
  const uint32_t pid = (uint32_t)getpid();
  const int front_end = getppid();
  if (argc != 2) {
    fprintf(stderr, "usage: inference_worker FD\n");
    return 2;
  }
  need(tenon_connection_new(atoi(argv[1]), NULL, &connection, &error), "connection", error);
  need(tenon_recv(connection, NULL, &start, &error), "the first message", error);
  requests = join(start, "requests", 0);
  answers = join(start, "answers", TENON_QUEUE_IGNORE_DEATHS);
  weights = tenon_message_find(start, "weights");
  need_that(weights != NULL, "the first message lacks the weights");
  need(tenon_message_new(&ready, &error), "message", error);
  need(tenon_send(connection, ready, NULL, &error), "ready", error);
  tenon_message_release(ready);
  for (;;) {
    unsigned char mark[NUMBER_NBYTES + 4];
    const void *number;
    size_t nbytes;
    tenon_message *request = NULL;
    tenon_tensor *input = NULL, *answer;
    tenon_status status = tenon_queue_recv(requests, NULL, &request, &error);
    if (status == TENON_PEER_GONE) {
      const char *who = tenon_error_detail(error, "pid");
      const int is_over = who != NULL && atoi(who) == front_end;
      tenon_error_release(error);
      error = NULL;
      if (is_over) break;
      continue; /* another worker has died */
    }
    need(status, "request", error);
    if (tenon_message_count(request) == 0) {
      tenon_message_release(request);
      break;
    }
    number = tenon_message_user_bytes(request, &nbytes);
    need_that(nbytes == NUMBER_NBYTES, "a request without a number");
    memcpy(mark, number, NUMBER_NBYTES);
    memcpy(mark + NUMBER_NBYTES, &pid, sizeof pid); /* little-endian, as everywhere in Tenon */
    send(answers, mark, NULL);
    input = tenon_message_tensor(request, 0);
    answer = multiply(input, weights);
    send(answers, mark, answer);
    tenon_tensor_release(answer);
    tenon_message_release(request);
  }
  tenon_queue_release(answers);
  tenon_queue_release(requests);
  tenon_message_release(start);
  tenon_connection_release(connection);
  return 0;
}
