#include "os/local_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "os/limits.h"
#include "os/memfd.h"

namespace tenon::os {
namespace {

constexpr int kBacklog = 4096;
constexpr int64_t kShortestPauseNs = 200'000;
constexpr int64_t kLongestPauseNs = 20'000'000;

Status failed(int error, const char* what, const std::string& path) {
  const std::string text = format("%s %s", what, path.c_str());
  if (error == ENOTDIR)
    return Status(Code::kNotFound, text + ": a part of the path is not a directory")
        .with("errno", error)
        .with("path", path);
  if (error == ENAMETOOLONG)
    return Status(Code::kInvalidArgument, text + ": the name is too long")
        .with("errno", error)
        .with("path", path);
  Status status = errno_status(error, text).with("path", path);
  return error == EMFILE ? with_fd_limit(std::move(status)) : status;
}

struct SocketPlace {
  std::string folder;
  std::string leaf;
};

Result<SocketPlace> split_socket_path(const std::string& path) {
  const size_t slash = path.rfind('/');
  SocketPlace place;
  place.leaf = slash == std::string::npos ? path : path.substr(slash + 1);
  place.folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  if (place.leaf.empty() || place.leaf == "." || place.leaf == "..")
    return Status(Code::kInvalidArgument, format("'%s' is no path for a socket", path.c_str()))
        .with("path", path);
  return place;
}

struct Address {
  sockaddr_un name{};
  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&name); }
};

bool fits(const std::string& path) noexcept { return path.size() < sizeof(sockaddr_un::sun_path); }

Address address_of(const std::string& path) noexcept {
  Address address;
  address.name.sun_family = AF_UNIX;
  std::memcpy(address.name.sun_path, path.data(),
              std::min(path.size(), sizeof address.name.sun_path - 1));
  return address;
}

Result<Fd> new_socket(SocketKind kind, const std::string& path) {
  const int type = kind == SocketKind::kStream ? SOCK_STREAM : SOCK_SEQPACKET;
  Fd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_open()) return failed(errno, "a socket for", path);
  return fd;
}

// The random name under which a socket is prepared. It is removed in any case: after a success the
// socket has its own name.
struct MakingName {
  int folder;
  const std::string& leaf;
  MakingName(int in, const std::string& name) noexcept : folder(in), leaf(name) {}
  MakingName(const MakingName&) = delete;
  MakingName& operator=(const MakingName&) = delete;
  ~MakingName() { ::unlinkat(folder, leaf.c_str(), 0); }
};

// Pauses by waiting for a timer fd, because a Waiter waits for an fd. The cancel and the deadline
// can end the pause.
Status pause_for(const Fd& timer, int64_t pause_ns, Waiter* waiter) {
  const itimerspec when{{0, 0}, {0, static_cast<long>(pause_ns)}};
  if (::timerfd_settime(timer.get(), 0, &when, nullptr) != 0)
    return errno_status(errno, "setting a timer");
  return waiter->until_ready(timer.get(), POLLIN, "a place in the queue of a socket");
}

Result<Fd> listen_at(SocketKind kind, const std::string& path, mode_t mode, gid_t group,
                     bool replaces) {
  TENON_ASSIGN(const SocketPlace place, split_socket_path(path));
  const Fd folder(::open(place.folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_open()) return failed(errno, "the directory of socket", path);
  TENON_ASSIGN(const Nonce random, random_nonce());
  const std::string leaf = ".tenon-" + hex(random);
  TENON_ASSIGN(Fd socket, new_socket(kind, path));
  // Binds to the real path if it fits, because ss and lsof show the path.
  const std::string full = place.folder + "/" + leaf;
  const Address address =
      address_of(fits(full) ? full : format("/proc/self/fd/%d/%s", folder.get(), leaf.c_str()));
  if (::bind(socket.get(), address.get(), sizeof address.name) != 0)
    return failed(errno, "binding socket", path);
  const MakingName making(folder.get(), leaf);
  // The group is set before the mode, because the mode was chosen for that group. Nobody can
  // connect before listen(), whatever mode the umask has left.
  if (group != static_cast<gid_t>(-1) &&
      ::fchownat(folder.get(), leaf.c_str(), static_cast<uid_t>(-1), group, AT_SYMLINK_NOFOLLOW) !=
          0) {
    return failed(errno, "giving a group to socket", path);
  }
  if (::fchmodat(folder.get(), leaf.c_str(), mode, AT_SYMLINK_NOFOLLOW) != 0)
    return failed(errno, "setting the mode of socket", path);
  if (::listen(socket.get(), kBacklog) != 0) return failed(errno, "listening on socket", path);
  const int named = replaces
                        ? ::renameat(folder.get(), leaf.c_str(), folder.get(), place.leaf.c_str())
                        : ::linkat(folder.get(), leaf.c_str(), folder.get(), place.leaf.c_str(), 0);
  if (named != 0) {
    const int error = errno;
    if (error == EEXIST)
      return Status(Code::kPermission,
                    format("the name %s is taken, so no socket can have it: choose another name, "
                           "or remove what is there if nobody needs it "
                           "(`tenon ls` shows who holds it)",
                           path.c_str()))
          .with("errno", error)
          .with("path", path);
    return failed(error, "naming socket", path);
  }
  return socket;
}

}  // namespace

Result<Fd> listen_local(SocketKind kind, const std::string& path, mode_t mode, gid_t group) {
  return listen_at(kind, path, mode, group, false);
}

Result<Fd> listen_local_instead(SocketKind kind, const std::string& path, mode_t mode,
                                gid_t group) {
  return listen_at(kind, path, mode, group, true);
}

Result<Fd> listen_local_again(SocketKind kind, const std::string& path, mode_t mode, gid_t group) {
  Result<Fd> listener = listen_local(kind, path, mode, group);
  const auto is_taken = [](const Status& status) {
    return status.code() == Code::kPermission && status.detail("errno") == std::to_string(EEXIST);
  };
  if (!is_taken(listener.status())) return listener;
  // Another process could replace the old socket between the check and its removal. So the
  // directory is locked meanwhile. Only this function takes that lock.
  TENON_ASSIGN(const SocketPlace place, split_socket_path(path));
  const Fd folder(::open(place.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_open()) return failed(errno, "the directory of socket", path);
  constexpr int64_t kLockNs = 1'000'000'000;
  Waiter lock_wait(Wait{.timeout_ns = kLockNs});
  while (::flock(folder.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      return failed(errno, "locking the directory of socket", path);
    TENON_TRY(lock_wait.pause(kShortestPauseNs, "the lock of a socket's directory"));
  }
  Waiter at_once(Wait{.timeout_ns = 0});
  const Status used = connect_local(kind, path, &at_once).status();
  if (used.code() != Code::kPeerGone && used.code() != Code::kNotFound) return listener;
  if (::unlinkat(folder.get(), place.leaf.c_str(), 0) != 0 && errno != ENOENT)
    return failed(errno, "removing the old socket", path);
  return listen_local(kind, path, mode, group);
}

Result<Fd> connect_local(SocketKind kind, const std::string& path, Waiter* waiter) {
  TENON_TRY(waiter->check_cancel());
  // connect() reports ECONNREFUSED for a plain file too, so the type of the file is checked first.
  struct stat info{};
  Fd handle;
  std::string reached = path;
  if (fits(path)) {
    if (::lstat(path.c_str(), &info) != 0) return failed(errno, "connecting to socket", path);
  } else {
    handle = Fd(::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!handle.is_open() || ::fstat(handle.get(), &info) != 0)
      return failed(errno, "connecting to socket", path);
    reached = format("/proc/self/fd/%d", handle.get());
  }
  if (!S_ISSOCK(info.st_mode))
    return Status(Code::kCorrupt, format("%s is no socket", path.c_str())).with("path", path);

  TENON_ASSIGN(Fd socket, new_socket(kind, path));
  const Address address = address_of(reached);
  Fd timer;
  int64_t pause_ns = kShortestPauseNs;
  Status over;
  for (;;) {
    if (::connect(socket.get(), address.get(), sizeof address.name) == 0) return socket;
    const int error = errno;
    if (error == EINTR) continue;
    if (error == ECONNREFUSED)
      return Status(Code::kPeerGone, format("nobody listens on socket %s", path.c_str()))
          .with("errno", error)
          .with("path", path);
    if (error == EPROTOTYPE)
      return Status(Code::kCorrupt, format("socket %s is of another kind", path.c_str()))
          .with("errno", error)
          .with("path", path);
    if (error != EAGAIN) return failed(error, "connecting to socket", path);
    // The listener's queue is full, and no event reports that it has room again. So this loop
    // retries.
    if (!over.is_ok()) return over;
    if (!timer.is_open()) {
      timer = Fd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
      if (!timer.is_open()) return failed(errno, "a timer for connecting to socket", path);
    }
    Status waited = pause_for(timer, pause_ns, waiter);
    pause_ns = std::min(pause_ns * 2, kLongestPauseNs);
    if (waited.is_ok()) continue;
    const Code code = waited.code();
    if (code != Code::kTimeout && code != Code::kWouldBlock)
      return std::move(waited).with("path", path);
    over = Status(code, format("the queue of socket %s is full", path.c_str())).with("path", path);
    // The deadline may have cut the pause short, so one more try follows.
    if (code == Code::kWouldBlock) return over;
  }
}

Result<Fd> accept_local(int listener) {
  Fd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd.is_open()) return fd;
  const int error = errno;
  if (error == EAGAIN || error == ECONNABORTED || error == EINTR) return fd;
  Status status = errno_status(error, format("accepting a connection from socket %d", listener))
                      .with("fd", listener);
  return error == EMFILE ? with_fd_limit(std::move(status)) : status;
}

}  // namespace tenon::os
