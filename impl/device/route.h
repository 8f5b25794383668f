// A route says how a process reaches the device memory of another process. Its bytes are PyTorch's
// handle for CUDA IPC, and Tenon's own handle for the transports that PyTorch lacks
// (docs/format/cuda.md). open_cuda and the frames of a connection turn the bytes of a foreign
// handle, and the fds that came with it, into a route. No function here calls the driver.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "device/torch_handle.h"
#include "os/fd.h"
#include "os/memfd.h"

namespace tenon::device {

// The numbers are those of the bytes and of the C header.
enum class CudaTransport : uint8_t {
  kNone = 0,    // an empty storage
  kIpc = 1,     // cuIpcGetMemHandle
  kFd = 2,      // one fd for each physical allocation (cuMemCreate) of a mapped range
  kFabric = 3,  // the fabric handle of one such allocation
  kPool = 4,    // the fd of a memory pool, and the bytes that name an allocation in it
};

struct CudaRoute {
  CudaTransport transport = CudaTransport::kNone;
  // kIpc: the IPC handle. kFabric: the fabric handle. kPool: the bytes that name the allocation.
  std::array<std::byte, 64> data{};
  // In bytes. kFd: the size of each allocation. kFabric and kPool: one number, the size of all.
  std::vector<uint64_t> sizes;
  std::vector<std::shared_ptr<const os::Fd>> fds;
  std::vector<int> fd_numbers;  // the numbers of `fds`
  os::Nonce nonce{};            // names these fds, so that a receiver finds memory it has open
  bool read_only = false;       // whether the receiver opens the memory read-only

  uint64_t nbytes() const noexcept;
  void add_fd(std::shared_ptr<const os::Fd> fd);
  // Whether the fds of both routes lead to the same files.
  bool has_same_files(const CudaRoute& other) const noexcept;
};

// The most fds that one message over a socket can carry.
inline constexpr size_t kMostCudaFds = 253;
// The most bytes of a handle that the C header's struct has room for.
inline constexpr size_t kMostCudaRouteNbytes = 128;

// Whether the bytes are a handle of Tenon's own. PyTorch's handles have another first byte or 64
// bytes.
bool is_cuda_route(std::span<const std::byte> bytes) noexcept;
// Gives a route without fds. The caller adds as many fds as there are sizes for kFd, and one for
// kPool. CORRUPT for wrong bytes, INCOMPATIBLE for a newer version.
Result<CudaRoute> decode_cuda_route(std::span<const std::byte> bytes);
// Tenon's own handle. UNSUPPORTED if the allocations have too many different sizes.
Result<std::vector<std::byte>> encode_cuda_route(const CudaRoute& route, bool read_only);
// The bytes of a handle: PyTorch's for an IPC handle, and else Tenon's own. Memory of a pool is
// never read-only: every process that opens the pool may write it. UNSUPPORTED if the C header's
// struct has no room for the bytes.
Result<std::vector<std::byte>> encode_cuda_handle(const CudaRoute& route, bool read_only,
                                                  CudaForm form = CudaForm::kA);

// A decoded handle. No process has been asked for anything yet. `segment` is set for memory in an
// expandable segment of PyTorch, whose fds must be fetched from the PyTorch process that has it.
// Otherwise `route` is set, without its fds.
struct DecodedCudaHandle {
  CudaRoute route;
  std::optional<CudaMemoryHandle> segment;
};
// The errors are those of decode_cuda_route() and decode_cuda_memory_handle().
Result<DecodedCudaHandle> decode_cuda_handle(std::span<const std::byte> bytes);

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
Result<CudaRoute> complete_route(DecodedCudaHandle decoded, std::span<const int> fds,
                                 const CudaRouteOptions& options);

}  // namespace tenon::device
