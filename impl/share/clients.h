// Clients of a server that runs on the library's thread: they have connected, and not asked yet. A
// map from the fd of a client's socket to what has `since_ns`, the moment of its connect on the
// monotonic clock.
#pragma once

#include <cstdint>

#include "os/clock.h"
#include "os/service.h"

namespace tenon::share {

template <typename Clients>
void drop_client(Clients* clients, int fd) noexcept {
  os::stop_serving_fd(fd);
  clients->erase(fd);
}

// A client that has said nothing for so long is dropped.
template <typename Clients>
void drop_silent_clients(Clients* clients, int64_t silence_ns) noexcept {
  const int64_t now = os::monotonic_ns();
  for (auto at = clients->begin(); at != clients->end();) {
    const auto here = at++;
    if (now - here->second.since_ns >= silence_ns) drop_client(clients, here->first);
  }
}

}  // namespace tenon::share
