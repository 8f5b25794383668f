// Doors are the sockets with a path on which the publishers of this process wait for subscribers.
// The library's thread (os/service.h) accepts connections there, and hands them to
// Publisher::add(). It also calls Publisher::flush_stuck(), which sends what a subscriber's socket
// did not take at once.
//
// A forked child closes its copies of all sockets of publishers and subscribers. So a hang-up tells
// that the process that made the object has ended, even if a child of it lives on.
#pragma once

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/fork.h"
#include "base/status.h"

namespace tenon::publish {

class Publisher;

// The library's thread reaches a publisher only through its seat, because the publisher may end on
// another thread meanwhile.
struct Seat {
  std::mutex mutex;                // held while the library's thread works for the publisher
  Publisher* publisher = nullptr;  // null: it has ended
};

// Forked children close their copies of a socket as long as there is one of these for it. The
// process that made it destroys it before it closes the socket, and a child must not close it.
class UnsharedSocket {
 public:
  UnsharedSocket() noexcept = default;
  // Throws std::bad_alloc.
  static UnsharedSocket of(int socket);
  // The socket is in the list already. Only accept_one() puts one there.
  static UnsharedSocket of_listed(int socket) noexcept;
  UnsharedSocket(UnsharedSocket&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)), generation_(other.generation_) {}
  UnsharedSocket& operator=(UnsharedSocket&& other) noexcept {
    std::swap(socket_, other.socket_);
    std::swap(generation_, other.generation_);
    return *this;
  }
  UnsharedSocket(const UnsharedSocket&) = delete;
  UnsharedSocket& operator=(const UnsharedSocket&) = delete;
  ~UnsharedSocket();
  bool has_socket() const noexcept { return socket_ >= 0; }

 private:
  int socket_ = -1;
  uint64_t generation_ = fork_generation();
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
