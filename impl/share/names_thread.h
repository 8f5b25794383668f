// The library's one thread: it watches the directories in which this process has names, and serves the sockets of the name server.
#pragma once

#include <cstdint>

#include "base/counted.h"
#include "base/status.h"
#include "share/directories.h"

namespace tenon::share {

// Starts the thread unless it runs, and lets it watch the directory. False where that cannot be had (inotify's limits): then only calls
// sweep.
bool watch_names(const Ref<Directory>& directory) noexcept;
// The directory is about to be closed.
void unwatch_names(Directory& directory) noexcept;

// Called by the thread, without the lock, when `fd` is readable, writable or hung up.
using FdHandler = void (*)(int fd, bool hung_up) noexcept;
// Let the thread, which is started if need be, call the handler.
Status serve_fd(int fd, FdHandler handler);
void stop_serving_fd(int fd) noexcept;
// Let the thread call `tick` once, in about `after_ns`.
void call_later(void (*tick)() noexcept, int64_t after_ns) noexcept;

}  // namespace tenon::share
