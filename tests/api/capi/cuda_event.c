/* Tests tenon/cuda_event.h on a machine with or without a device: calls that are wrong everywhere.
 * tests/process/cuda has the other tests. */
#include "check.h"

static tenon_cuda_event_options options(uint32_t flags, int32_t device) {
  tenon_cuda_event_options result;
  SIZED(result);
  result.flags = flags;
  result.device = device;
  return result;
}

static void no_event(void) {
  unsigned char handle[64];
  int complete = 7;
  memset(handle, 7, sizeof(handle));
  INVALID(tenon_cuda_event_record(NULL, NULL, ERR));
  INVALID(tenon_cuda_event_wait(NULL, NULL, ERR));
  INVALID(tenon_cuda_event_query(NULL, &complete, ERR));
  INVALID(tenon_cuda_event_synchronize(NULL, NULL, ERR));
  INVALID(tenon_cuda_event_ipc_handle(NULL, handle, ERR));
  CHECK(complete == 7 && handle[0] == 7 && handle[63] == 7);
  CHECK(tenon_cuda_event_retain(NULL) == NULL);
  tenon_cuda_event_release(NULL);
}

static void bad_options(void) {
  static const unsigned char handle[64];
  tenon_cuda_event *out = PATTERN;
  tenon_cuda_event_options given = options(0, 0);
  INVALID(tenon_cuda_event_new(&given, NULL, ERR));
  INVALID(tenon_cuda_event_from_ipc_handle(handle, &given, NULL, ERR));
  INVALID_KEEPING(out, tenon_cuda_event_from_ipc_handle(NULL, &given, &out, ERR));
  given.struct_size = 8;
  INVALID_KEEPING(out, tenon_cuda_event_new(&given, &out, ERR));
  given = options(1U << 31, 0);
  FAILS_KEEPING(TENON_UNSUPPORTED, out, tenon_cuda_event_new(&given, &out, ERR));
  FAILS_KEEPING(TENON_UNSUPPORTED, out,
                tenon_cuda_event_from_ipc_handle(handle, &given, &out, ERR));
  given = options(0, -1);
  INVALID_KEEPING(out, tenon_cuda_event_new(&given, &out, ERR));
  given = options(TENON_CUDA_EVENT_INTERPROCESS, 0);
  INVALID_KEEPING(out, tenon_cuda_event_from_ipc_handle(handle, &given, &out, ERR));
}

static void without_a_driver(void) {
  static const unsigned char handle[64];
  tenon_cuda_event *out = PATTERN;
  if (tenon_cuda_available(NULL) == TENON_OK) return;
  FAILS_KEEPING(TENON_UNSUPPORTED, out, tenon_cuda_event_new(NULL, &out, ERR));
  FAILS_KEEPING(TENON_UNSUPPORTED, out, tenon_cuda_event_from_ipc_handle(handle, NULL, &out, ERR));
}

int main(void) {
  check_begin(60);
  (void)tenon_cuda_available(NULL); /* loads the driver, so that its fds do not count as leaks */
  RUN(no_event);
  RUN(bad_options);
  RUN(without_a_driver);
  return 0;
}
