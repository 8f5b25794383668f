#include "cuda/event.h"

#include <algorithm>
#include <cstring>

#include "cuda/call.h"
#include "cuda/context.h"
#include "cuda/device.h"

namespace tenon::cuda {
namespace {

CUevent raw_event(void* event) noexcept { return static_cast<CUevent>(event); }
CUstream raw_stream(Stream stream) noexcept { return static_cast<CUstream>(stream); }

Status wait(const Driver& cu, CUevent event, Stream stream) {
  TENON_CUDA(cu, cu.cuStreamWaitEvent(raw_stream(stream), event, 0),
             "letting a CUDA stream wait for an event");
  return Status::ok();
}

// The pauses between two polls. A mark is usually reached within microseconds, and for a long wait
// a millisecond does not matter.
constexpr int64_t kFirstPauseNs = 10'000;
constexpr int64_t kLongestPauseNs = 1'000'000;

Result<IpcHandle> handle_of(const Driver& cu, CUevent event) {
  CUipcEventHandle bytes{};
  TENON_CUDA(cu, cu.cuIpcGetEventHandle(&bytes, event), "the IPC handle of a CUDA event");
  IpcHandle handle{};
  std::memcpy(handle.data(), &bytes, sizeof bytes);
  return handle;
}

Result<CUevent> open_event(const Driver& cu, const IpcHandle& handle) {
  TENON_TRY(cu.has(Part::kIpc));
  CUipcEventHandle bytes{};
  std::memcpy(&bytes, handle.data(), sizeof bytes);
  CUevent event = nullptr;
  TENON_CUDA(cu, cu.cuIpcOpenEventHandle(&event, bytes),
             "opening the IPC handle of a CUDA event, which the process that made it cannot, and "
             "others can while that one has it");
  return event;
}

}  // namespace

Result<Event> Event::create(void* context, Origin reach, IpcHandle* handle) {
  TENON_ASSIGN(const Driver* const cu, driver());
  InContext scope(*cu);
  TENON_TRY(scope.enter(static_cast<CUcontext>(context)));
  // An event with timing cannot be shared with another process. With CU_EVENT_BLOCKING_SYNC the
  // host sleeps while it waits, and does not spin.
  unsigned flags = CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC;
  if (reach == Origin::kInterprocess) {
    TENON_TRY(cu->has(Part::kIpc));
    flags |= CU_EVENT_INTERPROCESS;
  }
  CUevent made = nullptr;
  TENON_CUDA(*cu, cu->cuEventCreate(&made, flags), "a new CUDA event");
  Event event(made, context, reach);
  if (handle != nullptr) {
    TENON_ASSIGN(*handle, handle_of(*cu, made));
  }
  return event;
}

Result<Event> Event::create_on(int32_t device, Origin reach) {
  TENON_ASSIGN(const Driver* const cu, driver());
  TENON_TRY(find_device(device).status());
  TENON_ASSIGN(CUcontext context, primary_context(*cu, device));
  return create(context, reach, nullptr);
}

Result<Event> Event::open(const IpcHandle& handle, int32_t device) {
  TENON_ASSIGN(const Driver* const cu, driver());
  TENON_TRY(find_device(device).status());
  TENON_ASSIGN(CUcontext context, primary_context(*cu, device));
  InContext scope(*cu);
  TENON_TRY(scope.enter(context));
  TENON_ASSIGN(CUevent event, open_event(*cu, handle));
  return Event(event, context, Origin::kReceived);
}

Status Event::record(Stream stream) {
  TENON_ASSIGN(const Driver* const cu, driver());
  InContext scope(*cu);
  TENON_TRY(scope.enter(static_cast<CUcontext>(context_)));
  TENON_CUDA(*cu, cu->cuEventRecord(raw_event(event_), raw_stream(stream)),
             "recording a CUDA event");
  return Status::ok();
}

Status Event::record_in(Stream stream, int32_t device) {
  TENON_ASSIGN(const Driver* const cu, driver());
  InContext scope(*cu);
  TENON_ASSIGN(CUcontext context, scope.enter(stream, device));
  TENON_CUDA(*cu, cu->cuEventRecord(raw_event(event_), raw_stream(stream)),
             context == context_
                 ? "recording a CUDA event"
                 : "recording a CUDA event in a stream of another context than the event's");
  return Status::ok();
}

Status Event::wait_in(Stream stream, int32_t device) const {
  TENON_ASSIGN(const Driver* const cu, driver());
  InContext scope(*cu);
  TENON_TRY(scope.enter(stream, device).status());
  return wait(*cu, raw_event(event_), stream);
}

Result<bool> Event::is_complete() const {
  TENON_ASSIGN(const Driver* const cu, driver());
  InContext scope(*cu);
  TENON_TRY(scope.enter(static_cast<CUcontext>(context_)));
  const CUresult result = cu->cuEventQuery(raw_event(event_));
  if (result == CUDA_ERROR_NOT_READY) return false;
  TENON_CUDA(*cu, result, "asking whether a CUDA event is complete");
  return true;
}

// cuEventSynchronize ends only with the event. So a wait with a time-out, a cancel or signals polls
// the event. A wait for another process's event polls too, because the driver would spin: an opened
// event has no CU_EVENT_BLOCKING_SYNC.
Status Event::synchronize(const os::Wait& wait) const {
  TENON_ASSIGN(const Driver* const cu, driver());
  os::Waiter waiter(wait);
  TENON_TRY(waiter.check_cancel());
  if (waiter.unbounded() && reach_ != Origin::kReceived) {
    InContext scope(*cu);
    TENON_TRY(scope.enter(static_cast<CUcontext>(context_)));
    TENON_CUDA(*cu, cu->cuEventSynchronize(raw_event(event_)), "waiting for a CUDA event");
    return Status::ok();
  }
  for (int64_t pause = kFirstPauseNs;; pause = std::min(2 * pause, kLongestPauseNs)) {
    TENON_ASSIGN(const bool complete, is_complete());
    if (complete) return Status::ok();
    TENON_TRY(waiter.pause(pause, "the CUDA event"));
  }
}

Result<IpcHandle> Event::ipc_handle() const {
  TENON_ASSIGN(const Driver* const cu, driver());
  if (reach_ == Origin::kReceived) {
    return Status(Code::kUnsupported,
                  "a CUDA event that came from another process cannot be lent on: only the process "
                  "that made it can");
  }
  if (reach_ != Origin::kInterprocess) {
    return Status(Code::kInvalidArgument,
                  "the CUDA event has no IPC handle: make it for other processes (interprocess)")
        .with("option", std::string("TENON_CUDA_EVENT_INTERPROCESS"));
  }
  InContext scope(*cu);
  TENON_TRY(scope.enter(static_cast<CUcontext>(context_)));
  return handle_of(*cu, raw_event(event_));
}

void Event::reset() noexcept {
  if (event_ == nullptr) return;
  end_in([&](InContext& scope) { return scope.enter(static_cast<CUcontext>(context_)); },
         [&](const Driver& cu) { (void)cu.cuEventDestroy(raw_event(event_)); });
  event_ = nullptr;
}

Status wait_for_event(const IpcHandle& handle, Stream stream, int32_t device) {
  TENON_ASSIGN(const Driver* const cu, driver());
  InContext scope(*cu);
  TENON_TRY(scope.enter(stream, device).status());
  TENON_ASSIGN(CUevent event, open_event(*cu, handle));
  Status status = wait(*cu, event, stream);
  // The stream keeps the event until it has waited for it.
  (void)cu->cuEventDestroy(event);
  return status;
}

Result<void*> find_context(Stream stream, int32_t device) {
  TENON_ASSIGN(const Driver* const cu, driver());
  CUcontext current = nullptr;
  TENON_CUDA(*cu, cu->cuCtxGetCurrent(&current), "the current CUDA context");
  TENON_ASSIGN(CUcontext context, context_of(*cu, stream, device, current));
  return static_cast<void*>(context);
}

Status synchronize(Stream stream, int32_t device) {
  TENON_ASSIGN(const Driver* const cu, driver());
  InContext scope(*cu);
  TENON_TRY(scope.enter(stream, device).status());
  TENON_CUDA(*cu, cu->cuStreamSynchronize(raw_stream(stream)), "waiting for a CUDA stream");
  return Status::ok();
}

}  // namespace tenon::cuda
