// CUDA's driver, found at run time: one library for machines with a GPU and without. No other
// folder names it or includes this.
#pragma once

#include <cudaTypedefs.h>

#include <array>
#include <cstddef>
#include <string>

#include "base/status.h"

namespace tenon::cuda {

// 1,000 times the major version, 10 times the minor one. The first driver with the identity of a
// device under MIG.
inline constexpr int kOldestDriver = 11040;

// What can be missing without the rest. kCore cannot.
enum class Part { kCore, kIpc, kVmm, kPools, kHost };
inline constexpr size_t kParts = 5;

// The driver's functions under their own names, as in `cu->cuMemAlloc(&pointer, nbytes)`; nullptr:
// this driver lacks it.
struct Driver {
  int version = 0;
  std::string path;                         // of the file that was opened
  std::array<const char*, kParts> lacks{};  // the first function of each part that is missing
#define FUNCTION(name, version, part) PFN_##name##_v##version name = nullptr;
#include "cuda/functions.inc"
#undef FUNCTION

  // UNSUPPORTED, naming a function, if not all of that part are there.
  Status has(Part part) const;
};

// As in "11.4".
std::string version_text(int version);

// Opens the library and starts the driver (cuInit) at the first call in this process; no context is
// made. What comes of it is kept: the one table, never closed, or UNSUPPORTED with the reason; but
// where that is one that passes the next call asks again. A child of fork of a process that had
// begun it gets UNSUPPORTED too, before the driver is called: the driver cannot be used there, and
// what it does then is not defined.
Result<const Driver*> driver();

}  // namespace tenon::cuda
