// Marks in streams, which tell whether the work that was given to a stream has passed. A mark never
// says yes while the work may still be under way. If the driver gives no answer now, it is asked
// again later. device/memory.cc is the caller.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "cuda/event.h"
#include "cuda/stream.h"

namespace tenon::cuda {

// One thread at a time may call the functions that change a mark. In a child of fork a mark that
// has not passed never does.
class StreamMark {
 public:
  // Marks a stream that the calling thread uses now. A default stream belongs to this thread's
  // context. Another thread may set the mark. So a thread's own default stream is marked through
  // the default stream that all threads share, whose work comes after it.
  StreamMark(Stream stream, int32_t device) noexcept;

  bool is_of(const StreamMark& other) const noexcept {
    return stream_ == other.stream_ && context_ == other.context_;
  }
  // Sets the mark at the work that was given to the stream until now. Waits for the stream only if
  // the driver has no event left.
  void set() noexcept;
  // Whether the marked work has passed. Sets the mark first if that has not succeeded yet.
  bool has_passed() noexcept;
  // Makes the work that is given to `stream` from now on wait for the work that was given to the
  // marked stream until now.
  Status let_wait(Stream stream, int32_t device) const;

 private:
  enum class State : uint8_t { kUnset, kSet, kPassed };
  Result<void*> context() const;
  Status make_event(Event* out) const;
  Status wait_here() const;

  Stream stream_;
  void* context_ = nullptr;  // the context of a default stream, null: ask for the stream's own
  int32_t device_;
  State state_ = State::kUnset;
  Event event_;
};

}  // namespace tenon::cuda
