#include "share/cuda_way.h"

#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "os/open_file.h"
#include "os/process.h"
#include "share/cuda_export.h"

namespace tenon::share {
namespace {

// Makes a route from an expandable segment of PyTorch: fetches the fds from the process that the
// handle names.
Result<CudaRoute> route_of_segment(const CudaMemoryHandle& segment, bool other_user) {
  const os::Fd producer = os::open_pidfd(segment.pid);
  if (!producer.is_open()) {
    return Status(Code::kPeerGone, format("the process %d, which has the memory of a CUDA handle, "
                                          "cannot be found: it has ended, or is in "
                                          "another PID namespace, or the kernel is older than 5.3",
                                          segment.pid));
  }
  if (!other_user) TENON_TRY(os::check_user(producer, segment.pid, "TENON_CUDA_OTHER_USER"));
  CudaRoute route;
  route.transport = CudaTransport::kFd;
  for (const int32_t number : segment.fds) {
    TENON_ASSIGN(os::Fd fd, os::fetch_fd(producer, number));
    route.add_fd(std::make_shared<const os::Fd>(std::move(fd)));
    route.sizes.push_back(segment.page_nbytes);
  }
  // These three numbers name the segment in this process. Whether another segment with the same
  // name is the same one is decided by comparing the files.
  const std::array<int32_t, 3> name{segment.pid, segment.fds.front(), segment.fds.back()};
  std::memcpy(route.nonce.data(), name.data(), sizeof name);
  return route;
}

Status add_fds(std::span<const int> fds, CudaRoute* route) {
  size_t expected = 0;
  if (route->transport == CudaTransport::kFd) expected = route->sizes.size();
  if (route->transport == CudaTransport::kPool) expected = 1;
  if (fds.size() != expected) {
    return Status(
        Code::kInvalidArgument,
        format("the CUDA handle came with %zu fds, and %zu belong to it", fds.size(), expected));
  }
  for (const int number : fds) {
    TENON_ASSIGN(os::Fd fd, os::duplicate(number));
    fd.mark_foreign();
    route->add_fd(std::make_shared<const os::Fd>(std::move(fd)));
  }
  return Status::ok();
}

}  // namespace

Result<CudaWay> decode_cuda_way(std::span<const std::byte> bytes) {
  CudaWay way;
  if (is_cuda_route(bytes)) {
    TENON_ASSIGN(way.route, decode_cuda_route(bytes));
    return way;
  }
  TENON_ASSIGN(CudaMemoryHandle memory, decode_cuda_memory_handle(bytes));
  if (memory.type == CudaMemoryHandle::Type::kSegment) {
    way.segment = std::move(memory);
  } else {
    way.route.transport = CudaTransport::kIpc;
    way.route.data = memory.ipc;
  }
  return way;
}

Result<CudaRoute> route_of(CudaWay way, std::span<const int> fds, const CudaRouteOptions& options) {
  CudaRoute route = std::move(way.route);
  if (way.segment) {
    TENON_ASSIGN(route, route_of_segment(*way.segment, options.other_user));
  } else if (route.transport != CudaTransport::kIpc) {
    TENON_TRY(add_fds(fds, &route));
  }
  if (!options.read_only) return route;
  if (route.transport == CudaTransport::kIpc || route.transport == CudaTransport::kPool) {
    return Status(Code::kUnsupported, format("device memory cannot be opened read-only by %s",
                                             name_of(route.transport)));
  }
  route.read_only = true;
  return route;
}

}  // namespace tenon::share
