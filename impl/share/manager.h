// The client's side of a manager, PyTorch's or Tenon's: one connection per manager and process, and
// starting Tenon's.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "os/wait.h"

namespace tenon::share {

// Beside a manager's socket: a lock that it holds as long as it lives, and the socket's name while
// it decides whether to end.
inline constexpr std::string_view kManagerLockSuffix = ".lock";
inline constexpr std::string_view kManagerHiddenSuffix = ".closing";
// With its NUL: what PyTorch's sockaddr_un has room for.
inline constexpr size_t kManagerPathNbytes = 108;

// Tell the manager that this process holds `name` ("/leaf" in /dev/shm). Connects the first time; a
// connection that broke is made again once. Errors carry detail path = the manager's socket:
// NOT_FOUND, PEER_GONE, TIMEOUT, CORRUPT (the answer is not OK), PERMISSION (another user's).
Status register_with_manager(const std::string& manager, const std::string& name,
                             os::Waiter* waiter);
// That it let go. Never waits, never fails: a manager that does not listen finds out by itself.
void deallocate_at_manager(const std::string& manager, const std::string& name) noexcept;
// What a killed manager of Tenon's left: its socket, its lock and its folder, if nobody has the
// lock. Never fails; another's things stay.
void remove_dead_manager(const std::string& manager) noexcept;
// The same for every folder that start_manager() makes by itself for this user.
void remove_dead_managers() noexcept;
// Where start_manager() looks first.
std::string manager_socket();
// The program, or NOT_FOUND: `program` unless it is empty, else as start_manager() finds it.
Result<std::string> find_manager_program(const std::string& program);
// The socket of this user's manager, started if there is none; this process is its client from then
// on. `program` empty: TENON_MANAGER of the environment, else tenon-manager beside this library or
// in ../libexec/tenon of its folder. Its folder is TENON_MANAGER_FOLDER, else
// /dev/shm/tenon-manager-UID; where somebody else has that, a folder of its own, for this process
// and who is given the result.
Result<std::string> start_manager(const std::string& program, os::Waiter* waiter);

}  // namespace tenon::share
