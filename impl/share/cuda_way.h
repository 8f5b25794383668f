// Turns the bytes of a handle of device memory, and the fds that came with it, into a route
// (cuda_route.h). open_cuda and the frames of a connection call this for a foreign handle.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "base/status.h"
#include "share/cuda_handle.h"
#include "share/cuda_route.h"

namespace tenon::share {

// A decoded handle. No process has been asked for anything yet. `segment` is set for memory in an
// expandable segment of PyTorch, whose fds must be fetched from the PyTorch process that has it.
// Otherwise `route` is set, without its fds.
struct CudaWay {
  CudaRoute route;
  std::optional<CudaMemoryHandle> segment;
};
Result<CudaWay> decode_cuda_way(std::span<const std::byte> bytes);

struct CudaRouteOptions {
  bool read_only = false;
  bool other_user = false;  // allows fetching a segment's fds from a process of another user
};

// Completes the route with copies of `fds`, or with those of the segment. The caller keeps `fds`.
// INVALID_ARGUMENT if the number of fds is not the one that the handle needs; fds that come with an
// IPC handle or a segment are ignored. UNSUPPORTED for read-only memory that the transport cannot
// give. For a segment: PEER_GONE if its process cannot be found, and PERMISSION if another user
// runs that process and `other_user` is false, because this process fetches the fds with its own
// rights.
Result<CudaRoute> route_of(CudaWay way, std::span<const int> fds, const CudaRouteOptions& options);

}  // namespace tenon::share
