// Events: marks in streams, by which the work of one process waits for another's.
#pragma once

#include <cstdint>
#include <utility>

#include "base/status.h"
#include "cuda/ipc.h"
#include "cuda/stream.h"

namespace tenon::cuda {

class Event {
 public:
  enum class Reach : uint8_t { kThisProcess, kInterprocess };

  Event() noexcept = default;
  // Of that context, and to be recorded in streams of that one only. `handle`, of an interprocess one: may be null.
  static Result<Event> create(void* context, Reach reach, IpcHandle* handle);
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)), context_(std::exchange(other.context_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    std::swap(context_, other.context_);
    return *this;
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { reset(); }

  explicit operator bool() const noexcept { return event_ != nullptr; }
  void* context() const noexcept { return context_; }

  // All that was given to the stream until now.
  Status record(Stream stream);
  // What is given to the stream from now on waits for what was recorded last; the host does not.
  Status wait_in(Stream stream, int32_t device) const;
  // Never recorded is complete.
  Result<bool> is_complete() const;
  // Until it is.
  Status synchronize() const;

 private:
  Event(void* event, void* context) noexcept : event_(event), context_(context) {}
  void reset() noexcept;
  void* event_ = nullptr;
  void* context_ = nullptr;
};

// As Event::wait_in, of another process's event. Nothing is kept of it.
Status wait_for_event(const IpcHandle& handle, Stream stream, int32_t device);

// Tells contexts apart: an event belongs to one, and so does a stream.
Result<void*> find_context(Stream stream, int32_t device);

// Until all that was given to the stream is done.
Status synchronize(Stream stream, int32_t device);

}  // namespace tenon::cuda
