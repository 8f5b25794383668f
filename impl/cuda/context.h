// The contexts in which this folder calls the driver. A context of CUDA belongs to one device, and
// the driver acts in the one that is current in the calling thread. The lock of the primary
// contexts is taken only after driver() has succeeded, so a child of fork never waits for it.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "base/status.h"
#include "cuda/driver.h"
#include "cuda/stream.h"

namespace tenon::cuda {

// Returns the device's primary context, which CUDA's runtime and so every framework uses. The first
// call makes it if it does not exist yet. It is kept for the life of the process. INVALID_ARGUMENT:
// there is no such device.
Result<CUcontext> primary_context(const Driver& cu, int32_t ordinal);

// Whether this is a default stream (stream.h) and not one that somebody has made.
bool is_default(Stream stream) noexcept;
// Returns the context of a stream. A default stream belongs to the current context if that is on
// the device, and else to the device's primary context.
Result<CUcontext> context_of(const Driver& cu, Stream stream, int32_t ordinal, CUcontext current);

// Makes a context the thread's current one for as long as this object lives. One of the functions
// enter() and enter_primary() is called, once. After an error the current context is as it was.
class InContext {
 public:
  explicit InContext(const Driver& cu) noexcept : cu_(cu) {}
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;
  ~InContext();
  Status enter(CUcontext context);
  Status enter_primary(int32_t ordinal);
  // Enters the stream's context, as context_of() finds it, and returns it.
  Result<CUcontext> enter(Stream stream, int32_t ordinal);

 private:
  Status enter(CUcontext context, CUcontext current);
  const Driver& cu_;
  bool pushed_ = false;
};

// Gives a resource back to the driver, in the context that `enter` enters. In a child of fork
// nothing is given back, and `end` is not called: the resource is the parent's, and the child has
// no driver.
template <typename Enter, typename End>
void end_in(const Enter& enter, const End& end) noexcept {
  try {
    Result<const Driver*> found = driver();
    if (!found.is_ok()) return;
    InContext scope(*found.value());
    if (enter(scope).is_ok()) end(*found.value());
  } catch (...) {
    // There was no memory for an error message, which nobody would read.
  }
}
// Gives a resource back in the primary context in which it was opened.
template <typename End>
void end_in_primary(int32_t ordinal, const End& end) noexcept {
  end_in([&](InContext& scope) { return scope.enter_primary(ordinal); }, end);
}

}  // namespace tenon::cuda
