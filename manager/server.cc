#include "manager/server.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "os/clock.h"
#include "os/local_socket.h"
#include "os/peer.h"
#include "os/process.h"
#include "os/sender.h"
#include "os/socket.h"

namespace tenon::manager {
namespace {

constexpr int64_t kMillisecondNs = 1'000'000;
constexpr uint64_t kListenerKey = 1;
constexpr uint64_t kSignalsKey = 2;
constexpr uint64_t kWatchKey = 3;
constexpr uint64_t kStarterKey = 4;
constexpr uint64_t kFirstClientKey = 16;
// These bits mark the keys of pidfds, and the senders that are a connection and not a process.
constexpr uint64_t kProcessBit = uint64_t{1} << 63;
constexpr uint64_t kNamelessBit = uint64_t{1} << 62;

// The limits of one turn. In a turn one client is served while the others wait.
constexpr size_t kMessagesPerTurn = 16;
constexpr size_t kTurnNbytes = kMessagesPerTurn * names::kManagerMessageNbytes;
constexpr size_t kLooksPerTurn = 64;
constexpr int kAcceptsPerTurn = 64;
constexpr size_t kEventsPerTurn = 64;
// If a client leaves this many bytes of answers unread, the server reads nothing more from it.
// PyTorch reads each answer before it asks again.
constexpr size_t kUnsentMost = 64 * names::kManagerReply.size();
constexpr int64_t kNoFdPauseNs = 100 * kMillisecondNs;
// While a message may be on its way to a process that is no client yet, the server lingers four
// times as long. PyTorch's manager waits this long.
constexpr int64_t kMessageLingerFactor = 4;
constexpr int64_t kFirstClientNs = 10'000 * kMillisecondNs;
constexpr int64_t kClosingMostNs = 5'000 * kMillisecondNs;
// The most processes whose end is awaited during the last checks.
constexpr size_t kLeavingMost = 64;

bool is_readable(int fd) noexcept {
  pollfd polled{fd, POLLIN, 0};
  return ::poll(&polled, 1, 0) > 0;
}

}  // namespace

Server::Server(Place* place, Objects* objects, os::Fd ending_signals, const ServerOptions& options,
               os::Poller poller) noexcept
    : place_(place),
      objects_(objects),
      signals_(std::move(ending_signals)),
      options_(options),
      poller_(std::move(poller)),
      next_key_(kFirstClientKey) {}

Result<std::unique_ptr<Server>> Server::create(Place* place, Objects* objects,
                                               os::Fd ending_signals,
                                               const ServerOptions& options) {
  TENON_ASSIGN(os::Poller poller, os::Poller::create());
  std::unique_ptr<Server> server(
      new Server(place, objects, std::move(ending_signals), options, std::move(poller)));
  TENON_TRY(server->listen_to_all());
  return server;
}

Status Server::listen_to_all() {
  TENON_TRY(poller_.add(place_->listener(), kListenerKey, true, false));
  TENON_TRY(poller_.add(signals_.get(), kSignalsKey, true, false));
  if (objects_->watch_fd() >= 0)
    TENON_TRY(poller_.add(objects_->watch_fd(), kWatchKey, true, false));
  starter_ = os::open_pidfd(options_.starter);
  if (starter_.is_open()) TENON_TRY(poller_.add(starter_.get(), kStarterKey, true, false));
  quiet_since_ns_ = os::monotonic_ns();
  return {};
}

void Server::run() {
  std::array<os::Poller::Event, kEventsPerTurn> events;
  for (;;) {
    const size_t count = poller_.wait(timeout_ns(os::monotonic_ns()), events);
    for (size_t i = 0; i < count; ++i) handle(events[i]);
    for (const SenderKey key : std::exchange(ended_, {})) sender_ended(key);
    const int64_t now_ns = os::monotonic_ns();
    if (accept_again_ns_ != 0 && now_ns >= accept_again_ns_) pause_accepting(false);
    objects_->work(kLooksPerTurn, now_ns);
    if (told_to_end_) break;
    if (is_over(now_ns)) return;
  }
  objects_->settle();
}

int64_t Server::timeout_ns(int64_t now_ns) const noexcept {
  if (objects_->has_work()) return 0;
  int64_t next_ns = objects_->next_due_ns();
  if (accept_again_ns_ != 0) next_ns = std::min(next_ns, accept_again_ns_);
  if (closing_since_ns_ != 0) {
    next_ns = std::min(next_ns, closing_since_ns_ + kClosingMostNs);
  } else if (quiet_since_ns_ != 0) {
    const int64_t linger_ns =
        objects_->has_messages() ? options_.linger_ns * kMessageLingerFactor : options_.linger_ns;
    next_ns = std::min(next_ns, quiet_since_ns_ + (met_client_ ? linger_ns : kFirstClientNs));
  }
  return next_ns == INT64_MAX ? -1 : std::max<int64_t>(next_ns - now_ns, 0);
}

// Decides whether the server may end. The names are settled first, in turns in which a new client
// is still accepted. Then the socket's path is hidden. It is the end only if no client came before
// that.
bool Server::is_over(int64_t now_ns) {
  if (quiet_since_ns_ == 0) return false;
  if (closing_since_ns_ == 0) {
    const int64_t linger_ns =
        objects_->has_messages() ? options_.linger_ns * kMessageLingerFactor : options_.linger_ns;
    if (now_ns - quiet_since_ns_ < (met_client_ ? linger_ns : kFirstClientNs)) return false;
    closing_since_ns_ = now_ns;
    objects_->close(true);
  }
  forget_ended_leavers();
  objects_->wait_for_holders(!leaving_.empty());
  const bool settled = !objects_->has_work() && objects_->next_due_ns() == INT64_MAX;
  if (!settled && now_ns - closing_since_ns_ < kClosingMostNs) return false;
  const bool hidden = place_->hide();
  accept_clients();
  if (clients_.empty()) return true;
  if (hidden) static_cast<void>(place_->show());
  return false;
}

void Server::handle(const os::Poller::Event& event) {
  switch (event.key) {
    case kListenerKey: accept_clients(); return;
    case kSignalsKey: told_to_end_ = true; return;
    case kWatchKey: objects_->read_watch(); return;
    case kStarterKey:
      // The starter has ended and will not connect, so only the usual time is waited.
      poller_.remove(starter_.get());
      starter_.reset();
      if (!met_client_) quiet_since_ns_ = os::monotonic_ns();
      met_client_ = true;
      return;
    default: break;
  }
  if ((event.key & kProcessBit) != 0) {
    sender_ended(event.key & ~kProcessBit);
  } else {
    serve(event.key, event);
  }
}

void Server::pause_accepting(bool pause) {
  if (!pause && accept_again_ns_ == 0) return;
  static_cast<void>(poller_.change(place_->listener(), kListenerKey, !pause, false));
  accept_again_ns_ = pause ? os::monotonic_ns() + kNoFdPauseNs : 0;
}

void Server::accept_clients() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    Result<os::Fd> accepted = os::accept_local(place_->listener());
    if (!accepted.is_ok()) {
      if (accepted.status().code() == Code::kResourceExhausted && spare_pidfd()) continue;
      // No fd is left. A client that waits in the queue would make the listener ready for ever.
      pause_accepting(true);
      return;
    }
    os::Fd socket = std::move(accepted).value();
    if (!socket.is_open()) return;
    Result<os::Peer> peer = os::peer_of(socket.get());
    if (!peer.is_ok() || !os::is_own_or_root(peer.value())) continue;
    if (!os::tell_senders(socket.get()).is_ok()) continue;
    const uint64_t key = next_key_++;
    if (!poller_.add(socket.get(), key, true, false).is_ok()) continue;
    Client& client = clients_[key];
    client.socket = std::move(socket);
    client.key = key;
    // The process is noted now, so that its messages are attributed to it even if it ends before
    // they are read.
    static_cast<void>(meet(&client, peer.value().pid));
    met_client_ = true;
    quiet_since_ns_ = 0;
    closing_since_ns_ = 0;
    objects_->close(false);
  }
}

// Frees a pidfd. If a process is the only sender on one connection, its end shows as the end of
// this connection too.
bool Server::spare_pidfd() noexcept {
  if (!leaving_.empty()) {
    leaving_.erase(leaving_.begin());
    return true;
  }
  for (auto& [key, sender] : senders_) {
    if (!sender.pidfd.is_open() || sender.clients.size() != 1) continue;
    const auto client = clients_.find(sender.clients.front());
    if (client == clients_.end() || client->second.halves.size() != 1) continue;
    poller_.remove(sender.pidfd.get());
    sender.pidfd.reset();
    return true;
  }
  return false;
}

void Server::serve(uint64_t key, const os::Poller::Event& event) {
  const auto place = clients_.find(key);
  if (place == clients_.end()) return;  // dropped earlier in this turn
  Client* client = &place->second;
  if (event.writable && !send_answers(client)) {
    drop(key);
    return;
  }
  // A hang-up counts only when everything that was sent before has been read.
  if (event.hung_up || (event.readable && client->unsent_nbytes < kUnsentMost))
    static_cast<void>(read(client, kTurnNbytes));
}

Server::Turn Server::read(Client* client, size_t most) {
  std::array<std::byte, kTurnNbytes> room;
  while (most > 0) {
    const os::FromSender got = os::receive_from_sender(
        client->socket.get(), std::span(room).first(std::min(most, room.size())));
    if (got.error == EAGAIN) return Turn::kGoOn;
    if (got.nbytes == 0) {
      drop(client->key);
      return Turn::kDropped;
    }
    const SenderKey sender = meet(client, got.pid);
    if (take(client, sender, std::span(room).first(got.nbytes)) == Turn::kDropped)
      return Turn::kDropped;
    most -= std::min(most, got.nbytes);
  }
  return Turn::kGoOn;
}

Server::Turn Server::take(Client* client, SenderKey sender, std::span<const std::byte> bytes) {
  Half& half = client->halves[sender];
  const SenderId id = senders_.at(sender).id;
  while (!bytes.empty()) {
    const size_t step = std::min(bytes.size(), half.bytes.size() - half.nbytes);
    std::memcpy(half.bytes.data() + half.nbytes, bytes.data(), step);
    half.nbytes += step;
    bytes = bytes.subspan(step);
    if (half.nbytes < half.bytes.size()) break;
    half.nbytes = 0;
    if (!obey(id, half.bytes, client)) {
      drop(client->key);
      return Turn::kDropped;
    }
  }
  return Turn::kGoOn;
}

bool Server::obey(SenderId sender, std::span<const std::byte, names::kManagerMessageNbytes> bytes,
                  Client* client) {
  const std::optional<names::ManagerMessage> message = names::decode_manager_message(bytes);
  if (!message) return false;
  const std::string leaf = message->name.substr(1);
  if (message->op == names::ManagerOp::kDeallocate) {
    objects_->subtract(sender, leaf);
    return true;
  }
  return objects_->add(sender, leaf, message->pid) && answer(client);
}

// Queues an answer. The server does not read from a client that does not read its answers. Such a
// client blocks only itself, and costs its socket's buffers.
bool Server::answer(Client* client) {
  if (client->is_deaf) return true;
  client->unsent_nbytes += names::kManagerReply.size();
  return send_answers(client);
}

// All answers are the same two bytes, so the number of unsent bytes tells what is left of them.
bool Server::send_answers(Client* client) {
  while (client->unsent_nbytes > 0) {
    std::array<char, names::kManagerReply.size()> bytes = names::kManagerReply;
    const size_t odd = client->unsent_nbytes % bytes.size();
    const size_t nbytes = odd == 0 ? bytes.size() : odd;
    const auto rest = std::as_bytes(std::span(bytes)).last(nbytes);
    const os::Transfer sent = os::send_message(client->socket.get(), rest, {}, {});
    if (sent.error == EAGAIN) break;
    if (sent.error != 0) {
      // The client is gone. Its earlier messages are still to be read, and deallocations may be
      // among them.
      client->is_deaf = true;
      client->unsent_nbytes = 0;
      break;
    }
    client->unsent_nbytes -= sent.nbytes;
  }
  const bool waits = client->unsent_nbytes > 0;
  const bool reads = client->unsent_nbytes < kUnsentMost;
  if (waits == client->waits_for_room && reads == client->is_read) return true;
  client->waits_for_room = waits;
  client->is_read = reads;
  return poller_.change(client->socket.get(), client->key, reads, waits).is_ok();
}

// Gives the sender of bytes that came from `client`. A pid of 0 is a process that the kernel cannot
// name here. Then the connection is the sender.
Server::SenderKey Server::meet(Client* client, pid_t pid) {
  const SenderKey key = pid > 0 ? static_cast<SenderKey>(pid) : kNamelessBit | client->key;
  if (client->halves.contains(key)) return key;
  client->halves[key];
  Sender& sender = senders_[key];
  if (sender.id == 0) sender.id = next_sender_++;
  sender.clients.push_back(client->key);
  if (pid <= 0 || sender.pidfd.is_open()) return key;
  leaving_.erase(key);
  errno = 0;
  sender.pidfd = os::open_pidfd(pid);
  // The process ended before its message was read.
  if (!sender.pidfd.is_open() && errno == ESRCH) ended_.push_back(key);
  // If its pidfd cannot be watched, the end of its connections tells its end.
  if (sender.pidfd.is_open() &&
      !poller_.add(sender.pidfd.get(), kProcessBit | key, true, false).is_ok())
    sender.pidfd.reset();
  return key;
}

// All that a sender sent before it ended counts, so it is read first. Only the bytes that are there
// now are read, because others may write to the same socket without end.
void Server::sender_ended(SenderKey key) {
  const auto ended = [&] {
    const auto place = senders_.find(key);
    // An earlier event in this turn may be about another process with the same pid.
    return place != senders_.end() &&
           (!place->second.pidfd.is_open() || is_readable(place->second.pidfd.get()));
  };
  if (!ended()) return;
  accept_clients();
  const std::vector<uint64_t> its_clients = senders_.at(key).clients;
  for (const uint64_t client_key : its_clients) {
    const auto client = clients_.find(client_key);
    if (client == clients_.end()) continue;
    static_cast<void>(read(&client->second, os::unread_nbytes(client->second.socket.get())));
  }
  if (ended()) forget(key);
}

void Server::forget(SenderKey key) {
  const auto place = senders_.find(key);
  for (const uint64_t client_key : place->second.clients) {
    if (const auto client = clients_.find(client_key); client != clients_.end())
      client->second.halves.erase(key);
  }
  if (place->second.pidfd.is_open()) poller_.remove(place->second.pidfd.get());
  objects_->end_of(place->second.id);
  senders_.erase(place);
}

void Server::forget_ended_leavers() noexcept {
  std::erase_if(leaving_, [](const auto& each) { return is_readable(each.second.get()); });
}

void Server::watch_leaving(SenderKey key, Sender* sender) noexcept {
  if (!sender->pidfd.is_open() || is_readable(sender->pidfd.get())) return;
  try {
    if (leaving_.size() >= kLeavingMost) forget_ended_leavers();
    if (leaving_.size() >= kLeavingMost) return;
    os::Fd& kept = leaving_[key];
    poller_.remove(sender->pidfd.get());
    kept = std::move(sender->pidfd);
  } catch (...) {
    // There is no memory. Then the last checks are done a few times and do not wait for this
    // process.
  }
}

void Server::drop(uint64_t key) {
  const auto place = clients_.find(key);
  poller_.remove(place->second.socket.get());
  const Client client = std::move(place->second);
  clients_.erase(place);
  for (const auto& [sender_key, half] : client.halves) {
    Sender& sender = senders_.at(sender_key);
    std::erase(sender.clients, key);
    if (!sender.clients.empty()) continue;
    watch_leaving(sender_key, &sender);
    forget(sender_key);
  }
  if (clients_.empty()) quiet_since_ns_ = os::monotonic_ns();
  if (accept_again_ns_ != 0) pause_accepting(false);
}

}  // namespace tenon::manager
