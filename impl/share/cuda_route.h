// How a process reaches device memory of another one: by PyTorch's handle, or by Tenon's own, for
// the ways that PyTorch lacks (docs/format/cuda.md). Bytes in, bytes out: nothing here asks a
// driver.
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
  kNone = 0,    // an empty storage's
  kIpc = 1,     // cuIpcGetMemHandle
  kFd = 2,      // an fd for each piece of memory that is mapped piece by piece
  kFabric = 3,  // a fabric handle of one such piece
  kPool = 4,    // an fd of the pool, and what leads to the allocation in it
};

struct CudaRoute {
  CudaTransport transport = CudaTransport::kNone;
  std::array<std::byte, 64>
      data{};  // the IPC handle, the fabric handle, what leads to the allocation in its pool
  std::vector<uint64_t> sizes;  // kFd: of each piece; kFabric, kPool: of all, alone
  std::vector<std::shared_ptr<const os::Fd>> fds;
  std::vector<int> fd_numbers;  // theirs
  os::Nonce nonce{};            // of these fds
  bool read_only = false;       // it is to be opened so

  uint64_t nbytes() const noexcept;
  void add_fd(std::shared_ptr<const os::Fd> fd);
  // Both have the same files behind their fds.
  bool has_same_files(const CudaRoute& other) const noexcept;
};

// Most fds that one message over a socket can carry.
inline constexpr size_t kMostCudaFds = 253;
// What fits in the C header's struct.
inline constexpr size_t kMostCudaRouteNbytes = 128;

// Whether they are Tenon's own. PyTorch's begin otherwise, or have 64.
bool is_cuda_route(std::span<const std::byte> bytes) noexcept;
// Without fds: how many there have to be is the number of sizes for kFd, 1 for kPool. CORRUPT;
// INCOMPATIBLE for a newer version.
Result<CudaRoute> decode_cuda_route(std::span<const std::byte> bytes);
// UNSUPPORTED: pieces of more different sizes than have room.
Result<std::vector<std::byte>> encode_cuda_route(const CudaRoute& route, bool read_only);
// The bytes of a handle: PyTorch's of an IPC handle, else Tenon's own. A pool's memory is always
// written by whoever has it. UNSUPPORTED: they have no room in the C header's struct.
Result<std::vector<std::byte>> encode_cuda_handle(const CudaRoute& route, bool read_only,
                                                  CudaForm form = CudaForm::kA);

}  // namespace tenon::share
