/* Lends weights on a GPU to another process, as a trainer does for its workers. The lender reads
 * an archive into device memory, and lends the tensors over a connection. Then it does the same
 * with the next archive. The worker uses the tensors in place, without a copy. Without CUDA the
 * program says why, and exits with 77, as a skipped test does. usage: cuda_weights FILE... */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <tenon/tenon.h>
#include <unistd.h>

static int give_up(tenon_error *err, int code) {
  fprintf(
      stderr, "cuda_weights: %s\n",
      err != NULL ? tenon_error_message(err) : "a temporary file, socketpair, fork or the worker");
  tenon_error_release(err);
  return code;
}

/* Adds up the float32 elements of a tensor. The host cannot read device memory, so they travel
 * through an archive. */
static tenon_status sum_of(tenon_tensor *tensor, double *sum, tenon_error **err) {
  tenon_module *module = NULL, *copy = NULL;
  tenon_value *value = NULL;
  tenon_member_list *list = NULL;
  tenon_member member = {.struct_size = sizeof member};
  tenon_tensor *read = NULL;
  tenon_tensor_view view = {.struct_size = sizeof view};
  FILE *archive = tmpfile();
  tenon_status status = archive == NULL ? TENON_IO : tenon_module_new("Weight", &module, err);
  if (status == TENON_OK) status = tenon_value_new_tensor(tensor, &value, err);
  if (status == TENON_OK) status = tenon_module_add_buffer(module, "weight", value, err);
  if (status == TENON_OK) status = tenon_export_module_fd(module, fileno(archive), NULL, NULL, err);
  if (status == TENON_OK) status = tenon_import_module_fd(fileno(archive), NULL, &copy, err);
  if (status == TENON_OK) status = tenon_module_tensors(copy, &list, err);
  if (status == TENON_OK) status = tenon_member_list_get(list, 0, &member, err);
  if (status == TENON_OK) status = tenon_value_get_tensor(member.value, &read, err);
  if (status == TENON_OK) status = tenon_tensor_get_view(read, &view, err);
  int is_float =
      view.dtype.code == TENON_DTYPE_FLOAT && view.dtype.bits == 32 && view.is_contiguous;
  for (uint64_t i = 0; is_float && i < view.numel; i++)
    *sum += (double)((const float *)view.data)[i];
  tenon_tensor_release(read);
  tenon_member_list_release(list);
  tenon_value_release(value);
  tenon_module_release(copy);
  tenon_module_release(module);
  if (archive != NULL) fclose(archive);
  return status;
}

static tenon_status show(const tenon_message *weights, tenon_error **err) {
  size_t length = 0;
  const char *file = tenon_message_user_bytes(weights, &length);
  printf("%.*s:\n", (int)length, file);
  for (size_t i = 0; i < tenon_message_count(weights); i++) {
    tenon_tensor_view view = {.struct_size = sizeof view};
    char dtype[32];
    double sum = 0;
    tenon_status status = tenon_tensor_get_view(tenon_message_tensor(weights, i), &view, err);
    if (status == TENON_OK) status = sum_of(view.tensor, &sum, err);
    if (status != TENON_OK) return status;
    tenon_dtype_name(view.dtype, dtype, sizeof dtype);
    printf("  %s: %s [", tenon_message_name(weights, i), dtype);
    for (int32_t k = 0; k < view.ndim; k++) printf("%s%" PRId64, k == 0 ? "" : ", ", view.sizes[k]);
    printf("] on cuda:%d, the sum is %g\n", (int)view.device.id, sum);
  }
  return TENON_OK;
}

static int work(int end) {
  tenon_connection *lender = NULL;
  tenon_message *weights = NULL, *next = NULL;
  tenon_error *err = NULL;
  if (tenon_connection_new(end, NULL, &lender, &err) != TENON_OK) return give_up(err, 1);
  tenon_status status = TENON_OK;
  while (status == TENON_OK && (status = tenon_recv(lender, NULL, &next, &err)) == TENON_OK) {
    tenon_message_release(weights); /* the old weights go back to the lender */
    weights = next;
    status = show(weights, &err);
  }
  tenon_message_release(weights);
  tenon_connection_release(lender);
  if (status != TENON_PEER_GONE) return give_up(err, 1);
  tenon_error_release(err);
  return 0;
}

static tenon_status lend(tenon_connection *worker, const char *file, tenon_error **err) {
  tenon_import_options options = {.struct_size = sizeof options, .tensors = TENON_IMPORT_DEVICE};
  tenon_module *model = NULL;
  tenon_member_list *list = NULL;
  tenon_message *message = NULL;
  tenon_status status = tenon_import_module(file, &options, &model, err);
  if (status == TENON_OK) status = tenon_module_tensors(model, &list, err);
  if (status == TENON_OK) status = tenon_message_new(&message, err);
  if (status == TENON_OK) status = tenon_message_set_user_bytes(message, file, strlen(file), err);
  for (size_t i = 0; i < tenon_member_list_count(list) && status == TENON_OK; i++) {
    tenon_member member = {.struct_size = sizeof member};
    tenon_tensor *tensor = NULL;
    status = tenon_member_list_get(list, i, &member, err);
    if (status == TENON_OK) status = tenon_value_get_tensor(member.value, &tensor, err);
    if (status == TENON_OK)
      status = tenon_message_add(message, &tensor, &member.name, 1, NULL, err);
    tenon_tensor_release(tensor);
  }
  if (status == TENON_OK) status = tenon_send(worker, message, NULL, err);
  tenon_message_release(message);
  tenon_member_list_release(list);
  tenon_module_release(model); /* lent tensors stay until the worker releases them */
  return status;
}

int main(int argc, char **argv) {
  tenon_connection *worker = NULL;
  tenon_error *err = NULL;
  int ends[2], result = 0;
  if (argc < 2) return fprintf(stderr, "usage: cuda_weights FILE...\n"), 2;
  if (strcmp(argv[1], "--worker") == 0) return work(STDIN_FILENO);
  if (tenon_cuda_available(&err) != TENON_OK) return give_up(err, 77);
  pid_t child = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0 ? fork() : -1;
  if (child < 0) return give_up(NULL, 1);
  if (child ==
      0) { /* a new program: CUDA's driver does not work in a child of a process that has used it */
    if (dup2(ends[1], STDIN_FILENO) == STDIN_FILENO)
      execl("/proc/self/exe", argv[0], "--worker", (char *)NULL);
    _exit(127);
  }
  close(ends[1]);
  tenon_status status = tenon_connection_new(ends[0], NULL, &worker, &err);
  for (int i = 1; i < argc && status == TENON_OK; i++) status = lend(worker, argv[i], &err);
  tenon_connection_release(worker);
  close(ends[0]);
  /* The lent memory exists as long as this process. */
  if ((waitpid(child, &result, 0) != child || result != 0) && status == TENON_OK)
    status = TENON_INTERNAL;
  if (status != TENON_OK) return give_up(err, 1);
  printf("%" PRIu64 " storages are still lent\n", tenon_cuda_collect());
  return 0;
}
