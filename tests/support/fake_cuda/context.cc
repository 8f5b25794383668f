// Contexts, and the current context of each thread.

#include "process.h"
#include "stream.h"

namespace fake_cuda {
namespace {

thread_local std::vector<Context*> stack;

Context* make_context(int ordinal, bool primary, unsigned flags) {
  auto* context = new Context;
  context->ordinal = ordinal;
  context->physical = device_of(ordinal).physical;
  context->primary = primary;
  context->flags = flags;
  {
    World::Lock lock(world());
    context->object = world().create(FAKE_CUDA_CONTEXT, context->physical, 0);
    context->id = world().at(context->object).id;
  }
  context->legacy = make_stream(*context, Stream::Role::legacy, 0);
  process().contexts[context] = context;
  return context;
}

// The caller holds Process::mutex. Memory that was allocated in the context ends with it, as in the
// driver.
void end_context(Context& context, std::vector<Range>& gone) {
  Process& here = process();
  here.contexts.erase(&context);
  here.ended.push_back(&context);
  for (auto it = here.ranges.begin(); it != here.ranges.end();) {
    Range& range = it->second;
    if (range.context != &context) {
      ++it;
      continue;
    }
    gone.push_back(range);
    it = here.ranges.erase(it);
  }
}

void finish_context(Context& context) {
  synchronise(context);
  std::vector<Range> gone;
  const std::lock_guard<std::mutex> guard(process().mutex);
  end_context(context, gone);
  World::Lock lock(world());
  for (const Range& range : gone) {
    if (range.object != kNoObject) world().release(range.object);
    if (range.kind < RangeKind::host_allocated) process().unreserve(range.base, range.size);
  }
  world().release(context.object);
}

}  // namespace

Context* find_context(CUcontext handle) {
  const std::lock_guard<std::mutex> guard(process().mutex);
  const auto found = process().contexts.find(handle);
  return found == process().contexts.end() ? nullptr : found->second;
}

Context* current() { return stack.empty() ? nullptr : stack.back(); }

CUresult need_context(Context** context) {
  *context = current();
  if (*context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return find_context((*context)->handle()) != nullptr ? CUDA_SUCCESS
                                                       : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

}  // namespace fake_cuda

using namespace fake_cuda;

FAKE_CUDA_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  FAKE_CUDA_ENTER(cuDevicePrimaryCtxRetain)
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const std::lock_guard<std::mutex> guard(process().mutex);
  Context*& primary = process().primaries[static_cast<size_t>(device)];
  if (primary == nullptr) primary = make_context(device, true, 0);
  process().contexts[primary] = primary;
  ++primary->retained;
  *out = primary->handle();
  return CUDA_SUCCESS;
}

static CUresult release_primary(CUdevice device) {
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  Context* ended = nullptr;
  {
    const std::lock_guard<std::mutex> guard(process().mutex);
    Context*& primary = process().primaries[static_cast<size_t>(device)];
    if (primary == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (--primary->retained == 0) {
      ended = primary;
      primary = nullptr;
    }
  }
  if (ended != nullptr) finish_context(*ended);
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  FAKE_CUDA_ENTER(cuDevicePrimaryCtxRelease)
  return release_primary(device);
}

FAKE_CUDA_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  FAKE_CUDA_ENTER(cuDevicePrimaryCtxRelease_v2)
  return release_primary(device);
}

static CUresult set_primary_flags(CUdevice device, unsigned int flags) {
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const std::lock_guard<std::mutex> guard(process().mutex);
  if (Context* primary = process().primaries[static_cast<size_t>(device)]; primary != nullptr)
    primary->flags = flags;
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags) {
  FAKE_CUDA_ENTER(cuDevicePrimaryCtxSetFlags)
  return set_primary_flags(device, flags);
}

FAKE_CUDA_EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags) {
  FAKE_CUDA_ENTER(cuDevicePrimaryCtxSetFlags_v2)
  return set_primary_flags(device, flags);
}

FAKE_CUDA_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags,
                                                     int* active) {
  FAKE_CUDA_ENTER(cuDevicePrimaryCtxGetState)
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard<std::mutex> guard(process().mutex);
  const Context* primary = process().primaries[static_cast<size_t>(device)];
  *flags = primary == nullptr ? 0 : primary->flags;
  *active = primary == nullptr ? 0 : 1;
  return CUDA_SUCCESS;
}

static CUresult create_context(CUcontext* out, unsigned int flags, CUdevice device) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const std::lock_guard<std::mutex> guard(process().mutex);
  Context* made = make_context(device, false, flags);
  stack.push_back(made);
  *out = made->handle();
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuCtxCreate_v2(CUcontext* out, unsigned int flags, CUdevice device) {
  FAKE_CUDA_ENTER(cuCtxCreate_v2)
  return create_context(out, flags, device);
}

FAKE_CUDA_EXPORT CUresult cuCtxCreate_v3(CUcontext* out, CUexecAffinityParam*, int count,
                                         unsigned int flags, CUdevice device) {
  FAKE_CUDA_ENTER(cuCtxCreate_v3)
  return count == 0 ? create_context(out, flags, device) : CUDA_ERROR_NOT_SUPPORTED;
}

FAKE_CUDA_EXPORT CUresult cuCtxCreate_v4(CUcontext* out, CUctxCreateParams* parameters,
                                         unsigned int flags, CUdevice device) {
  FAKE_CUDA_ENTER(cuCtxCreate_v4)
  return parameters == nullptr ? create_context(out, flags, device) : CUDA_ERROR_NOT_SUPPORTED;
}

FAKE_CUDA_EXPORT CUresult cuCtxDestroy_v2(CUcontext handle) {
  FAKE_CUDA_ENTER(cuCtxDestroy_v2)
  Context* context = find_context(handle);
  if (context == nullptr || context->primary) return CUDA_ERROR_INVALID_CONTEXT;
  // "If ctx is current to the calling thread then ctx will also be popped from the current thread's
  // context stack"
  if (current() == context) stack.pop_back();
  finish_context(*context);
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext handle) {
  FAKE_CUDA_ENTER(cuCtxPushCurrent_v2)
  Context* context = find_context(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  stack.push_back(context);
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext* out) {
  FAKE_CUDA_ENTER(cuCtxPopCurrent_v2)
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (out != nullptr) *out = stack.back() == nullptr ? nullptr : stack.back()->handle();
  stack.pop_back();
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuCtxSetCurrent(CUcontext handle) {
  FAKE_CUDA_ENTER(cuCtxSetCurrent)
  Context* context = nullptr;
  if (handle != nullptr) {
    context = find_context(handle);
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  }
  // "If there exists a CUDA context stack on the calling CPU thread, this will replace the top of
  // that stack with ctx."
  if (!stack.empty()) stack.pop_back();
  if (context != nullptr) stack.push_back(context);
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuCtxGetCurrent(CUcontext* out) {
  FAKE_CUDA_ENTER(cuCtxGetCurrent)
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = current() == nullptr ? nullptr : current()->handle();
  return CUDA_SUCCESS;
}

// Finds the context of a handle for functions of CUDA 13, where NULL means the current context.
static CUresult named_or_current(CUcontext handle, Context** context) {
  if (handle == nullptr) return need_context(context);
  *context = find_context(handle);
  return *context != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult get_device(CUdevice* out, CUcontext handle) {
  Context* context = nullptr;
  FAKE_CUDA_TRY(named_or_current(handle, &context));
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = context->ordinal;
  return CUDA_SUCCESS;
}

static CUresult wait_for_all(CUcontext handle) {
  Context* context = nullptr;
  FAKE_CUDA_TRY(named_or_current(handle, &context));
  synchronise(*context);
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuCtxGetDevice(CUdevice* out) {
  FAKE_CUDA_ENTER(cuCtxGetDevice)
  return get_device(out, nullptr);
}

FAKE_CUDA_EXPORT CUresult cuCtxGetDevice_v2(CUdevice* out, CUcontext handle) {
  FAKE_CUDA_ENTER(cuCtxGetDevice_v2)
  return get_device(out, handle);
}

FAKE_CUDA_EXPORT CUresult cuCtxSynchronize() {
  FAKE_CUDA_ENTER(cuCtxSynchronize)
  return wait_for_all(nullptr);
}

FAKE_CUDA_EXPORT CUresult cuCtxSynchronize_v2(CUcontext handle) {
  FAKE_CUDA_ENTER(cuCtxSynchronize_v2)
  return wait_for_all(handle);
}

FAKE_CUDA_EXPORT CUresult cuCtxGetApiVersion(CUcontext handle, unsigned int* version) {
  FAKE_CUDA_ENTER(cuCtxGetApiVersion)
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (handle != nullptr && find_context(handle) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *version = 3020;
  return CUDA_SUCCESS;
}
