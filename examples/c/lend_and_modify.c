/* Lends a tensor to another process, which changes it in place. */
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

int main(void) {
  tenon_tensor_spec spec = {
      sizeof(spec), {TENON_DTYPE_FLOAT, 32, 1}, 2, (int64_t[]){1000, 1000}, NULL, 0, 0, 0};
  tenon_storage *storage = NULL;
  tenon_tensor *tensor = NULL;
  tenon_message *message = NULL;
  tenon_connection *connection = NULL;
  tenon_error *err = NULL;
  void *data = NULL;
  int ends[2], result = 0;
  pid_t child = socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 ? fork() : -1;
  if (child < 0 || tenon_connection_new(ends[child == 0], NULL, &connection, &err))
    return fail(err);
  close(ends[child != 0]);
  if (child == 0) { /* the borrower */
    if (tenon_recv(connection, NULL, &message, &err)) return fail(err);
    if (tenon_tensor_data_mut(tenon_message_tensor(message, 0), &data, &err)) return fail(err);
    ((float *)data)[999999] = 42;
    return 0;
  }
  if (tenon_storage_new(NULL, 4000000, &storage, &err) ||
      tenon_tensor_new(storage, &spec, &tensor, &err))
    return fail(err);
  if (tenon_message_new(&message, &err) || tenon_message_add(message, &tensor, NULL, 1, NULL, &err))
    return fail(err);
  if (tenon_send(connection, message, NULL, &err) || wait(&result) < 0 || result != 0)
    return fail(err);
  printf("the last element is now %g\n", ((const float *)tenon_tensor_data(tensor))[999999]);
  tenon_message_release(message);
  tenon_tensor_release(tensor);
  tenon_storage_release(storage);
  tenon_connection_release(connection);
  return 0;
}
