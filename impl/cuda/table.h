// How the table of the driver's functions is filled: by name and version.
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
  // The function in the form that it had in that version of CUDA; nullptr if there is none.
  virtual void* find(const char* name, int version) const = 0;
};

// Fills in the functions, and which parts lack one. driver->version was set; what is newer is not
// asked for. UNSUPPORTED if kCore is not whole.
Status fill(Driver* driver, const FunctionSource& source);

}  // namespace tenon::cuda
