/* A member of a queue: queue_member new MEMBERS CAPACITY makes one and prints its name and size,
 * and queue_member join NAME NBYTES joins it. Then it obeys each line of standard input, and
 * answers with a number: "send COUNT NBYTES" sends messages until the lane is full, and answers how
 * many; "recv COUNT" takes messages that are there, and answers how many; "block" waits for a
 * message, and answers 1; "fill NBYTES" waits for room, and answers 1; "leave" leaves. The two that
 * wait ignore the deaths of members. It ends in an orderly way when standard input ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

static tenon_queue* queue;

static void need(tenon_status status, const char* what, tenon_error** error) {
  if (status == TENON_OK) return;
  fprintf(stderr, "queue_member: %s: %s\n", what, tenon_error_message(*error));
  exit(1);
}

static void make(const char* members, const char* capacity) {
  tenon_queue_options options;
  tenon_filename_handle handle;
  tenon_error* error = NULL;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.flags = TENON_QUEUE_IGNORE_DEATHS;
  options.members = (uint32_t)atoi(members);
  options.capacity = (uint32_t)atoi(capacity);
  need(tenon_queue_new(&options, &queue, &error), "tenon_queue_new", &error);
  memset(&handle, 0, sizeof handle);
  handle.struct_size = sizeof handle;
  need(tenon_share_filename(tenon_queue_storage(queue), NULL, NULL, &handle, &error),
       "tenon_share_filename", &error);
  printf("%s %llu\n", handle.name, (unsigned long long)handle.nbytes);
}

static void join(const char* name, const char* nbytes) {
  tenon_queue_options options;
  tenon_filename_handle handle;
  tenon_storage* storage = NULL;
  tenon_error* error = NULL;
  memset(&handle, 0, sizeof handle);
  handle.struct_size = sizeof handle;
  handle.nbytes = strtoull(nbytes, NULL, 10);
  snprintf(handle.name, sizeof handle.name, "%s", name);
  need(tenon_open_filename(&handle, NULL, NULL, &storage, &error), "tenon_open_filename", &error);
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.flags = TENON_QUEUE_IGNORE_DEATHS;
  need(tenon_queue_join(storage, &options, &queue, &error), "tenon_queue_join", &error);
  tenon_storage_release(storage);
  printf("joined\n");
}

static tenon_message* make_message(long long nbytes) {
  tenon_storage* storage = NULL;
  tenon_tensor* tensor = NULL;
  tenon_message* message = NULL;
  tenon_tensor_spec spec;
  tenon_error* error = NULL;
  int64_t size = nbytes;
  need(tenon_storage_new(NULL, (uint64_t)nbytes, &storage, &error), "tenon_storage_new", &error);
  memset(&spec, 0, sizeof spec);
  spec.struct_size = sizeof spec;
  spec.dtype.code = TENON_DTYPE_UINT;
  spec.dtype.bits = 8;
  spec.dtype.lanes = 1;
  spec.ndim = 1;
  spec.sizes = &size;
  need(tenon_tensor_new(storage, &spec, &tensor, &error), "tenon_tensor_new", &error);
  need(tenon_message_new(&message, &error), "tenon_message_new", &error);
  need(tenon_message_add(message, &tensor, NULL, 1, NULL, &error), "tenon_message_add", &error);
  tenon_tensor_release(tensor);
  tenon_storage_release(storage);
  return message;
}

static int send_one(long long nbytes, const tenon_wait* wait) {
  tenon_message* message = make_message(nbytes);
  tenon_error* error = NULL;
  tenon_status status = tenon_queue_send(queue, message, wait, &error);
  if (status != TENON_WOULD_BLOCK) need(status, "tenon_queue_send", &error);
  tenon_error_release(error);
  tenon_message_release(message);
  return status == TENON_OK;
}

static int recv_one(const tenon_wait* wait) {
  tenon_message* message = NULL;
  tenon_error* error = NULL;
  tenon_status status = tenon_queue_recv(queue, wait, &message, &error);
  if (status != TENON_WOULD_BLOCK) need(status, "tenon_queue_recv", &error);
  tenon_error_release(error);
  tenon_message_release(message);
  return status == TENON_OK;
}

static int obey(const char* line) {
  tenon_wait now;
  long long count = 0, nbytes = 0, done = 0;
  memset(&now, 0, sizeof now);
  now.struct_size = sizeof now;
  if (sscanf(line, "send %lld %lld", &count, &nbytes) == 2) {
    while (done < count && send_one(nbytes, &now)) done++;
  } else if (sscanf(line, "recv %lld", &count) == 1) {
    while (done < count && recv_one(&now)) done++;
  } else if (strcmp(line, "block\n") == 0) {
    done = recv_one(NULL);
  } else if (sscanf(line, "fill %lld", &nbytes) == 1) {
    done = send_one(nbytes, NULL);
  } else if (strcmp(line, "leave\n") == 0) {
    tenon_queue_leave(queue);
  } else {
    return 0;
  }
  printf("%lld\n", done);
  return 1;
}

int main(int argc, char** argv) {
  char line[100];
  if (argc != 4) return 2;
  if (strcmp(argv[1], "new") == 0) make(argv[2], argv[3]);
  if (strcmp(argv[1], "join") == 0) join(argv[2], argv[3]);
  if (queue == NULL) return 2;
  fflush(stdout);
  while (fgets(line, sizeof line, stdin) != NULL) {
    if (!obey(line)) return 2;
    fflush(stdout);
  }
  tenon_queue_release(queue);
  return 0;
}
