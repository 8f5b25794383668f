// Keeps the idle connections of this process to managers, for manager.cc and manager_start.cc.
// `manager` is the path of a manager's socket. A deallocation is the message by which this process
// tells a manager that it has let go of a name (docs/format/manager.md). A deallocation may go over
// another connection than the registration, because a manager that sees this process's pid counts
// by process.
//
// No function holds LockRank::kManagerLines while it waits. A forked child begins without
// connections and without kept deallocations. Functions that are not noexcept throw std::bad_alloc.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"
#include "names/manager_protocol.h"
#include "os/fd.h"
#include "os/wait.h"

namespace tenon::names {

using ManagerBytes = std::array<std::byte, kManagerMessageNbytes>;

// Takes an idle connection. It belongs to the caller alone until give_manager_line(). So no call
// waits for another call's answer, and no lock is held while a call waits. The result is not open
// if there is none that works: a connection that hung up, or that has unexpected bytes to read, is
// closed.
os::Fd take_manager_line(const std::string& manager);
// Gives a connection back, on which no answer is due. If 4 are idle already, it is closed.
void give_manager_line(const std::string& manager, os::Fd socket);
// Makes a new connection. NOT_FOUND, PEER_GONE (what a dead manager left is removed first),
// PERMISSION (another user's manager), and the errors of the wait.
Result<os::Fd> connect_to_manager(const std::string& manager, os::Waiter* waiter);

// Keeps a deallocation for which the socket had no room. This process has lowered the file's count
// already. Without the deallocation the manager would believe, when this process ends, that its
// share is still in the count, and could remove a name for which a message is in flight. Beyond
// 100,000 kept ones for one manager, a deallocation is lost.
void keep_unsent(const std::string& manager, const ManagerBytes& message);
// Takes all kept deallocations of the manager. The caller keeps again what it cannot send.
std::vector<ManagerBytes> take_unsent(const std::string& manager);
// Sends without waiting. True: the message is on its way, or the connection is broken, so that
// nobody needs the message. False: the socket has no room.
bool send_at_once(const os::Fd& socket, const ManagerBytes& message) noexcept;
// Sends the kept deallocations without waiting. True: none is left.
bool send_unsent_at_once(const std::string& manager, const os::Fd& socket) noexcept;

// The folder of the manager that this process started for itself, because another user has the
// usual folder. Empty if there is no such manager.
std::string own_manager_folder();
void set_own_manager_folder(const std::string& folder);

}  // namespace tenon::names
