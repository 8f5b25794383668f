// Drops clients of a server that runs on the library's thread. The servers of names
// (name_server.cc) and of deposits call these functions for clients that have connected and have
// not sent their request yet. `Clients` maps the fd of a client's socket to a struct with a field
// `since_ns`, the time of the connection on the monotonic clock. The caller holds the server's
// lock, which guards the map and ranks before LockRank::kService (base/lock_rank.h). To erase the
// struct closes the socket.
#pragma once

#include <cstdint>

#include "os/clock.h"
#include "os/service.h"

namespace tenon::os {

template <typename Clients>
void drop_client(Clients* clients, int fd) noexcept {
  stop_serving_fd(fd);
  clients->erase(fd);
}

// Drops the clients that have sent nothing for `silence_ns`.
template <typename Clients>
void drop_silent_clients(Clients* clients, int64_t silence_ns) noexcept {
  const int64_t now = monotonic_ns();
  for (auto at = clients->begin(); at != clients->end();) {
    const auto here = at++;
    if (now - here->second.since_ns >= silence_ns) drop_client(clients, here->first);
  }
}

}  // namespace tenon::os
