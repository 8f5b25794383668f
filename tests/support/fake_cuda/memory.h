// Makes memory on the devices of the fake, and finds the memory behind an address. cuMemAlloc,
// managed memory, cuMemCreate, pools and copies share these functions. Range, Backing and Place are
// in process.h.
#pragma once

#include "process.h"

namespace fake_cuda {

struct Wanted {
  size_t size = 0;
  Source source = Source::legacy;
  RangeKind kind = RangeKind::allocated;
  unsigned handle_types = 0;
  uint32_t pool_object = kNoObject;
};

// Makes the object and the file of new memory on that device. Returns CUDA_ERROR_OUT_OF_MEMORY if
// the device is full even after the memory of dead processes was released.
CUresult make_allocation(uint32_t physical, const Wanted& wanted, uint32_t* object);
CUresult allocate(Context* context, const Wanted& wanted, CUmemoryPool pool, CUdeviceptr* out);

// Puts a mapped allocation, own or imported, into the address space. The caller holds
// Process::mutex. Returns 0 if there is no room.
CUdeviceptr place_range(Range range, const std::shared_ptr<Backing>& backing, size_t size);
// Removes the range that begins at `base`, if its kind is one of `kinds`. The caller releases the
// object and the addresses with drop_range.
bool take_range(CUdeviceptr base, std::initializer_list<RangeKind> kinds, Range* out);
void drop_range(const Range& range, int32_t rule_if_open);

// Finds bytes of device memory, or of host memory that the driver knows. CUDA_ERROR_NOT_FOUND: any
// other host address.
CUresult resolve(CUdeviceptr pointer, size_t size, bool write, Place* place);

}  // namespace fake_cuda
