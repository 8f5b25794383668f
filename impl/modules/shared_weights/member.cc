#include "modules/shared_weights/member.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

#include "base/make_room.h"
#include "base/process_state.h"
#include "os/clock.h"
#include "os/host.h"
#include "os/limits.h"
#include "os/local_socket.h"
#include "os/peer.h"
#include "os/service.h"
#include "os/socket.h"

namespace tenon::shared_weights {

using memory::Segment;

namespace {

constexpr size_t kMostClients = 4096;
constexpr int64_t kSilenceNs = 5'000'000'000;
constexpr int64_t kProgressNs = 50'000'000;
constexpr int64_t kResendNs = 10'000'000;
constexpr int64_t kRetryNs = 20'000'000;
constexpr int64_t kShortestPauseNs = 500'000;
constexpr int64_t kLongestPauseNs = 100'000'000;
// A server that hangs up sooner than this has refused the connection, because it has too many.
constexpr int64_t kRefusedNs = 2'000'000;
constexpr int64_t kNever = INT64_MAX;
// A process that leaves waits this long for NAME.lock, which others hold for microseconds.
constexpr int kLeaveTries = 200;
constexpr useconds_t kLeavePauseUs = 1000;

}  // namespace

// `mutex` guards all fields of all members. A forked child begins without members. Their fds are
// closed by then (fork_closed.h).
struct MemberState : ProcessState<LockRank::kSharedWeights> {
  std::vector<std::shared_ptr<Member>> members;
  os::SharedTick tick{&Member::tick_came};
  bool exit_hook = false;

  void in_child() noexcept {
    members.clear();
    tick.forget();
  }
  Member* with_listener(int fd) const noexcept;
  Member* with_watch(int fd) const noexcept;
  Member* with_client(int fd) const noexcept;
};

// Ends a member with the segment.
class MemberTail : public memory::SegmentTail {
 public:
  explicit MemberTail(std::shared_ptr<Member> member) noexcept : member_(std::move(member)) {}
  void before_unmap(Segment* /*segment*/) noexcept override { member_->leave(); }
  void after_unmap() noexcept override {}
  bool may_wait() const noexcept override { return true; }
  const std::shared_ptr<Member>& member() const noexcept { return member_; }

 private:
  const std::shared_ptr<Member> member_;
};

namespace {

MemberState& member_state() noexcept { return process_state<MemberState>(); }

void leave_at_exit() noexcept {
  std::vector<std::shared_ptr<Member>> members;
  {
    MemberState& all = member_state();
    const std::lock_guard<std::mutex> lock(all.mutex);
    try {
      members = all.members;
    } catch (...) {
      return;  // the next process that uses the directory removes the files
    }
  }
  for (const std::shared_ptr<Member>& each : members) each->leave();
}

bool send_packet(int socket, const std::vector<std::byte>& packet, std::span<const int> fds,
                 int* error) noexcept {
  const os::Transfer sent = os::send_message(socket, packet, {}, fds);
  *error = sent.error;
  return sent.error == 0;
}

}  // namespace

Member* MemberState::with_listener(int fd) const noexcept {
  for (const auto& each : members)
    if (each->listener_.get() == fd) return each.get();
  return nullptr;
}

Member* MemberState::with_watch(int fd) const noexcept {
  for (const auto& each : members)
    if (each->watch_.get() == fd) return each.get();
  return nullptr;
}

Member* MemberState::with_client(int fd) const noexcept {
  for (const auto& each : members)
    if (each->clients_.contains(fd)) return each.get();
  return nullptr;
}

// ---- making a member

void Member::add_self() {
  MemberState& all = member_state();
  make_room(&all.members, 1);
  if (!all.exit_hook) all.exit_hook = std::atexit([]() { leave_at_exit(); }) == 0;
  all.members.push_back(shared_from_this());
}

Status Member::listen() {
  // The caller has NAME.lock. The path has the socket of the last server, or of a server with an
  // older version, which a publisher has told (publish.cc).
  TENON_ASSIGN(listener_, ForkClosed::make([&] {
                 return os::listen_local_instead(os::SocketKind::kPackets, place_.socket,
                                                 place_.mode, place_.group);
               }));
  Status served = os::serve_fd(listener_.get(), &on_listener);
  if (!served.is_ok()) {
    ::unlink(place_.socket.c_str());
    listener_.reset();
    return served;
  }
  server_pid_ = os::process_id();
  set_newest(facts_.version);
  return Status::ok();
}

Result<std::shared_ptr<Member>> Member::serve(Place place, Holds holds, Facts facts) {
  auto member = std::make_shared<Member>(std::move(place), std::move(facts));
  const std::lock_guard<std::mutex> lock(member_state().mutex);
  member->add_self();
  Status listens;
  try {
    listens = member->listen();
  } catch (...) {
    std::erase(member_state().members, member);
    throw;
  }
  if (!listens.is_ok()) {
    std::erase(member_state().members, member);
    return listens;
  }
  member->holds_ = std::move(holds);
  return member;
}

Result<std::shared_ptr<Member>> Member::watch(Place place, Holds holds, ForkClosed watch,
                                              Facts facts, int32_t server_pid, Segment* segment,
                                              DeviceBlock device) {
  auto member = std::make_shared<Member>(std::move(place), std::move(facts));
  auto tail = std::make_unique<MemberTail>(member);
  {
    const std::lock_guard<std::mutex> lock(member_state().mutex);
    member->add_self();
    member->segment_ = segment;
    member->server_pid_ = server_pid;
    member->watch_ = std::move(watch);
    Status served;
    try {
      served = os::serve_fd(member->watch_.get(), &on_watch);
    } catch (...) {
      std::erase(member_state().members, member);
      throw;
    }
    if (!served.is_ok()) {
      std::erase(member_state().members, member);
      return served;
    }
    member->holds_ = std::move(holds);
    member->device_fd_ = std::move(device.fd);
    member->device_block_ = Weak<device::CudaSharedBlock>(device.block.get());
  }
  segment->attach_tail(std::move(tail));
  return member;
}

std::shared_ptr<Member> Member::of(const Segment& segment) noexcept {
  const auto* const tail = segment.find_tail<MemberTail>();
  if (tail == nullptr || tail->member()->generation_ != fork_generation()) return nullptr;
  return tail->member();
}

void Member::lend(Segment* segment, uint64_t file_offset, DeviceBlock device) {
  segment->attach_tail(std::make_unique<MemberTail>(shared_from_this()));
  const std::lock_guard<std::mutex> lock(member_state().mutex);
  facts_.segment_nbytes = segment->nbytes();
  facts_.file_offset = file_offset;
  segment_ = segment;
  device_fd_ = std::move(device.fd);
  device_block_ = Weak<device::CudaSharedBlock>(device.block.get());
  std::vector<int> gone;
  for (auto& [fd, client] : clients_) {
    if (client.phase == Phase::kWaits && !send_weights(&client)) gone.push_back(fd);
  }
  for (const int fd : gone) drop_client(fd);
  member_state().tick.request(kResendNs);
}

Ref<device::CudaSharedBlock> Member::device_block() const {
  const std::lock_guard<std::mutex> lock(member_state().mutex);
  return device_block_.lock();
}

void Member::set_device_block(const Ref<device::CudaSharedBlock>& block) {
  const std::lock_guard<std::mutex> lock(member_state().mutex);
  device_block_ = Weak<device::CudaSharedBlock>(block.get());
}

Member::Info Member::info() const {
  const std::lock_guard<std::mutex> lock(member_state().mutex);
  Info info;
  info.facts = facts_;
  if (listener_.is_open()) info.facts.holders = holders();
  info.is_member = generation_ == fork_generation() && holds_.name.is_open();
  info.serves = info.is_member && listener_.is_open();
  if (info.is_member && !is_electing_) info.server_pid = server_pid_;
  return info;
}

// ---- versions

Result<int> Member::changed_fd() {
  const std::lock_guard<std::mutex> lock(member_state().mutex);
  if (generation_ != fork_generation() || !holds_.name.is_open())
    return Status(Code::kUnsupported,
                  "a child of fork hears of no new versions: open the name in the child");
  if (!changed_.is_open()) {
    TENON_ASSIGN(changed_, ForkClosed::make([&]() -> Result<os::Fd> {
                   const unsigned is_newer = newest() > facts_.version ? 1 : 0;
                   os::Fd made(::eventfd(is_newer, EFD_CLOEXEC | EFD_NONBLOCK));
                   if (!made.is_open()) return os::with_fd_limit(errno_status(errno, "an eventfd"));
                   return made;
                 }));
  }
  return changed_.get();
}

void Member::set_newest(uint64_t version) noexcept {
  newest_.store(version, std::memory_order_release);
  if (!changed_.is_open()) return;
  eventfd_t was = 0;
  (void)::eventfd_read(changed_.get(), &was);
  if (version > facts_.version) (void)::eventfd_write(changed_.get(), 1);
}

void Member::give_way() noexcept {
  stop_serving();
  pause_ns_ = 0;
  elect_or_retry();
}

// ---- serving

uint32_t Member::holders() const noexcept {
  const auto has = [](const auto& each) { return each.second.phase == Phase::kHolder; };
  return 1 + static_cast<uint32_t>(std::count_if(clients_.begin(), clients_.end(), has));
}

void Member::drop_client(int fd) noexcept {
  os::stop_serving_fd(fd);
  clients_.erase(fd);
}

// False: the client is to be dropped. A socket that has no room gets the packet later.
bool Member::send_weights(Client* client) {
  Facts facts = facts_;
  facts.holders = holders() + 1;
  Result<int> fd = segment_->lending_fd();
  if (!fd.is_ok()) return false;
  int error = 0;
  // The memory of a device comes first.
  const std::array<int, 2> fds{device_fd_.get(), fd.value()};
  const std::span<const int> sent = std::span(fds).subspan(device_fd_.is_open() ? 0 : 1);
  if (send_packet(client->socket.get(), encode_packet(PacketKind::kWeights, facts), sent, &error)) {
    client->phase = Phase::kHolder;
    return true;
  }
  client->phase = Phase::kWaits;
  return error == EAGAIN || error == ENOBUFS || error == ETOOMANYREFS;
}

bool Member::send_progress(const Client& client) {
  const Progress progress{std::min(done_.load(std::memory_order_relaxed), facts_.file.nbytes),
                          facts_.file.nbytes};
  int error = 0;
  // A client that does not read its socket needs no more of them.
  return send_packet(client.socket.get(), encode_packet(progress), {}, &error) || error == EAGAIN;
}

bool Member::hear(Client* client) {
  std::array<std::byte, kMaxPacketNbytes> room;
  os::ReceivedFds fds;
  const os::Transfer got = os::receive_message(client->socket.get(), room, false, &fds);
  // The event was for another socket, which had this number a moment ago.
  if (got.error == EAGAIN) return true;
  if (got.error != 0 || got.nbytes == 0 || got.data_cut || client->phase != Phase::kSilent)
    return false;
  Result<Packet> packet = decode_packet(std::span(room).first(got.nbytes));
  if (!packet.is_ok() || packet.value().kind != PacketKind::kHello) return false;
  const Hello& hello = packet.value().hello;
  int error = 0;
  const bool knows_versions = hello.want == Want::kWatch && hello.version != 0;
  const auto refuse = [&](Refusal why) {
    (void)send_packet(client->socket.get(), encode_packet(Refused{why, facts_.file, facts_.label}),
                      {}, &error);
    return false;
  };
  const bool is_older = knows_versions && hello.version < facts_.version;
  if (!is_older && hello.file && *hello.file != facts_.file) return refuse(Refusal::kOtherFile);
  if (!is_older && hello.version != 0 && hello.version != facts_.version)
    return refuse(Refusal::kVersion);
  switch (hello.want) {
    case Want::kWatch:
      client->phase = is_older ? Phase::kOlder : Phase::kHolder;
      return !knows_versions ||
             send_packet(client->socket.get(), encode_packet(Newest{facts_.version}), {}, &error);
    case Want::kPublish:
      client->phase = Phase::kTakes;
      return send_packet(client->socket.get(), encode_packet(Newest{facts_.version}), {}, &error);
    case Want::kStatus: {
      client->phase = Phase::kAsks;
      Facts facts = facts_;
      facts.holders = holders();
      return send_packet(client->socket.get(), encode_packet(PacketKind::kStatus, facts), {},
                         &error);
    }
    case Want::kWeights: break;
  }
  client->phase = Phase::kWaits;
  return segment_ != nullptr ? send_weights(client) : send_progress(*client);
}

bool Member::accept_client() {
  Result<ForkClosed> accepted = ForkClosed::make([&] { return os::accept_local(listener_.get()); });
  if (!accepted.is_ok()) {
    // There is no fd for the client now. It waits in the queue. The listener is not polled for a
    // while, because the level-triggered poll would spin.
    os::stop_serving_fd(listener_.get());
    is_deaf_ = true;
    return false;
  }
  Client client;
  client.socket = std::move(accepted).value();
  if (!client.socket.is_open()) return false;
  client.since_ns = os::monotonic_ns();
  const int fd = client.socket.get();
  Result<os::Peer> peer = os::peer_of(fd);
  Result<bool> admitted = peer.is_ok() ? os::is_admitted(fd, peer.value(), place_.admitted_group())
                                       : Result<bool>(peer.status());
  const bool is_full = clients_.size() >= kMostClients || !os::has_spare_fds();
  if (!admitted.is_ok() || !admitted.value() || is_full) {
    const bool is_welcome = admitted.is_ok() && admitted.value();
    int error = 0;
    const Refused refused{is_welcome ? Refusal::kFull : Refusal::kUser, {}, {}};
    (void)send_packet(fd, encode_packet(refused), {}, &error);
    return true;
  }
  clients_.emplace(fd, std::move(client));
  if (!os::serve_fd(fd, &on_client).is_ok()) clients_.erase(fd);
  return true;
}

void Member::on_listener(int fd, bool /*readable*/, bool /*hung_up*/) noexcept {
  constexpr int kMostAtOnce = 16;
  MemberState& all = member_state();
  // The lock is released between two clients, so that other threads get it.
  for (int i = 0; i < kMostAtOnce; ++i) {
    const std::lock_guard<std::mutex> lock(all.mutex);
    Member* const member = all.with_listener(fd);
    if (member == nullptr) return;
    bool more = false;
    try {
      more = member->accept_client();
    } catch (...) {
      // No memory: the client waits, or sees a hang-up and tries again.
    }
    all.tick.request(member->is_deaf_ ? kRetryNs : kSilenceNs);
    if (!more) return;
  }
}

void Member::on_client(int fd, bool /*readable*/, bool /*hung_up*/) noexcept {
  MemberState& all = member_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  Member* const member = all.with_client(fd);
  if (member == nullptr) return;
  bool keep = false;
  Client& client = member->clients_.find(fd)->second;
  try {
    keep = member->hear(&client);
  } catch (...) {
    // No memory: the client sees a hang-up and tries again.
  }
  if (!keep) {
    const bool has_taken = client.phase == Phase::kTakes;
    member->drop_client(fd);
    if (has_taken && !member->is_leaving_) member->give_way();
    return;
  }
  if (client.phase == Phase::kWaits)
    all.tick.request(member->segment_ != nullptr ? kResendNs : kProgressNs);
}

void Member::stop_serving() noexcept {
  if (listener_.is_open()) os::stop_serving_fd(listener_.get());
  listener_.reset();
  while (!clients_.empty()) drop_client(clients_.begin()->first);
  if (watch_.is_open()) os::stop_serving_fd(watch_.get());
  watch_.reset();
}

// ---- choosing a server

bool Member::elect() {
  Result<ForkClosed> lock = try_place_lock(place_);
  if (!lock.is_ok() || !lock.value().is_open()) return false;
  if (is_overtaken_) {
    is_overtaken_ = false;
    return !is_newer_held(place_, facts_.version) && listen().is_ok();
  }
  Result<ForkClosed> connected = connect_at_once(place_);
  if (!connected.is_ok()) {
    if (!is_nobody_there(connected.status())) return false;
    return !is_newer_held(place_, facts_.version) && listen().is_ok();
  }
  ForkClosed socket = std::move(connected).value();
  Result<os::Peer> peer = os::peer_of(socket.get());
  Hello hello;
  hello.want = Want::kWatch;
  hello.file = facts_.file;
  hello.version = facts_.version;
  int error = 0;
  if (!peer.is_ok() || !send_packet(socket.get(), encode_packet(hello), {}, &error)) return false;
  watch_ = std::move(socket);
  watched_since_ns_ = os::monotonic_ns();
  server_pid_ = peer.value().pid;
  if (os::serve_fd(watch_.get(), &on_watch).is_ok()) return true;
  watch_.reset();
  return false;
}

void Member::elect_or_retry() {
  bool is_decided = false;
  try {
    is_decided = elect();
  } catch (...) {
    // No memory: it tries again.
  }
  is_electing_ = !is_decided;
  if (!is_decided) elect_later();
}

void Member::elect_later() noexcept {
  pause_ns_ = std::clamp(pause_ns_ * 2, kShortestPauseNs, kLongestPauseNs);
  member_state().tick.request(pause_ns_);
}

bool Member::hear_server() {
  std::array<std::byte, kMaxPacketNbytes> room;
  // The event comes again if there are more.
  constexpr int kMostPackets = 16;
  for (int i = 0; i < kMostPackets; ++i) {
    os::ReceivedFds fds;
    const os::Transfer got = os::receive_message(watch_.get(), room, false, &fds);
    if (got.error == EAGAIN) return true;
    if (got.error != 0 || got.nbytes == 0) return false;
    Result<Packet> packet = decode_packet(std::span(room).first(got.nbytes));
    if (!packet.is_ok()) continue;
    if (packet.value().kind == PacketKind::kNewest) set_newest(packet.value().newest.version);
    // A server with a newer version refuses no watcher of an older one. So this server has an older
    // version. It is a Tenon without versions, which was elected and does not know NAME.hold.N.
    const Refusal why = packet.value().refused.why;
    if (packet.value().kind == PacketKind::kRefused && facts_.version > kFirstVersion &&
        (why == Refusal::kOtherFile || why == Refusal::kVersion))
      is_overtaken_ = true;
  }
  return true;
}

void Member::on_watch(int fd, bool /*readable*/, bool /*hung_up*/) noexcept {
  MemberState& all = member_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  Member* const member = all.with_watch(fd);
  if (member == nullptr) return;
  try {
    if (member->hear_server()) return;
  } catch (...) {
    return;  // no memory: the event comes again
  }
  os::stop_serving_fd(fd);
  member->watch_.reset();
  // The pauses go on growing, so that a refused member does not connect without end.
  if (os::monotonic_ns() - member->watched_since_ns_ < kRefusedNs) {
    member->is_electing_ = true;
    return member->elect_later();
  }
  member->pause_ns_ = 0;
  member->elect_or_retry();
}

int64_t Member::work() {
  int64_t next_ns = kNever;
  if (is_leaving_) return next_ns;
  if (is_electing_) {
    elect_or_retry();
    if (is_electing_) next_ns = pause_ns_;
  }
  if (is_deaf_ && listener_.is_open()) {
    is_deaf_ = !os::serve_fd(listener_.get(), &on_listener).is_ok();
    if (is_deaf_) next_ns = std::min(next_ns, kRetryNs);
  }
  const int64_t now_ns = os::monotonic_ns();
  std::vector<int> gone;
  for (auto& [fd, client] : clients_) {
    bool keep = true;
    if (client.phase == Phase::kWaits) {
      keep = segment_ != nullptr ? send_weights(&client) : send_progress(client);
      if (client.phase == Phase::kWaits)
        next_ns = std::min(next_ns, segment_ != nullptr ? kResendNs : kProgressNs);
    } else if (client.phase == Phase::kSilent) {
      keep = now_ns - client.since_ns < kSilenceNs;
      next_ns = std::min(next_ns, kSilenceNs);
    }
    if (!keep) gone.push_back(fd);
  }
  for (const int fd : gone) drop_client(fd);
  return next_ns;
}

void Member::tick_came() noexcept {
  MemberState& all = member_state();
  if (!all.tick.begin()) return;
  const std::lock_guard<std::mutex> lock(all.mutex);
  int64_t next_ns = kNever;
  for (const std::shared_ptr<Member>& each : all.members) {
    try {
      next_ns = std::min(next_ns, each->work());
    } catch (...) {
      next_ns = std::min(next_ns, kRetryNs);  // no memory now
    }
  }
  if (next_ns != kNever) all.tick.request(next_ns);
}

// ---- leaving

void Member::leave() noexcept {
  if (generation_ != fork_generation()) return;
  MemberState& all = member_state();
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (is_leaving_ || !holds_.name.is_open()) return;
    is_leaving_ = true;
    is_electing_ = false;
    stop_serving();
    device_fd_.reset();  // which keeps the memory of the device
  }
  ForkClosed place_lock;
  for (int i = 0; i < kLeaveTries && !place_lock.is_open(); ++i) {
    if (i > 0) ::usleep(kLeavePauseUs);
    try {
      Result<ForkClosed> taken = try_place_lock(place_);
      if (!taken.is_ok()) break;
      place_lock = std::move(taken).value();
    } catch (...) {
      break;  // no memory: a later sweep removes the files
    }
  }
  const std::lock_guard<std::mutex> lock(all.mutex);
  holds_.version.reset();
  if (place_lock.is_open()) (void)remove_if_last(place_, holds_.name.get());
  holds_.name.reset();
  changed_.reset();
  segment_ = nullptr;
  device_block_ = {};
  std::erase_if(all.members, [&](const auto& each) { return each.get() == this; });
}

}  // namespace tenon::shared_weights
