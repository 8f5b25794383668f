#include "channel/deposit_server.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>
#include <vector>

#include "base/process_state.h"
#include "channel/depot_packets.h"
#include "memory/ledger.h"
#include "names/directories.h"
#include "os/clients.h"
#include "os/clock.h"
#include "os/local_socket.h"
#include "os/named_file.h"
#include "os/peer.h"
#include "os/service.h"
#include "os/socket.h"

namespace tenon::channel {
namespace {

using memory::LeaseToken;
using memory::Segment;
using os::Fd;

// A client that has sent nothing for this time is dropped. A tick checks once in this time, so the
// drop comes 5 to 10 s after the client connected. At most kMostDepotClients clients are connected
// at once. One more gets RESOURCE_EXHAUSTED. Other users' processes, except root's, get PERMISSION.
constexpr int64_t kDepotSilenceNs = 5'000'000'000;
constexpr size_t kMostDepotClients = 64;

// ---- answers

void answer(const DepotClient& client, Code code, uint32_t borrower,
            std::span<const int> fds) noexcept {
  DepotAnswerPacket packet{};
  packet.magic = kDepotMagic;
  packet.code = static_cast<int32_t>(code);
  packet.depot = deposit_state().id;
  packet.borrower = borrower;
  packet.n_fds = static_cast<uint32_t>(fds.size());
  (void)os::send_message(client.socket.get(), std::as_bytes(std::span(&packet, 1)), {}, fds);
}

// The fds of the things that a request names. The other fields keep them open until the answer is
// sent.
struct FoundThings {
  std::vector<Ref<Segment>> segments;
  std::vector<std::shared_ptr<LeaseToken>> tokens;
  std::vector<int> fds;
};

Code find_things(const DepositState& all, std::span<const WireThingName> names,
                 FoundThings* found) {
  for (const WireThingName& name : names) {
    const auto at = all.things.find(name.serial);
    if (at == all.things.end() || at->second.number.thing != name.number) return Code::kNotFound;
    if (at->second.inherited.is_open()) {
      found->fds.push_back(at->second.inherited.get());
      continue;
    }
    if (at->second.kind == ThingKind::kToken) {
      std::shared_ptr<LeaseToken> token = at->second.token.lock();
      if (!token) return Code::kNotFound;
      found->fds.push_back(token->fd.get());
      found->tokens.push_back(std::move(token));
      continue;
    }
    Ref<Segment> segment = at->second.segment.lock();
    if (!segment) return Code::kNotFound;
    found->segments.push_back(segment);
    Result<int> fd = segment->lending_fd();
    if (!fd.is_ok()) return fd.status().code();
    found->fds.push_back(fd.value());
  }
  return Code::kOk;
}

// Reads the request of a client and answers it. True: the client was answered or sent no valid
// request, and the caller drops it, so a connection has one request. False: the client has said
// nothing yet. The caller releases `found` after the lock, because the end of a segment takes locks
// of a lower rank.
bool serve(DepositState* all, const DepotClient& client, FoundThings* found) {
  struct {
    DepotRequestPacket head;
    std::array<WireThingName, kMostThings> names;
  } request;
  os::ReceivedFds fds;
  const os::Transfer got = os::receive_message(
      client.socket.get(), std::as_writable_bytes(std::span(&request, 1)), false, &fds);
  if (got.error == EAGAIN) return false;
  if (got.error != 0 || got.nbytes == 0) return true;
  if (!is_request(request.head, got.nbytes, got.data_cut)) {
    answer(client, Code::kInvalidArgument, 0, {});
    return true;
  }
  const Code code = find_things(*all, std::span(request.names).first(request.head.n_things), found);
  if (code != Code::kOk || request.head.request == static_cast<uint32_t>(DepotRequest::kThings)) {
    answer(client, code, 0,
           code == Code::kOk ? std::span<const int>(found->fds) : std::span<const int>());
    return true;
  }
  Result<os::Peer> peer = os::peer_of(client.socket.get());
  Result<uint32_t> number = all->depot->add_borrower();
  if (!peer.is_ok() || !number.is_ok()) {
    answer(client, Code::kResourceExhausted, 0, {});
    return true;
  }
  Result<Ref<memory::Ledger>> ledger = memory::Ledger::create_for_depot(
      {peer.value().pid, peer.value().uid}, all->depot, number.value());
  if (!ledger.is_ok()) {
    answer(client, ledger.status().code(), 0, {});
    return true;
  }
  // These fds are closed as soon as the kernel has them, because a copy here would hide the
  // hang-up.
  const std::shared_ptr<memory::TokenFds> own = ledger.value()->take_fds();
  const int greeting[] = {own->token.get(), own->page.get(), own->bell.get(), all->depot->page()};
  found->fds.insert(found->fds.begin(), std::begin(greeting), std::end(greeting));
  answer(client, Code::kOk, number.value(), found->fds);
  return true;
}

// ---- clients

void want_clients_tick(DepositState* all) noexcept {
  if (!all->clients.empty()) all->clients_tick.request(kDepotSilenceNs);
}

void on_depot_client(int fd, bool, bool) noexcept {
  DepositState& all = deposit_state();
  FoundThings things;  // released after the lock
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.clients.find(fd);
  if (found == all.clients.end()) return;
  bool is_done = true;
  try {
    is_done = serve(&all, found->second, &things);
  } catch (...) {
    // No memory: the client sees a hang-up.
  }
  if (is_done) os::drop_client(&all.clients, fd);
}

void on_depot_listener(int fd, bool, bool) noexcept {
  DepositState& all = deposit_state();
  for (int turn = 0; turn < 16; ++turn) {
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (fd != all.listener.get()) return;
    try {
      Result<Fd> accepted = os::accept_local(fd);
      if (!accepted.is_ok()) {
        // There is no fd for the client now. It waits in the queue, and the level-triggered poll
        // must not spin.
        os::stop_serving_fd(fd);
        os::call_later(
            []() noexcept {
              DepositState& here = deposit_state();
              const std::lock_guard<std::mutex> again(here.mutex);
              if (here.listener.is_open())
                (void)os::serve_fd(here.listener.get(), &on_depot_listener);
            },
            20'000'000);
        return;
      }
      if (!accepted.value().is_open()) return;
      DepotClient client{std::move(accepted).value(), os::monotonic_ns()};
      const int socket = client.socket.get();
      Result<os::Peer> peer = os::peer_of(socket);
      const bool is_admitted = peer.is_ok() && os::is_own_or_root(peer.value());
      if (!is_admitted || all.clients.size() >= kMostDepotClients) {
        answer(client, is_admitted ? Code::kResourceExhausted : Code::kPermission, 0, {});
        continue;
      }
      all.clients.emplace(socket, std::move(client));
      if (!os::serve_fd(socket, &on_depot_client).is_ok()) all.clients.erase(socket);
      want_clients_tick(&all);
    } catch (...) {
      return;  // no memory: the client sees a hang-up, or waits
    }
  }
}

}  // namespace

DepositState& deposit_state() noexcept { return process_state<DepositState>(); }

void clients_tick_came() noexcept {
  DepositState& all = deposit_state();
  if (!all.clients_tick.begin()) return;
  const std::lock_guard<std::mutex> lock(all.mutex);
  os::drop_silent_clients(&all.clients, kDepotSilenceNs);
  want_clients_tick(&all);
}

void DepositState::in_child() noexcept {
  forget_depot(this);  // its leases are the parent's
  clients.clear();
  expired = 0;
  clients_tick.forget();
  age_tick.forget();
  watch_tick.forget();
}

void sweep_things(DepositState* all, size_t looks) noexcept {
  for (auto at = all->things.begin(); looks > 0 && at != all->things.end(); --looks) {
    const auto here = at++;
    if (!here->second.is_over()) continue;
    all->depot->end_thing(here->second.number);
    (here->second.kind == ThingKind::kSegment ? all->segment_serials : all->token_serials)
        .erase(here->second.key);
    all->things.erase(here);
    all->last_segment = {};
  }
}

Status serve_depot(DepositState* all) {
  return os::serve_fd(all->listener.get(), &on_depot_listener);
}

void stop_serving_depot(DepositState* all) noexcept {
  os::stop_serving_fd(all->listener.get());
  while (!all->clients.empty()) os::drop_client(&all->clients, all->clients.begin()->first);
}

void forget_depot(DepositState* all) noexcept {
  (void)all->depot.detach();
  all->listener.reset();
  all->things.clear();
  all->last_segment = {};
  all->segment_serials.clear();
  all->token_serials.clear();
  all->waiting.clear();
  all->watches.clear();
  all->let_go.clear();
}

void sweep_depots() noexcept {
  try {
    Result<Ref<names::Directory>> directory =
        names::open_names_directory(std::string(names::kSharedMemory));
    if (directory.is_ok()) names::sweep_some_names(directory.value(), false);
  } catch (...) {
    // No memory: the next call sweeps.
  }
}

void unlink_depot(const DepositState& all) noexcept {
  if (!all.listener.is_open()) return;
  Result<Fd> directory = os::open_directory(all.name.directory);
  if (directory.is_ok()) (void)os::unlink_name(directory.value().get(), all.name.leaf);
}

}  // namespace tenon::channel
