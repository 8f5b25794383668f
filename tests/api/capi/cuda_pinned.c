/* Tests tenon/cuda_pinned.h on a machine with or without a device: calls that are wrong everywhere.
 * tests/process/cuda has the other tests. */
#include "check.h"

static tenon_storage *new_storage(uint32_t flags) {
  tenon_storage_options how;
  tenon_storage *out = NULL;
  SIZED(how);
  how.flags = flags;
  OK(tenon_storage_new(&how, 64, &out, ERR));
  return out;
}

static void bad_arguments(void) {
  tenon_storage *storage = new_storage(0);
  void *out = PATTERN;
  INVALID_KEEPING(out, tenon_storage_pin(NULL, 0, &out, ERR));
  INVALID_KEEPING(out, tenon_storage_pin(storage, -1, &out, ERR));
  INVALID(tenon_storage_pin(storage, 0, NULL, ERR));
  CHECK(tenon_storage_is_pinned(NULL) == 0 && tenon_storage_is_pinned(storage) == 0);
  tenon_storage_release(storage);
}

static void private_memory(void) {
  tenon_storage *storage = new_storage(TENON_STORAGE_PRIVATE);
  void *out = PATTERN;
  FAILS_KEEPING(TENON_UNSUPPORTED, out, tenon_storage_pin(storage, 0, &out, ERR));
  CHECK(tenon_storage_is_pinned(storage) == 0);
  tenon_storage_release(storage);
}

static void without_a_driver(void) {
  tenon_storage *storage;
  void *out = PATTERN;
  if (tenon_cuda_available(NULL) == TENON_OK) return;
  storage = new_storage(0);
  FAILS_KEEPING(TENON_UNSUPPORTED, out, tenon_storage_pin(storage, 0, &out, ERR));
  CHECK(tenon_storage_is_pinned(storage) == 0);
  tenon_storage_release(storage);
}

int main(void) {
  check_begin(60);
  (void)tenon_cuda_available(NULL); /* loads the driver, so that its fds do not count as leaks */
  RUN(bad_arguments);
  RUN(private_memory);
  RUN(without_a_driver);
  return 0;
}
