// tenon/cuda_event.h: events of CUDA that processes share (impl/cuda/event.h).
#include <tenon/cuda_event.h>

#include <cstring>

#include "boundary.h"
#include "handles.h"
#include "wait.h"

namespace tenon::capi {
namespace {

Result<tenon_cuda_event_options> read_event_options(const tenon_cuda_event_options* options) {
  tenon_cuda_event_options given{};
  TENON_TRY(read_struct(options, "tenon_cuda_event_options", &given));
  TENON_TRY(check_flags(given.flags, TENON_CUDA_EVENT_INTERPROCESS, "tenon_cuda_event_options"));
  TENON_TRY(check_argument(given.device >= 0, "the device is negative"));
  return given;
}

Status publish(cuda::Event event, int32_t device, tenon_cuda_event** out) {
  *out = handle<tenon_cuda_event>(new CudaEvent(std::move(event), device));
  return Status::ok();
}

}  // namespace
}  // namespace tenon::capi

using namespace tenon::capi;
using tenon::Status;
using tenon::cuda::Event;
using tenon::cuda::IpcHandle;

extern "C" {

tenon_status tenon_cuda_event_new(const tenon_cuda_event_options* options, tenon_cuda_event** out,
                                  tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(const tenon_cuda_event_options wanted, read_event_options(options));
    const bool interprocess = (wanted.flags & TENON_CUDA_EVENT_INTERPROCESS) != 0;
    TENON_ASSIGN(Event event,
                 Event::create_on(wanted.device, interprocess ? Event::Origin::kInterprocess
                                                              : Event::Origin::kThisProcess));
    return publish(std::move(event), wanted.device, out);
  });
}

tenon_status tenon_cuda_event_from_ipc_handle(const uint8_t handle[64],
                                              const tenon_cuda_event_options* options,
                                              tenon_cuda_event** out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(handle != nullptr, "handle is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(const tenon_cuda_event_options wanted, read_event_options(options));
    TENON_TRY(check_argument(
        wanted.flags == 0,
        "INTERPROCESS is for an event that is made: one that is opened cannot be lent on"));
    IpcHandle bytes{};
    std::memcpy(bytes.data(), handle, bytes.size());
    TENON_ASSIGN(Event event, Event::open(bytes, wanted.device));
    return publish(std::move(event), wanted.device, out);
  });
}

tenon_cuda_event* tenon_cuda_event_retain(tenon_cuda_event* event) noexcept {
  if (event != nullptr) object(event)->retain();
  return event;
}

void tenon_cuda_event_release(tenon_cuda_event* event) noexcept {
  if (event != nullptr) object(event)->release();
}

tenon_status tenon_cuda_event_record(tenon_cuda_event* event, void* stream,
                                     tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(event != nullptr, "event is NULL"));
    return object(event)->event().record_in(stream, object(event)->device());
  });
}

tenon_status tenon_cuda_event_wait(const tenon_cuda_event* event, void* stream,
                                   tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(event != nullptr, "event is NULL"));
    return object(event)->event().wait_in(stream, object(event)->device());
  });
}

tenon_status tenon_cuda_event_query(const tenon_cuda_event* event, int* out,
                                    tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(event != nullptr, "event is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(const bool complete, object(event)->event().is_complete());
    *out = complete ? 1 : 0;
    return Status::ok();
  });
}

tenon_status tenon_cuda_event_synchronize(const tenon_cuda_event* event, const tenon_wait* wait,
                                          tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(event != nullptr, "event is NULL"));
    TENON_ASSIGN(const tenon::os::Wait how, read_wait(wait));
    return object(event)->event().synchronize(how);
  });
}

tenon_status tenon_cuda_event_ipc_handle(const tenon_cuda_event* event, uint8_t out[64],
                                         tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(event != nullptr, "event is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(const IpcHandle bytes, object(event)->event().ipc_handle());
    std::memcpy(out, bytes.data(), bytes.size());
    return Status::ok();
  });
}
}
