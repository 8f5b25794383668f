// Events. An event has two counters in the shared world: how many records were requested, and how
// many are complete. So an event can order the work of several processes.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>
#include <unordered_map>

#include "event.h"
#include "stream.h"

namespace fake_cuda {
namespace {

std::unordered_map<const void*, std::shared_ptr<Event>>& event_handles() {
  static auto* const once = new std::unordered_map<const void*, std::shared_ptr<Event>>;
  return *once;
}

CUresult look_up_event(CUevent handle, std::shared_ptr<Event>* out) {
  const std::lock_guard<std::mutex> guard(process().mutex);
  const auto found = event_handles().find(handle);
  if (found == event_handles().end()) return CUDA_ERROR_INVALID_HANDLE;
  *out = found->second;
  return CUDA_SUCCESS;
}

// "Performing operations on the imported event after the exported event has been freed with
// cuEventDestroy will result in undefined behavior."
void check_alive(const Event& event) {
  if (event.shared().freed == 0) return;
  record_fault(FAKE_CUDA_EVENT_USED_AFTER_DESTROY, "event " + std::to_string(event.shared().id));
}

void come_true(Object& object, uint64_t number) {
  uint64_t before = object.completed;
  while (before < number && !object.completed.compare_exchange_weak(before, number)) {
  }
  object.completed_ns = now_ns();
  ++object.wake;
  syscall(SYS_futex, &object.wake, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// The process that recorded may be killed before its record completes. The waiter notices that.
void wait_for(Object& object, uint64_t number) {
  while (object.completed < number) {
    const uint32_t seen = object.wake;
    if (object.completed >= number) return;
    const timespec slice = {0, 20000000};
    syscall(SYS_futex, &object.wake, FUTEX_WAIT, seen, &slice, nullptr, 0);
    if (object.completed < number && !world().alive(object.recorder)) come_true(object, number);
  }
}

CUresult record(bool per_thread, CUevent handle, CUstream stream_handle) {
  std::shared_ptr<Event> event;
  FAKE_CUDA_TRY(look_up_event(handle, &event));
  std::shared_ptr<Stream> stream;
  FAKE_CUDA_TRY(find_stream(stream_handle, per_thread, &stream));
  // "hEvent and hStream must be from the same context otherwise CUDA_ERROR_INVALID_HANDLE is
  // returned."
  if (event->context != stream->context) return CUDA_ERROR_INVALID_HANDLE;
  check_alive(*event);
  Object& object = event->shared();
  object.recorder = world().self.load();
  const uint64_t number = ++object.recorded;
  event->recorded = true;
  stream->submit([event, number] { come_true(event->shared(), number); }, Stream::When::at_its_end);
  return CUDA_SUCCESS;
}

CUresult record_with_flags(bool per_thread, CUevent handle, CUstream stream_handle,
                           unsigned flags) {
  // CU_EVENT_RECORD_EXTERNAL: "This flag is invalid outside of stream capture."
  if (flags != CU_EVENT_RECORD_DEFAULT) return CUDA_ERROR_INVALID_VALUE;
  return record(per_thread, handle, stream_handle);
}

CUresult wait_event(bool per_thread, CUstream stream_handle, CUevent handle, unsigned flags) {
  std::shared_ptr<Event> event;
  if (flags > CU_EVENT_WAIT_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  FAKE_CUDA_TRY(look_up_event(handle, &event));
  std::shared_ptr<Stream> stream;
  FAKE_CUDA_TRY(find_stream(stream_handle, per_thread, &stream));
  check_alive(*event);
  // cuEventRecord: "use the most recently captured state at the time of the API call, and are not
  // affected by later calls"
  const uint64_t number = event->shared().recorded;
  const bool come = event->shared().completed >= number;
  stream->submit([event, number] { wait_for(event->shared(), number); },
                 come ? Stream::When::at_once : Stream::When::queued);
  return CUDA_SUCCESS;
}

CUresult elapsed(float* milliseconds, CUevent start_handle, CUevent end_handle) {
  std::shared_ptr<Event> start;
  std::shared_ptr<Event> end;
  FAKE_CUDA_TRY(look_up_event(start_handle, &start));
  FAKE_CUDA_TRY(look_up_event(end_handle, &end));
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& event : {start, end}) {
    // "If either event was created with the CU_EVENT_DISABLE_TIMING flag, then this function will
    // return CUDA_ERROR_INVALID_HANDLE."
    if ((event->flags & CU_EVENT_DISABLE_TIMING) != 0 || !event->recorded)
      return CUDA_ERROR_INVALID_HANDLE;
    if (event->shared().completed < event->shared().recorded) return CUDA_ERROR_NOT_READY;
  }
  const auto from = static_cast<int64_t>(start->shared().completed_ns.load());
  const auto to = static_cast<int64_t>(end->shared().completed_ns.load());
  *milliseconds = static_cast<float>(to - from) / 1e6F;
  return CUDA_SUCCESS;
}

}  // namespace

Event::~Event() {
  if (gone) return;
  World::Lock lock(world());
  if (import == kNoObject && shared().references > 0) shared().freed = 1;
  world().release(import == kNoObject ? object : import);
}

std::shared_ptr<Event> find_event(CUevent handle) {
  std::shared_ptr<Event> event;
  look_up_event(handle, &event);
  return event;
}

CUevent keep_event(std::shared_ptr<Event> event) {
  const std::lock_guard<std::mutex> guard(process().mutex);
  const void* handle = event.get();
  event_handles()[handle] = std::move(event);
  return reinterpret_cast<CUevent>(const_cast<void*>(handle));
}

}  // namespace fake_cuda

using namespace fake_cuda;

FAKE_CUDA_EXPORT CUresult cuEventCreate(CUevent* out, unsigned int flags) {
  FAKE_CUDA_ENTER(cuEventCreate)
  Context* context = nullptr;
  FAKE_CUDA_TRY(need_context(&context));
  constexpr unsigned kKnown =
      CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  if (out == nullptr || (flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  const bool interprocess = (flags & CU_EVENT_INTERPROCESS) != 0;
  // "CU_EVENT_INTERPROCESS must be specified along with CU_EVENT_DISABLE_TIMING."
  if (interprocess && (flags & CU_EVENT_DISABLE_TIMING) == 0) return CUDA_ERROR_INVALID_VALUE;
  if (interprocess && !config().ipc) return CUDA_ERROR_NOT_SUPPORTED;
  auto event = std::make_shared<Event>();
  event->context = context;
  event->flags = flags;
  {
    World::Lock lock(world());
    if (interprocess && config().max_ipc_events != 0) {
      uint64_t mine = 0;
      const uint32_t used = world().file().objects_used;
      for (uint32_t i = 1; i < used; ++i) {
        const Object& other = world().at(i);
        if (other.kind == FAKE_CUDA_EVENT && other.process == world().self &&
            other.handle_types != 0)
          ++mine;
      }
      if (mine >= config().max_ipc_events) return CUDA_ERROR_OUT_OF_MEMORY;
    }
    event->object = world().create(FAKE_CUDA_EVENT, context->physical, 0);
    Object& object = world().at(event->object);
    object.handle_types = interprocess ? 1 : 0;
    object.context = context->id;
    object.address = reinterpret_cast<uint64_t>(event.get());
  }
  *out = keep_event(event);
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuEventDestroy_v2(CUevent handle) {
  FAKE_CUDA_ENTER(cuEventDestroy_v2)
  std::shared_ptr<Event> event;
  {
    const std::lock_guard<std::mutex> guard(process().mutex);
    const auto found = event_handles().find(handle);
    if (found == event_handles().end()) return CUDA_ERROR_INVALID_HANDLE;
    event = std::move(found->second);
    event_handles().erase(found);
  }
  if (event->import == kNoObject) {
    World::Lock lock(world());
    if (event->shared().references > 0) event->shared().freed = 1;
  }
  // "An event may be destroyed before it is complete": queued work keeps it until then. A caller
  // that saw the event complete also sees it freed.
  Stream::settle();
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuEventQuery(CUevent handle) {
  FAKE_CUDA_ENTER(cuEventQuery)
  std::shared_ptr<Event> event;
  FAKE_CUDA_TRY(look_up_event(handle, &event));
  check_alive(*event);
  Object& object = event->shared();
  // Before the first record an event "represents an empty set of work, so for example
  // cuEventQuery() would return CUDA_SUCCESS".
  const uint64_t number = object.recorded;
  if (object.completed < number && !world().alive(object.recorder)) come_true(object, number);
  return object.completed >= number ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

FAKE_CUDA_EXPORT CUresult cuEventSynchronize(CUevent handle) {
  FAKE_CUDA_ENTER(cuEventSynchronize)
  std::shared_ptr<Event> event;
  FAKE_CUDA_TRY(look_up_event(handle, &event));
  check_alive(*event);
  wait_for(event->shared(), event->shared().recorded);
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  FAKE_CUDA_ENTER(cuEventElapsedTime)
  return elapsed(milliseconds, start, end);
}

FAKE_CUDA_EXPORT CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
  FAKE_CUDA_ENTER(cuEventElapsedTime_v2)
  return elapsed(milliseconds, start, end);
}

FAKE_CUDA_BOTH(cuEventRecord, _ptsz, (CUevent event, CUstream stream), record, event, stream)
FAKE_CUDA_BOTH(cuEventRecordWithFlags, _ptsz, (CUevent event, CUstream stream, unsigned int flags),
               record_with_flags, event, stream, flags)
FAKE_CUDA_BOTH(cuStreamWaitEvent, _ptsz, (CUstream stream, CUevent event, unsigned int flags),
               wait_event, stream, event, flags)
