#include "publish/door.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/make_room.h"
#include "base/process_state.h"
#include "os/fd.h"
#include "os/local_socket.h"
#include "os/service.h"
#include "os/shared_tick.h"
#include "publish/publisher.h"

namespace tenon::publish {
namespace {

constexpr int64_t kRetryNs = 20'000'000;

struct Door {
  os::Fd listener;
  std::string path;
  dev_t device = 0;
  ino_t inode = 0;
  std::shared_ptr<Seat> seat;
};

void flush_tick_came() noexcept;

// `mutex` guards all fields. A forked child begins without publishers and subscribers, and closes
// its copies of the listeners too, so that a path ends with the process that listens there.
struct PublisherState : ProcessState<LockRank::kPublishers> {
  std::vector<Door> doors;
  std::vector<std::shared_ptr<Seat>> seats;
  std::vector<int> sockets;  // that children close
  os::SharedTick flush_tick{&flush_tick_came};

  void in_child() noexcept {
    doors.clear();
    seats.clear();
    for (const int each : sockets) ::close(each);
    sockets.clear();
    flush_tick.forget();
  }
};

PublisherState& publisher_state() noexcept { return process_state<PublisherState>(); }

void on_door(int fd, bool, bool) noexcept;

void serve_again() noexcept {
  PublisherState& all = publisher_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  try {
    for (const Door& each : all.doors) (void)os::serve_fd(each.listener.get(), &on_door);
  } catch (...) {
    os::call_later(&serve_again, kRetryNs);
  }
}

// Accepts one connection. False: nobody waits, or there is no fd now. No fork comes between the
// accept and the entry in the list of sockets.
bool accept_one(int fd, os::Fd* socket, UnsharedSocket* unshared,
                std::shared_ptr<Seat>* seat) noexcept {
  PublisherState& all = publisher_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto door = std::find_if(all.doors.begin(), all.doors.end(),
                                 [&](const Door& each) { return each.listener.get() == fd; });
  if (door == all.doors.end()) return false;
  try {
    make_room(&all.sockets, 1);
    Result<os::Fd> accepted = os::accept_local(fd);
    if (accepted.is_ok()) {
      *socket = std::move(accepted).value();
      *seat = door->seat;
      if (!socket->is_open()) return false;
      all.sockets.push_back(socket->get());
      *unshared = UnsharedSocket::of_listed(socket->get());
      return true;
    }
  } catch (...) {
    // No memory: as if there were no fd.
  }
  // The connection waits in the queue, and the level-triggered poll must not spin.
  os::stop_serving_fd(fd);
  os::call_later(&serve_again, kRetryNs);
  return false;
}

void on_door(int fd, bool, bool) noexcept {
  constexpr int kMostAtOnce = 16;
  for (int i = 0; i < kMostAtOnce; ++i) {
    os::Fd socket;
    UnsharedSocket unshared;
    std::shared_ptr<Seat> seat;
    if (!accept_one(fd, &socket, &unshared, &seat)) return;
    const std::lock_guard<std::mutex> lock(seat->mutex);
    try {
      if (seat->publisher != nullptr) (void)seat->publisher->add(&socket, std::move(unshared));
    } catch (...) {
      // No memory: the peer is not taken.
    }
    // A peer that is not taken sees a hang-up, even if a child has a copy of the socket by now.
    if (socket.is_open()) ::shutdown(socket.get(), SHUT_RDWR);
  }
}

void flush_tick_came() noexcept {
  PublisherState& all = publisher_state();
  if (!all.flush_tick.begin()) return;
  bool is_stuck = false;
  for (size_t i = 0;; ++i) {
    std::shared_ptr<Seat> seat;
    {
      const std::lock_guard<std::mutex> lock(all.mutex);
      if (i >= all.seats.size()) break;
      seat = all.seats[i];
    }
    const std::lock_guard<std::mutex> lock(seat->mutex);
    if (seat->publisher != nullptr && seat->publisher->flush_stuck()) is_stuck = true;
  }
  if (is_stuck) flush_later();
}

// Removes the file of a door, unless another process has replaced it.
void remove_file(const Door& door) noexcept {
  struct stat info{};
  if (::lstat(door.path.c_str(), &info) != 0) return;
  if (info.st_dev == door.device && info.st_ino == door.inode) ::unlink(door.path.c_str());
}

}  // namespace

UnsharedSocket UnsharedSocket::of_listed(int socket) noexcept {
  UnsharedSocket unshared;
  unshared.socket_ = socket;
  return unshared;
}

UnsharedSocket UnsharedSocket::of(int socket) {
  PublisherState& all = publisher_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  make_room(&all.sockets, 1);
  all.sockets.push_back(socket);
  return of_listed(socket);
}

UnsharedSocket::~UnsharedSocket() {
  // A child may use the number for a socket of its own.
  if (socket_ < 0 || generation_ != fork_generation()) return;
  PublisherState& all = publisher_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  std::erase(all.sockets, socket_);
}

std::shared_ptr<Seat> take_seat(Publisher* publisher) {
  auto seat = std::make_shared<Seat>();
  seat->publisher = publisher;
  PublisherState& all = publisher_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.seats.push_back(seat);
  return seat;
}

void leave_seat(Seat* seat) noexcept {
  PublisherState& all = publisher_state();
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    std::erase_if(all.doors, [&](const Door& each) {
      if (each.seat.get() != seat) return false;
      os::stop_serving_fd(each.listener.get());
      remove_file(each);
      return true;
    });
  }
  {
    const std::lock_guard<std::mutex> working(seat->mutex);
    seat->publisher = nullptr;
  }
  const std::lock_guard<std::mutex> lock(all.mutex);
  std::erase_if(all.seats, [&](const auto& each) { return each.get() == seat; });
}

Status open_door(const std::shared_ptr<Seat>& seat, const std::string& path, mode_t mode,
                 gid_t group) {
  Door door;
  door.path = path;
  door.seat = seat;
  TENON_ASSIGN(door.listener, os::listen_local_again(os::SocketKind::kPackets, path, mode, group));
  struct stat info{};
  if (::lstat(path.c_str(), &info) == 0) {
    door.device = info.st_dev;
    door.inode = info.st_ino;
  }
  const int fd = door.listener.get();
  PublisherState& all = publisher_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  Status served;
  try {
    make_room(&all.doors, 1);
    served = os::serve_fd(fd, &on_door);
  } catch (...) {
    remove_file(door);
    throw;
  }
  if (!served.is_ok()) {
    remove_file(door);
    return served;
  }
  all.doors.push_back(std::move(door));
  return Status::ok();
}

void flush_later() noexcept { publisher_state().flush_tick.request(kRetryNs); }

}  // namespace tenon::publish
