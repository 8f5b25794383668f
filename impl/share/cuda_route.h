// A route says how a process reaches the device memory of another process. Its bytes are PyTorch's
// handle for CUDA IPC, and Tenon's own handle for the transports that PyTorch lacks
// (docs/format/cuda.md). This file only encodes and decodes bytes. It never calls the driver.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "os/fd.h"
#include "os/memfd.h"
#include "share/cuda_handle.h"

namespace tenon::share {

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

}  // namespace tenon::share
