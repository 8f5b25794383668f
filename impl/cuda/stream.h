// The type by which other folders pass a CUstream or a cudaStream_t. CUDA's own types stay inside
// this folder.
#pragma once

namespace tenon::cuda {

// Null and 1 are the default stream that all threads share. 2 is the calling thread's own default
// stream.
using Stream = void*;

}  // namespace tenon::cuda
