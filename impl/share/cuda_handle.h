// The memory handle in PyTorch's CUDA tuple, in the five forms that its versions write
// (docs/format/cuda.md). Bytes in, bytes out: nothing here asks a driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "cuda/ipc.h"

namespace tenon::share {

// By the versions of PyTorch that write them.
enum class CudaForm : uint8_t {
  kA,  // up to 2.4; every later one but those of B reads it too
  kB,  // some weeks of 2024: a letter for the type
  kC,  // 2.6 and 2.7: a version, 1, before the letter
  kD,  // 2.8 to 2.12: version 2
  kE,  // 2.13 and later: version 3
};

struct CudaMemoryHandle {
  enum class Type : uint8_t {
    kIpc,      // of an allocation that cudaMalloc made
    kSegment,  // of memory that the producer maps piece by piece: the numbers of its fds, each of
               // one piece
  };
  CudaForm form = CudaForm::kA;
  Type type = Type::kIpc;
  cuda::IpcHandle ipc{};
  // Of a segment. What the producer says of itself: whether that process has such fds is asked when
  // they are fetched.
  int32_t pid = 0;
  uint64_t page_nbytes = 0;  // of each of the pieces, which follow one another
  std::vector<int32_t> fds;
};

// CORRUPT for bytes that are none, INCOMPATIBLE (detail "version") for a form that is newer than
// these, UNSUPPORTED (likewise) for segments that cannot be read: of fabric handles, which D does
// not tell apart but by their number, and those of E, whose layout is not known.
Result<CudaMemoryHandle> decode_cuda_memory_handle(std::span<const std::byte> bytes);

// Of type kIpc.
std::vector<std::byte> encode_cuda_memory_handle(const cuda::IpcHandle& ipc,
                                                 CudaForm form = CudaForm::kA);

}  // namespace tenon::share
