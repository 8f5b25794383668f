// A macro that calls the driver inside a function which returns a Status or a Result, and returns
// an error of the driver from that function.
#pragma once

#include "cuda/error.h"

// `cu` is the Driver (driver.h), `call` is a call of one of its functions, and `what` begins the
// error message. `what` is evaluated only for an error.
#define TENON_CUDA(cu, call, what)                                                    \
  do {                                                                                \
    if (const CUresult tenon_cuda_result = (call); tenon_cuda_result != CUDA_SUCCESS) \
      return ::tenon::cuda::result_status(cu, tenon_cuda_result, what);               \
  } while (false)
