// tenon/cuda_pinned.h: pins shared host memory for a device (impl/device/pinned.h).
#include <tenon/cuda_pinned.h>

#include "boundary.h"
#include "device/pinned.h"
#include "handles.h"

using namespace tenon::capi;
using tenon::Status;
namespace device = tenon::device;

extern "C" {

tenon_status tenon_storage_pin(tenon_storage* storage, int32_t device, void** out,
                               tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(storage != nullptr, "storage is NULL"));
    TENON_TRY(check_argument(device >= 0, "the device is negative"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(*out, device::pin_cuda(*object(storage), device));
    return Status::ok();
  });
}

int tenon_storage_is_pinned(const tenon_storage* storage) noexcept {
  return storage != nullptr && device::is_pinned_cuda(*object(storage)) ? 1 : 0;
}
}
