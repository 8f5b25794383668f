// The sockets on which the publishers of this process wait for subscribers. The library's thread
// accepts connections there, and hands them to the publisher. It also sends what a subscriber's
// socket did not take at once.
#pragma once

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <string>

#include "base/status.h"

namespace tenon::publish {

class Publisher;

// By its seat the library's thread finds a publisher, which may be about to end.
struct Seat {
  std::mutex mutex;                // held while the library's thread works for the publisher
  Publisher* publisher = nullptr;  // null: it has ended
};

// Throws std::bad_alloc. Each publisher that took its seat leaves it.
std::shared_ptr<Seat> take_seat(Publisher* publisher);
// Closes and removes the publisher's sockets. Afterwards the library's thread does not use the
// publisher. The caller holds no lock that add() or flush_stuck() take.
void leave_seat(Seat* seat) noexcept;
// Listens on a socket with this path. The errors are those of os::listen_local_again() and
// os::serve_fd().
Status open_door(const std::shared_ptr<Seat>& seat, const std::string& path, mode_t mode,
                 gid_t group);
// The library's thread calls flush_stuck() soon, and again until nothing is left.
void flush_later() noexcept;

}  // namespace tenon::publish
