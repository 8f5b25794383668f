// The table of the functions of CUDA's driver, which is opened at run time. So one build of the
// library serves machines with and without a GPU. Only files of this folder include this header or
// name the driver.
#pragma once

#include <cudaTypedefs.h>

#include <array>
#include <cstddef>
#include <string>

#include "base/status.h"

namespace tenon::cuda {

// The oldest driver that Tenon uses, as 1,000 times the major version and 10 times the minor one.
// It is the first driver that gives a device under MIG an identity of its own.
inline constexpr int kOldestDriver = 11040;

// The parts of the driver. Each part but kCore may be missing while the others work.
enum class Part { kCore, kIpc, kVmm, kPools, kHost };
inline constexpr size_t kParts = 5;

// The driver's functions under their own names, as in `cu->cuMemAlloc(&pointer, nbytes)`. A pointer
// is null if this driver lacks the function.
struct Driver {
  int version = 0;
  std::string path;                         // the path of the opened library
  std::array<const char*, kParts> lacks{};  // the first function of each part that is missing
#define FUNCTION(name, version, part) PFN_##name##_v##version name = nullptr;
#include "cuda/functions.inc"
#undef FUNCTION

  // UNSUPPORTED, with the name of a function, if the driver lacks a function of that part.
  Status has(Part part) const;
};

// The version as text, such as "11.4".
std::string version_text(int version);

// Opens the library and starts the driver (cuInit) at the first call in this process. Makes no
// context. The result is kept: a table that is never closed, or UNSUPPORTED with the reason. If the
// reason may pass, it is not kept, and the next call tries again. In a child of fork of a process
// that had begun to start the driver, every call returns UNSUPPORTED without calling the driver,
// because the driver's behaviour there is undefined. While another thread starts the driver, the
// call waits. The caller holds no lock that has a rank (available.h). If std::bad_alloc is thrown,
// the next call starts anew.
Result<const Driver*> driver();

}  // namespace tenon::cuda
