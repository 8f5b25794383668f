#include "channel/connection.h"

#include <algorithm>
#include <cstring>

#include "base/fork.h"
#include "base/room.h"
#include "channel/lease_block.h"
#include "os/host.h"
#include "os/limits.h"
#include "os/memfd.h"
#include "share/cuda_memory.h"
#include "share/cuda_route.h"
#include "tensor/portable.h"

namespace tenon::channel {
namespace {

using memory::Segment;
using tensor::DescriptorContent;
using tensor::Message;
using tensor::Reach;
using tensor::SegmentRecord;

constexpr uint16_t kMessage = 1;       // the payload is a descriptor
constexpr uint16_t kLargeMessage = 2;  // the payload is its size, and the first fd a sealed memfd that holds it
constexpr uint16_t kLeased = 3;        // a lease block, then a descriptor
constexpr uint16_t kLargeLeased = 4;   // both in a memfd
constexpr uint16_t kTokens = 5;        // a lease block alone, without leases: tokens, and no message
constexpr uint16_t kDevices = 6;       // a lease block, a device block, then a descriptor
constexpr uint16_t kLargeDevices = 7;  // all of it in a memfd

// A kind of message, in a memfd.
constexpr uint16_t large_kind(uint16_t kind) noexcept { return static_cast<uint16_t>(kind + 1); }
static_assert(large_kind(kMessage) == kLargeMessage && large_kind(kLeased) == kLargeLeased && large_kind(kDevices) == kLargeDevices);

// Fds in front of a message's segments. Of tokens, and the memfd of a large message, no more than come in one packet: those are open here
// anyway before anything can be refused. Of the handles of devices as many as the segments of the descriptor can have that are theirs, but
// no more than a receiver takes that was told nothing.
constexpr uint64_t kFdsAhead = kMaxFdsPerPacket;
constexpr uint64_t kMostHandleFds = 65536;

uint32_t accepted_fds(uint16_t kind, uint64_t max_segments) noexcept {
  const bool on_devices = kind == kDevices || kind == kLargeDevices;
  const uint64_t segments = std::min<uint64_t>(max_segments, UINT32_MAX - kFdsAhead - kMostHandleFds);
  const uint64_t of_handles = on_devices ? std::min(segments * share::kMostCudaFds, kMostHandleFds) : 0;
  return static_cast<uint32_t>(segments + kFdsAhead + of_handles);
}

// Between two messages. No honest peer has so many for a receiver that takes them.
constexpr size_t kMostTokenFrames = 1024;

// What a frame on its way keeps: the segments whose fds it carries, and the memfd of a large descriptor.
struct Carried {
  std::vector<Ref<Segment>> segments;
  std::vector<tensor::DeviceSegment> device_segments;
  CarriedTokens tokens;
  os::Fd large;
};

Result<os::Fd> put_into_memfd(const std::vector<std::byte>& bytes) {
  TENON_TRY(os::check_file_size(bytes.size()));
  TENON_TRY(os::ask_headroom(bytes.size()));
  TENON_ASSIGN(const os::Nonce nonce, os::random_nonce());
  TENON_ASSIGN(os::Fd fd, os::create_memfd(nonce, bytes.size()));
  TENON_TRY(os::write_file(fd.get(), 0, bytes.data(), bytes.size()));
  TENON_TRY(os::add_seals(fd.get(), os::kSealWrite | os::kSealShrink | os::kSealGrow | os::kSealSeal));
  return fd;
}

// Calls queue behind each other; the clock of a wait starts when its turn comes.
Status take_turn(std::unique_lock<std::mutex>* lock, const os::Wait& wait) {
  if (wait.timeout_ns != 0) {
    lock->lock();
  } else if (!lock->try_lock()) {
    return Status(Code::kWouldBlock, "another thread is using this direction of the connection");
  }
  return Status::ok();
}

Status corrupt(const char* what) { return Status(Code::kCorrupt, what).with("field", std::string("frame")); }

Status check_memfd(int fd, uint64_t nbytes) {
  constexpr unsigned kNeeded = os::kSealWrite | os::kSealShrink;
  TENON_ASSIGN(const os::FileInfo file, os::inspect_file(fd));
  if (!file.in_memory || (file.seals & kNeeded) != kNeeded || file.nbytes < nbytes)
    return corrupt("a large message whose memfd is not sealed or too short");
  return Status::ok();
}

Status check_peer(int socket, const os::Peer& peer, const ConnectionOptions& options) {
  const bool group_too = options.peers == Peers::kGroup;
  TENON_ASSIGN(const bool admitted, os::is_admitted(socket, peer, group_too ? std::optional(options.group) : std::nullopt));
  if (admitted) return Status::ok();
  const std::string with_group = group_too ? format(", group %u", options.group) : "";
  const std::string who = peer.pid > 0 ? format("pid %d", peer.pid) : "a process that this one cannot see";
  return Status(Code::kPermission, format("at the other end of socket %d is %s, of user %u: only user %u%s and root may be there", socket,
                                          who.c_str(), peer.uid, os::user_id(), with_group.c_str()))
      .with("fd", socket)
      .with("pid", peer.pid)
      .with("uid", uint64_t{peer.uid});
}

}  // namespace

// Looks for device memory that came back, without a turn of the connection: its owner's functions run then, and may use the connection.
// Before the turn of a connection that has had such memory, and after the one in which it first came.
class Connection::Collecting {
 public:
  explicit Collecting(const Connection& connection) noexcept
      : on_devices_(connection.on_devices_), known_(on_devices_.load(std::memory_order_relaxed)) {
    if (known_) share::collect_some_cuda();
  }
  Collecting(const Collecting&) = delete;
  Collecting& operator=(const Collecting&) = delete;
  ~Collecting() {
    if (!known_ && on_devices_.load(std::memory_order_relaxed)) share::collect_some_cuda();
  }

 private:
  const std::atomic<bool>& on_devices_;
  const bool known_;
};

Connection::Connection(int socket, SocketType type, const ConnectionOptions& options, const os::Peer& peer)
    : socket_(socket),
      options_(options),
      peer_(peer),
      generation_(fork_generation()),
      frames_(socket, type),
      lending_(
          {peer.pid, peer.uid}, [](void* context) noexcept { return static_cast<Connection*>(context)->send_renewal(); }, this),
      received_(options.open, options.limits.max_segments) {
  // What is over it is closed as it comes, and the frame delivered without.
  frames_.set_max_fds(UINT32_MAX);
  frames_.set_accepted_fds(&accepted_fds, options_.limits.max_segments);
}

Result<Connection::Owned> Connection::create(int socket, const ConnectionOptions& options) {
  TENON_ASSIGN(const SocketType type, check_socket(socket));
  TENON_ASSIGN(const os::Peer peer, os::peer_of(socket));
  if (options.peers != Peers::kAny) TENON_TRY(check_peer(socket, peer, options));
  return Owned(new Connection(socket, type, options, peer));
}

// A lock that cannot be had in a child of fork is one that a thread of the parent's had, and what it keeps in order may be torn: so all of
// it stays where it is, in this child's copy.
void Connection::End::operator()(Connection* connection) const noexcept {
  if (!connection->check_process().is_ok()) {
    connection->owned_.reset();
    const std::unique_lock<std::mutex> sending(connection->send_mutex_, std::try_to_lock);
    const std::unique_lock<std::mutex> receiving(connection->recv_mutex_, std::try_to_lock);
    if (!sending.owns_lock() || !receiving.owns_lock() || connection->streams_.in_use()) return;
  } else {
    // The library's thread may be in send_renewal(), called by a ledger that it has just replaced with another.
    const std::lock_guard<std::mutex> sending(connection->send_mutex_);
    connection->lending_.stop_renewals();
  }
  delete connection;
}

Status Connection::check_process() const {
  if (generation_ == fork_generation()) return Status::ok();
  return Status(Code::kUnsupported, "the connection belongs to the process that made it, and this one is a child of fork");
}

Status Connection::enqueue(const Message& message) {
  // Its vectors keep their room from message to message; what they point to does not outlive the call.
  struct Clear {
    tensor::Packed* packed;
    ~Clear() { packed->clear(); }
  } const clear{&scratch_};
  tensor::Packed& packed = scratch_;
  TENON_TRY(tensor::pack(message, tensor::Leases::kYes, &packed, options_.cuda_let_write));
  const bool on_devices = !packed.device_segments.empty();
  std::vector<int> device_fds;
  std::optional<DeviceBlock> devices;
  if (on_devices) {
    on_devices_.store(true, std::memory_order_relaxed);
    TENON_ASSIGN(devices, make_device_block(packed, streams_, &device_fds));
  }
  Lending::Grant grant;
  TENON_TRY(lending_.prepare(packed, &grant, on_devices));
  OutFrame frame;
  frame.kind = on_devices ? kDevices : grant.needed() ? kLeased : kMessage;
  frame.fds = grant.fds();
  frame.fds.insert(frame.fds.end(), device_fds.begin(), device_fds.end());
  const size_t fds_ahead = frame.fds.size();
  std::shared_ptr<Carried> carried;
  SentNumbers::Added added;
  for (size_t i = 0; i < packed.segments.size(); ++i) {
    SegmentRecord& record = packed.content.segments[i];
    if (record.reach == Reach::kDevice) continue;
    record.id = packed.segments[i]->serial();
    if (sent_.contains(record.id)) {
      record.reach = Reach::kKnown;
      record.fd_index = 0;
      continue;
    }
    record.fd_index = static_cast<uint32_t>(frame.fds.size() - fds_ahead);
    frame.fds.push_back(packed.fds[i]);
    added.push_back(record.id, packed.segments[i].get());
  }
  packed.content.forgotten = sent_.collect_forgotten(added);
  std::vector<std::byte> block;
  if (grant.needed()) block = encode_lease_block(grant.block());
  if (devices) {
    const std::vector<std::byte> more = encode_device_block(*devices);
    block.insert(block.end(), more.begin(), more.end());
  }
  frame.payload = tensor::encode_descriptor(packed.content, block.size());
  std::copy(block.begin(), block.end(), frame.payload.begin());
  const bool large = frame.payload.size() > kMaxFramePayload;
  if (large || !frame.fds.empty()) carried = std::make_shared<Carried>();
  if (large) {
    TENON_ASSIGN(carried->large, put_into_memfd(frame.payload));
    const uint64_t nbytes = frame.payload.size();
    frame.kind = large_kind(frame.kind);
    frame.payload.resize(sizeof nbytes);
    std::memcpy(frame.payload.data(), &nbytes, sizeof nbytes);
    frame.fds.insert(frame.fds.begin(), carried->large.get());
  }
  // All memory first: a number counts as sent if and only if its frame is in the queue.
  sent_.prepare(&added);
  // Those whose fds travel: the frame may wait in the queue for longer than their storages live.
  if (carried) {
    carried->segments = std::move(packed.segments);
    carried->device_segments = std::move(packed.device_segments);
    carried->tokens = lending_.commit(&grant);
  } else {
    (void)lending_.commit(&grant);
  }
  frame.keep_alive = std::move(carried);
  frames_.enqueue(std::move(frame));
  sent_.commit(&added);
  return Status::ok();
}

// By the library's thread, which waits for nobody: false if the connection is busy. What the socket does not take goes with the next send.
bool Connection::send_renewal() noexcept {
  if (!check_process().is_ok()) return true;
  const std::unique_lock<std::mutex> lock(send_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  try {
    Lending::Grant grant;
    if (!lending_.prepare_renewal(&grant).is_ok()) return false;
    if (!grant.needed()) return true;
    OutFrame frame;
    frame.kind = kTokens;
    frame.fds = grant.fds();
    frame.payload = encode_lease_block(grant.block());
    auto carried = std::make_shared<Carried>();
    carried->tokens = lending_.commit(&grant);
    frame.keep_alive = std::move(carried);
    frames_.enqueue(std::move(frame));
    os::Waiter waiter(os::Wait{.timeout_ns = 0});
    (void)frames_.flush(waiter);
    return true;
  } catch (...) {
    return false;
  }
}

Status Connection::send(const Message* message, const os::Wait& wait) {
  TENON_TRY(check_process());
  const Collecting collecting(*this);
  std::unique_lock<std::mutex> lock(send_mutex_, std::defer_lock);
  TENON_TRY(take_turn(&lock, wait));
  os::Waiter waiter(wait);
  if (message != nullptr && std::find(unfinished_.begin(), unfinished_.end(), message->id()) == unfinished_.end()) {
    // Behind what is pending, before anything can end this call early: whoever gets TIMEOUT knows that the connection has the message.
    make_room(&unfinished_, 1);
    TENON_TRY(enqueue(*message));
    unfinished_.push_back(message->id());
  }
  if (!frames_.idle()) TENON_TRY(frames_.flush(waiter));
  unfinished_.clear();
  return Status::ok();
}

Result<std::span<const std::byte>> Connection::find_bytes(const InFrame& frame, bool in_memfd, std::vector<std::byte>* large) const {
  if (!in_memfd) return std::span<const std::byte>(frame.payload);
  uint64_t nbytes = 0;
  if (frame.payload.size() != sizeof nbytes) return corrupt("a frame of another length than its kind has");
  std::memcpy(&nbytes, frame.payload.data(), sizeof nbytes);
  if (nbytes > options_.limits.max_nbytes) {
    return Status(Code::kResourceExhausted,
                  format("a message of %llu bytes, and %llu are accepted", static_cast<unsigned long long>(nbytes),
                         static_cast<unsigned long long>(options_.limits.max_nbytes)))
        .with("limit", std::string("max_message_nbytes"))
        .with("limit_value", options_.limits.max_nbytes);
  }
  if (frame.fds_announced == 0) return corrupt("a large message without its memfd");
  if (frame.fds.empty()) return frame.fds_status;
  const int fd = frame.fds.front().get();
  TENON_TRY(check_memfd(fd, nbytes));
  TENON_TRY(os::ask_headroom(nbytes));
  large->resize(nbytes);
  TENON_TRY(os::read_file(fd, 0, large->data(), nbytes));
  return std::span<const std::byte>(*large);
}

Result<std::unique_ptr<Message>> Connection::recv(const os::Wait& wait) {
  TENON_TRY(check_process());
  const Collecting collecting(*this);
  std::vector<Ref<storage::Storage>> unwanted;  // released when the turn is over, for the end of one looks for others
  std::unique_lock<std::mutex> lock(recv_mutex_, std::defer_lock);
  TENON_TRY(take_turn(&lock, wait));
  if (!broken_.is_ok()) return Status(broken_.code(), broken_.message());
  borrowing_.renew();
  os::Waiter waiter(wait);
  for (size_t frames = 1;; ++frames) {
    if (!pending_) {
      Result<InFrame> frame = frames_.recv(waiter);
      if (!frame.is_ok()) {
        if (frame.status().code() == Code::kPeerGone) borrowing_.end();
        return std::move(frame).status();
      }
      pending_.emplace(Pending{std::move(frame).value(), {}, {}});
    }
    // What throws in here is out of memory, and the frame stays for the next call. Whatever else it comes to is said once.
    Result<std::unique_ptr<Message>> message = open_pending();
    unwanted = std::move(pending_->storages);
    pending_.reset();
    if (guard_.is_wanted() && frames_.has_nothing()) guard_.drained();
    if (!message.is_ok() || message.value()) return message;
    // Frames of tokens without end do not hold a call beyond its time.
    if (frames % kMostTokenFrames == 0) TENON_TRY(waiter.check_over());
  }
}

// Without waiting: by whoever finds that a token is gone.
memory::Drained Connection::is_drained() noexcept {
  const std::unique_lock<std::mutex> lock(recv_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return frames_.waits_with_nothing() ? memory::Drained::kYes : memory::Drained::kBusy;
  return !pending_ && frames_.has_nothing() ? memory::Drained::kYes : memory::Drained::kNo;
}

Status Connection::take_leases(std::span<const std::byte> bytes, size_t first_fd, size_t* used, uint64_t* token_fds) {
  InFrame* const frame = &pending_->frame;
  TENON_ASSIGN(const LeaseBlock block, decode_lease_block(bytes, used));
  *token_fds = block.n_fds();
  if (*token_fds > frame->fds_announced - first_fd) return corrupt("a lease block with more tokens than fds");
  if (pending_->leases_taken) return Status::ok();
  const std::span<os::Fd> fds = std::span(frame->fds).subspan(std::min(first_fd, frame->fds.size()));
  TENON_TRY(borrowing_.take(block, fds.first(std::min<size_t>(*token_fds, fds.size())), &pending_->leases));
  pending_->leases_taken = true;
  if (guard_.has_any()) frames_.tell_waits();
  return Status::ok();
}

// Of a large message that is refused whole. Its leases would stand as long as the connection, so they are taken to be given back.
Status Connection::take_unread_leases() {
  const InFrame& frame = pending_->frame;
  if (frame.fds.empty()) return Status::ok();  // nobody can tell them: they end with the connection
  const int fd = frame.fds.front().get();
  uint32_t nbytes = 0;
  TENON_TRY(check_memfd(fd, sizeof nbytes));
  TENON_TRY(os::read_file(fd, 0, &nbytes, sizeof nbytes));
  const uint64_t taken = std::min<uint64_t>(nbytes, options_.limits.max_nbytes);
  TENON_TRY(check_memfd(fd, taken));
  TENON_TRY(os::ask_headroom(taken));
  std::vector<std::byte> block(taken);
  TENON_TRY(os::read_file(fd, 0, block.data(), block.size()));
  size_t used = 0;
  uint64_t token_fds = 0;
  return take_leases(block, 1, &used, &token_fds);
}

Status Connection::take_devices(const DeviceBlock& block, size_t first_fd, const DescriptorContent& content,
                                std::vector<share::CudaReach>* out) const {
  const std::span<const os::Fd> fds = std::span(pending_->frame.fds).subspan(first_fd, block.n_fds());
  TENON_ASSIGN(*out, reach_devices(block, fds, content, streams_, {options_.open, options_.cuda_keep_open}));
  return Status::ok();
}

Result<std::unique_ptr<Message>> Connection::open_pending() {
  InFrame* const frame = &pending_->frame;
  // Whatever is no message ends the connection: after it nothing of what the peer says can be counted on.
  const auto end = [&](Status status) -> Status {
    if (status.code() == Code::kCorrupt) broken_ = status;
    // The segments that it would have made known stay unknown.
    if (!received_.has_lost() && frame->fds_announced > 0) received_.lose(status);
    return status;
  };
  if (!frame->fds_status.is_ok()) received_.lose(frame->fds_status);
  if (frame->kind < kMessage || frame->kind > kLargeDevices) return end(corrupt("a frame of no known kind"));
  const bool leased = frame->kind >= kLeased;
  const bool on_devices = frame->kind == kDevices || frame->kind == kLargeDevices;
  const bool in_memfd = frame->kind == kLargeMessage || frame->kind == kLargeLeased || frame->kind == kLargeDevices;
  std::vector<std::byte> large;
  Result<std::span<const std::byte>> found = find_bytes(*frame, in_memfd, &large);
  if (!found.is_ok()) {
    Status status = std::move(found).status();
    if (in_memfd && leased && status.code() != Code::kCorrupt) {
      Status taken = take_unread_leases();
      if (taken.code() == Code::kCorrupt) {
        status = std::move(taken);
      } else if (!pending_->leases_taken) {
        borrowing_.miss();
      }
    }
    return end(std::move(status));
  }
  std::span<const std::byte> bytes = found.value();
  size_t first_fd = in_memfd ? 1 : 0;
  if (leased) {
    size_t used = 0;
    uint64_t token_fds = 0;
    if (Status taken = take_leases(bytes, first_fd, &used, &token_fds); !taken.is_ok()) return end(std::move(taken));
    bytes = bytes.subspan(used);
    first_fd += token_fds;
  }
  if (frame->kind == kTokens) {
    if (!bytes.empty() || !pending_->leases.empty()) return end(corrupt("tokens with something behind them"));
    return std::unique_ptr<Message>();
  }
  borrowing_.renew();
  DeviceBlock devices;
  const size_t first_device_fd = first_fd;
  if (on_devices) {
    on_devices_.store(true, std::memory_order_relaxed);
    size_t used = 0;
    Result<DeviceBlock> block = decode_device_block(bytes, &used);
    if (!block.is_ok()) return end(std::move(block).status());
    devices = std::move(block).value();
    if (devices.n_fds() > frame->fds_announced - first_fd) return end(corrupt("a device block with more fds than came"));
    bytes = bytes.subspan(used);
    first_fd += devices.n_fds();
  }
  Result<DescriptorContent> decoded =
      tensor::decode_descriptor(bytes, frame->fds_announced - first_fd, options_.limits, devices.segments.size());
  if (!decoded.is_ok()) return end(std::move(decoded).status());
  DescriptorContent content = std::move(decoded).value();
  if (leased && content.storages.size() != pending_->leases.size()) return end(corrupt("a lease block of another number of storages"));
  // From here on the numbers of its segments are known, and what else fails is of this message alone.
  const auto end_if_corrupt = [&](Status status) -> Status {
    return status.code() == Code::kCorrupt ? end(std::move(status)) : std::move(status);
  };
  TENON_TRY(end_if_corrupt(received_.add(content, frame, first_fd)));
  if (!frame->fds_status.is_ok()) return frame->fds_status;
  std::vector<tensor::Resolved> resolved;
  TENON_TRY(end_if_corrupt(received_.resolve(content, &resolved)));
  std::vector<share::CudaReach> reached;
  if (on_devices) TENON_TRY(end_if_corrupt(take_devices(devices, first_device_fd, content, &reached)));
  for (size_t i = 0; i < resolved.size(); ++i) {
    if (content.segments[i].reach == Reach::kDevice) resolved[i].device = &reached[content.segments[i].fd_index];
  }
  Result<std::unique_ptr<Message>> message =
      tensor::unpack(std::move(content), resolved, pending_->leases, options_.open, &pending_->storages);
  if (!message.is_ok()) return end_if_corrupt(std::move(message).status());
  return message;
}

}  // namespace tenon::channel
