// Memory, addresses and access are separate things here: cuMemCreate, cuMemAddressReserve, cuMemMap
// and cuMemSetAccess.
#include "vmm.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "memory.h"
#include "stream.h"

namespace fake_cuda {
namespace {

constexpr size_t kGranularity = size_t{2} << 20;

struct Mapping {
  size_t size = 0;
  CUmemGenericAllocationHandle handle = 0;
  uint32_t object = kNoObject;
  uint64_t buffer_id = 0;
  std::map<int, unsigned> access;  // by ordinal
};

struct Reservation {
  size_t size = 0;
  uint32_t object = kNoObject;
  std::shared_ptr<Backing> hidden;
  std::map<CUdeviceptr, Mapping> mappings;
};

std::map<CUdeviceptr, Reservation>& reservations() {
  static auto* const once = new std::map<CUdeviceptr, Reservation>;
  return *once;
}

bool aligned(uint64_t value) { return value % kGranularity == 0; }

std::pair<const CUdeviceptr, Reservation>* find_reservation(CUdeviceptr pointer, size_t size) {
  auto after = reservations().upper_bound(pointer);
  if (after == reservations().begin()) return nullptr;
  auto& found = *std::prev(after);
  return pointer - found.first + size <= found.second.size ? &found : nullptr;
}

std::pair<const CUdeviceptr, Mapping>* find_in(Reservation& reservation, CUdeviceptr pointer) {
  auto after = reservation.mappings.upper_bound(pointer);
  if (after == reservation.mappings.begin()) return nullptr;
  auto& found = *std::prev(after);
  return pointer - found.first < found.second.size ? &found : nullptr;
}

CUresult check(const CUmemAllocationProp* prop) {
  if (!config().vmm) return CUDA_ERROR_NOT_SUPPORTED;
  if (prop == nullptr || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  return is_device(prop->location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

// "The memory allocation will be freed when all outstanding mappings to the memory are unmapped and
// when all outstanding references to the handle (including it's shareable counterparts) are also
// released."
void drop_if_unused(CUmemGenericAllocationHandle handle) {
  const auto found = memories().find(handle);
  if (found == memories().end() || found->second.references != 0 || found->second.mappings != 0)
    return;
  memories().erase(found);
}

void* hidden_at(const Reservation& reservation, CUdeviceptr base, CUdeviceptr pointer) {
  return reservation.hidden->hidden + (pointer - base);
}

bool map_into(void* at, uint32_t allocation, size_t size) {
  const int fd =
      ::open(world().path("memory", world().at(allocation).id).c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  void* mapped = mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
  close(fd);
  return mapped != MAP_FAILED;
}

void hide(void* at, size_t size) {
  mmap(at, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void synchronise_all() {
  std::vector<Context*> all;
  {
    const std::lock_guard<std::mutex> guard(process().mutex);
    for (const auto& [handle, context] : process().contexts) all.push_back(context);
  }
  for (Context* context : all) synchronise(*context);
}

}  // namespace

bool find_mapping(CUdeviceptr pointer, MappedAt* out) {
  auto* reservation = find_reservation(pointer, 1);
  if (reservation == nullptr) return false;
  out->reserved = reservation->first;
  out->reserved_size = reservation->second.size;
  const auto* mapping = find_in(reservation->second, pointer);
  out->mapped = mapping != nullptr;
  if (mapping == nullptr) return true;
  const Memory& memory = memories()[mapping->second.handle];
  out->base = mapping->first;
  out->size = mapping->second.size;
  out->physical = memory.physical;
  out->handle_types = world().at(memory.allocation).handle_types;
  out->buffer_id = mapping->second.buffer_id;
  return true;
}

CUresult resolve_mapping(CUdeviceptr pointer, size_t size, bool write, Place* place) {
  auto* reservation = find_reservation(pointer, size);
  if (reservation == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Context* context = current();
  const int ordinal = context == nullptr ? 0 : context->ordinal;
  for (CUdeviceptr at = pointer; at < pointer + size;) {
    const auto* mapping = find_in(reservation->second, at);
    if (mapping == nullptr) return CUDA_ERROR_INVALID_VALUE;
    // "calling cuMemMap does not make the address accessible, the caller needs to update
    // accessibility"
    const auto access = mapping->second.access.find(ordinal);
    if (access == mapping->second.access.end() || access->second == CU_MEM_ACCESS_FLAGS_PROT_NONE)
      return CUDA_ERROR_INVALID_VALUE;
    if (write && access->second != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    at = mapping->first + mapping->second.size;
  }
  place->backing = reservation->second.hidden;
  place->bytes =
      static_cast<unsigned char*>(hidden_at(reservation->second, reservation->first, pointer));
  return CUDA_SUCCESS;
}

}  // namespace fake_cuda

using namespace fake_cuda;

FAKE_CUDA_EXPORT CUresult cuMemGetAllocationGranularity(size_t* out,
                                                        const CUmemAllocationProp* prop,
                                                        CUmemAllocationGranularity_flags) {
  FAKE_CUDA_ENTER(cuMemGetAllocationGranularity)
  FAKE_CUDA_TRY(check(prop));
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = kGranularity;
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle* out, size_t size,
                                      const CUmemAllocationProp* prop, unsigned long long flags) {
  FAKE_CUDA_ENTER(cuMemCreate)
  FAKE_CUDA_TRY(check(prop));
  if (out == nullptr || size == 0 || !aligned(size) || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto types = static_cast<unsigned>(prop->requestedHandleTypes);
  FAKE_CUDA_TRY(check_handle_types(types));
  Wanted wanted;
  wanted.size = size;
  wanted.source = Source::vmm;
  wanted.handle_types = types;
  uint32_t allocation = kNoObject;
  const std::lock_guard<std::mutex> guard(process().mutex);
  const CUresult result =
      make_allocation(device_of(prop->location.id).physical, wanted, &allocation);
  if (result != CUDA_SUCCESS) return result;
  World::Lock lock(world());
  *out = new_handle(allocation);
  world().disown(allocation);
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  FAKE_CUDA_ENTER(cuMemRelease)
  const std::lock_guard<std::mutex> guard(process().mutex);
  const auto found = memories().find(handle);
  World::Lock lock(world());
  if (found == memories().end() || found->second.references == 0) {
    world().fault(FAKE_CUDA_FREED_TWICE, current_function(), "a release of no handle");
    return CUDA_ERROR_INVALID_VALUE;
  }
  Memory& memory = found->second;
  --memory.references;
  world().at(memory.object).count = memory.references;
  if (memory.references == 0) world().release(memory.object);
  drop_if_unused(handle);
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out,
                                                      void* address) {
  FAKE_CUDA_ENTER(cuMemRetainAllocationHandle)
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto pointer = reinterpret_cast<CUdeviceptr>(address);
  const std::lock_guard<std::mutex> guard(process().mutex);
  auto* reservation = find_reservation(pointer, 1);
  const auto* mapping = reservation == nullptr ? nullptr : find_in(reservation->second, pointer);
  // "If the address requested is not mapped, the function will fail."
  if (mapping == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // "The handle is guaranteed to be the same handle value used to map the memory."
  *out = mapping->second.handle;
  Memory& memory = memories()[*out];
  World::Lock lock(world());
  if (memory.references == 0) {
    memory.object =
        world().create(FAKE_CUDA_VMM_HANDLE, memory.physical, memory.size, memory.allocation);
    world().at(memory.object).address = *out;
  }
  ++memory.references;
  world().at(memory.object).count = memory.references;
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(
    CUmemAllocationProp* prop, CUmemGenericAllocationHandle handle) {
  FAKE_CUDA_ENTER(cuMemGetAllocationPropertiesFromHandle)
  const std::lock_guard<std::mutex> guard(process().mutex);
  const auto found = memories().find(handle);
  if (prop == nullptr || found == memories().end()) return CUDA_ERROR_INVALID_VALUE;
  std::memset(prop, 0, sizeof *prop);
  prop->type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop->requestedHandleTypes =
      static_cast<CUmemAllocationHandleType>(world().at(found->second.allocation).handle_types);
  prop->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop->location.id = ordinal_of(found->second.physical);
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuMemAddressReserve(CUdeviceptr* out, size_t size, size_t alignment,
                                              CUdeviceptr, unsigned long long flags) {
  FAKE_CUDA_ENTER(cuMemAddressReserve)
  if (!config().vmm) return CUDA_ERROR_NOT_SUPPORTED;
  if (out == nullptr || size == 0 || !aligned(size) || flags != 0 ||
      (alignment & (alignment - 1)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  auto hidden = std::make_shared<Backing>();
  void* mapped = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  hidden->hidden = static_cast<unsigned char*>(mapped);
  hidden->size = size;
  const std::lock_guard<std::mutex> guard(process().mutex);
  const CUdeviceptr base =
      process().reserve(size, alignment > kGranularity ? alignment : kGranularity);
  if (base == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  Reservation reservation;
  reservation.size = size;
  reservation.hidden = hidden;
  {
    World::Lock lock(world());
    reservation.object = world().create(FAKE_CUDA_RESERVATION, 0, size);
    world().at(reservation.object).address = base;
  }
  reservations()[base] = std::move(reservation);
  *out = base;
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuMemAddressFree(CUdeviceptr base, size_t size) {
  FAKE_CUDA_ENTER(cuMemAddressFree)
  const std::lock_guard<std::mutex> guard(process().mutex);
  const auto found = reservations().find(base);
  // "The size must match what was given to memAddressReserve and the ptr given must match what was
  // returned from memAddressReserve.", and nothing may be mapped there.
  if (found == reservations().end() || found->second.size != size ||
      !found->second.mappings.empty())
    return CUDA_ERROR_INVALID_VALUE;
  {
    World::Lock lock(world());
    world().release(found->second.object);
  }
  process().unreserve(base, size);
  reservations().erase(found);
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuMemMap(CUdeviceptr base, size_t size, size_t offset,
                                   CUmemGenericAllocationHandle handle, unsigned long long flags) {
  FAKE_CUDA_ENTER(cuMemMap)
  const std::lock_guard<std::mutex> guard(process().mutex);
  const auto found = memories().find(handle);
  // "Both ptr, size, and offset must be a multiple of the value given via
  // cuMemGetAllocationGranularity"; offset: "currently must be zero".
  if (size == 0 || !aligned(size) || !aligned(base) || offset != 0 || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (found == memories().end() || found->second.references == 0 || size > found->second.size)
    return CUDA_ERROR_INVALID_VALUE;
  // "This range must be an address reservation previously reserved with cuMemAddressReserve"
  auto* reservation = find_reservation(base, size);
  if (reservation == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // "cuMemMap can only create mappings on VA range reservations that are not currently mapped."
  for (const auto& [at, mapping] : reservation->second.mappings) {
    if (at < base + size && base < at + mapping.size) return CUDA_ERROR_INVALID_VALUE;
  }
  Memory& memory = found->second;
  if (!map_into(hidden_at(reservation->second, reservation->first, base), memory.allocation, size))
    return CUDA_ERROR_OUT_OF_MEMORY;
  Mapping mapping;
  mapping.size = size;
  mapping.handle = handle;
  mapping.buffer_id = process().next_buffer++;
  {
    World::Lock lock(world());
    mapping.object = world().create(FAKE_CUDA_MAPPING, memory.physical, size, memory.allocation);
    world().at(mapping.object).address = base;
  }
  ++memory.mappings;
  reservation->second.mappings[base] = std::move(mapping);
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuMemUnmap(CUdeviceptr base, size_t size) {
  FAKE_CUDA_ENTER(cuMemUnmap)
  synchronise_all();
  const std::lock_guard<std::mutex> guard(process().mutex);
  auto* reservation = find_reservation(base, size);
  if (reservation == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
  auto& mappings = reservation->second.mappings;
  // "cuMemUnmap cannot unmap a sub-range of an address range mapped by cuMemCreate / cuMemMap": the
  // range must consist of whole, adjacent mappings.
  CUdeviceptr end = base;
  for (auto it = mappings.find(base); it != mappings.end() && it->first == end && end < base + size;
       ++it)
    end += it->second.size;
  if (end != base + size) return CUDA_ERROR_INVALID_VALUE;
  World::Lock lock(world());
  for (auto it = mappings.find(base); it != mappings.end() && it->first < end;) {
    hide(hidden_at(reservation->second, reservation->first, it->first), it->second.size);
    if (config().mapped) hide(reinterpret_cast<void*>(it->first), it->second.size);
    --memories()[it->second.handle].mappings;
    world().release(it->second.object);
    drop_if_unused(it->second.handle);
    it = mappings.erase(it);
  }
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuMemSetAccess(CUdeviceptr base, size_t size,
                                         const CUmemAccessDesc* descriptors, size_t count) {
  FAKE_CUDA_ENTER(cuMemSetAccess)
  if (descriptors == nullptr || count == 0 || size == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard<std::mutex> guard(process().mutex);
  auto* reservation = find_reservation(base, size);
  if (reservation == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto& mappings = reservation->second.mappings;
  // "The range must be a fully mapped address range containing all allocations created by cuMemMap
  // / cuMemCreate."
  CUdeviceptr end = base;
  for (auto it = mappings.find(base); it != mappings.end() && it->first == end && end < base + size;
       ++it)
    end += it->second.size;
  if (end != base + size) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    if (descriptors[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
      return CUDA_ERROR_INVALID_VALUE;
    if (!is_device(descriptors[i].location.id)) return CUDA_ERROR_INVALID_DEVICE;
    if (descriptors[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ && !config().read_only_access)
      return CUDA_ERROR_NOT_SUPPORTED;
  }
  for (auto it = mappings.find(base); it != mappings.end() && it->first < end; ++it) {
    for (size_t i = 0; i < count; ++i)
      it->second.access[descriptors[i].location.id] = descriptors[i].flags;
    if (config().mapped)
      map_into(reinterpret_cast<void*>(it->first), memories()[it->second.handle].allocation,
               it->second.size);
  }
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                                         CUdeviceptr pointer) {
  FAKE_CUDA_ENTER(cuMemGetAccess)
  if (flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(location->id)) return CUDA_ERROR_INVALID_DEVICE;
  const std::lock_guard<std::mutex> guard(process().mutex);
  auto* reservation = find_reservation(pointer, 1);
  const auto* mapping = reservation == nullptr ? nullptr : find_in(reservation->second, pointer);
  if (mapping == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto found = mapping->second.access.find(location->id);
  *flags = found == mapping->second.access.end()
               ? static_cast<unsigned>(CU_MEM_ACCESS_FLAGS_PROT_NONE)
               : found->second;
  return CUDA_SUCCESS;
}
