/* Lends weights that nobody can change any more. The borrower reads them in place, and is
 * refused when it tries to write. */
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <tenon/tenon.h>
#include <unistd.h>

static int fail(const tenon_error *err) {
  fprintf(stderr, "failed: %s\n",
          err != NULL ? tenon_error_message(err) : "socketpair, fork or the other process");
  return 1;
}

static int borrow(tenon_connection *connection) {
  tenon_message *message = NULL;
  tenon_tensor *weights;
  tenon_error *err = NULL;
  void *data = NULL;
  if (tenon_recv(connection, NULL, &message, &err)) return fail(err);
  weights = tenon_message_find(message, "weights");
  printf("borrower: the third weight is %g\n", ((const float *)tenon_tensor_data(weights))[2]);
  if (tenon_tensor_data_mut(weights, &data, &err) != TENON_PERMISSION) return fail(err);
  printf("borrower: cannot write: %s\n", tenon_error_message(err));
  tenon_error_release(err);
  tenon_message_release(message);
  return fflush(stdout);
}

int main(void) {
  const float values[] = {0.5F, 1.5F, 2.5F, 3.5F};
  const char *name = "weights";
  tenon_storage_options frozen = {sizeof(frozen), TENON_MODE_FROZEN, 0, 0, NULL, NULL};
  tenon_tensor_spec spec = {
      sizeof(spec), {TENON_DTYPE_FLOAT, 32, 1}, 1, (int64_t[]){4}, NULL, 0, 0, 0};
  tenon_storage *storage = NULL;
  tenon_tensor *tensor = NULL;
  tenon_message *message = NULL;
  tenon_connection *connection = NULL;
  tenon_error *err = NULL;
  int ends[2], result = 0;
  pid_t child = socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 ? fork() : -1;
  if (child < 0 || tenon_connection_new(ends[child == 0], NULL, &connection, &err))
    return fail(err);
  close(ends[child != 0]);
  if (child == 0) return borrow(connection);
  if (tenon_storage_new_from(&frozen, values, sizeof(values), &storage, &err)) return fail(err);
  if (tenon_tensor_new(storage, &spec, &tensor, &err) || tenon_message_new(&message, &err))
    return fail(err);
  if (tenon_message_add(message, &tensor, &name, 1, NULL, &err)) return fail(err);
  if (tenon_send(connection, message, NULL, &err) || wait(&result) < 0 || result != 0)
    return fail(err);
  printf("lender: lent once, %d bytes, nothing copied on the way\n", (int)sizeof(values));
  tenon_message_release(message);
  tenon_tensor_release(tensor);
  tenon_storage_release(storage);
  tenon_connection_release(connection);
  return 0;
}
