// The contexts in which the driver is called.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "base/status.h"
#include "cuda/driver.h"
#include "cuda/stream.h"

namespace tenon::cuda {

// The device's primary context, which CUDA's runtime uses and so every framework. Made at the first
// call, if nobody else has, and kept as long as the process lives.
Result<CUcontext> primary_context(const Driver& cu, int32_t ordinal);

bool is_default(Stream stream) noexcept;
// Of the stream; a default stream is of the current context if that is on the device, else of the
// device's primary one.
Result<CUcontext> context_of(const Driver& cu, Stream stream, int32_t ordinal, CUcontext current);

// That context is the thread's current one as long as this lives.
class InContext {
 public:
  explicit InContext(const Driver& cu) noexcept : cu_(cu) {}
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;
  ~InContext();
  Status enter(CUcontext context);
  Status enter_primary(int32_t ordinal);
  // That of the stream, as context_of() has it.
  Result<CUcontext> enter(Stream stream, int32_t ordinal);

 private:
  Status enter(CUcontext context, CUcontext current);
  const Driver& cu_;
  bool pushed_ = false;
};

// Gives something back to the driver, in the context that `enter` enters. Of a child of fork
// nothing is: it has what is its parent's, and no driver.
template <typename Enter, typename End>
void end_in(const Enter& enter, const End& end) noexcept {
  try {
    Result<const Driver*> found = driver();
    if (!found.is_ok()) return;
    InContext scope(*found.value());
    if (enter(scope).is_ok()) end(*found.value());
  } catch (...) {
    // No memory for the words of an error, which nobody would hear.
  }
}
// In the primary context in which it was opened.
template <typename End>
void end_in_primary(int32_t ordinal, const End& end) noexcept {
  end_in([&](InContext& scope) { return scope.enter_primary(ordinal); }, end);
}

}  // namespace tenon::cuda
