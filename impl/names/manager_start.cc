// Starts Tenon's manager, and removes what a killed one left (manager.h).
#include <unistd.h>

#include <cstdlib>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "names/filename.h"
#include "names/manager.h"
#include "names/manager_line.h"
#include "os/background.h"
#include "os/fd.h"
#include "os/host.h"
#include "os/named_file.h"
#include "os/process.h"

namespace tenon::names {
namespace {

using os::Fd;
using os::Waiter;

// The most rounds of connect_or_start(). A manager that ends at the wrong moment costs one round.
// This many rounds in a row cannot be a coincidence.
constexpr int kStartRounds = 20;
constexpr std::string_view kFolderPrefix = "tenon-manager-";
constexpr std::string_view kSocketLeaf = "manager.sock";

std::string default_folder() {
  return format("%s/%s%u", std::string(kSharedMemory).c_str(), std::string(kFolderPrefix).c_str(),
                os::user_id());
}

std::string chosen_folder() {
  const char* chosen = secure_getenv("TENON_MANAGER_FOLDER");
  return chosen != nullptr ? chosen : "";
}

std::string socket_in(const std::string& folder) { return folder + "/" + std::string(kSocketLeaf); }

// Whether the folder was made for a manager and for nothing else.
bool is_managers_own(const std::string& folder) {
  return std::string_view(folder).substr(folder.rfind('/') + 1).starts_with(kFolderPrefix) ||
         folder == chosen_folder();
}

// Checks that only this user can write the folder. NOT_FOUND if the folder does not exist yet,
// which is as good. PERMISSION if it is another user's, is open to others, or is no directory.
Status check_folder(const std::string& folder) {
  Result<Fd> opened = os::open_directory(folder);
  if (!opened.is_ok()) {
    if (opened.status().code() != Code::kInvalidArgument) return std::move(opened).status();
    return Status(Code::kPermission, format("%s is there and is no directory", folder.c_str()))
        .with("path", folder);
  }
  TENON_ASSIGN(const os::NameInfo info, os::look_at_file(opened.value().get()));
  if (info.uid == os::user_id() && (info.mode & 077) == 0) return {};
  return Status(Code::kPermission, format("%s belongs to uid %u, mode 0%o: no place for a manager",
                                          folder.c_str(), info.uid, info.mode))
      .with("path", folder);
}

// Starts the program and waits until it has printed the path of its socket.
Status run_manager(const std::string& program, const std::string& socket, Waiter* waiter) {
  TENON_ASSIGN(const std::string path, find_manager_program(program));
  TENON_ASSIGN(const std::string line,
               os::run_for_line(path, {"--socket", socket, "--own-folder"}, waiter));
  if (line == socket) return {};
  if (line.starts_with("ERROR: "))
    return Status(Code::kPeerGone, format("%s did not start: %s", path.c_str(), line.c_str() + 7))
        .with("path", path);
  return Status(Code::kCorrupt,
                format("%s is no manager: it did not print the path of its socket", path.c_str()))
      .with("path", path);
}

// Connects to the manager that listens on `socket`, and starts one if there is none. If the manager
// ends at this moment, another round follows.
Status connect_or_start(const std::string& program, const std::string& socket,
                        const std::string& folder, Waiter* waiter) {
  Status last;
  for (int round = 0; round < kStartRounds; ++round) {
    Result<Fd> connected = connect_to_manager(socket, waiter);
    if (connected.is_ok()) {
      give_manager_line(socket, std::move(connected).value());
      return {};
    }
    last = std::move(connected).status();
    if (last.code() != Code::kNotFound && last.code() != Code::kPeerGone) return last;
    if (Status checked = check_folder(folder);
        !checked.is_ok() && checked.code() != Code::kNotFound)
      return checked;
    TENON_TRY(run_manager(program, socket, waiter));
  }
  return last;
}

}  // namespace

Result<std::string> find_manager_program(const std::string& program) {
  if (!program.empty()) return program;
  if (const char* named = secure_getenv("TENON_MANAGER"); named != nullptr && *named != '\0')
    return std::string(named);
  const std::string folder = os::own_folder();
  for (const char* place :
       {"/tenon-manager", "/tenon/tenon-manager", "/../libexec/tenon/tenon-manager",
        "/../../libexec/tenon/tenon-manager", "/bin/tenon-manager"}) {
    if (folder.empty()) break;
    std::string path = folder + place;
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return Status(Code::kNotFound, format("there is no program tenon-manager beside the library in "
                                        "%s; TENON_MANAGER can name one",
                                        folder.empty() ? "its folder" : folder.c_str()))
      .with("path", folder + "/tenon-manager");
}

// The lock file is removed only while this process has its lock. The dead manager no longer has the
// lock then, and no process can start another manager there.
void remove_dead_manager(const std::string& manager) noexcept {
  try {
    const size_t slash = manager.rfind('/');
    if (slash == std::string::npos || slash == 0) return;
    const std::string folder = manager.substr(0, slash);
    if (!check_folder(folder).is_ok()) return;
    Result<Fd> directory = os::open_directory(folder);
    if (!directory.is_ok()) return;
    const int at = directory.value().get();
    const std::string leaf = manager.substr(slash + 1);
    const std::string lock_leaf = leaf + std::string(kManagerLockSuffix);
    Result<Fd> lock = os::open_name(at, lock_leaf, false);
    if (!lock.is_ok() && lock.status().code() == Code::kNotFound && is_managers_own(folder))
      os::remove_folder(folder);
    if (!lock.is_ok() || !os::take_exclusive_lock(lock.value().get())) return;
    Result<os::NameInfo> held = os::look_at_file(lock.value().get());
    Result<os::NameInfo> named = os::look_at_name(at, lock_leaf);
    if (!held.is_ok() || !named.is_ok() || held.value().inode != named.value().inode) return;
    for (const std::string& name : {leaf, leaf + std::string(kManagerHiddenSuffix), lock_leaf}) {
      static_cast<void>(os::unlink_name(at, name));
    }
    if (is_managers_own(folder)) os::remove_folder(folder);
  } catch (const std::bad_alloc&) {
    // No memory. The next process that checks the manager removes its files.
  }
}

void remove_dead_managers() noexcept {
  try {
    const std::string folder = default_folder();
    const std::string prefix = folder.substr(folder.rfind('/') + 1);
    Result<Fd> directory = os::open_directory(std::string(kSharedMemory));
    if (!directory.is_ok()) return;
    std::vector<std::string> found;
    static_cast<void>(os::list_names(directory.value().get(), [&](const char* leaf) {
      const std::string_view name(leaf);
      if (name == prefix || name.starts_with(prefix + "-")) found.emplace_back(name);
      return true;
    }));
    for (const std::string& name : found)
      remove_dead_manager(
          socket_in(format("%s/%s", std::string(kSharedMemory).c_str(), name.c_str())));
  } catch (const std::bad_alloc&) {
    // No memory. The next process removes them.
  }
}

std::string manager_socket() {
  const std::string chosen = chosen_folder();
  return socket_in(chosen.empty() ? default_folder() : chosen);
}

Result<std::string> start_manager(const std::string& program, Waiter* waiter) {
  TENON_TRY(waiter->check_cancel());
  std::string folder = chosen_folder();
  const bool is_chosen = !folder.empty();
  if (!is_chosen) folder = default_folder();
  if (socket_in(folder).size() >= kManagerPathNbytes) {
    return Status(Code::kInvalidArgument, format("TENON_MANAGER_FOLDER is too long: %s must be "
                                                 "shorter than %zu bytes for PyTorch",
                                                 socket_in(folder).c_str(), kManagerPathNbytes))
        .with("path", folder);
  }
  if (const std::string own = own_manager_folder(); !is_chosen && !own.empty()) folder = own;
  if (Fd socket = take_manager_line(socket_in(folder)); socket.is_open()) {
    give_manager_line(socket_in(folder), std::move(socket));
    return socket_in(folder);
  }
  Status status = connect_or_start(program, socket_in(folder), folder, waiter);
  // Another user made the default folder first. A manager in a folder with a random name serves
  // this process and the processes that are told its path.
  if (status.code() == Code::kPermission && !is_chosen &&
      check_folder(folder).code() == Code::kPermission) {
    TENON_ASSIGN(folder, os::make_private_folder(folder + "-"));
    set_own_manager_folder(folder);
    status = connect_or_start(program, socket_in(folder), folder, waiter);
  }
  if (!status.is_ok()) return status;
  return socket_in(folder);
}

}  // namespace tenon::names
