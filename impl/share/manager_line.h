// The connections that this process has with managers, between the calls that use them.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"
#include "os/fd.h"
#include "os/wait.h"
#include "share/manager_protocol.h"

namespace tenon::share {

using ManagerBytes = std::array<std::byte, kManagerMessageNbytes>;

// A connection that no call uses, for the caller alone, so that none waits for another's answer and
// no lock is held while one waits. Not open if there is none that works.
os::Fd take_manager_line(const std::string& manager);
void give_manager_line(const std::string& manager, os::Fd socket);
// A new one. NOT_FOUND, PEER_GONE, PERMISSION (another user's), …
Result<os::Fd> connect_to_manager(const std::string& manager, os::Waiter* waiter);

// Deallocations for which the socket had no room: a lost one would be counted against a message in
// flight.
void keep_unsent(const std::string& manager, const ManagerBytes& message);
std::vector<ManagerBytes> take_unsent(const std::string& manager);
// True: it is on its way, or the connection is broken and so nobody needs it.
bool send_at_once(const os::Fd& socket, const ManagerBytes& message) noexcept;
// The kept ones. True: none is left.
bool send_unsent_at_once(const std::string& manager, const os::Fd& socket) noexcept;

// The folder of this process's own manager, where the user's is taken by somebody else; else empty.
std::string own_manager_folder();
void set_own_manager_folder(const std::string& folder);

}  // namespace tenon::share
