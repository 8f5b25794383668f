#include "stream.h"

#include <unistd.h>

#include <condition_variable>
#include <thread>
#include <unordered_map>

namespace fake_cuda {
namespace {

// One mutex guards all streams of the process, because most waits are for another stream.
std::mutex& mutex() {
  static std::mutex* const once = new std::mutex;
  return *once;
}
std::condition_variable& progress() {
  static auto* const once = new std::condition_variable;
  return *once;
}
std::unordered_map<const void*, std::shared_ptr<Stream>>& stream_handles() {
  static auto* const once = new std::unordered_map<const void*, std::shared_ptr<Stream>>;
  return *once;
}

// The per-thread default stream of each context that this thread has used.
thread_local std::unordered_map<uint64_t, std::shared_ptr<Stream>> per_thread_streams;

}  // namespace

std::shared_ptr<Stream> make_stream(Context& context, Stream::Role role, unsigned flags) {
  auto stream = std::make_shared<Stream>();
  stream->context = &context;
  stream->role = role;
  stream->flags = flags;
  {
    World::Lock lock(world());
    if (role == Stream::Role::created) {
      stream->object = world().create(FAKE_CUDA_STREAM, context.physical, 0, kNoObject);
      Object& object = world().at(stream->object);
      object.address = reinterpret_cast<uint64_t>(stream.get());
      stream->id = object.id;
    } else {
      stream->id = world().file().next_id++;
    }
  }
  const std::lock_guard<std::mutex> guard(mutex());
  if (role != Stream::Role::legacy) context.streams.push_back(stream);
  if (role == Stream::Role::created) stream_handles()[stream.get()] = stream;
  return stream;
}

CUresult find_stream(CUstream handle, bool per_thread, std::shared_ptr<Stream>* out) {
  const bool by_default = handle == nullptr;
  if (!by_default && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD) {
    const std::lock_guard<std::mutex> guard(mutex());
    const auto found = stream_handles().find(handle);
    if (found == stream_handles().end()) return CUDA_ERROR_INVALID_HANDLE;
    *out = found->second;
    return CUDA_SUCCESS;
  }
  Context* context = nullptr;
  FAKE_CUDA_TRY(need_context(&context));
  if (handle == CU_STREAM_LEGACY || (by_default && !per_thread)) {
    *out = context->legacy;
    return CUDA_SUCCESS;
  }
  std::shared_ptr<Stream>& mine = per_thread_streams[context->id];
  if (mine == nullptr) mine = make_stream(*context, Stream::Role::per_thread, 0);
  *out = mine;
  return CUDA_SUCCESS;
}

// The caller holds the mutex. The legacy stream waits for all work in blocking streams, and they
// wait for its work.
Stream::After Stream::what_is_before() {
  After after;
  if (role == Role::legacy) {
    for (const std::weak_ptr<Stream>& weak : context->streams) {
      const std::shared_ptr<Stream> other = weak.lock();
      if (other != nullptr && other->blocking() && other->completed_ < other->submitted_)
        after.emplace_back(other, other->submitted_);
    }
  } else if (blocking() && context->legacy->completed_ < context->legacy->submitted_) {
    after.emplace_back(context->legacy, context->legacy->submitted_);
  }
  return after;
}

bool Stream::reached(const After& after) {
  for (const auto& [stream, number] : after) {
    if (stream->completed_ < number) return false;
  }
  return true;
}

uint64_t Stream::submit(std::function<void()> run, When when) {
  std::unique_lock<std::mutex> lock(mutex());
  After after = what_is_before();
  const bool at_once = when != When::queued && config().stream_latency_us == 0 &&
                       completed_ == submitted_ && reached(after);
  const uint64_t number = ++submitted_;
  if (at_once) {
    lock.unlock();
    if (when == When::at_once) run();
    finished(when == When::at_its_end ? std::move(run) : nullptr);
    return number;
  }
  queue_.push_back({std::move(run), std::move(after), number, when});
  if (!thread_) {
    thread_ = true;
    std::thread([self = shared_from_this()] { self->loop(); }).detach();
  }
  progress().notify_all();
  return number;
}

void Stream::loop() {
  std::unique_lock<std::mutex> lock(mutex());
  for (;;) {
    progress().wait(lock, [this] { return closed_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::function<void()> at_its_end;
    {
      Work work = std::move(queue_.front());
      queue_.pop_front();
      progress().wait(lock, [&] { return completed_ + 1 == work.number && reached(work.after); });
      lock.unlock();
      if (config().stream_latency_us != 0)
        usleep(static_cast<useconds_t>(config().stream_latency_us));
      if (work.when == When::at_its_end) {
        at_its_end = std::move(work.run);
      } else {
        work.run();
      }
    }
    finished(std::move(at_its_end));
    lock.lock();
  }
}

void Stream::finished(std::function<void()> at_its_end) {
  const std::lock_guard<std::mutex> guard(mutex());
  ++completed_;
  if (at_its_end) at_its_end();
  at_its_end = nullptr;
  progress().notify_all();
}

uint64_t Stream::submitted() {
  const std::lock_guard<std::mutex> guard(mutex());
  return submitted_;
}

bool Stream::done(uint64_t number) {
  const std::lock_guard<std::mutex> guard(mutex());
  return completed_ >= number && (role != Role::legacy || reached(what_is_before()));
}

void Stream::wait(uint64_t number) {
  std::unique_lock<std::mutex> lock(mutex());
  progress().wait(lock, [&] { return completed_ >= number; });
}

void Stream::settle() { const std::lock_guard<std::mutex> guard(mutex()); }

void Stream::close() {
  const std::lock_guard<std::mutex> guard(mutex());
  closed_ = true;
  stream_handles().erase(this);
  progress().notify_all();
}

void synchronise(Context& context) {
  std::vector<std::pair<std::shared_ptr<Stream>, uint64_t>> all;
  {
    const std::lock_guard<std::mutex> guard(mutex());
    for (const std::weak_ptr<Stream>& weak : context.streams) {
      if (const std::shared_ptr<Stream> stream = weak.lock(); stream != nullptr)
        all.emplace_back(stream, 0);
    }
    all.emplace_back(context.legacy, 0);
  }
  for (auto& [stream, number] : all) number = stream->submitted();
  for (const auto& [stream, number] : all) stream->wait(number);
}

namespace {

CUresult create(CUstream* out, unsigned flags) {
  Context* context = nullptr;
  FAKE_CUDA_TRY(need_context(&context));
  if (out == nullptr || (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUstream>(make_stream(*context, Stream::Role::created, flags).get());
  return CUDA_SUCCESS;
}

CUresult synchronise_stream(bool per_thread, CUstream handle) {
  std::shared_ptr<Stream> stream;
  FAKE_CUDA_TRY(find_stream(handle, per_thread, &stream));
  // For the legacy stream this submits an operation, so that the wait also covers the work in
  // blocking streams.
  stream->wait(stream->role == Stream::Role::legacy ? stream->submit([] {}) : stream->submitted());
  return CUDA_SUCCESS;
}

CUresult query(bool per_thread, CUstream handle) {
  std::shared_ptr<Stream> stream;
  FAKE_CUDA_TRY(find_stream(handle, per_thread, &stream));
  return stream->done(stream->submitted()) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult get_context(bool per_thread, CUstream handle, CUcontext* out) {
  std::shared_ptr<Stream> stream;
  FAKE_CUDA_TRY(find_stream(handle, per_thread, &stream));
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = stream->context->handle();
  return CUDA_SUCCESS;
}

// The fake has no green contexts.
CUresult get_contexts(bool per_thread, CUstream handle, CUcontext* out, CUgreenCtx* green) {
  if (green != nullptr) *green = nullptr;
  return get_context(per_thread, handle, out);
}

CUresult get_flags(bool per_thread, CUstream handle, unsigned* out) {
  std::shared_ptr<Stream> stream;
  FAKE_CUDA_TRY(find_stream(handle, per_thread, &stream));
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = stream->flags;
  return CUDA_SUCCESS;
}

CUresult get_id(bool per_thread, CUstream handle, unsigned long long* out) {
  std::shared_ptr<Stream> stream;
  FAKE_CUDA_TRY(find_stream(handle, per_thread, &stream));
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = stream->id;
  return CUDA_SUCCESS;
}

CUresult launch_host(bool per_thread, CUstream handle, CUhostFn function, void* data) {
  std::shared_ptr<Stream> stream;
  FAKE_CUDA_TRY(find_stream(handle, per_thread, &stream));
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  stream->submit([function, data] { function(data); }, Stream::When::queued);
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace fake_cuda

using namespace fake_cuda;

FAKE_CUDA_EXPORT CUresult cuStreamCreate(CUstream* out, unsigned int flags) {
  FAKE_CUDA_ENTER(cuStreamCreate)
  return create(out, flags);
}

FAKE_CUDA_EXPORT CUresult cuStreamCreateWithPriority(CUstream* out, unsigned int flags, int) {
  FAKE_CUDA_ENTER(cuStreamCreateWithPriority)
  return create(out, flags);
}

FAKE_CUDA_EXPORT CUresult cuStreamDestroy_v2(CUstream handle) {
  FAKE_CUDA_ENTER(cuStreamDestroy_v2)
  // A default stream cannot be destroyed.
  if (handle == nullptr || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
    return CUDA_ERROR_INVALID_HANDLE;
  std::shared_ptr<Stream> stream;
  FAKE_CUDA_TRY(find_stream(handle, false, &stream));
  // "the function will return immediately and the resources associated with hStream will be
  // released automatically once the device has completed all work in hStream"
  stream->close();
  World::Lock lock(world());
  world().release(stream->object);
  return CUDA_SUCCESS;
}

FAKE_CUDA_BOTH(cuStreamSynchronize, _ptsz, (CUstream handle), synchronise_stream, handle)
FAKE_CUDA_BOTH(cuStreamQuery, _ptsz, (CUstream handle), query, handle)
FAKE_CUDA_BOTH(cuStreamGetCtx, _ptsz, (CUstream handle, CUcontext* out), get_context, handle, out)
FAKE_CUDA_BOTH(cuStreamGetCtx_v2, _ptsz, (CUstream handle, CUcontext* out, CUgreenCtx* green),
               get_contexts, handle, out, green)
FAKE_CUDA_BOTH(cuStreamGetFlags, _ptsz, (CUstream handle, unsigned int* out), get_flags, handle,
               out)
FAKE_CUDA_BOTH(cuStreamGetId, _ptsz, (CUstream handle, unsigned long long* out), get_id, handle,
               out)
FAKE_CUDA_BOTH(cuLaunchHostFunc, _ptsz, (CUstream handle, CUhostFn function, void* data),
               launch_host, handle, function, data)

// "Sets the calling thread's stream capture interaction mode to the value contained in *mode".
// Nothing is captured here, so no call is refused.
FAKE_CUDA_EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  FAKE_CUDA_ENTER(cuThreadExchangeStreamCaptureMode)
  thread_local CUstreamCaptureMode current = CU_STREAM_CAPTURE_MODE_GLOBAL;
  if (mode == nullptr || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL ||
      *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, current);
  return CUDA_SUCCESS;
}
