// Makes device memory of this process ready to be lent: asks the driver for the handles of its
// allocation, and remembers them for the next lend. The lock of these exports is not safe in a
// forked child, so the caller asks the driver first (cuda::available()), which refuses the child.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "cuda/memory.h"
#include "device/route.h"

namespace tenon::device {

// A route, and the address to which the route leads.
struct CudaExport {
  CudaRoute route;
  cuda::DevicePointer base = 0;
};

// Gives the route to a range of memory. With kNone it takes the first transport, in the order of
// CudaTransport, that the driver knows for the memory. UNSUPPORTED if there is none, or if `wanted`
// is not among them. The result keeps its fds open, and open fds keep the memory.
Result<std::shared_ptr<const CudaExport>> export_cuda(const cuda::Allocation& allocation,
                                                      cuda::DevicePointer pointer, uint64_t nbytes,
                                                      CudaTransport wanted);

// UNSUPPORTED if a message cannot carry so many fds.
Status check_cuda_fds(size_t count);

const char* name_of(CudaTransport transport) noexcept;

}  // namespace tenon::device
