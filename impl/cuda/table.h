// Fills the table of the driver's functions by name and version. driver.cc is the caller.
#pragma once

#include "base/status.h"
#include "cuda/driver.h"

namespace tenon::cuda {

class FunctionSource {
 public:
  FunctionSource() = default;
  FunctionSource(const FunctionSource&) = delete;
  FunctionSource& operator=(const FunctionSource&) = delete;
  virtual ~FunctionSource() = default;
  // The function as it was in that version of CUDA. nullptr if there is none.
  virtual void* find(const char* name, int version) const = 0;
};

// Fills in the functions, and the first missing function of each part. driver->version must be set.
// Functions that are newer than that version are not asked for. UNSUPPORTED if a function of kCore
// is missing.
Status fill(Driver* driver, const FunctionSource& source);

}  // namespace tenon::cuda
