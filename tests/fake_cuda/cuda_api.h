// cuda.h as the fake needs it: it defines functions by their symbols, of several versions, where
// the header's macros know only the newest.
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
