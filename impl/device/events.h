// A pool of interprocess events. share_cuda() takes an event for each handle, and a lend over a
// connection takes one for each device of the message. The events are reused, because the driver
// has room for some 22,000, and making one takes longer than all the rest of a share. A forked
// child never takes the pool's lock: the driver refuses the child before, and memory that keeps an
// event is leaked there.
#pragma once

#include <cstdint>
#include <utility>

#include "base/status.h"
#include "cuda/event.h"

namespace tenon::device {

// The most events of this process, which is also PyTorch's number.
inline constexpr uint32_t kCudaEvents = 1000;

// One event of the pool. The destructor puts the event back, so no process may still have to wait
// for it.
class CudaEvent {
 public:
  CudaEvent() noexcept = default;
  CudaEvent(CudaEvent&& other) noexcept = default;
  CudaEvent& operator=(CudaEvent&& other) noexcept {
    std::swap(event_, other.event_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  ~CudaEvent();

  // Takes an event and records it in the stream. The result is empty if the pool has none left, or
  // if the driver makes no more. The caller then waits for the stream. UNSUPPORTED without a
  // driver. Other errors are the driver's.
  static Result<CudaEvent> record(cuda::Stream stream, int32_t device);
  explicit operator bool() const noexcept { return static_cast<bool>(event_); }
  Status wait_in(cuda::Stream stream, int32_t device) const {
    return event_.wait_in(stream, device);
  }
  const cuda::IpcHandle& handle() const noexcept { return handle_; }

 private:
  CudaEvent(cuda::Event event, const cuda::IpcHandle& handle) noexcept
      : event_(std::move(event)), handle_(handle) {}
  cuda::Event event_;
  cuda::IpcHandle handle_{};
};

}  // namespace tenon::device
