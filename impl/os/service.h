// The library's one thread, or none: it calls handlers of fds, ticks, and work in slices, one at a
// time. It starts with the first that needs it. A child of fork has no thread, and nothing of its
// parent's fds, ticks and work; it starts its own when it needs one.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace tenon::os {

// Called without any lock of the service, when `fd` is readable or hung up. Level-triggered: who
// leaves the fd readable, or does not stop serving one that hung up, is called again at once. An
// event that was taken before stop_serving_fd() may still come, and by then the number may be
// another fd's: whoever serves fds that other threads close finds the fd under a lock of its own,
// and asks peer_hung_up() (os/socket.h) there before it believes `hung_up`.
using ServiceHandler = void (*)(int fd, bool readable, bool hung_up) noexcept;

// One that is served already stays as it is. Starts the thread, unless the process chose to have
// none. As everything here but poll_service() it may be called with locks held whose rank at fork
// is below 25, the service's own.
Status serve_fd(int fd, ServiceHandler handler);
// As serve_fd(), but `handler` is called only when the peer of `fd` has hung up, and not for what
// can be read.
Status serve_hang_up(int fd, ServiceHandler handler);
// Before the fd is closed. After it returns the handler may still be running, or about to, for an
// event that was taken before.
void stop_serving_fd(int fd) noexcept;

// Calls `tick` once, in about `after_ns`; those that are due at once in the order of their times.
// Without memory, or where no thread can be had, it comes with a later reason for one, or never.
void call_later(void (*tick)() noexcept, int64_t after_ns) noexcept;

// Work in slices: called again and again, with events and ticks in between, until it returns false.
// Each call must take <= 1 ms. The same function is in the queue once; asked for while it runs, it
// is called again even if it returns false.
Status add_work(bool (*slice)() noexcept);

// Whether the caller is the library's thread, for which everybody here waits: it may wait for
// nobody.
bool on_service_thread() noexcept;

// No thread: the user polls service_fd() and calls poll_service(). INVALID_ARGUMENT if the thread
// runs already. A child of fork inherits the choice.
Status use_no_thread();
bool has_no_thread() noexcept;
// Readable (POLLIN) when poll_service() has something to do; another one in a child of fork.
// Borrowed. INVALID_ARGUMENT unless the process chose to have no thread, as for poll_service().
Result<int> service_fd();
// Does what is due, never blocks, and begins no slice of work after 1 ms. Any thread: of calls at
// once one works, the others return.
Status poll_service();

}  // namespace tenon::os
