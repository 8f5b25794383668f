// The client's side of a manager (docs/format/manager.md), which is PyTorch's or Tenon's. Named
// files that PyTorch opens register with their manager here (by_filename.cc, held_files.cc). This
// file also starts Tenon's manager, and removes what a killed one left.
//
// No lock is held while a call waits for a manager, and the caller of register_with_manager() and
// start_manager() holds none. A forked child makes connections of its own, and its parent's
// registrations are not the child's.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "os/wait.h"

namespace tenon::names {

// The suffixes of two names beside a manager's socket: the file that the manager locks as long as
// it lives, and the name that the socket has while the manager decides whether to end.
inline constexpr std::string_view kManagerLockSuffix = ".lock";
inline constexpr std::string_view kManagerHiddenSuffix = ".closing";
// The most bytes of a socket's path, with its NUL. PyTorch's sockaddr_un has room for no more.
inline constexpr size_t kManagerPathNbytes = 108;

// Tells the manager that this process holds `name` ("/leaf" in /dev/shm), and waits for its answer.
// Takes an idle connection or makes one, and tries once more over a new connection if the manager
// closed the first. Errors carry the detail path with the manager's socket: NOT_FOUND, PEER_GONE,
// TIMEOUT, CORRUPT (the answer is not OK), PERMISSION (the manager belongs to another user), and
// WOULD_BLOCK, CANCELLED and INTERRUPTED of the wait. If the wait was cancelled before the call,
// the error has no path. INVALID_ARGUMENT: `name` does not fit a request, and the detail path is
// `name`. After a failed wait for the answer, and after CORRUPT, the registration is taken back.
// `waiter` is not null.
Status register_with_manager(const std::string& manager, const std::string& name,
                             os::Waiter* waiter);
// Tells the manager that this process has let go of `name`. The call never waits and never fails. A
// manager that cannot be reached learns it when this process ends. The call takes
// LockRank::kManagerLines.
void deallocate_at_manager(const std::string& manager, const std::string& name) noexcept;
// Removes what a killed manager of Tenon's left, if nobody has its lock: its socket, its lock file
// and its folder. The call never fails, and removes nothing else. It does nothing in a folder that
// another user owns or that is open to others.
void remove_dead_manager(const std::string& manager) noexcept;
// Does the same for every folder that start_manager() makes by itself for this user.
void remove_dead_managers() noexcept;
// The path at which start_manager() looks first in a process that has made no folder of its own.
std::string manager_socket();
// Gives the path of the manager's program: `program`, unchecked, if that is not empty, otherwise
// TENON_MANAGER of the environment, unchecked too, and otherwise the first tenon-manager that this
// process may execute: beside this library, or in tenon, ../libexec/tenon, ../../libexec/tenon or
// bin of the library's folder. NOT_FOUND if there is none.
Result<std::string> find_manager_program(const std::string& program);
// Gives the socket of this user's manager, and starts the manager if there is none. This process is
// a client of the manager from then on.
//
// find_manager_program() chooses the program. The manager's folder is TENON_MANAGER_FOLDER, else
// /dev/shm/tenon-manager-UID. If another user has that default folder, this process makes a folder
// of its own. Its manager serves this process and the processes that are given the result.
//
// NOT_FOUND: there is no program. PEER_GONE or CORRUPT: the program did not start as a manager.
// PERMISSION: the chosen folder is another user's or is open to others. INVALID_ARGUMENT: its path
// is too long. Also the errors of the wait.
Result<std::string> start_manager(const std::string& program, os::Waiter* waiter);

}  // namespace tenon::names
