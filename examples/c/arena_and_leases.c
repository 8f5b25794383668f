/* Two workers borrow from one arena. One worker is killed, and the blocks that it held come back
 * to the lender. The other worker reads on. */
#define _POSIX_C_SOURCE 200809L /* kill */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <tenon/tenon.h>
#include <unistd.h>

enum { kTensors = 8, kElements = 1 << 18, kNbytes = kElements * 4 };

static int fail(const tenon_error *err) {
  fprintf(stderr, "failed: %s\n",
          err != NULL ? tenon_error_message(err) : "a system call or a worker");
  return 1;
}

static tenon_status send_note(tenon_connection *connection, tenon_error **err) {
  tenon_message *note = NULL;
  tenon_status status = tenon_message_new(&note, err);
  if (!status) status = tenon_send(connection, note, NULL, err);
  tenon_message_release(note);
  return status;
}

static int work(int socket) {
  tenon_connection *lender = NULL;
  tenon_message *weights = NULL, *note = NULL;
  tenon_error *err = NULL;
  if (tenon_connection_new(socket, NULL, &lender, &err) || tenon_recv(lender, NULL, &weights, &err))
    return fail(err);
  if (send_note(lender, &err) || tenon_recv(lender, NULL, &note, &err))
    return fail(err); /* meanwhile the lender kills one worker */
  printf("a worker still reads %g\n", ((const float *)tenon_tensor_data(tenon_message_tensor(
                                          weights, kTensors - 1)))[kElements - 1]);
  tenon_message_release(note);
  tenon_message_release(weights); /* this also ends the leases */
  tenon_connection_release(lender);
  return 0;
}

static pid_t start(int *socket) {
  int ends[2];
  pid_t worker = socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 ? fork() : -1;
  if (worker == 0) {
    close(ends[0]);
    exit(work(ends[1]));
  }
  if (worker > 0) close(ends[1]);
  *socket = ends[0];
  return worker;
}

/* Makes tensors in the arena, and releases them as soon as they are sent. From then on the
 * worker's leases keep their memory. */
static tenon_status lend(tenon_connection *worker, const tenon_storage_options *in_arena,
                         tenon_error **err) {
  tenon_tensor_spec spec = {
      sizeof(spec), {TENON_DTYPE_FLOAT, 32, 1}, 1, (int64_t[]){kElements}, NULL, 0, 0, 0};
  tenon_message *message = NULL, *note = NULL;
  tenon_status status = tenon_message_new(&message, err);
  for (int i = 0; i < kTensors && !status; i++) {
    tenon_storage *storage = NULL;
    tenon_tensor *tensor = NULL;
    void *data = NULL;
    status = tenon_storage_new(in_arena, kNbytes, &storage, err);
    if (!status) status = tenon_tensor_new(storage, &spec, &tensor, err);
    if (!status) status = tenon_tensor_data_mut(tensor, &data, err);
    for (int at = 0; at < kElements && !status; at++) ((float *)data)[at] = 42;
    if (!status) status = tenon_message_add(message, &tensor, NULL, 1, NULL, err);
    tenon_tensor_release(tensor);
    tenon_storage_release(storage);
  }
  if (!status) status = tenon_send(worker, message, NULL, err);
  if (!status) status = tenon_recv(worker, NULL, &note, err); /* the worker has the tensors */
  tenon_message_release(note);
  tenon_message_release(message);
  return status;
}

static void print_holders(void) {
  tenon_lease_holder holders[2] = {{sizeof(holders[0]), 0, 0, 0, 0, 0, 0, 0}};
  size_t total = 0;
  if (tenon_lease_holders(holders, 2, &total, NULL)) return;
  for (size_t i = 0; i < total && i < 2; i++)
    printf("process %d holds %d leases of %d bytes\n", (int)holders[i].pid, (int)holders[i].leases,
           (int)holders[i].nbytes);
}

int main(void) {
  tenon_arena_options room = {.struct_size = sizeof(room),
                              .capacity_nbytes = 2 * kTensors * kNbytes};
  tenon_wait wait = {.struct_size = sizeof(wait), .timeout_ns = 10000000000};
  tenon_storage_options in_arena = {.struct_size = sizeof(in_arena)};
  tenon_arena_stats stats = {.struct_size = sizeof(stats)};
  tenon_arena *arena = NULL;
  tenon_connection *connections[2] = {NULL, NULL};
  tenon_storage *storage = NULL;
  tenon_error *err = NULL;
  int sockets[2], result = 0;
  pid_t workers[2];
  for (int i = 0; i < 2; i++)
    if ((workers[i] = start(&sockets[i])) < 0) return fail(NULL);
  if (tenon_arena_new(&room, &arena, &err)) return fail(err);
  in_arena.arena = arena;
  for (int i = 0; i < 2; i++)
    if (tenon_connection_new(sockets[i], NULL, &connections[i], &err) ||
        lend(connections[i], &in_arena, &err))
      return fail(err);
  print_holders();
  if (tenon_storage_new(&in_arena, kNbytes, &storage, &err) != TENON_RESOURCE_EXHAUSTED)
    return fail(err);
  printf("full: %s\n", tenon_error_message(err));
  tenon_error_release(err);
  err = NULL;

  in_arena.wait = &wait; /* wait until there is room */
  if (kill(workers[0], SIGKILL) || tenon_storage_new(&in_arena, kNbytes, &storage, &err))
    return fail(err);
  printf("one worker was killed, and there is room\n");
  print_holders();
  if (send_note(connections[1], &err) || waitpid(workers[1], &result, 0) < 0 || result != 0)
    return fail(err);
  if (tenon_arena_stats_get(arena, &stats, &err)) return fail(err);
  printf("%d blocks are lent, %d bytes are in use\n", (int)stats.blocks_lent,
         (int)stats.bytes_live);
  tenon_storage_release(storage);
  for (int i = 0; i < 2; i++) tenon_connection_release(connections[i]);
  tenon_arena_release(arena);
  return waitpid(workers[0], &result, 0) < 0;
}
