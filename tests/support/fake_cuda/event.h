// An event of this process: its own, or the import of an event of another process. event.cc makes
// events, and ipc.cc gives and opens their handles. The counters of an event lie in the object of
// its maker in the world (world.h).
#pragma once

#include <memory>

#include "process.h"

namespace fake_cuda {

struct Event {
  Context* context = nullptr;
  unsigned flags = 0;
  uint32_t object = kNoObject;  // the maker's object, for an import too
  uint32_t import = kNoObject;
  std::atomic<bool> recorded{false};
  bool gone = false;  // never created, so there is nothing to release

  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event();

  Object& shared() const { return world().at(object); }
};

std::shared_ptr<Event> find_event(CUevent handle);
CUevent keep_event(std::shared_ptr<Event> event);

}  // namespace fake_cuda
