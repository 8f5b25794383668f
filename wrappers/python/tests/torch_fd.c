/* Opens PyTorch's memory by an inherited fd: torch_fd FD NBYTES OFFSET COUNT. Prints the sum of
   COUNT floats from element OFFSET on, and doubles each of them. */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

static int fail(tenon_error* error) {
  fprintf(stderr, "%s: %s\n", tenon_status_name(tenon_error_code(error)),
          tenon_error_message(error));
  tenon_error_release(error);
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  tenon_fd_handle handle = {.struct_size = sizeof handle};
  tenon_open_options options = {.struct_size = sizeof options, .flags = TENON_OPEN_ALLOW_UNSEALED};
  tenon_tensor_spec spec = {.struct_size = sizeof spec, .ndim = 1};
  tenon_storage* storage = NULL;
  tenon_tensor* tensor = NULL;
  tenon_error* error = NULL;
  void* data = NULL;
  int64_t count = strtoll(argv[4], NULL, 10);

  handle.fd = atoi(argv[1]);
  handle.nbytes = strtoull(argv[2], NULL, 10);
  if (tenon_open_fd(&handle, &options, &storage, &error)) return fail(error);

  spec.dtype.code = TENON_DTYPE_FLOAT;
  spec.dtype.bits = 32;
  spec.dtype.lanes = 1;
  spec.sizes = &count;
  spec.offset = strtoull(argv[3], NULL, 10);
  if (tenon_tensor_new(storage, &spec, &tensor, &error)) return fail(error);
  tenon_storage_release(storage);
  if (tenon_tensor_data_mut(tensor, &data, &error)) return fail(error);

  float sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    sum += ((float*)data)[i];
    ((float*)data)[i] *= 2;
  }
  printf("%.0f\n", (double)sum);
  tenon_tensor_release(tensor);
  return 0;
}
