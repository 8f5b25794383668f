// The second form of cuGetProcAddress. The library that plays a driver of CUDA 11 does not have it,
// so its users must use the first form.
#include "proc_address.h"

using namespace fake_cuda;

// "The API will return CUDA_SUCCESS and set the returned pfn to NULL if the requested driver
// function is not supported on the platform, no ABI compatible driver function exists for the
// specified cudaVersion or if the driver symbol is invalid."
FAKE_CUDA_EXPORT CUresult cuGetProcAddress_v2(const char* symbol, void** out, int version,
                                              cuuint64_t flags,
                                              CUdriverProcAddressQueryResult* status) {
  FAKE_CUDA_TRY(enter(Function::cuGetProcAddress_v2, false));
  Found found = Found::no_such_name;
  const CUresult result = look_up(symbol, out, version, flags, &found);
  if (status != nullptr) {
    *status = found == Found::yes            ? CU_GET_PROC_ADDRESS_SUCCESS
              : found == Found::no_such_name ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
                                             : CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
  }
  return result;
}
