/* Kills a borrower and uses its memory again. usage: reclaim BORROWER... */
#include "start.h"

#include <signal.h>

int main(int argc, char **argv) {
  const uint64_t nbytes = 4 << 20;
  const int64_t sizes[] = {1 << 20};
  const char *name = "weights";
  tenon_arena_options room = {.struct_size = sizeof(room), .capacity_nbytes = nbytes};
  tenon_wait ten_seconds = {.struct_size = sizeof(ten_seconds), .timeout_ns = 10000000000};
  tenon_storage_options options = {.struct_size = sizeof(options)};
  tenon_tensor_spec spec = {.struct_size = sizeof(spec), .ndim = 1, .sizes = sizes};
  tenon_connection *connection;
  tenon_storage *storage;
  tenon_tensor *weights;
  tenon_message *message, *answer;
  pid_t borrower;
  if (argc < 2) return 2;
  int socket = start(argv + 1, &borrower);
  check(tenon_connection_new(socket, NULL, &connection, &err));

  check(tenon_arena_new(&room, &options.arena, &err)); /* room for one tensor of 4 MiB */
  check(tenon_storage_new(&options, nbytes, &storage, &err));
  spec.dtype = (tenon_dtype){TENON_DTYPE_FLOAT, 32, 1};
  check(tenon_tensor_new(storage, &spec, &weights, &err));
  check(tenon_message_new(&message, &err));
  check(tenon_message_add(message, &weights, &name, 1, NULL, &err));
  check(tenon_send(connection, message, NULL, &err));
  check(tenon_recv(connection, NULL, &answer, &err));
  tenon_message_release(message);
  tenon_tensor_release(weights);
  tenon_storage_release(storage);
  /* From here on, only the borrower holds the tensor. */
  if (tenon_storage_new(&options, nbytes, &storage, &err) == TENON_OK) return 1;
  printf("lender: no room. %s\n", tenon_error_detail(err, "holders"));
  tenon_error_release(err);

  kill(borrower, SIGKILL);
  options.wait = &ten_seconds; /* wait until there is room */
  check(tenon_storage_new(&options, nbytes, &storage, &err));
  printf("lender: the borrower was killed, and its memory is free\n");

  tenon_message_release(answer);
  tenon_storage_release(storage);
  tenon_arena_release(options.arena);
  tenon_connection_release(connection);
  close(socket);
  return waitpid(borrower, NULL, 0) < 0;
}
