// Makes device memory of this process ready to be lent: asks the driver for the handles of its
// allocation. The objects that lend device memory call this (CudaMemory::lend_by()).
//
// A table remembers the exports, so that the next lend finds them. It keeps IPC handles, which hold
// no memory. It refers to exports with fds weakly, because an open fd keeps the memory, which its
// owner may want to free. The lender keeps such an export (CudaMemory::keep()). The lock of the
// table has no rank and is not safe in a forked child, so the caller asks the driver first
// (cuda::available()), which refuses the child.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "cuda/memory.h"
#include "device/route.h"

namespace tenon::device {

struct CudaExport {
  CudaRoute route;
  // The address in this process at which the memory of the route begins: the start of the
  // allocation or, for memory that is mapped in pieces, of the first piece of the lent range.
  cuda::DevicePointer base = 0;
};

// Gives the route to a range of memory of one allocation or mapping. With kNone it takes the first
// transport, in the order of CudaTransport (route.h), that the driver knows for the memory.
// UNSUPPORTED if there is none, or if `wanted` is not among them, or if the range has more pieces
// than one handle or message can carry. Other errors are the driver's. The result keeps its fds
// open, and open fds keep the memory.
Result<std::shared_ptr<const CudaExport>> export_cuda(const cuda::Allocation& allocation,
                                                      cuda::DevicePointer pointer, uint64_t nbytes,
                                                      CudaTransport wanted);

// UNSUPPORTED if a message cannot carry so many fds (kMostCudaFds).
Status check_cuda_fds(size_t count);

// The words for a transport in messages of errors, such as "fds".
const char* name_of(CudaTransport transport) noexcept;

}  // namespace tenon::device
