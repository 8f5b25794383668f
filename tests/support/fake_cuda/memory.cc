#include "memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "pool.h"
#include "stream.h"

namespace fake_cuda {
namespace {

// Memory that is freed while another process has it open is filled with this byte. A process that
// reads on sees it.
constexpr int kPoison = 0xdb;

}  // namespace

CUresult make_allocation(uint32_t physical, const Wanted& wanted, uint32_t* object) {
  const size_t total = config().machine[physical].bytes;
  World::Lock lock(world());
  const uint64_t& used = world().file().bytes[physical];
  if (used + wanted.size > total) world().reclaim();
  if (used + wanted.size > total) return CUDA_ERROR_OUT_OF_MEMORY;
  *object = world().create(FAKE_CUDA_ALLOCATION, physical, wanted.size, wanted.pool_object);
  Object& made = world().at(*object);
  made.source = static_cast<uint32_t>(wanted.source);
  made.handle_types = wanted.handle_types;
  if (world().make_memory(*object)) return CUDA_SUCCESS;
  world().release(*object);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

CUdeviceptr place_range(Range range, const std::shared_ptr<Backing>& backing, size_t size) {
  Process& here = process();
  constexpr size_t kLarge = size_t{2} << 20;
  const CUdeviceptr base = here.reserve(size, size >= kLarge ? kLarge : 4096);
  if (base == 0) return 0;
  range.base = base;
  range.size = size;
  range.backing = backing;
  range.buffer_id = here.next_buffer++;
  here.show(base, *backing, size);
  world().at(range.object).address = base;
  here.ranges[base] = std::move(range);
  return base;
}

CUresult allocate(Context* context, const Wanted& wanted, CUmemoryPool pool, CUdeviceptr* out) {
  Range range;
  FAKE_CUDA_TRY(make_allocation(context->physical, wanted, &range.object));
  world().at(range.object).context = context->id;
  const std::shared_ptr<Backing> backing = map_memory(range.object, false);
  range.kind = wanted.kind;
  range.physical = context->physical;
  range.context = wanted.source == Source::pool ? nullptr : context;
  range.pool = pool;
  CUdeviceptr base = 0;
  if (backing != nullptr) {
    const std::lock_guard<std::mutex> guard(process().mutex);
    base = place_range(range, backing, wanted.size);
  }
  if (base == 0) {
    World::Lock lock(world());
    world().release(range.object);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *out = base;
  return CUDA_SUCCESS;
}

bool take_range(CUdeviceptr base, std::initializer_list<RangeKind> kinds, Range* out) {
  Process& here = process();
  const std::lock_guard<std::mutex> guard(here.mutex);
  const auto found = here.ranges.find(base);
  if (found == here.ranges.end() ||
      std::find(kinds.begin(), kinds.end(), found->second.kind) == kinds.end())
    return false;
  *out = found->second;
  here.ranges.erase(found);
  return true;
}

void drop_range(const Range& range, int32_t rule_if_open) {
  {
    const std::lock_guard<std::mutex> guard(process().mutex);
    process().unreserve(range.base, range.size, range.kind == RangeKind::managed);
  }
  World::Lock lock(world());
  Object& object = world().at(range.object);
  if (object.references > 0) world().reclaim();
  if (object.references > 0) {
    object.freed = 1;
    std::memset(range.backing->hidden, kPoison, range.size);
    world().fault(rule_if_open, current_function(),
                  "allocation " + std::to_string(object.id) + " is open elsewhere");
  }
  world().release(range.object);
}

}  // namespace fake_cuda

using namespace fake_cuda;

FAKE_CUDA_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* out, size_t size) {
  FAKE_CUDA_ENTER(cuMemAlloc_v2)
  Context* context = nullptr;
  FAKE_CUDA_TRY(need_context(&context));
  // "If bytesize is 0, cuMemAlloc() returns CUDA_ERROR_INVALID_VALUE."
  if (out == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
  Wanted wanted;
  wanted.size = size;
  return allocate(context, wanted, nullptr, out);
}

FAKE_CUDA_EXPORT CUresult cuMemAllocManaged(CUdeviceptr* out, size_t size, unsigned int flags) {
  FAKE_CUDA_ENTER(cuMemAllocManaged)
  Context* context = nullptr;
  FAKE_CUDA_TRY(need_context(&context));
  if (out == nullptr || size == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
    return CUDA_ERROR_INVALID_VALUE;
  Wanted wanted;
  wanted.size = size;
  wanted.source = Source::managed;
  wanted.kind = RangeKind::managed;
  FAKE_CUDA_TRY(allocate(context, wanted, nullptr, out));
  const std::lock_guard<std::mutex> guard(process().mutex);
  const Range& range = process().ranges[*out];
  // Managed memory is the only device memory that the host may touch. The fake's hidden view moves
  // to the visible address.
  void* seen = reinterpret_cast<void*>(range.base);
  const size_t whole = (size + 4095) / 4096 * 4096;
  if (mremap(range.backing->hidden, 0, whole, MREMAP_MAYMOVE | MREMAP_FIXED, seen) == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuMemFree_v2(CUdeviceptr pointer) {
  FAKE_CUDA_ENTER(cuMemFree_v2)
  Context* context = nullptr;
  FAKE_CUDA_TRY(need_context(&context));
  Range range;
  using Kind = RangeKind;
  if (!take_range(pointer, {Kind::allocated, Kind::managed, Kind::pooled, Kind::pool_pointer},
                  &range)) {
    record_fault(FAKE_CUDA_FREED_TWICE, "cuMemFree of what is not allocated");
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (range.context != nullptr) {
    // "this API may perform implicit synchronization", and the fake does.
    synchronise(*range.context);
    // cuIpcOpenMemHandle: "Calling cuMemFree on an exported memory region before calling
    // cuIpcCloseMemHandle in the importing context will result in undefined behavior."
    drop_range(range, FAKE_CUDA_FREED_WHILE_OPEN);
    return CUDA_SUCCESS;
  }
  drop_pool_range(range);
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  FAKE_CUDA_ENTER(cuMemGetInfo_v2)
  Context* context = nullptr;
  FAKE_CUDA_TRY(need_context(&context));
  if (free == nullptr || total == nullptr) return CUDA_ERROR_INVALID_VALUE;
  World::Lock lock(world());
  world().reclaim();
  *total = config().machine[context->physical].bytes;
  *free = *total - world().file().bytes[context->physical];
  return CUDA_SUCCESS;
}
