#include "channel/connection.h"

#include <algorithm>
#include <cstring>

#include "base/fork.h"
#include "base/room.h"
#include "channel/lease_block.h"
#include "os/limits.h"
#include "os/local_socket.h"
#include "os/memfd.h"
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

// What a frame on its way keeps: the segments whose fds it carries, and the memfd of a large descriptor.
struct Carried {
  std::vector<Ref<Segment>> segments;
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

}  // namespace

Connection::Connection(int socket, SocketType type, const ConnectionOptions& options, const memory::Borrower& peer)
    : socket_(socket),
      options_(options),
      generation_(fork_generation()),
      frames_(socket, type),
      lending_(peer, [](void* context) noexcept { return static_cast<Connection*>(context)->send_renewal(); }, this) {
  // One more: the memfd of a large message. What is over it is closed as it comes, and the frame delivered without.
  frames_.set_max_fds(UINT32_MAX);
  frames_.set_accepted_fds(options_.limits.max_segments >= UINT32_MAX ? UINT32_MAX
                                                                      : static_cast<uint32_t>(options_.limits.max_segments + 1));
}

Result<std::unique_ptr<Connection>> Connection::create(int socket, const ConnectionOptions& options) {
  TENON_ASSIGN(const SocketType type, check_socket(socket));
  memory::Borrower borrower;
  if (Result<os::Peer> peer = os::peer_of(socket); peer.is_ok()) borrower = {peer.value().pid, peer.value().uid};
  return std::unique_ptr<Connection>(new Connection(socket, type, options, borrower));
}

Status Connection::check_process() const {
  if (generation_ == fork_generation()) return Status::ok();
  return Status(Code::kUnsupported, "the connection belongs to the process that made it, and this one is a child of fork");
}

namespace {

// Nobody needs it: it is gone, or only connections that were sent it still hold it.
bool is_unneeded(const Weak<Segment>& segment) noexcept {
  const Ref<Segment> alive = segment.lock();
  return !alive || alive->strong_count() - 1 <= alive->numbered.load(std::memory_order_relaxed);
}

}  // namespace

void Connection::collect_forgotten(size_t added, std::vector<uint64_t>* out) {
  // Two looks for each segment that is added, and two for the message: dead ones go faster than new ones come, and no call looks at all of
  // them.
  for (size_t looks = 2 + 2 * added; looks > 0 && !sent_list_.empty(); --looks) {
    if (sweep_ >= sent_list_.size()) sweep_ = 0;
    auto& [number, segment] = sent_list_[sweep_];
    if (!is_unneeded(segment)) {
      ++sweep_;
      continue;
    }
    out->push_back(number);
    sent_.erase(number);
    if (sweep_ + 1 != sent_list_.size()) {
      std::swap(sent_list_[sweep_], sent_list_.back());
      sent_[sent_list_[sweep_].first] = sweep_;
    }
    sent_list_.pop_back();
  }
}

Status Connection::enqueue(const Message& message) {
  // Its vectors keep their room from message to message; what they point to does not outlive the call.
  struct Clear {
    tensor::Packed* packed;
    ~Clear() { packed->clear(); }
  } const clear{&scratch_};
  tensor::Packed& packed = scratch_;
  TENON_TRY(tensor::pack(message, tensor::Leases::kYes, &packed));
  Lending::Grant grant;
  TENON_TRY(lending_.prepare(packed, &grant));
  OutFrame frame;
  frame.kind = grant.needed() ? kLeased : kMessage;
  frame.fds = grant.fds();
  const size_t token_fds = frame.fds.size();
  std::shared_ptr<Carried> carried;
  std::vector<size_t> added;
  for (size_t i = 0; i < packed.segments.size(); ++i) {
    SegmentRecord& record = packed.content.segments[i];
    record.id = packed.segments[i]->serial();
    if (sent_.contains(record.id)) {
      record.reach = Reach::kKnown;
      record.fd_index = 0;
      continue;
    }
    record.fd_index = static_cast<uint32_t>(frame.fds.size() - token_fds);
    frame.fds.push_back(packed.fds[i]);
    added.push_back(i);
  }
  // Kept until a message with them is in the queue: the peer holds a segment that it is never told about for ever.
  collect_forgotten(added.size(), &forgotten_);
  packed.content.forgotten = forgotten_;
  frame.payload = tensor::encode_descriptor(packed.content);
  if (grant.needed()) {
    const std::vector<std::byte> block = encode_lease_block(grant.block());
    frame.payload.insert(frame.payload.begin(), block.begin(), block.end());
  }
  const bool large = frame.payload.size() > kMaxFramePayload;
  if (large || !frame.fds.empty()) carried = std::make_shared<Carried>();
  if (large) {
    TENON_ASSIGN(carried->large, put_into_memfd(frame.payload));
    const uint64_t nbytes = frame.payload.size();
    frame.kind = grant.needed() ? kLargeLeased : kLargeMessage;
    frame.payload.resize(sizeof nbytes);
    std::memcpy(frame.payload.data(), &nbytes, sizeof nbytes);
    frame.fds.insert(frame.fds.begin(), carried->large.get());
  }
  // All memory first: a number counts as sent if and only if its frame is in the queue.
  make_room(&sent_list_, added.size());
  sent_.reserve(sent_.size() + added.size());
  std::unordered_map<uint64_t, size_t> numbers;
  for (size_t i = 0; i < added.size(); ++i) numbers.emplace(packed.content.segments[added[i]].id, sent_list_.size() + i);
  std::vector<std::pair<uint64_t, Weak<Segment>>> entries;
  entries.reserve(added.size());
  for (const size_t i : added) entries.emplace_back(packed.content.segments[i].id, Weak<Segment>(packed.segments[i].get()));
  // Those whose fds travel: the frame may wait in the queue for longer than their storages live.
  if (carried) {
    carried->segments = std::move(packed.segments);
    carried->tokens = lending_.commit(&grant);
  } else {
    (void)lending_.commit(&grant);
  }
  frame.keep_alive = std::move(carried);
  frames_.enqueue(std::move(frame));
  sent_.merge(numbers);
  for (auto& entry : entries) sent_list_.push_back(std::move(entry));
  forgotten_.clear();
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

Status Connection::register_segments(const DescriptorContent& content, InFrame* frame, size_t first_fd) {
  for (const uint64_t number : content.forgotten) received_.erase(number);
  // What is in the table from an earlier try has left the frame.
  const auto more =
      static_cast<size_t>(std::count_if(frame->fds.begin() + static_cast<std::ptrdiff_t>(std::min(first_fd, frame->fds.size())),
                                        frame->fds.end(), [](const os::Fd& fd) { return fd.is_open(); }));
  if (received_.size() + more > options_.limits.max_segments) {
    lost_ = Status(Code::kResourceExhausted, format("the peer would have %zu segments open here, and %llu are accepted",
                                                    received_.size() + more, static_cast<unsigned long long>(options_.limits.max_segments)))
                .with("limit", std::string("max_segments"))
                .with("limit_value", options_.limits.max_segments);
    return lost_;
  }
  for (const SegmentRecord& record : content.segments) {
    if (record.reach == Reach::kProc) return corrupt("a segment that is reached through /proc, in a connection");
    if (record.reach == Reach::kKnown) continue;
    if (record.id == 0) return corrupt("a segment without a number");
    const size_t at = first_fd + record.fd_index;
    // Dropped by the kernel: the number stays without a segment. Or in the table from an earlier try.
    if (at >= frame->fds.size() || !frame->fds[at].is_open()) continue;
    Received& entry = received_.try_emplace(record.id).first->second;  // needs memory, so before the fd moves
    entry.fd = std::move(frame->fds[at]);
    entry.segment.set(nullptr);
    entry.access = static_cast<memory::Access>(record.access);
    entry.nbytes = record.nbytes;
  }
  return Status::ok();
}

Status Connection::resolve(const DescriptorContent& content, std::vector<tensor::Resolved>* out) {
  const std::vector<uint64_t> needed = tensor::needed_nbytes(content);
  out->reserve(content.segments.size());
  for (size_t i = 0; i < content.segments.size(); ++i) {
    const auto found = received_.find(content.segments[i].id);
    if (found == received_.end()) {
      if (lost_.is_ok()) return corrupt("a segment that never crossed this connection");
      return lost_;
    }
    Received& entry = found->second;
    tensor::Resolved one;
    if (options_.open.is_private()) {
      one.fd = entry.fd.get();
    } else {
      if (!entry.segment.get() || entry.segment.get()->nbytes() < needed[i]) {
        // The fd is given away only if this works, so that a limit met now can be raised and the next message tried.
        if (!entry.fd.is_open()) return corrupt("a storage that lies outside its segment");
        TENON_ASSIGN(Ref<Segment> opened,
                     share::open_segment(entry.fd.get(), entry.access, entry.nbytes, needed[i], options_.open, &entry.fd));
        entry.segment.set(std::move(opened));
      }
      one.segment = entry.segment.get();
    }
    out->push_back(std::move(one));
  }
  return Status::ok();
}

Result<std::unique_ptr<Message>> Connection::recv(const os::Wait& wait) {
  TENON_TRY(check_process());
  std::unique_lock<std::mutex> lock(recv_mutex_, std::defer_lock);
  TENON_TRY(take_turn(&lock, wait));
  if (!broken_.is_ok()) return Status(broken_.code(), broken_.message());
  borrowing_.renew();
  os::Waiter waiter(wait);
  while (true) {
    if (!pending_) {
      TENON_ASSIGN(InFrame frame, frames_.recv(waiter));
      pending_.emplace(Pending{std::move(frame), {}, {}});
    }
    // What throws in here is out of memory, and the frame stays for the next call. Whatever else it comes to is said once.
    Result<std::unique_ptr<Message>> message = open_pending();
    pending_.reset();
    if (!message.is_ok() || message.value()) return message;
  }
}

Status Connection::take_leases(std::span<const std::byte> bytes, size_t first_fd, size_t* used, uint64_t* token_fds) {
  InFrame* const frame = &pending_->frame;
  TENON_ASSIGN(const LeaseBlock block, decode_lease_block(bytes, used));
  *token_fds = block.n_fds();
  if (*token_fds > frame->fds_announced - first_fd) return corrupt("a lease block with more tokens than fds");
  if (!pending_->leases.empty()) return Status::ok();
  const std::span<os::Fd> fds = std::span(frame->fds).subspan(std::min(first_fd, frame->fds.size()));
  return borrowing_.take(block, fds.first(std::min<size_t>(*token_fds, fds.size())), &pending_->leases);
}

// Of a large message that is refused whole. Its leases would stand as long as the connection, so they are taken to be given back.
Status Connection::take_unread_leases() {
  const InFrame& frame = pending_->frame;
  if (frame.fds.empty()) return Status::ok();  // nobody can tell them: they end with the connection
  const int fd = frame.fds.front().get();
  uint32_t nbytes = 0;
  TENON_TRY(check_memfd(fd, sizeof nbytes));
  TENON_TRY(os::read_file(fd, 0, &nbytes, sizeof nbytes));
  std::vector<std::byte> block(std::min<uint64_t>(nbytes, options_.limits.max_nbytes));
  TENON_TRY(os::read_file(fd, 0, block.data(), block.size()));
  size_t used = 0;
  uint64_t token_fds = 0;
  return take_leases(block, 1, &used, &token_fds);
}

Result<std::unique_ptr<Message>> Connection::open_pending() {
  InFrame* const frame = &pending_->frame;
  // Whatever is no message ends the connection: after it nothing of what the peer says can be counted on.
  const auto end = [&](Status status) -> Status {
    if (status.code() == Code::kCorrupt) broken_ = status;
    // The segments that it would have made known stay unknown.
    if (lost_.is_ok() && frame->fds_announced > 0) lost_ = status;
    return status;
  };
  if (!frame->fds_status.is_ok()) lost_ = frame->fds_status;
  if (frame->kind < kMessage || frame->kind > kTokens) return end(corrupt("a frame of no known kind"));
  const bool leased = frame->kind >= kLeased;
  const bool in_memfd = frame->kind == kLargeMessage || frame->kind == kLargeLeased;
  std::vector<std::byte> large;
  Result<std::span<const std::byte>> found = find_bytes(*frame, in_memfd, &large);
  if (!found.is_ok()) {
    Status status = std::move(found).status();
    if (frame->kind == kLargeLeased && status.code() != Code::kCorrupt) {
      if (Status taken = take_unread_leases(); taken.code() == Code::kCorrupt) status = std::move(taken);
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
  Result<DescriptorContent> decoded = tensor::decode_descriptor(bytes, frame->fds_announced - first_fd, options_.limits);
  if (!decoded.is_ok()) return end(std::move(decoded).status());
  DescriptorContent content = std::move(decoded).value();
  if (leased && content.storages.size() != pending_->leases.size()) return end(corrupt("a lease block of another number of storages"));
  TENON_TRY(register_segments(content, frame, first_fd));
  if (!frame->fds_status.is_ok()) return frame->fds_status;
  std::vector<tensor::Resolved> resolved;
  TENON_TRY(resolve(content, &resolved));
  return tensor::unpack(std::move(content), resolved, pending_->leases, options_.open, &pending_->storages);
}

}  // namespace tenon::channel
