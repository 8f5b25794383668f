// Device memory of this process made ready for others: the handles of its allocation, asked of the
// driver once.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "cuda/memory.h"
#include "share/cuda_route.h"

namespace tenon::share {

// What leads to it, and where it leads.
struct CudaExport {
  CudaRoute route;
  cuda::DevicePointer base = 0;
};

// As the driver says that memory can travel: kNone takes what it names, in the order of
// CudaTransport. UNSUPPORTED if there is no way, or not that one. Whoever keeps what this gives
// keeps the fds in it open, and with them the memory.
Result<std::shared_ptr<const CudaExport>> export_cuda(const cuda::Allocation& allocation,
                                                      cuda::DevicePointer pointer, uint64_t nbytes,
                                                      CudaTransport wanted);

// UNSUPPORTED: so many fds are more than a message carries.
Status check_cuda_fds(size_t count);

const char* name_of(CudaTransport transport) noexcept;

}  // namespace tenon::share
