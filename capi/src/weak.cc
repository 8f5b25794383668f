// tenon/weak.h: weak references to storages.
#include <tenon/weak.h>

#include "boundary.h"
#include "handles.h"

using namespace tenon::capi;
using tenon::Status;

extern "C" {

tenon_status tenon_weak_ref(tenon_storage* storage, tenon_weak** out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(storage != nullptr, "storage is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    object(storage)->weak_retain();
    *out = handle<tenon_weak>(object(storage));
    return Status::ok();
  });
}

tenon_weak* tenon_weak_retain(tenon_weak* weak) noexcept {
  if (weak != nullptr) object(weak)->weak_retain();
  return weak;
}

tenon_storage* tenon_weak_lock(const tenon_weak* weak) noexcept {
  if (weak == nullptr || !object(weak)->try_retain()) return nullptr;
  return handle<tenon_storage>(object(const_cast<tenon_weak*>(weak)));
}

int tenon_weak_expired(const tenon_weak* weak) noexcept {
  return weak == nullptr || object(weak)->expired() ? 1 : 0;
}

uint64_t tenon_weak_id(const tenon_weak* weak) noexcept {
  return weak == nullptr ? 0 : object(weak)->id();
}

void tenon_weak_release(tenon_weak* weak) noexcept {
  if (weak != nullptr) object(weak)->weak_release();
}
}
