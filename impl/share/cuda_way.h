// From the bytes of a handle of device memory, and the fds that came with it, to a route.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "base/status.h"
#include "share/cuda_handle.h"
#include "share/cuda_route.h"

namespace tenon::share {

// What the bytes say, before anything is asked of anybody: a route, to which fds may belong, or a segment of PyTorch's, whose route begins
// at another process.
struct CudaWay {
  CudaRoute route;
  std::optional<CudaMemoryHandle> segment;
};
Result<CudaWay> decode_cuda_way(std::span<const std::byte> bytes);

// With copies of the fds. INVALID_ARGUMENT for another number of them than belongs to it, UNSUPPORTED for read-only where the way has no
// such access; PERMISSION and PEER_GONE for a segment, whose fds are fetched.
Result<CudaRoute> route_of(CudaWay way, std::span<const int> fds, bool read_only);

}  // namespace tenon::share
