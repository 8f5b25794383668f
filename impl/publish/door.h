// Doors are the sockets with a path on which the publishers of this process wait for subscribers.
// The library's thread (os/service.h) accepts connections there, and hands them to
// Publisher::add(). It also calls Publisher::flush_stuck(), which sends what a subscriber's socket
// did not take at once.
#pragma once

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <string>

#include "base/status.h"

namespace tenon::publish {

class Publisher;

// The library's thread reaches a publisher only through its seat, because the publisher may end on
// another thread meanwhile.
struct Seat {
  std::mutex mutex;                // held while the library's thread works for the publisher
  Publisher* publisher = nullptr;  // null: it has ended
};

// Makes the seat of a new publisher. Throws std::bad_alloc. The publisher calls leave_seat() before
// it ends.
std::shared_ptr<Seat> take_seat(Publisher* publisher);
// Closes the publisher's sockets and removes their files. Waits until the library's thread has left
// the publisher, so the caller holds no lock that add() or flush_stuck() take. Afterwards that
// thread does not use the publisher.
void leave_seat(Seat* seat) noexcept;
// Listens on a socket with this path. The file gets `mode`, and `group` unless that is -1. The
// errors are those of os::listen_local_again() and os::serve_fd().
Status open_door(const std::shared_ptr<Seat>& seat, const std::string& path, mode_t mode,
                 gid_t group);
// Asks the library's thread to call flush_stuck() of all publishers soon, and again until nothing
// is left.
void flush_later() noexcept;

}  // namespace tenon::publish
