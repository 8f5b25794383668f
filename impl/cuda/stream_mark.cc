#include "cuda/stream_mark.h"

#include <utility>

#include "cuda/call.h"
#include "cuda/context.h"
#include "cuda/driver.h"
#include "cuda/error.h"

namespace tenon::cuda {
namespace {

// Lets this thread call the driver while other threads capture a graph. During a capture in the
// global mode, which is the default, the driver refuses possibly unsafe calls of every thread, and
// such a call spoils the capture. The calls of this file touch nothing that is captured.
class WhileOthersCapture {
 public:
  explicit WhileOthersCapture(const Driver& cu) noexcept : cu_(cu) {
    (void)cu_.cuThreadExchangeStreamCaptureMode(&mode_);
  }
  WhileOthersCapture(const WhileOthersCapture&) = delete;
  WhileOthersCapture& operator=(const WhileOthersCapture&) = delete;
  ~WhileOthersCapture() { (void)cu_.cuThreadExchangeStreamCaptureMode(&mode_); }

 private:
  const Driver& cu_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace

StreamMark::StreamMark(Stream stream, int32_t device) noexcept : stream_(stream), device_(device) {
  if (!is_default(stream)) return;
  stream_ = CU_STREAM_LEGACY;
  try {
    if (Result<void*> context = find_context(stream, device); context.is_ok())
      context_ = context.value();
  } catch (...) {
    // There was no memory for an error message. The context is looked up when the mark is set.
  }
}

Result<void*> StreamMark::context() const {
  return context_ != nullptr ? Result<void*>(context_) : find_context(stream_, device_);
}

Status StreamMark::make_event(Event* out) const {
  TENON_ASSIGN(void* const of_stream, context());
  TENON_ASSIGN(Event event, Event::create(of_stream, Event::Origin::kThisProcess, nullptr));
  TENON_TRY(event.record(stream_));
  *out = std::move(event);
  return Status::ok();
}

Status StreamMark::wait_here() const {
  TENON_ASSIGN(const Driver* const cu, driver());
  TENON_ASSIGN(void* const of_stream, context());
  InContext scope(*cu);
  TENON_TRY(scope.enter(static_cast<CUcontext>(of_stream)));
  TENON_CUDA(*cu, cu->cuStreamSynchronize(static_cast<CUstream>(stream_)),
             "waiting for a CUDA stream");
  return Status::ok();
}

void StreamMark::set() noexcept {
  Result<const Driver*> cu = driver();
  if (!cu.is_ok()) return;
  const WhileOthersCapture scope(*cu.value());
  try {
    const Status status = make_event(&event_);
    if (status.is_ok()) {
      state_ = State::kSet;
    } else if (ends_work(result_of(status))) {
      state_ = State::kPassed;
    } else if (status.code() == Code::kResourceExhausted && wait_here().is_ok()) {
      state_ = State::kPassed;
    }
  } catch (...) {
    // There was no memory for an error message. The next call tries again.
  }
}

bool StreamMark::has_passed() noexcept {
  if (state_ == State::kUnset) set();
  if (state_ != State::kSet) return state_ == State::kPassed;
  Result<const Driver*> cu = driver();
  if (!cu.is_ok()) return false;
  const WhileOthersCapture scope(*cu.value());
  try {
    Result<bool> complete = event_.is_complete();
    if (complete.is_ok()) return complete.value();
    const CUresult result = result_of(complete.status());
    if (ends_work(result)) return true;
    // The stream itself was being captured, so the event became part of a graph and tells nothing.
    if (result == CUDA_ERROR_CAPTURED_EVENT) {
      event_ = Event();
      state_ = State::kUnset;
    }
  } catch (...) {
    // There was no memory for an error message, as in set().
  }
  return false;
}

Status StreamMark::let_wait(Stream stream, int32_t device) const {
  // CU_STREAM_PER_THREAD is one name for a stream of each thread, so equal marks need not mean one
  // stream.
  if (stream != CU_STREAM_PER_THREAD && is_of(StreamMark(stream, device))) return Status::ok();
  Event event;
  TENON_TRY(make_event(&event));
  return event.wait_in(stream, device);
}

}  // namespace tenon::cuda
