// What a caller gives for a CUstream or cudaStream_t, whose types stay inside this folder.
#pragma once

namespace tenon::cuda {

// Null and 1 are the default stream that all threads share, 2 is the calling thread's own.
using Stream = void*;

}  // namespace tenon::cuda
