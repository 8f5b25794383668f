#include "device/events.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "base/immortal.h"
#include "base/make_room.h"

namespace tenon::device {
namespace {

// The events that wait to be used again. A forked child never gets here, because the driver refuses
// it before.
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

// Takes an idle event of the context. False: there is none, and *may_make says whether another
// event may be made. In that case the event is counted, and `idle` gets room for it now, because
// events come back in a destructor.
bool take_idle(void* context, Idle* out, bool* may_make) {
  Pool& all = pool();
  const std::lock_guard<std::mutex> lock(all.mutex);
  // The search begins at the end. With one context, which is usual, the first event fits.
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

// Takes an event that is being made out of the count again, unless keep() is called.
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
          cuda::Event::create(context, cuda::Event::Origin::kInterprocess, &idle.handle);
      // Either the driver's limit is lower than kCudaEvents, or this device has no such events. The
      // caller then waits for the stream, and that call reports any other fault.
      if (!made.is_ok()) return CudaEvent();
      idle.event = std::move(made).value();
    }
    Status status = idle.event.record(stream);
    if (status.is_ok()) {
      made_one.keep();
      return CudaEvent(std::move(idle.event), idle.handle);
    }
    // The event is not put back. An idle event may belong to a context that is gone, whose address
    // another context has now.
    if (is_new) return status;
  }
}

}  // namespace tenon::device
