// A call of the driver, in a function that returns a Status or a Result.
#pragma once

#include "cuda/error.h"

// `what` is only worked out for an error.
#define TENON_CUDA(cu, call, what)                                                    \
  do {                                                                                \
    if (const CUresult tenon_cuda_result = (call); tenon_cuda_result != CUDA_SUCCESS) \
      return ::tenon::cuda::result_status(cu, tenon_cuda_result, what);               \
  } while (false)
