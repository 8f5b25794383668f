// Kernels. A module loads but has no kernel that can be launched, so that tests can check that
// case. One kernel is played here: its name is used only by tests/process/cuda/kernel_test.cc.
#include <cstring>

#include "memory.h"
#include "stream.h"

using namespace fake_cuda;

namespace {

// Only the addresses of these matter.
char module_handle;
char function_handle;
char add_one_handle;

CUresult load(CUmodule* out, const void* image) {
  Context* context = nullptr;
  FAKE_CUDA_TRY(need_context(&context));
  if (out == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUmodule>(&module_handle);
  return CUDA_SUCCESS;
}

// Plays tenon_test_add_one(uint32_t* to, uint32_t count).
CUresult launch_kernel(bool per_thread, CUfunction function, CUstream handle, void** parameters,
                       uint64_t threads) {
  if (function != reinterpret_cast<CUfunction>(&add_one_handle)) return CUDA_ERROR_NOT_SUPPORTED;
  std::shared_ptr<Stream> stream;
  FAKE_CUDA_TRY(find_stream(handle, per_thread, &stream));
  if (parameters == nullptr || threads == 0) return CUDA_ERROR_INVALID_VALUE;
  CUdeviceptr to = 0;
  uint32_t count = 0;
  std::memcpy(&to, parameters[0], sizeof to);
  std::memcpy(&count, parameters[1], sizeof count);
  if (threads < count) count = static_cast<uint32_t>(threads);
  Place place;
  if (resolve(to, count * sizeof(uint32_t), true, &place) != CUDA_SUCCESS)
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  stream->submit([place, count] {
    for (uint32_t i = 0; i < count; ++i) {
      uint32_t value = 0;
      std::memcpy(&value, place.bytes + i * sizeof value, sizeof value);
      ++value;
      std::memcpy(place.bytes + i * sizeof value, &value, sizeof value);
    }
  });
  return CUDA_SUCCESS;
}

}  // namespace

FAKE_CUDA_EXPORT CUresult cuModuleLoadData(CUmodule* out, const void* image) {
  FAKE_CUDA_ENTER(cuModuleLoadData)
  return load(out, image);
}

FAKE_CUDA_EXPORT CUresult cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned int,
                                             CUjit_option*, void**) {
  FAKE_CUDA_ENTER(cuModuleLoadDataEx)
  return load(out, image);
}

FAKE_CUDA_EXPORT CUresult cuModuleGetFunction(CUfunction* out, CUmodule module, const char* name) {
  FAKE_CUDA_ENTER(cuModuleGetFunction)
  if (out == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (module != reinterpret_cast<CUmodule>(&module_handle)) return CUDA_ERROR_INVALID_HANDLE;
  *out = reinterpret_cast<CUfunction>(
      std::strcmp(name, "tenon_test_add_one") == 0 ? &add_one_handle : &function_handle);
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuModuleUnload(CUmodule module) {
  FAKE_CUDA_ENTER(cuModuleUnload)
  return module == reinterpret_cast<CUmodule>(&module_handle) ? CUDA_SUCCESS
                                                              : CUDA_ERROR_INVALID_HANDLE;
}

FAKE_CUDA_BOTH(cuLaunchKernel, _ptsz,
               (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int,
                CUstream stream, void** parameters, void**),
               launch_kernel, function, stream, parameters,
               uint64_t{1} * grid_x * grid_y * grid_z * block_x * block_y * block_z)
