/* Two processes share nothing but a name. One process makes memory for a tensor under the name.
 * The other one is started with the name as its argument, opens it and writes. usage: by_name
 * [NAME] */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <tenon/tenon.h>
#include <unistd.h>

enum { kCount = 1000 };

static int give_up(tenon_error *err) {
  fprintf(stderr, "by_name: %s\n", tenon_error_message(err));
  tenon_error_release(err);
  return 1;
}

static int borrow(const char *name) {
  tenon_error *err = NULL;
  tenon_storage *storage = NULL;
  void *data = NULL;
  tenon_filename_handle handle = {.struct_size = sizeof handle, .nbytes = kCount * sizeof(int)};
  /* Every process that may write to a named file can cut it short. A process that opens the file
   * trusts them. */
  tenon_open_options options = {.struct_size = sizeof options, .flags = TENON_OPEN_ALLOW_UNSEALED};
  snprintf(handle.name, sizeof handle.name, "%s", name);
  if (tenon_open_filename(&handle, &options, NULL, &storage, &err)) return give_up(err);
  if (tenon_storage_data_mut(storage, &data, &err)) return give_up(err);
  for (int i = 0; i < kCount; i++) ((int *)data)[i] = i * i;
  tenon_storage_release(storage);
  return 0;
}

int main(int argc, char **argv) {
  tenon_error *err = NULL;
  tenon_storage *storage = NULL;
  tenon_filename_handle handle = {.struct_size = sizeof handle};
  int status = 0;
  pid_t other;
  if (argc == 2) return borrow(argv[1]);
  if (tenon_storage_new_filename(NULL, kCount * sizeof(int), &storage, &err)) return give_up(err);
  if (tenon_share_filename(storage, NULL, NULL, &handle, &err)) return give_up(err);
  other = fork();
  if (other == 0) {
    execl("/proc/self/exe", argv[0], handle.name, (char *)NULL);
    _exit(127);
  }
  if (other < 0 || waitpid(other, &status, 0) != other || status != 0)
    return fprintf(stderr, "by_name: the other process failed\n"), 1;
  printf("the other process wrote %d\n", ((const int *)tenon_storage_data(storage))[kCount - 1]);
  tenon_storage_release(storage); /* the last holder releases the storage, and the name goes */
  printf("the name is %s\n",
         tenon_open_filename(&handle, NULL, NULL, &storage, NULL) == TENON_NOT_FOUND
             ? "gone"
             : "still there");
  return 0;
}
