/* Holds something that has a name until its standard input ends: holder file|sent|socket DIRECTORY
 * NBYTES [NAME], or holder open NAME NBYTES. Prints the name once it holds it, and ends in an
 * orderly way. `sent` first counts a message in flight. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <unistd.h>

static int failed(const char* what, tenon_error* error) {
  fprintf(stderr, "%s: %s\n", what, tenon_error_message(error));
  tenon_error_release(error);
  return 1;
}

static int open_name(const char* name, uint64_t nbytes, tenon_storage** out) {
  tenon_filename_handle handle;
  tenon_open_options options;
  tenon_error* error = NULL;
  memset(&handle, 0, sizeof handle);
  handle.struct_size = sizeof handle;
  handle.nbytes = nbytes;
  snprintf(handle.name, sizeof handle.name, "%s", name);
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.flags = TENON_OPEN_ALLOW_UNSEALED;
  if (tenon_open_filename(&handle, &options, NULL, out, &error) != TENON_OK)
    return failed("tenon_open_filename", error);
  printf("%s\n", name);
  return 0;
}

static int lend(const char* kind, const char* directory, uint64_t nbytes, const char* name,
                tenon_storage** out) {
  tenon_filename_options options;
  tenon_filename_handle handle;
  tenon_error* error = NULL;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.directory = directory;
  options.name = name;
  if (strcmp(kind, "socket") == 0) {
    if (tenon_storage_new(NULL, nbytes, out, &error) != TENON_OK)
      return failed("tenon_storage_new", error);
  } else {
    if (tenon_storage_new_filename(&options, nbytes, out, &error) != TENON_OK)
      return failed("tenon_storage_new_filename", error);
    options.directory = NULL;
    options.name = NULL;
  }
  if (strcmp(kind, "sent") == 0) options.flags = TENON_FILENAME_IN_FLIGHT;
  memset(&handle, 0, sizeof handle);
  handle.struct_size = sizeof handle;
  if (tenon_share_filename(*out, &options, NULL, &handle, &error) != TENON_OK)
    return failed("tenon_share_filename", error);
  printf("%s\n", handle.name);
  return 0;
}

int main(int argc, char** argv) {
  tenon_storage* storage = NULL;
  uint64_t nbytes;
  char byte;
  int rc;
  if (argc < 4) return 2;
  nbytes = strtoull(argv[3], NULL, 10);
  if (strcmp(argv[1], "open") == 0) {
    rc = open_name(argv[2], nbytes, &storage);
  } else {
    rc = lend(argv[1], argv[2], nbytes, argc > 4 ? argv[4] : NULL, &storage);
  }
  if (rc != 0) return rc;
  fflush(stdout);
  while (read(0, &byte, 1) != 0) {
    if (errno != EINTR) break;
  }
  tenon_storage_release(storage);
  return 0;
}
