#include "share/cuda_events.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "base/immortal.h"
#include "base/room.h"

namespace tenon::share {
namespace {

// Those that wait to be used again. A child of fork never comes by here.
struct Idle {
  cuda::Event event;
  cuda::IpcHandle handle;
};
struct Pool {
  std::mutex mutex;
  std::vector<Idle> idle;
  uint32_t made = 0;
};
Pool& pool() noexcept { return immortal<Pool>(); }

// False: none, and *may_make unless there are as many as there may be. There is room for each that
// was made: it comes back in a destructor.
bool take_idle(void* context, Idle* out, bool* may_make) {
  Pool& all = pool();
  const std::lock_guard<std::mutex> lock(all.mutex);
  // From the end: with one context, which is the rule, the first that is looked at.
  const auto found = std::find_if(all.idle.rbegin(), all.idle.rend(), [&](const Idle& each) {
    return each.event.context() == context;
  });
  if (found != all.idle.rend()) {
    std::swap(*found, all.idle.back());
    *out = std::move(all.idle.back());
    all.idle.pop_back();
    return true;
  }
  *may_make = all.made < kCudaEvents;
  if (!*may_make) return false;
  make_room(&all.idle, all.made + 1 - all.idle.size());
  ++all.made;
  return false;
}

// An event that was made, or is about to be: unless it is kept it is none of them any more.
class Made {
 public:
  Made() noexcept = default;
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;
  ~Made() {
    if (is_kept_) return;
    const std::lock_guard<std::mutex> lock(pool().mutex);
    --pool().made;
  }
  void keep() noexcept { is_kept_ = true; }

 private:
  bool is_kept_ = false;
};

}  // namespace

CudaEvent::~CudaEvent() {
  if (!event_) return;
  Pool& all = pool();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.idle.push_back({std::move(event_), handle_});
}

Result<CudaEvent> CudaEvent::record(cuda::Stream stream, int32_t device) {
  TENON_ASSIGN(void* const context, cuda::find_context(stream, device));
  for (;;) {
    Idle idle;
    bool may_make = false;
    const bool is_new = !take_idle(context, &idle, &may_make);
    if (is_new && !may_make) return CudaEvent();
    Made made_one;
    if (is_new) {
      Result<cuda::Event> made =
          cuda::Event::create(context, cuda::Event::Reach::kInterprocess, &idle.handle);
      // The driver's own bound is lower than ours, or this device has no such events: the stream is
      // waited for, and says what is wrong if something else is.
      if (!made.is_ok()) return CudaEvent();
      idle.event = std::move(made).value();
    }
    Status status = idle.event.record(stream);
    if (status.is_ok()) {
      made_one.keep();
      return CudaEvent(std::move(idle.event), idle.handle);
    }
    // It is not kept for others: one that lay there can be of a context that is gone, and whose
    // place another one has.
    if (is_new) return status;
  }
}

}  // namespace tenon::share
