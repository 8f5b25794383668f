// Host memory that devices may use: allocated by the driver, or the caller's own memory,
// registered.
#include <sys/mman.h>

#include <cstdio>

#include "memory.h"
#include "stream.h"

namespace fake_cuda {
namespace {

struct Seen {
  bool mapped = false;
  bool writable = false;
};

Seen look(uintptr_t from, uintptr_t to) {
  Seen seen{true, true};
  uintptr_t at = from;
  FILE* maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return seen;
  char line[512];
  while (at < to && std::fgets(line, sizeof line, maps) != nullptr) {
    unsigned long low = 0;
    unsigned long high = 0;
    char rights[5] = {};
    if (std::sscanf(line, "%lx-%lx %4s", &low, &high, rights) != 3 || high <= at) continue;
    if (low > at || rights[0] != 'r') break;
    if (rights[1] != 'w') seen.writable = false;
    at = high;
  }
  std::fclose(maps);
  seen.mapped = at >= to;
  return seen;
}

uint32_t make_object(int32_t kind, const Context& context, const void* address, size_t size) {
  World::Lock lock(world());
  const uint32_t object = world().create(kind, context.physical, size);
  world().at(object).address = reinterpret_cast<uint64_t>(address);
  world().at(object).context = context.id;
  return object;
}

// The fake uses the caller's memory at its own address.
std::shared_ptr<Backing> not_owned(void* host, size_t size) {
  auto backing = std::make_shared<Backing>();
  backing->hidden = static_cast<unsigned char*>(host);
  backing->size = size;
  backing->owned = false;
  return backing;
}

void add(RangeKind kind, Context& context, void* host, size_t size, unsigned flags,
         const std::shared_ptr<Backing>& backing) {
  Range range;
  range.base = reinterpret_cast<CUdeviceptr>(host);
  range.size = size;
  range.kind = kind;
  range.context = &context;
  range.physical = context.physical;
  range.flags = flags;
  range.backing = backing;
  range.object = make_object(
      kind == RangeKind::host_allocated ? FAKE_CUDA_HOST_ALLOCATION : FAKE_CUDA_HOST_REGISTRATION,
      context, host, size);
  range.buffer_id = process().next_buffer++;
  process().ranges[range.base] = range;
}

CUresult allocate_host(void** out, size_t size, unsigned flags) {
  Context* context = nullptr;
  FAKE_CUDA_TRY(need_context(&context));
  constexpr unsigned kKnown =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if (out == nullptr || size == 0 || (flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  void* mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  auto backing = not_owned(mapped, size);
  backing->owned = true;
  const std::lock_guard<std::mutex> guard(process().mutex);
  add(RangeKind::host_allocated, *context, mapped, size, flags | CU_MEMHOSTALLOC_DEVICEMAP,
      backing);
  *out = mapped;
  return CUDA_SUCCESS;
}

Range* find_host(const void* pointer) {
  Range* range = process().find(reinterpret_cast<CUdeviceptr>(pointer));
  const bool host = range != nullptr && (range->kind == RangeKind::host_allocated ||
                                         range->kind == RangeKind::host_registered);
  return host ? range : nullptr;
}

void give_back(const Range& range) {
  synchronise(*range.context);
  World::Lock lock(world());
  world().release(range.object);
}

}  // namespace
}  // namespace fake_cuda

using namespace fake_cuda;

FAKE_CUDA_EXPORT CUresult cuMemHostAlloc(void** out, size_t size, unsigned int flags) {
  FAKE_CUDA_ENTER(cuMemHostAlloc)
  return allocate_host(out, size, flags);
}

FAKE_CUDA_EXPORT CUresult cuMemAllocHost_v2(void** out, size_t size) {
  FAKE_CUDA_ENTER(cuMemAllocHost_v2)
  return allocate_host(out, size, 0);
}

FAKE_CUDA_EXPORT CUresult cuMemFreeHost(void* pointer) {
  FAKE_CUDA_ENTER(cuMemFreeHost)
  Range range;
  if (!take_range(reinterpret_cast<CUdeviceptr>(pointer), {RangeKind::host_allocated}, &range)) {
    record_fault(FAKE_CUDA_FREED_TWICE, "cuMemFreeHost of what is not allocated");
    return CUDA_ERROR_INVALID_VALUE;
  }
  give_back(range);
  return CUDA_SUCCESS;
}

static CUresult register_memory(void* pointer, size_t size, unsigned int flags) {
  Context* context = nullptr;
  FAKE_CUDA_TRY(need_context(&context));
  constexpr unsigned kKnown = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                              CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
  if (pointer == nullptr || size == 0 || (flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  // "Using this flag with a current context associated with a device that does not have this
  // attribute set will cause cuMemHostRegister to error with CUDA_ERROR_NOT_SUPPORTED."
  if ((flags & CU_MEMHOSTREGISTER_READ_ONLY) != 0 && !config().read_only_access)
    return CUDA_ERROR_NOT_SUPPORTED;
  const auto from = reinterpret_cast<uintptr_t>(pointer);
  const Seen seen = look(from, from + size);
  if (!seen.mapped) return CUDA_ERROR_INVALID_VALUE;
  // CU_MEMHOSTREGISTER_READ_ONLY: "this flag is required in order to register memory mapped to the
  // CPU as read-only".
  if (!seen.writable && (flags & CU_MEMHOSTREGISTER_READ_ONLY) == 0)
    return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard<std::mutex> guard(process().mutex);
  auto after = process().ranges.lower_bound(from + size);
  if (after != process().ranges.begin()) {
    const Range& before = std::prev(after)->second;
    if (before.base + before.size > from) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  }
  add(RangeKind::host_registered, *context, pointer, size, flags, not_owned(pointer, size));
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuMemHostRegister(void* pointer, size_t size, unsigned int flags) {
  FAKE_CUDA_ENTER(cuMemHostRegister)
  return register_memory(pointer, size, flags);
}

FAKE_CUDA_EXPORT CUresult cuMemHostRegister_v2(void* pointer, size_t size, unsigned int flags) {
  FAKE_CUDA_ENTER(cuMemHostRegister_v2)
  return register_memory(pointer, size, flags);
}

FAKE_CUDA_EXPORT CUresult cuMemHostUnregister(void* pointer) {
  FAKE_CUDA_ENTER(cuMemHostUnregister)
  Context* context = nullptr;
  FAKE_CUDA_TRY(need_context(&context));
  Range range;
  // "The base address must be the same one specified to cuMemHostRegister()."
  if (!take_range(reinterpret_cast<CUdeviceptr>(pointer), {RangeKind::host_registered}, &range)) {
    record_fault(FAKE_CUDA_FREED_TWICE, "cuMemHostUnregister of what is not registered");
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  }
  if (!look(range.base, range.base + range.size).mapped) {
    record_fault(FAKE_CUDA_HOST_FREED_WHILE_REGISTERED, std::to_string(range.size) + " bytes");
  }
  give_back(range);
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* pointer,
                                                       unsigned int flags) {
  FAKE_CUDA_ENTER(cuMemHostGetDevicePointer_v2)
  // "Flags provides for future releases. For now, it must be set to 0."
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard<std::mutex> guard(process().mutex);
  if (find_host(pointer) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // All devices have CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM: "the device pointer [...] will match
  // the original pointer".
  *out = reinterpret_cast<CUdeviceptr>(pointer);
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuMemHostGetFlags(unsigned int* flags, void* pointer) {
  FAKE_CUDA_ENTER(cuMemHostGetFlags)
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard<std::mutex> guard(process().mutex);
  const Range* range = find_host(pointer);
  if (range == nullptr || range->kind != RangeKind::host_allocated) return CUDA_ERROR_INVALID_VALUE;
  *flags = range->flags;
  return CUDA_SUCCESS;
}
