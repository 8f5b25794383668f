#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kinds.h"

unsigned char *read_file(const char *path, size_t *nbytes) {
  FILE *file = fopen(path, "rb");
  unsigned char *data = NULL;
  size_t room = 0, got = 0;
  if (file == NULL) return NULL;
  do {
    *nbytes += got;
    if (room < *nbytes + 65536) {
      room = 2 * (*nbytes + 65536);
      data = (unsigned char *)realloc(data, room);
      if (data == NULL) abort();
    }
    got = fread(data + *nbytes, 1, room - *nbytes - 1, file);
  } while (got != 0);
  data[*nbytes] = '\0';
  fclose(file);
  return data;
}

tenon_open_options open_options(const struct test_case *test) {
  tenon_open_options options;
  const char *access = case_find(test, "access");
  SIZED(options);
  if (access != NULL && strcmp(access, "read_only") == 0) options.access = TENON_ACCESS_READ_ONLY;
  if (access != NULL && strcmp(access, "writable") == 0) options.access = TENON_ACCESS_WRITABLE;
  if (case_number_or(test, "allow_unsealed", 0) != 0) options.flags = TENON_OPEN_ALLOW_UNSEALED;
  return options;
}

/* Compares the count at the start of a named file. */
static int same_count(const char *path, int64_t wanted) {
  size_t nbytes = 0;
  unsigned char *data = read_file(path, &nbytes);
  int32_t count = -1;
  if (data == NULL) return wrong("%s: %s", path, strerror(errno));
  if (nbytes >= sizeof(count)) memcpy(&count, data, sizeof(count));
  free(data);
  return same("count", count, wanted);
}

static int compare_storage(const struct test_case *test, const tenon_storage *storage) {
  static const char *const modes[] = {"SHARED", "LENDER_WRITES", "FROZEN"};
  const char *data = case_text(test, "expect.data"), *mode = modes[tenon_storage_mode(storage)];
  const void *bytes = tenon_storage_data(storage);
  SAME("nbytes", tenon_storage_nbytes(storage), case_number(test, "expect.nbytes"));
  MUST(same_hex("data", bytes, bytes == NULL ? 0 : strlen(data) / 2, data));
  SAME("read_only", tenon_storage_is_read_only(storage), case_number(test, "expect.read_only"));
  SAME("sealed", tenon_storage_is_sealed(storage), case_number(test, "expect.sealed"));
  if (strcmp(mode, case_text(test, "expect.mode")) != 0)
    return wrong("mode is %s, not %s", mode, case_text(test, "expect.mode"));
  return same_count(case_text(test, "path"), case_number(test, "expect.count"));
}

int run_named_file(const struct test_case *test) {
  const char *path = case_text(test, "path");
  tenon_open_options options = open_options(test);
  tenon_filename_handle handle;
  tenon_storage *storage = NULL;
  tenon_error *error = NULL;
  tenon_status status;
  int result;
  SIZED(handle);
  handle.offset = (uint64_t)case_number(test, "offset");
  handle.nbytes = (uint64_t)case_number(test, "nbytes");
  snprintf(handle.name, sizeof(handle.name), "%s", path);
  status = tenon_open_filename(&handle, &options, NULL, &storage, &error);
  MUST(outcome(test, status, error));
  if (status != TENON_OK) return 0;
  result = compare_storage(test, storage);
  tenon_storage_release(storage);
  return result != 0 ? result : same_count(path, case_number(test, "expect.count") - 1);
}

int run_new_named_file(const struct test_case *test) {
  const char *path = case_key(case_key(case_text(test, "directory"), "/"), case_text(test, "name"));
  size_t payload_nbytes, nbytes = 0;
  const unsigned char *payload = bytes_of_hex(case_text(test, "payload"), &payload_nbytes);
  tenon_filename_options options;
  tenon_storage *storage = NULL;
  tenon_error *error = NULL;
  unsigned char *data;
  tenon_status status;
  int result;
  SIZED(options);
  options.directory = case_text(test, "directory");
  options.name = case_text(test, "name");
  status =
      tenon_storage_new_filename(&options, (uint64_t)case_number(test, "nbytes"), &storage, &error);
  MUST(outcome(test, status, error));
  if (status != TENON_OK) return 0;
  status = tenon_storage_write(storage, 0, payload, payload_nbytes, NULL);
  data = read_file(path, &nbytes);
  result = status != TENON_OK || data == NULL ? wrong("%s cannot be filled", path)
                                              : same_bytes(test, data, nbytes);
  free(data);
  tenon_storage_release(storage);
  return result == 0 && access(path, F_OK) == 0 ? wrong("%s is left", path) : result;
}
