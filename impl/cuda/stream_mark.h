// Marks in streams: whether what was given to a stream has passed. Never yes of work that may still
// be under way: what the driver does not tell now it is asked again.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "cuda/event.h"
#include "cuda/stream.h"

namespace tenon::cuda {

class StreamMark {
 public:
  // Of a stream that is used now by the calling thread, whose context it is that a default stream
  // is of. Another thread may set the mark: a thread's own default stream is marked by the one that
  // all threads share, which comes after it.
  StreamMark(Stream stream, int32_t device) noexcept;

  bool is_of(const StreamMark& other) const noexcept {
    return stream_ == other.stream_ && context_ == other.context_;
  }
  // At what was given to it until now. Waits for the stream only where the driver has no event
  // left.
  void set() noexcept;
  // Once it was set.
  bool has_passed() noexcept;
  // What is given to `stream` from now on comes after what was given to this one until now.
  Status let_wait(Stream stream, int32_t device) const;

 private:
  enum class State : uint8_t { kUnset, kSet, kPassed };
  Result<void*> context() const;
  Status make_event(Event* out) const;
  Status wait_here() const;

  Stream stream_;
  void* context_ = nullptr;  // of a default stream; null: the stream's own
  int32_t device_;
  State state_ = State::kUnset;
  Event event_;
};

}  // namespace tenon::cuda
