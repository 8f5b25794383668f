#include "cuda/event.h"

#include <cstring>

#include "cuda/call.h"
#include "cuda/context.h"

namespace tenon::cuda {
namespace {

CUevent raw(void* event) noexcept { return static_cast<CUevent>(event); }
CUstream raw_stream(Stream stream) noexcept { return static_cast<CUstream>(stream); }

Status wait(const Driver& cu, CUevent event, Stream stream) {
  TENON_CUDA(cu, cu.cuStreamWaitEvent(raw_stream(stream), event, 0), "letting a CUDA stream wait for an event");
  return Status::ok();
}

}  // namespace

Result<Event> Event::create(void* context, Reach reach, IpcHandle* handle) {
  TENON_ASSIGN(const Driver* const cu, driver());
  InContext scope(*cu);
  TENON_TRY(scope.enter(static_cast<CUcontext>(context)));
  // An event with times cannot leave the process; one that blocks does not burn a processor while the host waits.
  unsigned flags = CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC;
  if (reach == Reach::kInterprocess) {
    TENON_TRY(cu->has(Part::kIpc));
    flags |= CU_EVENT_INTERPROCESS;
  }
  CUevent made = nullptr;
  TENON_CUDA(*cu, cu->cuEventCreate(&made, flags), "a new CUDA event");
  Event event(made, context);
  if (handle != nullptr) {
    CUipcEventHandle bytes{};
    TENON_CUDA(*cu, cu->cuIpcGetEventHandle(&bytes, made), "the IPC handle of a CUDA event");
    std::memcpy(handle->data(), &bytes, sizeof bytes);
  }
  return event;
}

Status Event::record(Stream stream) {
  TENON_ASSIGN(const Driver* const cu, driver());
  InContext scope(*cu);
  TENON_TRY(scope.enter(static_cast<CUcontext>(context_)));
  TENON_CUDA(*cu, cu->cuEventRecord(raw(event_), raw_stream(stream)), "recording a CUDA event");
  return Status::ok();
}

Status Event::wait_in(Stream stream, int32_t device) const {
  TENON_ASSIGN(const Driver* const cu, driver());
  InContext scope(*cu);
  TENON_TRY(scope.enter(stream, device).status());
  return wait(*cu, raw(event_), stream);
}

Result<bool> Event::is_complete() const {
  TENON_ASSIGN(const Driver* const cu, driver());
  InContext scope(*cu);
  TENON_TRY(scope.enter(static_cast<CUcontext>(context_)));
  const CUresult result = cu->cuEventQuery(raw(event_));
  if (result == CUDA_ERROR_NOT_READY) return false;
  TENON_CUDA(*cu, result, "asking whether a CUDA event is complete");
  return true;
}

Status Event::synchronize() const {
  TENON_ASSIGN(const Driver* const cu, driver());
  InContext scope(*cu);
  TENON_TRY(scope.enter(static_cast<CUcontext>(context_)));
  TENON_CUDA(*cu, cu->cuEventSynchronize(raw(event_)), "waiting for a CUDA event");
  return Status::ok();
}

void Event::reset() noexcept {
  if (event_ == nullptr) return;
  // A child of fork has its parent's event, and no driver.
  if (Result<const Driver*> found = driver(); found.is_ok()) {
    const Driver& cu = *found.value();
    InContext scope(cu);
    if (scope.enter(static_cast<CUcontext>(context_)).is_ok()) (void)cu.cuEventDestroy(raw(event_));
  }
  event_ = nullptr;
}

Status wait_for_event(const IpcHandle& handle, Stream stream, int32_t device) {
  TENON_ASSIGN(const Driver* const cu, driver());
  TENON_TRY(cu->has(Part::kIpc));
  InContext scope(*cu);
  TENON_TRY(scope.enter(stream, device).status());
  CUipcEventHandle bytes{};
  std::memcpy(&bytes, handle.data(), sizeof bytes);
  CUevent event = nullptr;
  TENON_CUDA(*cu, cu->cuIpcOpenEventHandle(&event, bytes), "opening the IPC handle of a CUDA event");
  Status status = wait(*cu, event, stream);
  // The stream keeps what it waits for.
  (void)cu->cuEventDestroy(event);
  return status;
}

Result<void*> find_context(Stream stream, int32_t device) {
  TENON_ASSIGN(const Driver* const cu, driver());
  InContext scope(*cu);
  TENON_ASSIGN(CUcontext context, scope.enter(stream, device));
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
