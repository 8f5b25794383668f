// Marks in streams, which tell whether the work that was given to a stream has passed. A mark never
// says yes while the work may still be under way. If the driver gives no answer now, has_passed()
// returns false, and its next call asks the driver again. device/memory.cc is the caller.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "cuda/event.h"
#include "cuda/stream.h"

namespace tenon::cuda {

// One thread at a time may call the functions that change a mark. In a child of fork a mark that
// has not passed never does. A mark passes too if an error of the driver says that the stream, its
// context or its device is lost, because no work continues then.
class StreamMark {
 public:
  // Prepares a mark for a stream that the calling thread uses now. set() sets it. A default stream
  // is taken in this thread's context, which is noted here, because another thread may set the
  // mark. A thread's own default stream is marked through the default stream that all threads
  // share, whose work comes after that of the thread's own.
  StreamMark(Stream stream, int32_t device) noexcept;

  // Whether both marks are of the same stream.
  bool is_of(const StreamMark& other) const noexcept {
    return stream_ == other.stream_ && context_ == other.context_;
  }
  // Sets the mark at the work that was given to the stream until now. Call it once. If the driver
  // refuses, has_passed() tries again. Waits for the stream only if the driver has no event left.
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
