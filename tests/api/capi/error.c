/* Tests tenon/error.h: status names, and what can be read from an error. */
#include "check.h"

#include <pthread.h>

static void names(void) {
  static const struct {
    tenon_status status;
    const char *name;
  } known[] = {{TENON_OK, "OK"},
               {TENON_INVALID_ARGUMENT, "INVALID_ARGUMENT"},
               {TENON_PERMISSION, "PERMISSION"},
               {TENON_NOT_FOUND, "NOT_FOUND"},
               {TENON_CORRUPT, "CORRUPT"},
               {TENON_INCOMPATIBLE, "INCOMPATIBLE"},
               {TENON_RESOURCE_EXHAUSTED, "RESOURCE_EXHAUSTED"},
               {TENON_UNSUPPORTED, "UNSUPPORTED"},
               {TENON_PEER_GONE, "PEER_GONE"},
               {TENON_WOULD_BLOCK, "WOULD_BLOCK"},
               {TENON_TIMEOUT, "TIMEOUT"},
               {TENON_INTERRUPTED, "INTERRUPTED"},
               {TENON_CANCELLED, "CANCELLED"},
               {TENON_IO, "IO"},
               {TENON_INTERNAL, "INTERNAL"}};
  static const tenon_status unknown[] = {-1, 15, 1000, INT32_MAX, INT32_MIN};
  size_t i;
  for (i = 0; i < COUNT_OF(known); i++)
    CHECK(strcmp(tenon_status_name(known[i].status), known[i].name) == 0);
  for (i = 0; i < COUNT_OF(unknown); i++)
    CHECK(strcmp(tenon_status_name(unknown[i]), "UNKNOWN") == 0);
}

static void null_is_allowed(void) {
  CHECK(tenon_error_code(NULL) == TENON_OK);
  CHECK(strcmp(tenon_error_message(NULL), "") == 0);
  CHECK(tenon_error_detail(NULL, "errno") == NULL);
  CHECK(tenon_error_detail(NULL, NULL) == NULL);
  CHECK(tenon_error_detail_key(NULL, 0) == NULL);
  CHECK(tenon_error_cause(NULL) == NULL);
  tenon_error_release(NULL);
}

static tenon_error *make_error(void) {
  tenon_error *error = NULL;
  tenon_fd_handle handle = check_handle();
  tenon_storage *storage = NULL;
  handle.fd = 900000;
  handle.nbytes = 64;
  CHECK(tenon_open_fd(&handle, NULL, &storage, &error) == TENON_INVALID_ARGUMENT);
  CHECK(error != NULL && storage == NULL);
  return error;
}

static void details(void) {
  tenon_error *error = make_error();
  size_t n = 0;
  CHECK(tenon_error_code(error) == TENON_INVALID_ARGUMENT);
  CHECK(tenon_error_message(error)[0] != '\0');
  CHECK(tenon_error_detail(error, NULL) == NULL);
  CHECK(tenon_error_detail(error, "") == NULL);
  CHECK(tenon_error_detail(error, "no such key") == NULL);
  CHECK(tenon_error_detail(error, "fd") != NULL &&
        strcmp(tenon_error_detail(error, "fd"), "900000") == 0);
  CHECK(strstr(tenon_error_message(error), "900000") != NULL);
  while (tenon_error_detail_key(error, n) != NULL) n++;
  CHECK(n >= 1 && n < 20);
  CHECK(tenon_error_detail_key(error, n) == NULL);
  CHECK(tenon_error_detail_key(error, SIZE_MAX) == NULL);
  tenon_error_release(error);
}

static void *read_and_release(void *argument) {
  tenon_error *error = argument;
  CHECK(tenon_error_code(error) == TENON_INVALID_ARGUMENT);
  CHECK(tenon_error_message(error)[0] != '\0');
  tenon_error_release(error);
  return NULL;
}

static void another_thread(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, read_and_release, make_error()) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
}

int main(void) {
  check_begin(60);
  RUN(names);
  RUN(null_is_allowed);
  RUN(details);
  RUN(another_thread);
  return 0;
}
