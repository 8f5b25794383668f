/* tenon/by_cuda.h on this machine, whatever it has; tests/cuda has machines with and without a driver. */
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

int main(void) {
  check_begin(60);
  (void)tenon_cuda_available(NULL); /* what a driver keeps open is no leak */
  RUN(one_answer);
  return 0;
}
