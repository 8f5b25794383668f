// Includes cuda.h for the fake. The fake defines the symbols of several versions of a function. The
// macros of the header know only the newest.
#pragma once

#include <cuda.h>

#undef cuCtxCreate
#undef cuDeviceGetUuid
#undef cuDevicePrimaryCtxRelease
#undef cuDevicePrimaryCtxSetFlags
#undef cuEventElapsedTime
#undef cuGetProcAddress
#undef cuIpcOpenMemHandle
#undef cuMemHostRegister

#define FAKE_CUDA_EXPORT extern "C" __attribute__((visibility("default")))
