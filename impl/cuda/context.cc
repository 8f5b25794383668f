#include "cuda/context.h"

#include <cstddef>
#include <mutex>
#include <vector>

#include "base/immortal.h"
#include "cuda/call.h"

namespace tenon::cuda {
namespace {

struct Primaries {
  std::mutex mutex;
  std::vector<CUcontext> contexts;  // by ordinal
};

}  // namespace

// CU_STREAM_LEGACY and CU_STREAM_PER_THREAD are numbers in the form of pointers.
bool is_default(Stream stream) noexcept {
  return stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

Result<CUcontext> primary_context(const Driver& cu, int32_t ordinal) {
  if (ordinal < 0)
    return Status(Code::kInvalidArgument, format("there is no CUDA device %d", ordinal));
  Primaries& all = immortal<Primaries>();
  const auto index = static_cast<size_t>(ordinal);
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (index < all.contexts.size() && all.contexts[index] != nullptr) return all.contexts[index];
  CUdevice device = 0;
  CUcontext context = nullptr;
  TENON_CUDA(cu, cu.cuDeviceGet(&device, ordinal), format("CUDA device %d", ordinal));
  if (index >= all.contexts.size()) all.contexts.resize(index + 1);
  TENON_CUDA(cu, cu.cuDevicePrimaryCtxRetain(&context, device),
             format("the primary context of CUDA device %d", ordinal));
  all.contexts[index] = context;
  return context;
}

InContext::~InContext() {
  CUcontext popped = nullptr;
  if (pushed_) (void)cu_.cuCtxPopCurrent(&popped);
}

Status InContext::enter(CUcontext context, CUcontext current) {
  if (current == context) return Status::ok();
  TENON_CUDA(cu_, cu_.cuCtxPushCurrent(context), "making a CUDA context current");
  pushed_ = true;
  return Status::ok();
}

Status InContext::enter(CUcontext context) {
  CUcontext current = nullptr;
  TENON_CUDA(cu_, cu_.cuCtxGetCurrent(&current), "the current CUDA context");
  return enter(context, current);
}

Status InContext::enter_primary(int32_t ordinal) {
  TENON_ASSIGN(CUcontext context, primary_context(cu_, ordinal));
  return enter(context);
}

Result<CUcontext> context_of(const Driver& cu, Stream stream, int32_t ordinal, CUcontext current) {
  CUcontext context = nullptr;
  if (!is_default(stream)) {
    TENON_CUDA(cu, cu.cuStreamGetCtx(static_cast<CUstream>(stream), &context),
               "the context of a CUDA stream");
    return context;
  }
  TENON_ASSIGN(context, primary_context(cu, ordinal));
  if (current == nullptr || current == context) return context;
  CUdevice of_current = 0;
  CUdevice wanted = 0;
  TENON_CUDA(cu, cu.cuCtxGetDevice(&of_current), "the device of the current CUDA context");
  TENON_CUDA(cu, cu.cuDeviceGet(&wanted, ordinal), format("CUDA device %d", ordinal));
  return of_current == wanted ? current : context;
}

Result<CUcontext> InContext::enter(Stream stream, int32_t ordinal) {
  CUcontext current = nullptr;
  TENON_CUDA(cu_, cu_.cuCtxGetCurrent(&current), "the current CUDA context");
  TENON_ASSIGN(CUcontext context, context_of(cu_, stream, ordinal, current));
  TENON_TRY(enter(context, current));
  return context;
}

}  // namespace tenon::cuda
