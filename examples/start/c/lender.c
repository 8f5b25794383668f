/* Lends a tensor to another program. usage: lender shared|frozen BORROWER... */
#include "start.h"

#include <string.h>

int main(int argc, char **argv) {
  static const float values[1000] = {1};
  const int64_t sizes[] = {1000};
  const char *name = "weights";
  tenon_storage_options options = {.struct_size = sizeof(options)};
  tenon_tensor_spec spec = {.struct_size = sizeof(spec), .ndim = 1, .sizes = sizes};
  tenon_connection *connection;
  tenon_storage *storage;
  tenon_tensor *weights;
  tenon_message *message, *answer;
  pid_t borrower;
  if (argc < 3) return 2;
  int socket = start(argv + 2, &borrower);
  check(tenon_connection_new(socket, NULL, &connection, &err));

  spec.dtype = (tenon_dtype){TENON_DTYPE_FLOAT, 32, 1};
  if (strcmp(argv[1], "frozen") == 0) options.mode = TENON_MODE_FROZEN;
  check(tenon_storage_new_from(&options, values, sizeof(values), &storage, &err));
  check(tenon_tensor_new(storage, &spec, &weights, &err));
  check(tenon_message_new(&message, &err));
  check(tenon_message_add(message, &weights, &name, 1, NULL, &err));
  check(tenon_send(connection, message, NULL, &err));
  check(tenon_recv(connection, NULL, &answer, &err)); /* the borrower is done */
  printf("lender: the first weight is %g\n", *(const float *)tenon_tensor_data(weights));

  tenon_message_release(answer);
  tenon_message_release(message);
  tenon_tensor_release(weights);
  tenon_storage_release(storage);
  tenon_connection_release(connection);
  close(socket);
  return waitpid(borrower, NULL, 0) < 0;
}
