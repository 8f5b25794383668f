#include "manager/place.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

#include "os/background.h"
#include "os/local_socket.h"
#include "os/sender.h"
#include "os/wait.h"

namespace tenon::manager {
namespace {

constexpr std::chrono::milliseconds kPause{2};
constexpr int kLockRounds = 2500;  // 5 s, which is the longest that a manager may take to end

std::string temporary_folder() {
  for (const char* name : {"TMPDIR", "TMP", "TEMP", "TEMPDIR"}) {
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') return value;
  }
  return "/tmp";
}

// The folder's name is predictable. Another user who made it first could replace the socket to
// which clients connect.
Status check_own_folder(const std::string& folder) {
  struct stat info{};
  if (::lstat(folder.c_str(), &info) != 0)
    return errno_status(errno, "looking at " + folder).with("path", folder);
  if (S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() && (info.st_mode & 077) == 0) return {};
  return Status(Code::kPermission,
                format("%s is no directory of user %u alone: it belongs to user %u and has mode "
                       "0%o; remove it, or "
                       "name another one by TENON_MANAGER_FOLDER",
                       folder.c_str(), ::geteuid(), info.st_uid, info.st_mode & 07777U))
      .with("path", folder);
}

bool is_served(const std::string& socket) {
  os::Waiter at_once({.timeout_ns = 0});
  const Result<os::Fd> connected = os::connect_local(os::SocketKind::kStream, socket, &at_once);
  return connected.is_ok() || connected.status().code() == Code::kWouldBlock;
}

}  // namespace

Place::Place(std::string socket, bool own_folder)
    : socket_(std::move(socket)),
      folder_(socket_.substr(0, socket_.rfind('/'))),
      own_folder_(own_folder) {
  if (folder_.empty()) folder_ = "/";
}

std::string Place::parent() const {
  const size_t slash = folder_.rfind('/');
  return slash == 0 || slash == std::string::npos ? "/" : folder_.substr(0, slash);
}

Status Place::listen() {
  TENON_ASSIGN(listener_,
               os::listen_local(os::SocketKind::kStream, socket_, 0600, static_cast<gid_t>(-1)));
  return os::tell_senders(listener_.get());
}

Result<std::unique_ptr<Place>> Place::make() {
  constexpr const char* kPrefix = "/torch-shm-dir-";
  constexpr const char* kLeaf = "/manager.sock";
  const std::string folder = temporary_folder() + kPrefix;
  // PyTorch copies the path into 108 bytes without checking its length.
  const bool fits =
      folder.size() + 6 + std::char_traits<char>::length(kLeaf) < names::kManagerPathNbytes;
  TENON_ASSIGN(const std::string made,
               os::make_private_folder(fits ? folder : std::string("/dev/shm") + kPrefix));
  std::unique_ptr<Place> place(new Place(made + kLeaf, true));
  if (Status status = place->listen(); !status.is_ok()) {
    ::rmdir(made.c_str());
    return status;
  }
  return place;
}

// The holder of the lock may replace the socket, because the manager that made the socket is dead.
Result<bool> Place::take_lock() {
  for (int round = 0; round < kLockRounds; ++round) {
    if (own_folder_ && ::mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST)
      return errno_status(errno, "making " + folder_).with("path", folder_);
    if (own_folder_) {
      const Status checked = check_own_folder(folder_);
      // the manager before this one has just removed it
      if (checked.code() == Code::kNotFound) continue;
      TENON_TRY(checked);
    }
    lock_ = os::Fd(::open(lock_path().c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock_.is_open()) {
      // The manager before this one has just removed the folder.
      if (errno == ENOENT && own_folder_) continue;
      return errno_status(errno, "opening " + lock_path()).with("path", lock_path());
    }
    if (::flock(lock_.get(), LOCK_EX | LOCK_NB) == 0) {
      // The lock file may have been removed or replaced meanwhile. Then the lock on the new file
      // counts.
      struct stat here{};
      struct stat named{};
      if (::fstat(lock_.get(), &here) == 0 && ::lstat(lock_path().c_str(), &named) == 0 &&
          here.st_ino == named.st_ino && here.st_dev == named.st_dev) {
        return true;
      }
      continue;
    }
    if (is_served(socket_)) return false;
    std::this_thread::sleep_for(kPause);  // another manager starts or ends
  }
  return Status(Code::kTimeout,
                format("another manager holds %s and does not listen", lock_path().c_str()))
      .with("path", lock_path());
}

Result<std::unique_ptr<Place>> Place::take(const std::string& socket, bool own_folder) {
  if (socket.size() < 2 || socket.front() != '/' || socket.back() == '/')
    return Status(Code::kInvalidArgument, format("%s is no absolute path", socket.c_str()))
        .with("path", socket);
  std::unique_ptr<Place> place(new Place(socket, own_folder));
  TENON_ASSIGN(const bool locked, place->take_lock());
  if (!locked) return std::unique_ptr<Place>();
  for (const std::string& old : {place->socket_, place->hidden()}) {
    struct stat info{};
    if (::lstat(old.c_str(), &info) == 0 && S_ISSOCK(info.st_mode)) ::unlink(old.c_str());
  }
  if (Status status = place->listen(); !status.is_ok()) {
    ::unlink(place->lock_path().c_str());
    if (own_folder) ::rmdir(place->folder_.c_str());
    return status;
  }
  return place;
}

void Place::renew() noexcept { ::listen(listener_.get(), SOMAXCONN); }

bool Place::hide() noexcept { return ::rename(socket_.c_str(), hidden().c_str()) == 0; }

bool Place::show() noexcept { return ::rename(hidden().c_str(), socket_.c_str()) == 0; }

void Place::remove() noexcept {
  ::unlink(hidden().c_str());
  ::unlink(socket_.c_str());
  listener_.reset();
  if (lock_.is_open()) ::unlink(lock_path().c_str());
  if (own_folder_) ::rmdir(folder_.c_str());
  lock_.reset();
}

}  // namespace tenon::manager
