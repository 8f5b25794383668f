// Events, which are marks in streams. With them the work of one process waits for the work of
// another.
#pragma once

#include <cstdint>
#include <utility>

#include "base/status.h"
#include "cuda/ipc.h"
#include "cuda/stream.h"
#include "os/wait.h"

namespace tenon::cuda {

// An empty Event can only be asked whether it is empty, assigned and destroyed. In a child of fork
// every function returns UNSUPPORTED, and the destructor leaves the driver alone. The errors are
// the driver's (error.h).
class Event {
 public:
  enum class Origin : uint8_t { kThisProcess, kInterprocess, kReceived };

  Event() noexcept = default;
  // Makes an event in a context (a CUcontext). It can be recorded only in streams of that context.
  // `handle` may be null. For kInterprocess it receives the event's IPC handle.
  static Result<Event> create(void* context, Origin reach, IpcHandle* handle);
  // Makes an event in the device's primary context.
  static Result<Event> create_on(int32_t device, Origin reach);
  // Opens another process's event in the device's primary context. The driver refuses this to the
  // process that made the event (INVALID_ARGUMENT).
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

  // Marks all work that was given to the stream until now.
  Status record(Stream stream);
  // Does the same for a stream that may belong to another context: INVALID_ARGUMENT if it does. As
  // in wait_in(), a default stream belongs to the current context if that is on the device.
  Status record_in(Stream stream, int32_t device);
  // Makes the work that is given to the stream from now on wait for the work that the event marked
  // last. The host does not wait.
  Status wait_in(Stream stream, int32_t device) const;
  // An event that was never recorded is complete.
  Result<bool> is_complete() const;
  // Blocks the calling thread until the event is complete. The errors are the driver's, and those
  // of os::Waiter (os/wait.h).
  Status synchronize(const os::Wait& wait) const;
  // INVALID_ARGUMENT if the event was not made for other processes, UNSUPPORTED if it came from
  // another process.
  Result<IpcHandle> ipc_handle() const;

 private:
  Event(void* event, void* context, Origin reach) noexcept
      : event_(event), context_(context), reach_(reach) {}
  void reset() noexcept;
  void* event_ = nullptr;
  void* context_ = nullptr;
  Origin reach_ = Origin::kThisProcess;
};

// Does what Event::wait_in() does for another process's event, and closes the event again.
Status wait_for_event(const IpcHandle& handle, Stream stream, int32_t device);

// Returns the context of a stream, for comparing contexts: an event belongs to one context, and so
// does a stream.
Result<void*> find_context(Stream stream, int32_t device);

// Waits until all work that was given to the stream is done. Nothing but the driver ends this wait.
Status synchronize(Stream stream, int32_t device);

}  // namespace tenon::cuda
