// The memory handle in PyTorch's CUDA tuple, in the five forms that its versions write
// (docs/format/cuda.md). route.cc decodes and encodes handles with these functions. They only read
// and write bytes, and never call the driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "cuda/ipc.h"

namespace tenon::device {

// The forms, with the versions of PyTorch that write each of them.
enum class CudaForm : uint8_t {
  kA,  // up to 2.4; later versions read it too, except those that write B
  kB,  // some weeks of 2024: a letter says the type
  kC,  // 2.6 and 2.7: a version, 1, stands before the letter
  kD,  // 2.8 to 2.12: version 2
  kE,  // 2.13 and later: version 3
};

struct CudaMemoryHandle {
  enum class Type : uint8_t {
    // Memory that cudaMalloc allocated.
    kIpc,
    // An expandable segment, which the producer maps piece by piece. The handle has the number of
    // one fd for each piece.
    kSegment,
  };
  CudaForm form = CudaForm::kA;
  Type type = Type::kIpc;
  cuda::IpcHandle ipc{};
  // The fields from here on are set for kSegment. They are the producer's claim. Whether the
  // process `pid` has such fds turns out when they are fetched.
  int32_t pid = 0;
  uint64_t page_nbytes = 0;  // the size of each piece in bytes; the pieces follow one another
  std::vector<int32_t> fds;
};

// CORRUPT for bytes that are no handle. INCOMPATIBLE (detail "version") for a form newer than
// these. UNSUPPORTED (detail "version") for segments that cannot be read: segments of fabric
// handles, which form D marks only by the length of the bytes, and the segments of form E, whose
// layout is not known.
Result<CudaMemoryHandle> decode_cuda_memory_handle(std::span<const std::byte> bytes);

// Encodes a handle of type kIpc.
std::vector<std::byte> encode_cuda_memory_handle(const cuda::IpcHandle& ipc,
                                                 CudaForm form = CudaForm::kA);

}  // namespace tenon::device
