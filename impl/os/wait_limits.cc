#include "os/wait_limits.h"

#include <algorithm>

namespace tenon::os {

Status WaitLimits::check(const char* awaited) const {
  if (wait_.cancel != nullptr && wait_.cancel->triggered())
    return Status(Code::kCancelled, format("the wait for %s was cancelled", awaited));
  if (wait_.timeout_ns == 0)
    return Status(Code::kWouldBlock, format("there is not yet %s", awaited));
  if (deadline_ns_ >= 0 && monotonic_ns() >= deadline_ns_)
    return Status(Code::kTimeout, format("the time was over before there was %s", awaited));
  return Status::ok();
}

int64_t WaitLimits::slice_ns(int64_t most_ns) const noexcept {
  int64_t slice = most_ns < 0 ? INT64_MAX : most_ns;
  if (wait_.cancel != nullptr) slice = std::min(slice, kCancelNs);
  if (deadline_ns_ >= 0)
    slice = std::min(slice, std::max<int64_t>(deadline_ns_ - monotonic_ns(), 0));
  return slice == INT64_MAX ? -1 : slice;
}

}  // namespace tenon::os
