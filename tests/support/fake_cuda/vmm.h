// The memory of cuMemCreate: its handles, and where it is mapped. vmm.cc has the calls within one
// process, and vmm_share.cc those that export and import handles.
#pragma once

#include "process.h"

namespace fake_cuda {

struct Memory {
  uint32_t object = kNoObject;  // the object of the handle in the ledger
  uint32_t allocation = kNoObject;
  size_t size = 0;
  uint32_t physical = 0;
  unsigned references = 0;  // from cuMemCreate, import and retain
  unsigned mappings = 0;
};

// The caller holds Process::mutex for all of these. A handle's value is never reused.
std::map<CUmemGenericAllocationHandle, Memory>& memories();
// The caller also holds the world's lock.
CUmemGenericAllocationHandle new_handle(uint32_t allocation);
// Checks whether memory may be created with these handle types.
CUresult check_handle_types(unsigned types);

// What cuPointerGetAttribute reports about an address within a reservation.
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

// The caller holds Process::mutex for both.
bool find_mapping(CUdeviceptr pointer, MappedAt* out);
// Returns CUDA_ERROR_ILLEGAL_ADDRESS if the memory is mapped but must not be written, and
// CUDA_ERROR_INVALID_VALUE if it is not mapped or has no access.
CUresult resolve_mapping(CUdeviceptr pointer, size_t size, bool write, Place* place);

}  // namespace fake_cuda
