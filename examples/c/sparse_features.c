/* Lends a sparse matrix. The borrower checks its indices and reads it in place. */
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
  tenon_composite *features = NULL;
  tenon_composite_spec spec = {0};
  tenon_error *err = NULL;
  const int64_t *first;
  const float *values;
  int64_t row, i;
  spec.struct_size = sizeof(spec);
  if (tenon_recv(connection, NULL, &message, &err)) return fail(err);
  /* The lender could have sent an index that leads out of the matrix. */
  if (tenon_composite_check(tenon_message_find_composite(message, "features"), &features, &err))
    return fail(err);
  if (tenon_composite_get_spec(features, &spec, &err)) return fail(err);
  first = tenon_tensor_data(spec.indices);
  values = tenon_tensor_data(spec.values);
  printf("borrower: the rows sum to");
  for (row = 0; row < spec.sizes[0]; row++) {
    float sum = 0;
    for (i = first[row]; i < first[row + 1]; i++) sum += values[i];
    printf(" %g", sum);
  }
  printf("\n");
  tenon_composite_release(features);
  tenon_message_release(message);
  return fflush(stdout);
}

/* Makes a frozen tensor of one dimension. */
static tenon_tensor *frozen(const void *data, tenon_dtype dtype, int64_t size, tenon_error **err) {
  tenon_storage_options options = {sizeof(options), TENON_MODE_FROZEN, 0, 0, NULL, NULL};
  tenon_tensor_spec spec = {sizeof(spec), dtype, 1, &size, NULL, 0, 0, 0};
  tenon_storage *storage = NULL;
  tenon_tensor *tensor = NULL;
  if (tenon_storage_new_from(&options, data, (uint64_t)size * dtype.bits / 8, &storage, err))
    return NULL;
  (void)tenon_tensor_new(storage, &spec, &tensor, err);
  tenon_storage_release(storage);
  return tensor;
}

int main(void) {
  /* [[1, 0, 0, 2], [0, 0, 0, 0], [0, 3, 0, 0]] */
  const float values[] = {1, 2, 3};
  const int64_t first[] = {0, 2, 2, 3}, columns[] = {0, 3, 1}, sizes[] = {3, 4};
  const tenon_dtype float32 = {TENON_DTYPE_FLOAT, 32, 1}, int64 = {TENON_DTYPE_INT, 64, 1};
  const char *name = "features";
  tenon_composite_spec spec = {0};
  tenon_composite *features = NULL;
  tenon_message *message = NULL;
  tenon_connection *connection = NULL;
  tenon_error *err = NULL;
  int ends[2], result = 0;
  pid_t child = socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 ? fork() : -1;
  if (child < 0 || tenon_connection_new(ends[child == 0], NULL, &connection, &err))
    return fail(err);
  close(ends[child != 0]);
  if (child == 0) return borrow(connection);
  spec.struct_size = sizeof(spec);
  spec.layout = TENON_TENSOR_LAYOUT_SPARSE_CSR;
  spec.ndim = 2;
  spec.sizes = sizes;
  if ((spec.values = frozen(values, float32, 3, &err)) == NULL) return fail(err);
  if ((spec.indices = frozen(first, int64, 4, &err)) == NULL) return fail(err);
  if ((spec.plain_indices = frozen(columns, int64, 3, &err)) == NULL) return fail(err);
  if (tenon_composite_new(&spec, &features, &err) || tenon_message_new(&message, &err))
    return fail(err);
  if (tenon_message_add_composites(message, &features, &name, 1, NULL, &err)) return fail(err);
  if (tenon_send(connection, message, NULL, &err) || wait(&result) < 0 || result != 0)
    return fail(err);
  printf("lender: lent 3 of 12 elements, nothing copied on the way\n");
  tenon_message_release(message);
  tenon_composite_release(features);
  tenon_tensor_release(spec.values);
  tenon_tensor_release(spec.indices);
  tenon_tensor_release(spec.plain_indices);
  tenon_connection_release(connection);
  return 0;
}
