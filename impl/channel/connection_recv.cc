// The receiving half of Connection: it takes frames apart and opens the memory that they name. Its
// entry is recv(). All other member functions but is_drained() run inside recv(), with recv_turn_
// and recv_mutex_ held.
#include <algorithm>
#include <cstring>

#include "channel/connection.h"
#include "channel/connection_calls.h"
#include "channel/frame_kind.h"
#include "channel/lease_block.h"
#include "memory/spare.h"
#include "os/limits.h"
#include "os/memfd.h"
#include "tensor/portable.h"

namespace tenon::channel {
namespace {

using tensor::DescriptorContent;
using tensor::Message;
using tensor::Reach;

// The cost in bytes of frames that bring no message. An fd costs more than its four bytes. After
// kMostWork, a receive checks whether its time is over. No honest peer sends that much between two
// messages.
constexpr size_t kFrameWork = 256;
constexpr size_t kFdWork = 1024;
constexpr size_t kMostWork = size_t{256} << 10;
// A receiver takes what the ring has before it reads the socket, so it seldom holds more than one
// frame that waits for its marker.
constexpr size_t kMostHeld = 16;

Status corrupt_frame(const char* what) {
  return Status(Code::kCorrupt, what).with("field", std::string("frame"));
}

// Checks that nobody can change or shorten the memfd of a large message. CORRUPT if somebody can,
// or if the memfd has fewer than `nbytes` bytes.
Status check_memfd(int fd, uint64_t nbytes) {
  constexpr unsigned kNeeded = os::kSealWrite | os::kSealShrink;
  TENON_ASSIGN(const os::FileInfo file, os::inspect_file(fd));
  if (!file.in_memory || (file.seals & kNeeded) != kNeeded || file.nbytes < nbytes)
    return corrupt_frame("a large message whose memfd is not sealed or too short");
  return Status::ok();
}

}  // namespace

// Runs at the end of a receive, before the receive releases the connection. It releases a dead
// lender's segments, which LenderWatch could not do while the receive held the connection.
class Connection::Forgetting {
 public:
  explicit Forgetting(Connection* connection) noexcept : connection_(connection) {}
  Forgetting(const Forgetting&) = delete;
  Forgetting& operator=(const Forgetting&) = delete;
  ~Forgetting() {
    if (connection_->is_dropped()) connection_->received_.forget_all();
  }

 private:
  Connection* connection_;
};

// The pending frame while it is taken apart. Each phase of open_pending() takes bytes and fds from
// the front. An fd that no phase takes is closed with the frame.
struct Connection::Incoming {
  FrameParts parts;
  std::vector<std::byte> large;      // the content of the memfd
  std::span<const std::byte> bytes;  // the bytes that are not decoded yet
  size_t first_fd = 0;               // the first fd that is not taken yet
  DeviceBlock devices;
  size_t first_device_fd = 0;
  DescriptorContent content;
};

// Finds the bytes of the frame's parts, in the payload or in a memfd.
Status Connection::find_bytes(Incoming* in) {
  const InFrame& frame = pending_->frame;
  if (!in->parts.in_memfd) {
    in->bytes = frame.payload;
    return Status::ok();
  }
  uint64_t nbytes = 0;
  if (frame.payload.size() != sizeof nbytes)
    return corrupt_frame("a frame of another length than its kind has");
  std::memcpy(&nbytes, frame.payload.data(), sizeof nbytes);
  if (nbytes > options_.limits.max_nbytes) {
    return Status(Code::kResourceExhausted,
                  format("a message of %llu bytes, and %llu are accepted",
                         static_cast<unsigned long long>(nbytes),
                         static_cast<unsigned long long>(options_.limits.max_nbytes)))
        .with("limit", std::string("max_message_nbytes"))
        .with("limit_value", options_.limits.max_nbytes);
  }
  if (frame.fds_announced == 0) return corrupt_frame("a large message without its memfd");
  if (frame.fds.empty()) return frame.fds_status;
  const int fd = frame.fds.front().get();
  TENON_TRY(check_memfd(fd, nbytes));
  TENON_TRY(memory::with_spare([&] { return os::ask_headroom(nbytes); }));
  in->large.resize(nbytes);
  TENON_TRY(os::read_file(fd, 0, in->large.data(), nbytes));
  in->bytes = in->large;
  in->first_fd = 1;
  return Status::ok();
}

// The errors are those of tenon_recv (tenon/connection.h). A child of fork gets UNSUPPORTED. After
// CORRUPT every later call returns CORRUPT. With `drop_when_gone`, PEER_GONE comes even if messages
// are unread.
Result<std::unique_ptr<Message>> Connection::receive(const os::Wait& wait, bool until_ring) {
  TENON_TRY(check_process());
  const Collecting collecting(*this);
  // These storages are released after recv_turn_, because the end of a device storage runs owners'
  // release functions (collect_some_cuda()), which may use this connection.
  std::vector<Ref<storage::Storage>> unwanted;
  std::unique_lock<std::mutex> turn(recv_turn_, std::defer_lock);
  TENON_TRY(take_turn(&turn, wait));
  const std::lock_guard<std::mutex> lock(recv_mutex_);
  const Forgetting forgetting(this);
  if (!broken_.is_ok()) return Status(broken_.code(), broken_.message());
  if (is_dropped()) {
    return Status(Code::kPeerGone,
                  "the lender is gone, and this connection drops what it lent, messages that "
                  "nobody has received included; make the "
                  "connection with on_lender_gone KEEP to receive them")
        .with("option", std::string("TENON_LENDER_GONE_KEEP"));
  }
  borrowing_.renew();
  os::Waiter waiter(wait);
  size_t work = 0;
  for (;;) {
    if (until_ring && frames_.ring_in() != nullptr) return std::unique_ptr<Message>();
    if (!pending_) {
      Result<InFrame> frame = frames_.recv(waiter);
      if (!frame.is_ok()) {
        if (frame.status().code() == Code::kPeerGone) borrowing_.end();
        if (guard_.is_wanted() && has_nothing_to_read()) guard_.drained();
        return std::move(frame).status();
      }
      if (frames_.must_ring()) answer_bell();
      const std::optional<FrameParts> parts = frame_parts(frame.value().kind);
      if (parts && parts->held) {
        if (broken_ = hold(std::move(frame).value()); !broken_.is_ok()) return broken_;
        continue;
      }
      if (frame.value().kind == kMarker) {
        frame = release_held();
        if (!frame.is_ok()) return broken_ = std::move(frame).status();
      }
      pending_.emplace(Pending{std::move(frame).value(), {}, {}});
    }
    work += kFrameWork + pending_->frame.payload.size() + kFdWork * pending_->frame.fds_announced;
    // An exception here is std::bad_alloc, and the frame stays for the next call. Any other outcome
    // is reported once.
    Result<std::unique_ptr<Message>> message = open_pending();
    if (options_.drop_when_gone && message.is_ok()) watch_->add(pending_->storages);
    unwanted = std::move(pending_->storages);
    pending_.reset();
    if (guard_.is_wanted() && has_nothing_to_read()) guard_.drained();
    if (!message.is_ok() || message.value()) return message;
    if (work < kMostWork) continue;
    TENON_TRY(waiter.check_over(socket_, "a message from the peer, whose frames bring none,"));
    work = 0;
  }
}

// Any thread that finds that a token is gone may call this, so it must not wait.
memory::Drained Connection::is_drained() noexcept {
  const std::unique_lock<std::mutex> lock(recv_mutex_, std::try_to_lock);
  if (!lock.owns_lock())
    return frames_.waits_with_nothing() ? memory::Drained::kYes : memory::Drained::kBusy;
  return has_nothing_to_read() ? memory::Drained::kYes : memory::Drained::kNo;
}

Status Connection::take_leases(Incoming* in) {
  InFrame* const frame = &pending_->frame;
  size_t used = 0;
  TENON_ASSIGN(const LeaseBlock block, decode_lease_block(in->bytes, &used));
  const uint64_t token_fds = block.n_fds();
  if (token_fds > frame->fds_announced - in->first_fd)
    return corrupt_frame("a lease block with more tokens than fds");
  if (!pending_->leases_taken) {
    const std::span<os::Fd> fds =
        std::span(frame->fds).subspan(std::min(in->first_fd, frame->fds.size()));
    TENON_TRY(borrowing_.take(block, fds.first(std::min<size_t>(token_fds, fds.size())),
                              &pending_->leases));
    pending_->leases_taken = true;
    if (guard_.has_any()) frames_.tell_waits();
  }
  in->bytes = in->bytes.subspan(used);
  in->first_fd += token_fds;
  return Status::ok();
}

// When an oversized message is refused, its leases are still taken, so that they are given back
// now. Otherwise the lender would hold the blocks as long as the connection lives.
Status Connection::take_unread_leases() {
  const InFrame& frame = pending_->frame;
  // Without the memfd the leases cannot be read, and end with the connection. Then every later
  // message with leases fails (Borrowing::miss()).
  if (frame.fds.empty()) return Status::ok();
  const int fd = frame.fds.front().get();
  uint32_t nbytes = 0;
  TENON_TRY(check_memfd(fd, sizeof nbytes));
  TENON_TRY(os::read_file(fd, 0, &nbytes, sizeof nbytes));
  const uint64_t taken = std::min<uint64_t>(nbytes, options_.limits.max_nbytes);
  TENON_TRY(check_memfd(fd, taken));
  TENON_TRY(os::ask_headroom(taken));
  Incoming in;
  in.large.resize(taken);
  TENON_TRY(os::read_file(fd, 0, in.large.data(), in.large.size()));
  in.bytes = in.large;
  in.first_fd = 1;
  return take_leases(&in);
}

Status Connection::decode_devices(Incoming* in) {
  on_devices_.store(true, std::memory_order_relaxed);
  size_t used = 0;
  TENON_ASSIGN(in->devices, decode_device_block(in->bytes, &used));
  if (in->devices.n_fds() > pending_->frame.fds_announced - in->first_fd)
    return corrupt_frame("a device block with more fds than came");
  in->bytes = in->bytes.subspan(used);
  in->first_device_fd = in->first_fd;
  in->first_fd += in->devices.n_fds();
  return Status::ok();
}

Status Connection::decode_message(Incoming* in) {
  TENON_ASSIGN(in->content,
               tensor::decode_descriptor(in->bytes, pending_->frame.fds_announced - in->first_fd,
                                         options_.limits, in->devices.segments.size()));
  if (in->parts.leases && in->content.storages.size() != pending_->leases.size())
    return corrupt_frame("a lease block of another number of storages");
  return Status::ok();
}

// Reads the peer's ring from now on. If this process cannot map the ring, the peer goes on sending
// over the socket.
Status Connection::take_ring() {
  InFrame* const frame = &pending_->frame;
  if (frame->fds_announced != 2 || !frame->payload.empty())
    return corrupt_frame("a ring of another number of files than it has");
  const bool is_needed = options_.subscribes;
  if (is_needed) held_.reserve(kMostHeld);
  if (frame->fds.size() != 2) return is_needed ? frame->fds_status : Status::ok();
  Result<std::unique_ptr<RingReceiver>> ring =
      memory::with_spare([&] { return RingReceiver::open(std::span<os::Fd, 2>(frame->fds)); });
  if (ring.is_ok()) return frames_.read_ring(std::move(ring).value());
  const Code code = ring.status().code();
  return is_needed || code == Code::kCorrupt || code == Code::kIncompatible
             ? std::move(ring).status()
             : Status::ok();
}

// Keeps a frame until its marker comes. Frames of markers that were withdrawn are dropped.
Status Connection::hold(InFrame frame) {
  const RingReceiver* const ring = frames_.ring_in();
  if (ring == nullptr || !options_.subscribes)
    return corrupt_frame("a message that waits for a ring, without a publisher's ring");
  uint64_t position = 0;
  if (frame.payload.size() < sizeof position)
    return corrupt_frame("a message that waits for a ring, without its position");
  std::memcpy(&position, frame.payload.data(), sizeof position);
  const uint64_t next = ring->position();
  std::erase_if(held_, [&](const auto& each) { return each.first < next; });
  if (position < next) return Status::ok();
  if (position - next >= ring->geometry().capacity || held_.size() >= kMostHeld ||
      (!held_.empty() && position <= held_.back().first))
    return corrupt_frame("a message that waits for a position which the ring cannot have");
  frame.payload.erase(frame.payload.begin(), frame.payload.begin() + sizeof position);
  FrameParts parts = *frame_parts(frame.kind);
  parts.held = false;
  frame.kind = frame_kind(parts);
  held_.emplace_back(position, std::move(frame));
  return Status::ok();
}

// Returns the held frame whose marker was just taken out of the ring.
Result<InFrame> Connection::release_held() {
  const RingReceiver* const ring = frames_.ring_in();
  const uint64_t taken = ring != nullptr ? ring->position() - 1 : 0;
  const auto found = std::find_if(held_.begin(), held_.end(),
                                  [&](const auto& each) { return each.first == taken; });
  if (ring == nullptr || found == held_.end())
    return corrupt_frame("a marker in a ring without the message that it stands for");
  InFrame frame = std::move(found->second);
  held_.erase(held_.begin(), found + 1);
  return frame;
}

// Rings the bell of a peer that waits until this side has taken a frame out of its ring.
void Connection::answer_bell() noexcept {
  const std::lock_guard<std::mutex> lock(send_mutex_);
  frames_.ring_bell();
}

// Decodes all parts of the frame, and takes its leases.
Status Connection::read_frame(Incoming* in) {
  const InFrame& frame = pending_->frame;
  const std::optional<FrameParts> parts = frame_parts(frame.kind);
  if (!parts) return corrupt_frame("a frame of no known kind");
  in->parts = *parts;
  if (parts->ring) return take_ring();
  if (Status found = find_bytes(in); !found.is_ok()) {
    const bool refused = found.code() != Code::kCorrupt;
    if (!refused || !parts->in_memfd || !parts->leases) return found;
    Status taken = take_unread_leases();
    if (taken.code() == Code::kCorrupt) return taken;
    if (!pending_->leases_taken) borrowing_.miss();
    return found;
  }
  if (parts->leases) TENON_TRY(take_leases(in));
  if (!parts->descriptor) {
    if (in->bytes.empty() && pending_->leases.empty()) return Status::ok();
    return corrupt_frame("tokens with something behind them");
  }
  borrowing_.renew();
  if (parts->devices) TENON_TRY(decode_devices(in));
  return decode_message(in);
}

// Opens the memory that a decoded message names. From here on the peer may count on the numbers of
// the message's segments.
Result<std::unique_ptr<Message>> Connection::open_message(Incoming* in) {
  InFrame* const frame = &pending_->frame;
  TENON_TRY(received_.add(in->content, frame, in->first_fd));
  if (!frame->fds_status.is_ok()) return frame->fds_status;
  std::vector<tensor::Resolved> resolved;
  TENON_TRY(received_.resolve(in->content, &resolved));
  std::vector<device::ReachableCuda> reached;
  if (in->parts.devices) {
    const std::span<const os::Fd> fds =
        std::span(frame->fds).subspan(in->first_device_fd, in->devices.n_fds());
    TENON_ASSIGN(reached, reach_devices(in->devices, fds, in->content, streams_,
                                        {options_.open, options_.cuda_keep_open}));
  }
  for (size_t i = 0; i < resolved.size(); ++i) {
    const tensor::SegmentRecord& segment = in->content.segments[i];
    if (segment.reach == Reach::kDevice) resolved[i].device = &reached[segment.fd_index];
  }
  return tensor::unpack(std::move(in->content), resolved, pending_->leases, options_.open,
                        &pending_->storages);
}

// Takes the segments that a publisher announces for later messages.
Status Connection::learn(Incoming* in) {
  InFrame* const frame = &pending_->frame;
  if (!in->content.storages.empty() || !in->content.tensors.empty())
    return corrupt_frame("an announcement with a message in it");
  TENON_TRY(received_.add(in->content, frame, in->first_fd));
  return frame->fds_status;
}

// Bytes that are no message end the connection, because nothing that the peer says later can be
// relied on. The segments that the frame would have made known stay unknown.
void Connection::lose_frame(const Status& status) {
  if (status.code() == Code::kCorrupt) broken_ = status;
  if (!received_.has_lost() && pending_->frame.fds_announced > 0) received_.lose(status);
}

// Opens the pending frame. Null: the frame brought no message.
Result<std::unique_ptr<Message>> Connection::open_pending() {
  const bool is_ring = pending_->frame.kind == frame_kind({.ring = true});
  if (!is_ring && !pending_->frame.fds_status.is_ok()) received_.lose(pending_->frame.fds_status);
  Incoming in;
  if (Status read = read_frame(&in); !read.is_ok()) {
    lose_frame(read);
    if (is_ring && options_.subscribes) broken_ = read;
    return read;
  }
  if (!in.parts.descriptor) return std::unique_ptr<Message>();
  if (in.parts.announces) {
    Status told = learn(&in);
    if (told.code() == Code::kCorrupt) lose_frame(told);
    if (!told.is_ok()) return told;
    return std::unique_ptr<Message>();
  }
  Result<std::unique_ptr<Message>> message = open_message(&in);
  // Any other error leaves the connection usable. But later messages fail too if they use segments
  // whose fds this frame lost.
  if (message.status().code() == Code::kCorrupt) lose_frame(message.status());
  return message;
}

}  // namespace tenon::channel
