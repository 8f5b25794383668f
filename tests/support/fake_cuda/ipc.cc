// Legacy IPC: a handle of 64 bytes for memory of cuMemAlloc, and a handle for an event.
#include <cstring>

#include "event.h"
#include "memory.h"
#include "stream.h"

using namespace fake_cuda;

namespace {

// "CUipcMemHandles from each CUdevice in a given process may only be opened by one CUcontext per
// CUdevice per other process."
bool other_context_has_one(const Context& context, uint32_t exporter, uint32_t exporter_device) {
  for (const auto& [base, range] : process().ranges) {
    if (range.kind != RangeKind::ipc || range.context == &context ||
        range.context->ordinal != context.ordinal)
      continue;
    const Object& allocation = world().at(world().at(range.object).target);
    // Memory whose exporter is dead belongs to no process.
    if (allocation.process == exporter && allocation.device == exporter_device) return true;
  }
  return false;
}

// "If the memory handle has already been opened by the current context, the reference count on the
// handle is incremented by 1 and the existing device pointer is returned."
Range* already_open(const Context& context, uint32_t allocation, uint64_t id) {
  for (auto& [base, range] : process().ranges) {
    if (range.kind != RangeKind::ipc || range.context != &context) continue;
    const Object& open = world().at(range.object);
    if (open.target == allocation && open.target_id == id) return &range;
  }
  return nullptr;
}

CUresult find_allocation(const CUipcMemHandle& handle, uint32_t* allocation) {
  World& all = world();
  *allocation = all.find(&handle);
  if (*allocation == kNoObject || all.at(*allocation).kind != FAKE_CUDA_ALLOCATION)
    return CUDA_ERROR_INVALID_VALUE;
  const Object& object = all.at(*allocation);
  // Memory that its exporter freed stays for the processes that have it open. It cannot be opened
  // again.
  if (object.freed != 0 || object.process == kNobody) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

}  // namespace

FAKE_CUDA_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr pointer) {
  FAKE_CUDA_ENTER(cuIpcGetMemHandle)
  Context* context = nullptr;
  FAKE_CUDA_TRY(need_context(&context));
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!config().ipc || config().machine[context->physical].mig) return CUDA_ERROR_NOT_SUPPORTED;
  const std::lock_guard<std::mutex> guard(process().mutex);
  const Range* range = process().find(pointer);
  // "an existing device memory allocation created with cuMemAlloc": not managed, of a pool, mapped
  // by cuMemMap, or received.
  if (range == nullptr || range->kind != RangeKind::allocated) return CUDA_ERROR_INVALID_VALUE;
  World::Lock lock(world());
  // "Takes a pointer to the base of an existing device memory allocation". Real drivers take any
  // pointer into the allocation and return the handle of its base.
  if (pointer != range->base)
    world().fault(FAKE_CUDA_INTERIOR_POINTER_EXPORTED, current_function(),
                  std::to_string(pointer - range->base));
  world().name(range->object, out);
  return CUDA_SUCCESS;
}

static CUresult open_memory(CUdeviceptr* out, CUipcMemHandle handle, unsigned int flags) {
  Context* context = nullptr;
  FAKE_CUDA_TRY(need_context(&context));
  // "Must be specified as CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS"
  if (out == nullptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
    return CUDA_ERROR_INVALID_VALUE;
  if (!config().ipc || config().machine[context->physical].mig) return CUDA_ERROR_NOT_SUPPORTED;
  Range range;
  range.kind = RangeKind::ipc;
  range.context = context;
  size_t size = 0;
  std::shared_ptr<Backing> backing;
  const std::lock_guard<std::mutex> guard(process().mutex);
  {
    World::Lock lock(world());
    world().reclaim();
    uint32_t allocation = kNoObject;
    FAKE_CUDA_TRY(find_allocation(handle, &allocation));
    const Object& object = world().at(allocation);
    // "exported from another process": the exporter itself gets "invalid device context".
    if (object.process == world().self) return CUDA_ERROR_INVALID_CONTEXT;
    // This process does not see the memory's device, so it cannot map the memory.
    if (ordinal_of(object.device) < 0) return CUDA_ERROR_MAP_FAILED;
    if (const Range* known = already_open(*context, allocation, object.id); known != nullptr) {
      ++world().at(known->object).count;
      *out = known->base;
      return CUDA_SUCCESS;
    }
    if (other_context_has_one(*context, object.process, object.device))
      return CUDA_ERROR_INVALID_CONTEXT;
    size = object.size;
    range.physical = object.device;
    range.object = world().create(FAKE_CUDA_IPC_OPEN, object.device, size, allocation);
    world().at(range.object).context = context->id;
    backing = map_memory(allocation, true);
  }
  const CUdeviceptr base = backing == nullptr ? 0 : place_range(range, backing, size);
  if (base == 0) {
    World::Lock lock(world());
    world().release(range.object);
    return CUDA_ERROR_MAP_FAILED;
  }
  *out = base;
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr* out, CUipcMemHandle handle,
                                             unsigned int flags) {
  FAKE_CUDA_ENTER(cuIpcOpenMemHandle)
  return open_memory(out, handle, flags);
}

FAKE_CUDA_EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* out, CUipcMemHandle handle,
                                                unsigned int flags) {
  FAKE_CUDA_ENTER(cuIpcOpenMemHandle_v2)
  return open_memory(out, handle, flags);
}

FAKE_CUDA_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) {
  FAKE_CUDA_ENTER(cuIpcCloseMemHandle)
  Context* context = nullptr;
  FAKE_CUDA_TRY(need_context(&context));
  {
    // "Decrements the reference count of the memory returned by cuIpcOpenMemHandle by 1. When the
    // reference count reaches 0, this API unmaps the memory."
    const std::lock_guard<std::mutex> guard(process().mutex);
    const auto found = process().ranges.find(pointer);
    World::Lock lock(world());
    if (found == process().ranges.end() || found->second.kind != RangeKind::ipc) {
      world().fault(FAKE_CUDA_FREED_TWICE, current_function(), "a close of what is not open");
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (world().at(found->second.object).count > 1) {
      --world().at(found->second.object).count;
      return CUDA_SUCCESS;
    }
  }
  Range range;
  if (!take_range(pointer, {RangeKind::ipc}, &range)) return CUDA_ERROR_INVALID_VALUE;
  synchronise(*range.context);
  drop_range(range, FAKE_CUDA_FREED_WHILE_OPEN);
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuIpcGetEventHandle(CUipcEventHandle* out, CUevent handle) {
  FAKE_CUDA_ENTER(cuIpcGetEventHandle)
  const std::shared_ptr<Event> event = find_event(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // "This event must have been created with the CU_EVENT_INTERPROCESS and CU_EVENT_DISABLE_TIMING
  // flags set."
  if ((event->flags & CU_EVENT_INTERPROCESS) == 0 || event->import != kNoObject)
    return CUDA_ERROR_INVALID_HANDLE;
  if (config().machine[event->context->physical].mig) return CUDA_ERROR_NOT_SUPPORTED;
  World::Lock lock(world());
  world().name(event->object, out);
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuIpcOpenEventHandle(CUevent* out, CUipcEventHandle handle) {
  FAKE_CUDA_ENTER(cuIpcOpenEventHandle)
  Context* context = nullptr;
  FAKE_CUDA_TRY(need_context(&context));
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!config().ipc || config().machine[context->physical].mig) return CUDA_ERROR_NOT_SUPPORTED;
  auto event = std::make_shared<Event>();
  event->gone = true;
  {
    World::Lock lock(world());
    world().reclaim();
    const uint32_t object = world().find(&handle);
    if (object == kNoObject || world().at(object).kind != FAKE_CUDA_EVENT)
      return CUDA_ERROR_INVALID_HANDLE;
    if (world().at(object).freed != 0 || world().at(object).process == kNobody)
      return CUDA_ERROR_INVALID_HANDLE;
    // "exported from another process"
    if (world().at(object).process == world().self) return CUDA_ERROR_INVALID_CONTEXT;
    event->object = object;
    event->import = world().create(FAKE_CUDA_EVENT_IMPORT, world().at(object).device, 0, object);
    event->context = context;
    // "behaves like a locally created event with the CU_EVENT_DISABLE_TIMING flag specified"
    event->flags = CU_EVENT_DISABLE_TIMING;
    event->gone = false;
  }
  *out = keep_event(event);
  return CUDA_SUCCESS;
}
