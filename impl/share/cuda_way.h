// From the bytes of a handle of device memory, and the fds that came with it, to a route.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "base/status.h"
#include "share/cuda_handle.h"
#include "share/cuda_route.h"

namespace tenon::share {

// What the bytes say, before anything is asked of anybody: a route, to which fds may belong, or a
// segment of PyTorch's, whose route begins at another process.
struct CudaWay {
  CudaRoute route;
  std::optional<CudaMemoryHandle> segment;
};
Result<CudaWay> decode_cuda_way(std::span<const std::byte> bytes);

struct CudaRouteOptions {
  bool read_only = false;
  bool other_user = false;  // fetch a segment's fds from a process of another user, too
};

// With copies of the fds. INVALID_ARGUMENT for another number of them than belongs to it,
// UNSUPPORTED for read-only where the way has no such access; PERMISSION and PEER_GONE for a
// segment, whose fds are fetched from the process that its bytes name. They are fetched with the
// rights of this process, so that process must be of its own user.
Result<CudaRoute> route_of(CudaWay way, std::span<const int> fds, const CudaRouteOptions& options);

}  // namespace tenon::share
