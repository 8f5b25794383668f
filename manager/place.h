// Where the manager listens: a folder, a socket in it, and a lock that says who may put the socket
// there.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "os/fd.h"
#include "share/manager.h"

namespace tenon::manager {

class Place {
 public:
  // As PyTorch's manager does it: a new folder where temporary files are, with a socket whose path
  // PyTorch has room for.
  static Result<std::unique_ptr<Place>> make();
  // A socket of this path. Null if another manager serves it. `own_folder`: the folder is made if
  // need be, and goes with the manager.
  static Result<std::unique_ptr<Place>> take(const std::string& socket, bool own_folder);

  const std::string& socket() const noexcept { return socket_; }
  const std::string& folder() const noexcept { return folder_; }
  std::string parent() const;
  bool owns_folder() const noexcept { return own_folder_; }
  int listener() const noexcept { return listener_.get(); }

  // Take the socket's path away so that nobody new can come, and give it back. What waits in the
  // socket's queue stays there. Lets the kernel name this process, and not the one that began to
  // listen, to those who connect.
  void renew() noexcept;
  bool hide() noexcept;
  bool show() noexcept;
  // Everything goes: path, queue, folder, and last the lock.
  void remove() noexcept;

 private:
  Place(std::string socket, bool own_folder);
  std::string hidden() const { return socket_ + std::string(share::kManagerHiddenSuffix); }
  std::string lock_path() const { return socket_ + std::string(share::kManagerLockSuffix); }
  Result<bool> take_lock();
  Status listen();

  std::string socket_;
  std::string folder_;
  bool own_folder_;
  // Held as long as this manager lives: the kernel tells the next one when it is free.
  os::Fd lock_;
  os::Fd listener_;
};

}  // namespace tenon::manager
