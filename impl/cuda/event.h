// Events: marks in streams, by which the work of one process waits for another's.
#pragma once

#include <cstdint>
#include <utility>

#include "base/status.h"
#include "cuda/ipc.h"
#include "cuda/stream.h"
#include "os/wait.h"

namespace tenon::cuda {

class Event {
 public:
  enum class Reach : uint8_t { kThisProcess, kInterprocess, kReceived };

  Event() noexcept = default;
  // Of that context, and to be recorded in streams of that one only. `handle`, of an interprocess
  // one: may be null.
  static Result<Event> create(void* context, Reach reach, IpcHandle* handle);
  // Of the device's primary context.
  static Result<Event> create_on(int32_t device, Reach reach);
  // Another process's, in the device's primary context. The driver refuses it to the process that
  // made it (INVALID_ARGUMENT).
  static Result<Event> open(const IpcHandle& handle, int32_t device);
  Event(Event&& other) noexcept
      : event_(std::exchange(other.event_, nullptr)),
        context_(std::exchange(other.context_, nullptr)),
        reach_(other.reach_) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    std::swap(context_, other.context_);
    std::swap(reach_, other.reach_);
    return *this;
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { reset(); }

  explicit operator bool() const noexcept { return event_ != nullptr; }
  void* context() const noexcept { return context_; }

  // All that was given to the stream until now.
  Status record(Stream stream);
  // Likewise, of a stream that is not known to be of the event's context: INVALID_ARGUMENT if it is
  // of another one. As in wait_in, a default stream is of the current context if that is on the
  // device.
  Status record_in(Stream stream, int32_t device);
  // What is given to the stream from now on waits for what was recorded last; the host does not.
  Status wait_in(Stream stream, int32_t device) const;
  // Never recorded is complete.
  Result<bool> is_complete() const;
  // Until it is complete.
  Status synchronize(const os::Wait& wait) const;
  // INVALID_ARGUMENT if it is none for other processes, UNSUPPORTED if it is another process's.
  Result<IpcHandle> ipc_handle() const;

 private:
  Event(void* event, void* context, Reach reach) noexcept
      : event_(event), context_(context), reach_(reach) {}
  void reset() noexcept;
  void* event_ = nullptr;
  void* context_ = nullptr;
  Reach reach_ = Reach::kThisProcess;
};

// As Event::wait_in, of another process's event. Nothing is kept of it.
Status wait_for_event(const IpcHandle& handle, Stream stream, int32_t device);

// Tells contexts apart: an event belongs to one, and so does a stream.
Result<void*> find_context(Stream stream, int32_t device);

// Until all that was given to the stream is done.
Status synchronize(Stream stream, int32_t device);

}  // namespace tenon::cuda
