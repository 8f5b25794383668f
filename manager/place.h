// Place is where the manager listens: a folder, a socket in it, and, for a path that the starter
// chose, a lock (flock). Only the manager that holds the lock may create that socket. A forked
// child shares the lock. main.cc makes the one Place of the program.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "names/manager.h"
#include "os/fd.h"

namespace tenon::manager {

// The destructor removes no path. Call remove() before, or the next manager has to take the place
// over.
class Place {
 public:
  // Makes a new folder in the folder for temporary files, as PyTorch's manager does, with a socket
  // whose path fits into PyTorch's buffer. The folder has a random name, so there is no lock.
  static Result<std::unique_ptr<Place>> make();
  // Takes a socket of this path. Null if another manager serves it. `own_folder`: the folder is
  // made if necessary, and is removed with the place. The call waits up to 5 s for a manager that
  // starts or ends, and then fails with TIMEOUT. INVALID_ARGUMENT if the path is not absolute. With
  // `own_folder`, PERMISSION if the folder is not this user's alone.
  static Result<std::unique_ptr<Place>> take(const std::string& socket, bool own_folder);

  const std::string& socket() const noexcept { return socket_; }
  const std::string& folder() const noexcept { return folder_; }
  std::string parent() const;
  bool owns_folder() const noexcept { return own_folder_; }
  int listener() const noexcept { return listener_.get(); }

  // hide() renames the socket, so that no new client can connect, and show() undoes this.
  // Connections in the socket's queue stay there. renew() calls listen() again, so that the kernel
  // names this process to clients, and not its parent, which called listen() first.
  void renew() noexcept;
  bool hide() noexcept;
  bool show() noexcept;
  // Removes everything: the path, the queue, the folder, and last the lock.
  void remove() noexcept;

 private:
  Place(std::string socket, bool own_folder);
  std::string hidden() const { return socket_ + std::string(names::kManagerHiddenSuffix); }
  std::string lock_path() const { return socket_ + std::string(names::kManagerLockSuffix); }
  Result<bool> take_lock();
  Status listen();

  std::string socket_;
  std::string folder_;
  bool own_folder_;
  // Held while this manager lives, if take() made the place. The kernel frees the lock when the
  // manager dies.
  os::Fd lock_;
  os::Fd listener_;
};

}  // namespace tenon::manager
