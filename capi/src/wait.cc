#include "wait.h"

#include <memory>

#include "boundary.h"
#include "handles.h"

namespace tenon::capi {

Result<os::Wait> read_wait(const tenon_wait* wait) {
  os::Wait result;
  if (wait == nullptr) return result;
  tenon_wait given{};
  TENON_TRY(read_struct(wait, "tenon_wait", &given));
  TENON_TRY(check_flags(given.flags, TENON_WAIT_INTERRUPTIBLE, "tenon_wait"));
  TENON_TRY(check_flags(given.reserved, 0, "tenon_wait"));
  result.timeout_ns = given.timeout_ns;
  result.cancel = object(given.cancel);
  result.interruptible = (given.flags & TENON_WAIT_INTERRUPTIBLE) != 0;
  return result;
}

}  // namespace tenon::capi

using namespace tenon::capi;
using tenon::Status;

extern "C" {

tenon_status tenon_cancel_new(tenon_cancel** out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(auto cancel, tenon::os::Cancel::create());
    *out = handle<tenon_cancel>(cancel.release());
    return Status::ok();
  });
}

void tenon_cancel_trigger(tenon_cancel* cancel) noexcept {
  if (cancel != nullptr) object(cancel)->trigger();
}

void tenon_cancel_reset(tenon_cancel* cancel) noexcept {
  if (cancel != nullptr) object(cancel)->reset();
}

void tenon_cancel_release(tenon_cancel* cancel) noexcept { delete object(cancel); }
}
