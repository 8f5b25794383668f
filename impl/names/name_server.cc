#include "names/name_server.h"

#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/fork.h"
#include "base/keyed_hash.h"
#include "base/process_state.h"
#include "names/held_files.h"
#include "names/liveness.h"
#include "names/name_packets.h"
#include "names/names_thread.h"
#include "os/clients.h"
#include "os/clock.h"
#include "os/limits.h"
#include "os/local_socket.h"
#include "os/memfd.h"
#include "os/named_file.h"
#include "os/peer.h"
#include "os/service.h"
#include "os/shared_tick.h"
#include "os/socket.h"

namespace tenon::names {
namespace {

using memory::Access;
using memory::Segment;
using os::call_later;
using os::Fd;
using os::serve_fd;
using os::stop_serving_fd;
using storage::Storage;

// A client has an fd here until it has sent its request. Clients of other users have at most half
// of the places, and those of one such user at most a quarter.
constexpr uint64_t kMostClients = 1024;
constexpr uint64_t kFewestClients = 8;
constexpr int64_t kSilenceNs = 5'000'000'000;

// A name that this process serves.
struct Served {
  Fd listener;
  Filename name;
  Ref<Directory> directory;
  uint64_t inode = 0;
  Segment* segment = nullptr;        // alive: the end of the segment removes this entry first
  const Storage* storage = nullptr;  // null: the name is the segment's own
  std::string prefix;                // empty: the user chose the name
  Access access = Access::kAuto;
  SocketPolicy policy;
  uint64_t in_flight = 0;
  Ref<Segment> held;      // keeps the segment while messages are in flight
  bool orphaned = false;  // the storage has ended, and only messages in flight keep the name
};

// A client that has connected and has not sent its request yet.
struct Client {
  Fd socket;
  int listener = -1;
  int64_t since_ns = 0;  // the time of the connection, on the monotonic clock
  bool is_stranger = false;
  uid_t user = 0;
};

// The bell of a directory: an empty file that this process holds open as long as it serves names
// there. The kernel reports the death of a socket's listener to nobody. But it reports the name of
// a file that is closed to the watchers of the file's directory.
struct Bell {
  Ref<Directory> directory;
  std::string leaf;
  Fd fd;
  size_t names = 0;
};

void clients_tick_came() noexcept;

struct NameServerState : ProcessState<LockRank::kNameServer> {
  std::unordered_map<const Directory*, Bell> bells;
  std::unordered_map<int, std::unique_ptr<Served>> served;  // by listener
  std::unordered_map<int, Client> clients;                  // by socket
  // From a segment to the listener of its own name.
  std::unordered_map<const Segment*, int> own_names;
  std::unordered_multimap<const Storage*, int> storage_names;
  // From the path of each served name to its listener.
  std::unordered_map<std::string, int, KeyedHash> paths;
  bool exit_hook = false;
  os::SharedTick clients_tick{&clients_tick_came};

  // A forked child serves nothing: its copies of the listeners would keep the parent's names alive
  // after the parent. The messages are the parent's, so the references to their segments are
  // leaked. A segment that stays mapped in the child does no harm.
  void in_child() noexcept {
    for (auto& [fd, each] : served) (void)each->held.detach();
    served.clear();
    bells.clear();
    clients.clear();
    own_names.clear();
    storage_names.clear();
    paths.clear();
    clients_tick.forget();
  }
};

NameServerState& name_server_state() noexcept { return process_state<NameServerState>(); }

// Removes the socket, unless another one has the name by now.
void unlink_served(const Served& served) noexcept {
  Result<os::NameInfo> info = os::look_at_name(served.directory->fd(), served.name.leaf);
  if (info.is_ok() && info.value().inode == served.inode)
    (void)os::unlink_name(served.directory->fd(), served.name.leaf);
}

// Makes the bell of a directory for its first name, and counts the names.
void hang_bell(NameServerState* all, const Ref<Directory>& directory) {
  Bell& bell = all->bells[directory.get()];
  if (++bell.names > 1) return;
  bell.directory = directory;
  Result<Filename> name = choose_filename(directory->path(), kBellPrefix, "");
  Result<Fd> made = name.is_ok() ? os::create_name(directory->fd(), name.value().leaf)
                                 : Result<Fd>(name.status());
  // Best effort: without a bell a dead name waits for the next sweep.
  if (!made.is_ok()) return;
  bell.leaf = name.value().leaf;
  bell.fd = std::move(made).value();
}

// Removes the bell of a directory after its last name.
void take_bell(NameServerState* all, const Ref<Directory>& directory) noexcept {
  const auto found = all->bells.find(directory.get());
  if (found == all->bells.end() || --found->second.names > 0) return;
  if (found->second.fd.is_open()) (void)os::unlink_name(directory->fd(), found->second.leaf);
  all->bells.erase(found);
}

// Holds a bell for a name that is being made. The destructor takes the bell back, unless keep() was
// called.
class Hanging {
 public:
  explicit Hanging(const Ref<Directory>& directory) : directory_(directory) {
    NameServerState& all = name_server_state();
    const std::lock_guard<std::mutex> lock(all.mutex);
    hang_bell(&all, directory_);
  }
  Hanging(const Hanging&) = delete;
  Hanging& operator=(const Hanging&) = delete;
  ~Hanging() {
    if (!directory_) return;
    NameServerState& all = name_server_state();
    const std::lock_guard<std::mutex> lock(all.mutex);
    take_bell(&all, directory_);
  }
  void keep() noexcept { directory_ = nullptr; }

 private:
  Ref<Directory> directory_;
};

// Takes out an entry, which the caller destroys after the lock. The socket's name is removed first,
// so that no client connects to a socket without a server.
std::unique_ptr<Served> take_out(NameServerState* all, int listener) noexcept {
  const auto found = all->served.find(listener);
  if (found == all->served.end()) return nullptr;
  std::unique_ptr<Served> ending = std::move(found->second);
  all->served.erase(found);
  if (const auto path = all->paths.find(ending->name.path());
      path != all->paths.end() && path->second == listener)
    all->paths.erase(path);
  if (ending->storage == nullptr) {
    all->own_names.erase(ending->segment);
  } else {
    const auto [begin, end] = all->storage_names.equal_range(ending->storage);
    for (auto at = begin; at != end; ++at) {
      if (at->second != listener) continue;
      all->storage_names.erase(at);
      break;
    }
  }
  stop_serving_fd(listener);
  unlink_served(*ending);
  take_bell(all, ending->directory);
  return ending;
}

void end_of_storage(Storage* storage) noexcept {
  NameServerState& all = name_server_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  for (auto at = all.storage_names.find(storage); at != all.storage_names.end();
       at = all.storage_names.find(storage)) {
    Served& served = *all.served.at(at->second);
    if (served.in_flight > 0) {
      // From now on only the messages in flight keep the name. Another storage may get this
      // address.
      served.orphaned = true;
      all.storage_names.erase(at);
    } else {
      (void)take_out(&all, at->second);  // `held` is null, so no segment ends under the lock
    }
  }
}

// Ends a segment's own name when the segment ends.
class SocketTail : public memory::SegmentTail {
 public:
  void before_unmap(Segment* segment) noexcept override {
    if (generation_ != fork_generation()) return;
    NameServerState& all = name_server_state();
    const std::lock_guard<std::mutex> lock(all.mutex);
    // The names of the segment's storages ended with the storages, and a name with messages in
    // flight holds the segment. So only the segment's own name is left.
    if (const auto own = all.own_names.find(segment); own != all.own_names.end())
      (void)take_out(&all, own->second);
  }
  void after_unmap() noexcept override { close_idle_directories(); }

 private:
  const uint64_t generation_ = fork_generation();
};

// Counts one message as received. True: it was the last one in flight.
bool message_received(Served* served) noexcept {
  if (served->in_flight == 0) return false;
  --served->in_flight;
  return served->in_flight == 0;
}

// Whether the peer of `socket` may have the memory, by the policy of the name.
bool may_have(const Served& served, int socket) {
  if ((served.policy.mode & 0006) != 0) return true;
  Result<os::Peer> peer = os::peer_of(socket);
  if (!peer.is_ok()) return false;
  Result<bool> admitted =
      os::is_admitted(socket, peer.value(),
                      served.policy.has_group ? std::optional(served.policy.group) : std::nullopt);
  return admitted.is_ok() && admitted.value();
}

void answer(int socket, Code code, const Served* served, int fd) noexcept {
  AnswerPacket packet{};
  packet.magic = kNameMagic;
  packet.code = static_cast<int32_t>(code);
  if (served != nullptr && fd >= 0) {
    packet.access = static_cast<uint32_t>(served->access);
    packet.segment_nbytes = served->segment->nbytes();
  }
  const std::span<const int> fds(&fd, fd >= 0 ? 1 : 0);
  (void)os::send_message(socket, std::as_bytes(std::span(&packet, 1)), {}, fds);
}

// Answers one request of a client. The caller releases the result after the lock. `*keep` says that
// no request came yet, so the client stays.
Ref<Segment> serve(NameServerState* all, const Client& client, bool* keep) {
  RequestPacket request{};
  os::ReceivedFds fds;
  const os::Transfer got = os::receive_message(
      client.socket.get(), std::as_writable_bytes(std::span(&request, 1)), false, &fds);
  // EAGAIN: the event was for another socket, which had this number a moment ago.
  *keep = got.error == EAGAIN;
  if (got.error != 0 || got.nbytes == 0) return nullptr;
  const int socket = client.socket.get();
  const bool good = got.nbytes == sizeof request && !got.data_cut && request.magic == kNameMagic &&
                    request.request >= 1 && request.request <= 3;
  const auto found = all->served.find(client.listener);
  if (!good || found == all->served.end()) {
    answer(socket, good ? Code::kNotFound : Code::kInvalidArgument, nullptr, -1);
    return nullptr;
  }
  Served* served = found->second.get();
  const auto wanted = static_cast<NameRequest>(request.request);
  Ref<Segment> let_go;
  if (wanted != NameRequest::kReceived) {
    // A segment whose last reference was just released is about to remove this entry.
    if (!served->segment->try_retain()) {
      answer(socket, Code::kNotFound, nullptr, -1);
      return nullptr;
    }
    let_go = Ref<Segment>::adopt(served->segment);
    Result<int> fd = served->segment->lending_fd();
    answer(socket, fd.status().code(), served, fd.is_ok() ? fd.value() : -1);
    if (!fd.is_ok() || wanted == NameRequest::kOpen) return let_go;
  } else {
    answer(socket, Code::kOk, nullptr, -1);
  }
  if (!message_received(served)) return let_go;
  if (let_go) {
    served->held = nullptr;  // `let_go` is another reference, so this is not the last one
  } else {
    let_go = std::move(served->held);
  }
  if (served->orphaned) (void)take_out(all, client.listener);
  return let_go;
}

uint64_t most_clients() noexcept {
  return std::clamp(os::fd_limit() / 8, kFewestClients, kMostClients);
}

// Whether there is a place for this client.
bool has_place(const NameServerState& all, const Client& client) noexcept {
  const uint64_t most = most_clients();
  if (all.clients.size() >= most) return false;
  if (!client.is_stranger) return true;
  uint64_t strangers = 0;
  uint64_t of_user = 0;
  for (const auto& [socket, other] : all.clients) {
    if (!other.is_stranger) continue;
    ++strangers;
    if (other.user == client.user) ++of_user;
  }
  return strangers < most / 2 && of_user < most / 4;
}

void want_clients_tick(NameServerState* all) noexcept {
  if (!all->clients.empty()) all->clients_tick.request(kSilenceNs);
}

// Drops silent clients.
void clients_tick_came() noexcept {
  NameServerState& all = name_server_state();
  if (!all.clients_tick.begin()) return;
  const std::lock_guard<std::mutex> lock(all.mutex);
  os::drop_silent_clients(&all.clients, kSilenceNs);
  want_clients_tick(&all);
}

void on_client(int fd, bool, bool) noexcept {
  NameServerState& all = name_server_state();
  Ref<Segment> let_go;  // released after the lock
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.clients.find(fd);
  if (found == all.clients.end()) return;
  bool keep = false;
  try {
    let_go = serve(&all, found->second, &keep);
  } catch (...) {
    keep = false;  // no memory: the client sees that the connection was closed
  }
  if (!keep) os::drop_client(&all.clients, fd);
}

void on_listener(int fd, bool, bool) noexcept;

// Accepts one client. False: no client waits, or accepting must wait.
bool accept_one(NameServerState* all, int listener) {
  const auto found = all->served.find(listener);
  if (found == all->served.end()) return false;
  Result<Fd> accepted = os::accept_local(listener);
  if (!accepted.is_ok()) {
    // There is no fd for the client now. It waits in the queue. The listener is not polled for a
    // while, because the level-triggered poll would spin.
    stop_serving_fd(listener);
    call_later(
        []() noexcept {
          NameServerState& here = name_server_state();
          const std::lock_guard<std::mutex> again(here.mutex);
          for (auto& [each, served] : here.served) (void)serve_fd(each, &on_listener);
        },
        20'000'000);
    return false;
  }
  if (!accepted.value().is_open()) return false;
  const int socket = accepted.value().get();
  Client client{std::move(accepted).value(), listener, os::monotonic_ns()};
  Result<os::Peer> peer = os::peer_of(socket);
  client.is_stranger = !peer.is_ok() || !os::is_own_or_root(peer.value());
  if (peer.is_ok()) client.user = peer.value().uid;
  const bool placed = has_place(*all, client);
  if (!placed || !may_have(*found->second, socket)) {
    answer(socket, placed ? Code::kPermission : Code::kResourceExhausted, nullptr, -1);
    return true;
  }
  all->clients.emplace(socket, std::move(client));
  if (!serve_fd(socket, &on_client).is_ok()) all->clients.erase(socket);
  want_clients_tick(all);
  return true;
}

void on_listener(int fd, bool, bool) noexcept {
  NameServerState& all = name_server_state();
  // The lock is released between two clients, so that other threads get it.
  for (int turn = 0; turn < 16; ++turn) {
    const std::lock_guard<std::mutex> lock(all.mutex);
    try {
      if (!accept_one(&all, fd)) return;
    } catch (...) {
      return;  // no memory: the client waits, or sees that the connection was closed
    }
  }
}

void at_exit() noexcept {
  NameServerState& all = name_server_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  for (const auto& [fd, served] : all.served) unlink_served(*served);
  for (const auto& [directory, bell] : all.bells) {
    if (bell.fd.is_open()) (void)os::unlink_name(directory->fd(), bell.leaf);
  }
  for (auto& [fd, served] : all.served) (void)served->held.detach();
  all.served.clear();
  // A storage that lives longer, in a static object, finds no name to end.
  all.own_names.clear();
  all.storage_names.clear();
  all.paths.clear();
}

// Makes the listening socket. If a dead socket or file has the name, removes it and tries again.
Result<Fd> listen_or_sweep(const Filename& name, const SocketPolicy& policy) {
  // The sticky bit, which means nothing on a socket, marks it as Tenon's, so that a sweep knows it
  // when its lender is dead.
  const mode_t mode = policy.mode | S_ISVTX;
  const gid_t group = policy.has_group ? policy.group : static_cast<gid_t>(-1);
  Result<Fd> listening = os::listen_local(os::SocketKind::kPackets, name.path(), mode, group);
  // If this process was slow between bind and link, a sweep may have removed the socket as dead.
  for (int tries = 0;
       tries < 5 && !listening.is_ok() && listening.status().code() == Code::kNotFound; ++tries)
    listening = os::listen_local(os::SocketKind::kPackets, name.path(), mode, group);
  if (listening.is_ok() || listening.status().code() != Code::kPermission) return listening;
  TENON_ASSIGN(const Ref<Directory> directory, open_names_directory(name.directory));
  if (!remove_dead_namesake(directory->fd(), name.leaf)) return listening;
  return os::listen_local(os::SocketKind::kPackets, name.path(), mode, group);
}

}  // namespace

Result<Filename> serve_name(const Ref<Storage>& storage, Access access, const Filename& place,
                            const std::string& prefix, const SocketPolicy& policy) {
  NameServerState& all = name_server_state();
  Segment* const segment = storage->segment().get();
  const auto fits = [&](const Served& served) {
    return served.policy == policy && served.name.directory == place.directory &&
           served.prefix == prefix && (!prefix.empty() || served.name.leaf == place.leaf);
  };
  // Finds a name that fits. Call this with the lock.
  bool of_storage = prefix.empty();
  const auto find_known = [&]() -> const Served* {
    if (const auto own = all.own_names.find(segment); own != all.own_names.end()) {
      if (fits(*all.served.at(own->second))) return all.served.at(own->second).get();
      of_storage = true;
    }
    const auto [begin, end] = all.storage_names.equal_range(storage.get());
    const auto known = std::find_if(
        begin, end, [&](const auto& each) { return fits(*all.served.at(each.second)); });
    return known == end ? nullptr : all.served.at(known->second).get();
  };
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (const Served* known = find_known(); known != nullptr) return known->name;
  }
  if (segment->find_tail<SocketTail>() == nullptr)
    segment->attach_tail(std::make_unique<SocketTail>());
  auto served = std::make_unique<Served>();
  TENON_ASSIGN(served->directory, open_names_directory(place.directory));
  // The bell comes first: from the moment when the socket exists, the end of this process must be
  // noticed.
  Hanging bell(served->directory);
  TENON_ASSIGN(served->listener, listen_or_sweep(place, policy));
  const int listener = served->listener.get();
  served->name = place;
  served->prefix = prefix;
  served->segment = segment;
  served->access = access;
  served->policy = policy;
  TENON_ASSIGN(const os::NameInfo info, os::look_at_name(served->directory->fd(), place.leaf));
  served->inode = info.inode;

  const std::lock_guard<std::mutex> lock(all.mutex);
  // If two threads make the name at once, the first name stays and this one is removed.
  if (const Served* known = find_known(); known != nullptr) {
    unlink_served(*served);
    return known->name;
  }
  if (!all.exit_hook) all.exit_hook = std::atexit([]() { at_exit(); }) == 0;
  if (of_storage) {
    served->storage = storage.get();
    // Only this file uses the third end hook of a storage.
    storage->call_at_end(Storage::EndSlot::kThird, &end_of_storage);
  }
  // `all.served` gets the entry first, because the other maps refer to it.
  all.served.emplace(listener, std::move(served));
  bell.keep();
  Status status;
  try {
    if (of_storage) {
      all.storage_names.emplace(storage.get(), listener);
    } else {
      all.own_names.emplace(segment, listener);
    }
    // If a name was served under this path before, somebody has removed its socket, so the new name
    // takes the path.
    all.paths.insert_or_assign(place.path(), listener);
    status = serve_fd(listener, &on_listener);
  } catch (...) {
    (void)take_out(&all, listener);
    throw;
  }
  if (status.is_ok()) return place;
  (void)take_out(&all, listener);
  return status;
}

void leave_served_names() noexcept {
  // These entries are destroyed after the lock, because one may be the last to hold its segment.
  std::vector<std::unique_ptr<Served>> ended;
  NameServerState& all = name_server_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  try {
    ended.reserve(all.served.size());
  } catch (...) {
    for (const auto& [listener, served] : all.served) unlink_served(*served);
    return;  // no memory: only the sockets are removed, and the process frees the rest at its end
  }
  while (!all.served.empty()) ended.push_back(take_out(&all, all.served.begin()->first));
}

bool count_socket_message(const Filename& name, bool received) {
  NameServerState& all = name_server_state();
  Ref<Segment> let_go;  // released after the lock
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.paths.find(name.path());
  if (found == all.paths.end()) return false;
  const int listener = found->second;
  Served& served = *all.served.at(listener);
  if (!received) {
    if (served.in_flight++ == 0) served.held = Ref<Segment>::share(served.segment);
  } else if (message_received(&served)) {
    let_go = std::move(served.held);
    if (served.orphaned) (void)take_out(&all, listener);
  }
  return true;
}

}  // namespace tenon::names
