#include "modules/shared_weights/status.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

#include "modules/shared_weights/place.h"
#include "os/local_socket.h"
#include "os/lock_file.h"
#include "os/named_file.h"
#include "os/peer.h"
#include "os/socket.h"
#include "os/wait.h"

namespace tenon::shared_weights {
namespace {

constexpr int64_t kStatusWaitNs = 200'000'000;
constexpr std::string_view kHoldSuffix = ".hold";

// Asks the server. Leaves the state as it is if nobody listens.
void ask_server(const Place& place, NameStatus* status) {
  os::Waiter waiter(os::Wait{.timeout_ns = kStatusWaitNs});
  Result<os::Fd> socket = os::connect_local(os::SocketKind::kPackets, place.socket, &waiter);
  if (!socket.is_ok()) {
    if (socket.status().code() == Code::kPermission) status->state = NameState::kRefused;
    return;
  }
  if (Result<os::Peer> peer = os::peer_of(socket.value().get()); peer.is_ok())
    status->server_pid = peer.value().pid;
  Hello hello;
  hello.want = Want::kStatus;
  (void)os::send_message(socket.value().get(), encode_packet(hello), {}, {});
  if (!waiter.until_ready(socket.value().get(), POLLIN, "a status").is_ok()) {
    status->state = NameState::kSilent;
    return;
  }
  std::array<std::byte, kMaxPacketNbytes> room;
  os::ReceivedFds fds;
  const os::Transfer got = os::receive_message(socket.value().get(), room, false, &fds);
  if (got.error != 0 || got.nbytes == 0) return;
  Result<Packet> packet = decode_packet(std::span(room).first(got.nbytes));
  if (!packet.is_ok() || packet.value().kind != PacketKind::kStatus) {
    status->state = NameState::kRefused;
    return;
  }
  status->facts = packet.value().facts;
  status->state = status->facts.segment_nbytes == 0 ? NameState::kLoading : NameState::kLive;
}

// In ascending order. A process is there as often as it holds the file.
std::vector<pid_t> holders_of(const std::string& path) {
  std::vector<pid_t> holders;
  Result<os::Fd> hold = os::open_lock_file(path, false, 0, static_cast<gid_t>(-1));
  if (hold.is_ok()) holders = os::lock_owners(hold.value().get());
  std::ranges::sort(holders);
  return holders;
}

// `all` are the holders of NAME.hold, which each holder of a later version holds too.
std::vector<VersionStatus> versions_of(const Place& place, const std::vector<pid_t>& all) {
  std::vector<VersionStatus> found;
  std::vector<pid_t> first = all;
  Result<std::vector<uint64_t>> later = list_versions(place);
  if (!later.is_ok()) return found;
  std::ranges::sort(later.value(), std::greater());
  for (const uint64_t version : later.value()) {
    const std::vector<pid_t> holders = holders_of(version_path(place, version));
    if (!holders.empty()) found.push_back({version, holders});
    std::vector<pid_t> rest;
    std::ranges::set_difference(first, holders, std::back_inserter(rest));
    first = std::move(rest);
  }
  if (!first.empty()) found.push_back({kFirstVersion, first});
  for (VersionStatus& each : found) {
    const auto twice = std::ranges::unique(each.holders);
    each.holders.erase(twice.begin(), twice.end());
  }
  return found;
}

NameStatus look_at(const Place& place) {
  NameStatus status;
  status.name = place.name;
  status.holders = holders_of(place.hold);
  status.versions = versions_of(place, status.holders);
  const auto twice = std::ranges::unique(status.holders);
  status.holders.erase(twice.begin(), twice.end());
  if (!status.holders.empty()) status.state = NameState::kChanging;
  ask_server(place, &status);
  return status;
}

}  // namespace

Result<std::vector<NameStatus>> list_names(const std::string& directory) {
  const std::string path = directory.empty() ? default_directory() : directory;
  std::vector<std::string> found;
  Result<os::Fd> opened = os::open_directory(path);
  const bool is_absent = directory.empty() && opened.status().code() == Code::kNotFound;
  if (!opened.is_ok() && !is_absent) return opened.status();
  if (opened.is_ok()) {
    TENON_TRY(os::list_names(opened.value().get(), [&](const char* leaf) {
      const std::string_view each(leaf);
      if (each.ends_with(kHoldSuffix) && !each.starts_with("."))
        found.emplace_back(each.substr(0, each.size() - kHoldSuffix.size()));
      return true;
    }));
  }
  std::ranges::sort(found);
  std::vector<NameStatus> all;
  all.reserve(found.size());
  for (const std::string& name : found) all.push_back(look_at(place_in(path, name)));
  return all;
}

}  // namespace tenon::shared_weights
