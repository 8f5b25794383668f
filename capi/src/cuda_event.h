// CudaEvent is the object behind a tenon_cuda_event: a CUDA event with a reference count. The event
// ends with the last reference. cuda/event.h has the rules of the event itself.
#pragma once

#include <cstdint>
#include <utility>

#include "base/counted.h"
#include "cuda/event.h"

namespace tenon::capi {

class CudaEvent final : public Counted {
 public:
  CudaEvent(cuda::Event event, int32_t device) noexcept
      : event_(std::move(event)), device_(device) {}
  cuda::Event& event() noexcept { return event_; }
  const cuda::Event& event() const noexcept { return event_; }
  int32_t device() const noexcept { return device_; }

 private:
  cuda::Event event_;
  int32_t device_;
};

}  // namespace tenon::capi
