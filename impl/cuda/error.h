// Turns errors of CUDA's driver into a Status.
#pragma once

#include <cuda.h>

#include <string>

#include "base/status.h"
#include "cuda/driver.h"

namespace tenon::cuda {

// Makes the status "<what>: CUDA_ERROR_X (<number>: <the driver's text>)", with the details
// cuda_error (the number) and cuda_error_name. The code says what the user can do about it:
// UNSUPPORTED, RESOURCE_EXHAUSTED (with the detail limit), PERMISSION, INVALID_ARGUMENT, NOT_FOUND,
// WOULD_BLOCK or TIMEOUT. All other errors are IO, also if the device or context is lost to this
// process (ECC, illegal address, a failed kernel), because the user can do nothing about those.
Status result_status(const Driver& driver, CUresult result, const std::string& what);

// Makes the same status with the code UNSUPPORTED. For errors that are known to mean only that the
// device or the memory lacks an ability.
Status unsupported_status(const Driver& driver, CUresult result, const std::string& what);

// Returns the driver's error from a Status of result_status(), and CUDA_SUCCESS for any other
// Status.
CUresult result_of(const Status& status);
// Whether no work that was given to a stream continues after this error, because the stream, its
// context or its device is lost.
bool ends_work(CUresult result) noexcept;

}  // namespace tenon::cuda
