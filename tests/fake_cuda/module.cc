// Kernels: a module loads, so that its code can be tested for what it does when nothing can be launched.
#include "process.h"

using namespace fake_cuda;

namespace {

// No handle is looked into.
char module_handle;
char function_handle;

CUresult load(CUmodule* out, const void* image) {
  Context* context = nullptr;
  if (const CUresult result = need_context(&context); result != CUDA_SUCCESS) return result;
  if (out == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUmodule>(&module_handle);
  return CUDA_SUCCESS;
}

}  // namespace

FAKE_CUDA_EXPORT CUresult cuModuleLoadData(CUmodule* out, const void* image) {
  FAKE_CUDA_ENTER(cuModuleLoadData)
  return load(out, image);
}

FAKE_CUDA_EXPORT CUresult cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned int, CUjit_option*, void**) {
  FAKE_CUDA_ENTER(cuModuleLoadDataEx)
  return load(out, image);
}

FAKE_CUDA_EXPORT CUresult cuModuleGetFunction(CUfunction* out, CUmodule module, const char* name) {
  FAKE_CUDA_ENTER(cuModuleGetFunction)
  if (out == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (module != reinterpret_cast<CUmodule>(&module_handle)) return CUDA_ERROR_INVALID_HANDLE;
  *out = reinterpret_cast<CUfunction>(&function_handle);
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuModuleUnload(CUmodule module) {
  FAKE_CUDA_ENTER(cuModuleUnload)
  return module == reinterpret_cast<CUmodule>(&module_handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

FAKE_CUDA_EXPORT CUresult cuLaunchKernel(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                                         unsigned int, CUstream, void**, void**) {
  FAKE_CUDA_ENTER(cuLaunchKernel)
  return CUDA_ERROR_NOT_SUPPORTED;
}

FAKE_CUDA_EXPORT CUresult cuLaunchKernel_ptsz(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                                              unsigned int, unsigned int, CUstream, void**, void**) {
  FAKE_CUDA_ENTER(cuLaunchKernel_ptsz)
  return CUDA_ERROR_NOT_SUPPORTED;
}
