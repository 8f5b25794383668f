#include "names/manager_line.h"

#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/keyed_hash.h"
#include "base/process_state.h"
#include "names/manager.h"
#include "os/local_socket.h"
#include "os/peer.h"
#include "os/sender.h"
#include "os/socket.h"

namespace tenon::names {
namespace {

using os::Fd;
using os::Waiter;

// The most idle connections, and the most kept deallocations, for each manager. A kept deallocation
// is a message to the manager for which its socket had no room. Beyond the most, an idle connection
// is closed, and a deallocation is lost.
constexpr size_t kIdleMost = 4;
constexpr size_t kUnsentMost = 100'000;

struct Lines {
  std::vector<Fd> idle;
  std::vector<ManagerBytes> unsent;
};

struct ManagerLineTable : ProcessState<LockRank::kManagerLines> {
  std::unordered_map<std::string, Lines, KeyedHash> lines;
  std::string own_folder;

  // A forked child makes its own connections: otherwise its messages would come over a connection
  // that the manager knows as the parent's. A connection that another thread had taken from the
  // table at the fork stays open in the child, which does the manager no harm. The parent's kept
  // deallocations are dropped too, because the child would send them a second time. `own_folder`
  // stays.
  void in_child() noexcept { lines.clear(); }
};

ManagerLineTable& manager_line_table() noexcept { return process_state<ManagerLineTable>(); }

// Whether the manager hung up, or sent bytes for which no call waits.
bool is_stale(const Fd& socket) noexcept {
  return os::peer_hung_up(socket.get()) || os::unread_nbytes(socket.get()) > 0;
}

}  // namespace

Fd take_manager_line(const std::string& manager) {
  ManagerLineTable& all = manager_line_table();
  std::vector<Fd> stale;
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto line = all.lines.find(manager);
  if (line == all.lines.end()) return {};
  while (!line->second.idle.empty()) {
    Fd socket = std::move(line->second.idle.back());
    line->second.idle.pop_back();
    if (!is_stale(socket)) return socket;
    stale.push_back(std::move(socket));
  }
  return {};
}

void give_manager_line(const std::string& manager, Fd socket) {
  ManagerLineTable& all = manager_line_table();
  const std::lock_guard<std::mutex> lock(all.mutex);
  std::vector<Fd>& idle = all.lines[manager].idle;
  if (idle.size() < kIdleMost) idle.push_back(std::move(socket));
}

void keep_unsent(const std::string& manager, const ManagerBytes& message) {
  ManagerLineTable& all = manager_line_table();
  const std::lock_guard<std::mutex> lock(all.mutex);
  std::vector<ManagerBytes>& unsent = all.lines[manager].unsent;
  if (unsent.size() < kUnsentMost) unsent.push_back(message);
}

std::vector<ManagerBytes> take_unsent(const std::string& manager) {
  ManagerLineTable& all = manager_line_table();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto line = all.lines.find(manager);
  return line == all.lines.end() ? std::vector<ManagerBytes>()
                                 : std::exchange(line->second.unsent, {});
}

bool send_at_once(const Fd& socket, const ManagerBytes& message) noexcept {
  const os::Transfer sent = os::send_message(socket.get(), message, {}, {});
  return sent.error != EAGAIN;
}

bool send_unsent_at_once(const std::string& manager, const Fd& socket) noexcept {
  ManagerLineTable& all = manager_line_table();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto line = all.lines.find(manager);
  if (line == all.lines.end()) return true;
  std::vector<ManagerBytes>& unsent = line->second.unsent;
  while (!unsent.empty() && send_at_once(socket, unsent.back())) unsent.pop_back();
  return unsent.empty();
}

Result<Fd> connect_to_manager(const std::string& manager, Waiter* waiter) {
  Result<Fd> connected = os::connect_local(os::SocketKind::kStream, manager, waiter);
  if (!connected.is_ok()) {
    if (connected.status().code() == Code::kPeerGone) remove_dead_manager(manager);
    return connected;
  }
  Fd socket = std::move(connected).value();
  TENON_ASSIGN(const os::Peer peer, os::peer_of(socket.get()));
  if (os::is_own_or_root(peer)) return socket;
  return Status(Code::kPermission,
                format("the manager at %s is another user's (uid %u)", manager.c_str(), peer.uid))
      .with("path", manager)
      .with("pid", peer.pid);
}

std::string own_manager_folder() {
  const std::lock_guard<std::mutex> lock(manager_line_table().mutex);
  return manager_line_table().own_folder;
}

void set_own_manager_folder(const std::string& folder) {
  const std::lock_guard<std::mutex> lock(manager_line_table().mutex);
  manager_line_table().own_folder = folder;
}

}  // namespace tenon::names
