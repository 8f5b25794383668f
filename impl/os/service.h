// The service thread, the only thread that the library keeps. It does one thing at a time: it calls
// the handler of an fd when the fd is ready, calls ticks (functions that were asked for with
// call_later()), and does longer work in slices (add_work()). The first call that needs the thread
// starts it. A process can choose to have no thread, and to call poll_service() instead. A child of
// fork has no thread, and none of its parent's fds, ticks and work. It starts its own thread when
// it needs one.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace tenon::os {

// Called without any lock of the service when `fd` is readable or hung up. Events are
// level-triggered: a handler that leaves the fd readable, or that does not stop serving an fd that
// hung up, is called again at once. An event that was taken before stop_serving_fd() may still be
// delivered, and by then the number may belong to another fd. So code that serves fds which other
// threads close finds the fd under a lock of its own, and asks peer_hung_up() (os/socket.h) there
// before it believes `hung_up`.
using ServiceHandler = void (*)(int fd, bool readable, bool hung_up) noexcept;

// Serves an fd. An fd that is served already keeps its handler. Starts the thread, unless the
// process chose to have none. The caller may hold locks of a rank before LockRank::kService
// (base/lock_rank.h). This lock rule holds for every function here but poll_service(). After an
// error of serve_fd() or serve_hang_up() the fd is not served, and after one of add_work() the work
// is not queued. All three can throw std::bad_alloc, with the same effect.
Status serve_fd(int fd, ServiceHandler handler);
// Does what serve_fd() does, but `handler` is called only when the peer of `fd` has hung up, and
// not when there is something to read.
Status serve_hang_up(int fd, ServiceHandler handler);
// Call this before closing the fd. After it returns, the handler may still be running, or about to
// run, for an event that was taken before.
void stop_serving_fd(int fd) noexcept;

// Calls `tick` once, in about `after_ns`. Ticks that are due together are called in the order of
// their times. A tick that was asked for twice is called twice (os/shared_tick.h helps), and none
// can be cancelled. False: there is no memory, and the tick may never come. If the service cannot
// start, the result is true, and the tick comes when a later call starts the service.
bool call_later(void (*tick)() noexcept, int64_t after_ns) noexcept;

// Adds work that is done in slices. `slice` is called again and again, with events and ticks in
// between, until it returns false. Each call must take <= 1 ms. The queue has each function once.
// If a function is added while it runs, it is called again even if it returns false.
Status add_work(bool (*slice)() noexcept);

// Whether the caller is the service thread. All fds, ticks and work wait for this thread, so it may
// wait for nobody. False on a thread that is in poll_service(). Stays true in a child that was
// forked on the service thread.
bool on_service_thread() noexcept;

// Chooses to have no thread: the user polls service_fd() and calls poll_service(). INVALID_ARGUMENT
// if the thread runs already. A child of fork inherits the choice.
Status use_no_thread();
bool has_no_thread() noexcept;
// An fd that is readable (POLLIN) when poll_service() has something to do. The fd is borrowed. A
// child of fork has another one. INVALID_ARGUMENT, as from poll_service(), unless the process chose
// to have no thread.
Result<int> service_fd();
// Does what is due. Never blocks, and begins no slice of work after 1 ms. Any thread may call it.
// If several threads call it at once, one works and the others return. The caller holds no ranked
// lock, because handlers, ticks and slices may take any.
Status poll_service();

}  // namespace tenon::os
