/* Tests tenon/by_cuda.h on a machine with or without a device. tests/process/cuda tests machines
 * with a driver and without one. */
#include "check.h"

static void one_answer(void) {
  tenon_error *err = NULL;
  const tenon_status status = tenon_cuda_available(NULL);
  CHECK(status == TENON_OK || status == TENON_UNSUPPORTED);
  if (status == TENON_OK) {
    OK(tenon_cuda_available(ERR));
    return;
  }
  FAILS(TENON_UNSUPPORTED, tenon_cuda_available(ERR));
  CHECK(tenon_cuda_available(&err) == status);
  CHECK(strstr(tenon_error_message(err), "CUDA") != NULL);
  tenon_error_release(err);
}

/* A call that needs a device fails as tenon_cuda_available does, with its reason: there is no
 * driver, or the build had no cuda.h (tests/packages/musl.sh). */
#define FAILS_WITH(reason, call)                                                               \
  do {                                                                                         \
    FAILS_RAW(TENON_UNSUPPORTED, TENON_UNSUPPORTED, call);                                     \
    if (strstr(tenon_error_message(check_error), reason) == NULL)                              \
      check_fail_status(__FILE__, __LINE__, #call, TENON_UNSUPPORTED, check_got, check_error); \
    tenon_error_release(check_error);                                                          \
    check_error = NULL;                                                                        \
  } while (0)

static void one_reason(void) {
  const uint8_t name[64] = {0};
  char reason[512];
  tenon_error *err = NULL;
  tenon_cuda_handle handle;
  tenon_cuda_arena_options arena_options;
  tenon_storage *storage = NULL, *opened = PATTERN;
  tenon_cuda_arena *arena = PATTERN;
  tenon_cuda_event *event = PATTERN;
  void *address = PATTERN;
  if (tenon_cuda_available(&err) == TENON_OK) return;
  snprintf(reason, sizeof(reason), "%s", tenon_error_message(err));
  tenon_error_release(err);
  SIZED(handle);
  FAILS_WITH(reason, tenon_open_cuda(&handle, NULL, NULL, &opened, ERR));
  handle.nbytes = 4096;
  handle.memory_nbytes = 66;
  handle.memory[1] = 'c';
  strcpy(handle.counter, "/torch_1_1_1");
  FAILS_WITH(reason, tenon_open_cuda(&handle, NULL, NULL, &opened, ERR));
  SIZED(arena_options);
  arena_options.capacity_nbytes = 4096;
  FAILS_WITH(reason, tenon_cuda_arena_new(&arena_options, &arena, ERR));
  FAILS_WITH(reason, tenon_cuda_event_new(NULL, &event, ERR));
  FAILS_WITH(reason, tenon_cuda_event_from_ipc_handle(name, NULL, &event, ERR));
  OK(tenon_storage_new(NULL, 64, &storage, ERR));
  FAILS_WITH(reason, tenon_storage_pin(storage, 0, &address, ERR));
  CHECK(opened == PATTERN && arena == PATTERN && event == PATTERN && address == PATTERN);
  /* A storage that is not on a device gets this error first, whether CUDA works or not. */
  INVALID(tenon_share_cuda(storage, NULL, NULL, &handle, ERR));
  INVALID(tenon_storage_record_stream(storage, NULL, ERR));
  INVALID(tenon_storage_order_stream(storage, NULL, ERR));
  CHECK_EQ(tenon_cuda_collect(), 0);
  tenon_storage_release(storage);
}

int main(void) {
  check_begin(60);
  (void)tenon_cuda_available(NULL); /* loads the driver, so that its fds do not count as leaks */
  RUN(one_answer);
  RUN(one_reason);
  return 0;
}
