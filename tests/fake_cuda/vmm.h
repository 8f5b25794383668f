#pragma once

#include "process.h"

namespace fake_cuda {

struct Memory {
  uint32_t object = kNoObject;  // the handle, in the ledger
  uint32_t allocation = kNoObject;
  size_t size = 0;
  uint32_t physical = 0;
  unsigned references = 0;  // by cuMemCreate, import and retain
  unsigned mappings = 0;
};

// All under Process::mutex. A handle's value is never used again.
std::map<CUmemGenericAllocationHandle, Memory>& memories();
// Under the world's lock too.
CUmemGenericAllocationHandle new_handle(uint32_t allocation);
// Whether memory may be asked for that can be exported like this.
CUresult check_handle_types(unsigned types);

// What cuPointerGetAttribute has to say about an address within a reservation.
struct MappedAt {
  CUdeviceptr reserved = 0;
  size_t reserved_size = 0;
  bool mapped = false;
  CUdeviceptr base = 0;
  size_t size = 0;
  uint32_t physical = 0;
  unsigned handle_types = 0;
  uint64_t buffer_id = 0;
};

// Both under Process::mutex.
bool find_mapping(CUdeviceptr pointer, MappedAt* out);
// CUDA_ERROR_ILLEGAL_ADDRESS: mapped, but not to be written; CUDA_ERROR_INVALID_VALUE: not mapped,
// or no access given.
CUresult resolve_mapping(CUdeviceptr pointer, size_t size, bool write, Place* place);

}  // namespace fake_cuda
