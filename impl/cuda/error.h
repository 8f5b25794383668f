// A failed call of CUDA's driver as a Status.
#pragma once

#include <cuda.h>

#include <string>

#include "base/status.h"
#include "cuda/driver.h"

namespace tenon::cuda {

// "<what>: CUDA_ERROR_X (the driver's text)", with the details cuda_error (its number) and
// cuda_error_name. What the user can do about it decides the code: UNSUPPORTED, RESOURCE_EXHAUSTED
// (with the detail limit), PERMISSION, INVALID_ARGUMENT, NOT_FOUND, WOULD_BLOCK, TIMEOUT; else IO,
// also for a device or context that is lost to this process (ECC, illegal address, a failed
// kernel): no other way leads on there.
Status result_status(const Driver& driver, CUresult result, const std::string& what);

// The same, and UNSUPPORTED: where it is known that this error means no more than that the device
// or the memory has no such way.
Status unsupported_status(const Driver& driver, CUresult result, const std::string& what);

// What the driver said, of a Status that result_status() made; CUDA_SUCCESS: of none.
CUresult result_of(const Status& status);
// No work that was given to a stream goes on after that: the stream, its context or its device is
// lost.
bool ends_work(CUresult result) noexcept;

}  // namespace tenon::cuda
