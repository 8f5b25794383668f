#include "channel/frames.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/make_room.h"
#include "channel/frame_kind.h"
#include "os/limits.h"
#include "os/sender.h"

namespace tenon::channel {
namespace {

constexpr uint32_t kMagic = 0x464E4E54;  // "TNNF"
constexpr uint16_t kFrameVersion = 1;
constexpr uint32_t kFlagMore = 1;  // another packet of the same frame follows
constexpr size_t kHeaderSize = 32;
constexpr size_t kMaxPacket = kHeaderSize + kMaxFramePayload;
constexpr size_t kBufferSize = 128 * 1024;
constexpr size_t kReadsAtOnce = 1024;  // more than a frame needs if a process can hold its fds
// From this number of fds on, counting the open fds of the process costs little beside receiving
// them.
constexpr size_t kManyFds = 16;
constexpr size_t kMostQueuedFrames = 4096;
constexpr uint64_t kMostQueuedNbytes = uint64_t{256} << 20;
// A payload up to this size is copied behind its header. That is cheaper than a send of two pieces.
constexpr size_t kSmallPayload = 512;
static_assert(kMaxPacket <= kBufferSize);
static_assert(kMaxFdsPerPacket == os::kMaxFdsPerMessage);

template <typename T>
void put_at(std::byte* at, T value) noexcept {
  for (size_t i = 0; i < sizeof(T); ++i)
    at[i] = static_cast<std::byte>(static_cast<uint64_t>(value) >> (8 * i));
}

template <typename T>
T get(const std::byte* at) noexcept {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= std::to_integer<uint64_t>(at[i]) << (8 * i);
  return static_cast<T>(value);
}

struct PacketHead {
  uint16_t kind = 0;
  uint32_t flags = 0;
  size_t payload = 0;
  size_t packet_fds = 0;
  size_t frame_fds = 0;
  uint64_t sequence = 0;
};

void put_header(std::byte* packet, const PacketHead& head) noexcept {
  put_at<uint32_t>(packet, kMagic);
  put_at<uint16_t>(packet + 4, kFrameVersion);
  put_at<uint16_t>(packet + 6, head.kind);
  put_at<uint32_t>(packet + 8, head.flags);
  put_at<uint32_t>(packet + 12, static_cast<uint32_t>(head.payload));
  put_at<uint32_t>(packet + 16, static_cast<uint32_t>(head.packet_fds));
  put_at<uint32_t>(packet + 20, static_cast<uint32_t>(head.frame_fds));
  put_at<uint64_t>(packet + 24, head.sequence);
}

constexpr const char* kConnectAgain = "make a new connection to go on";
constexpr const char* kBothEnds =
    "; both ends must be connections of Tenon, and nothing else may use the socket";

Status no_frame(std::string what) {
  return Status(Code::kCorrupt, "the peer's bytes are no frame: " + std::move(what) + kBothEnds);
}

}  // namespace

Result<SocketType> check_socket(int fd) {
  TENON_ASSIGN(const os::SocketFacts facts, os::socket_facts(fd));
  const char* fault = nullptr;
  if (facts.domain != AF_UNIX) {
    fault =
        "is not an AF_UNIX socket: memory is lent within one machine, over a socket pair or a Unix "
        "socket";
  } else if (facts.type != SOCK_STREAM && facts.type != SOCK_SEQPACKET) {
    fault = "is neither a stream nor a seqpacket socket";
  } else if (facts.listening) {
    fault = "is a listening socket: pass the socket that accept returns";
  } else if (!facts.connected) {
    fault = "is a socket that is not connected: connect it first";
  }
  if (fault != nullptr)
    return Status(Code::kInvalidArgument, format("fd %d %s", fd, fault)).with("fd", fd);
  return facts.type == SOCK_STREAM ? SocketType::kStream : SocketType::kSeqpacket;
}

// ---- sending

void FrameSocket::make_room(size_t frames) {
  if (next_ > 0 && queue_.capacity() - queue_.size() < frames) {
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(next_));
    next_ = 0;
  }
  tenon::make_room(&queue_, frames);
}

Status FrameSocket::check_room() const {
  const size_t frames = queue_.size() - next_;
  if (frames < kMostQueuedFrames && queued_nbytes_ < kMostQueuedNbytes) return {};
  return Status(Code::kResourceExhausted,
                format("%zu messages with %llu bytes wait on socket %d, whose peer reads none of "
                       "them: send nothing more "
                       "until it does, or close the connection",
                       frames, static_cast<unsigned long long>(queued_nbytes_), fd_))
      .with("limit", std::string("send_queue"))
      .with("limit_value", static_cast<uint64_t>(kMostQueuedFrames))
      .with("in_use", static_cast<uint64_t>(frames))
      .with("fd", fd_);
}

void FrameSocket::enqueue(OutFrame frame) {
  make_room();
  queued_nbytes_ += frame.payload.size() + frame.held_nbytes;
  queue_.push_back(std::move(frame));
}

Status FrameSocket::flush(os::Waiter& waiter, uint64_t count, std::unique_lock<std::mutex>* lock) {
  if (sent_ >= count) return {};
  if (!unsendable_) TENON_TRY(waiter.check_cancel());
  for (;;) {
    bool full = false;
    TENON_TRY(hand_over(count, &full));
    if (!full) return {};
    if (lock != nullptr) lock->unlock();
    Status ready =
        waiter.until_ready(fd_, POLLOUT, "room for a message, which comes when the peer reads,");
    if (lock != nullptr) lock->lock();
    TENON_TRY(std::move(ready));
  }
}

Status FrameSocket::hand_over(uint64_t count, bool* full) {
  const uint64_t position = ring_out_ ? ring_out_->position() : 0;
  Status given = give_frames(count, full);
  // The bell must be rung for a frame that went into the ring, even if a later frame failed.
  if (ring_out_ && ring_out_->position() != position && ring_out_->must_ring()) ring_bell();
  return given;
}

Status FrameSocket::give_frames(uint64_t count, bool* full) {
  *full = false;
  if (unsendable_ && sent_ < count) return send_error(EPIPE);
  while (sent_ < count) {
    if (put_into_ring()) continue;
    OutFrame& frame = queue_[next_];
    if (frame.payload.size() > kMaxFramePayload)
      return Status(Code::kInternal, format("a frame of %zu bytes", frame.payload.size()));
    const size_t fds_left = frame.fds.size() - fds_gone_;
    const bool more = fds_left > kMaxFdsPerPacket;
    const std::span<const int> fds(frame.fds.data() + fds_gone_,
                                   std::min(fds_left, kMaxFdsPerPacket));
    const std::span<const std::byte> payload(frame.payload.data(), more ? 0 : frame.payload.size());

    std::array<std::byte, kHeaderSize + kSmallPayload> packet;  // not initialised
    put_header(packet.data(), {frame.kind, more ? kFlagMore : 0, payload.size(), fds.size(),
                               frame.fds.size(), next_sequence_});
    if (ring_out_ && !is_counted_) ring_out_->count_by_socket();
    is_counted_ = true;

    // The packet is sent in up to two pieces. The first also holds a small payload. The fds travel
    // with the first byte and only with it.
    const size_t copied = payload.size() <= kSmallPayload ? payload.size() : 0;
    if (copied > 0) std::memcpy(&packet[kHeaderSize], payload.data(), copied);
    const size_t front = kHeaderSize + copied;
    const std::span<const std::byte> back = payload.subspan(copied);
    os::Transfer sent;
    if (bytes_gone_ < front) {
      sent = os::send_message(fd_, std::span(packet).first(front).subspan(bytes_gone_), back,
                              bytes_gone_ == 0 ? fds : std::span<const int>());
    } else {
      sent = os::send_message(fd_, back.subspan(bytes_gone_ - front), {}, {});
    }
    if (sent.error == EAGAIN) {
      *full = true;
      return {};
    }
    if (sent.error != 0) return send_error(sent.error);

    bytes_gone_ += sent.nbytes;
    if (bytes_gone_ < kHeaderSize + payload.size()) continue;
    bytes_gone_ = 0;
    fds_gone_ += fds.size();
    if (more) continue;
    fds_gone_ = 0;
    is_counted_ = false;
    ++next_sequence_;
    finish_frame();
  }
  return {};
}

// Ends a frame that has gone out whole, on the socket or into the ring.
void FrameSocket::finish_frame() {
  OutFrame& frame = queue_[next_];
  queued_nbytes_ -= frame.payload.size() + frame.held_nbytes;
  frame = OutFrame();
  ++sent_;
  if (++next_ == queue_.size()) {
    queue_.clear();
    next_ = 0;
  }
}

// Puts the next frame into the ring, unless it must cross on the socket or has begun to.
bool FrameSocket::put_into_ring() noexcept {
  if (!ring_out_ || is_counted_) return false;
  const OutFrame& frame = queue_[next_];
  if (frame.by_socket || !frame.fds.empty() || !ring_out_->put(frame.kind, frame.payload))
    return false;
  finish_frame();
  return true;
}

void FrameSocket::use_ring(std::unique_ptr<RingSender> ring) noexcept {
  ring_out_ = std::move(ring);
  ring_out_->begin_at(next_sequence_ + (is_counted_ ? 1 : 0));
}

void FrameSocket::ring_bell() noexcept {
  // A frame that has begun to cross wakes the peer by its next byte.
  if (unsendable_ || bytes_gone_ > 0 || fds_gone_ > 0) return;
  std::array<std::byte, kHeaderSize> packet;
  put_header(packet.data(), {.kind = kBell, .sequence = next_sequence_});
  const os::Transfer sent = os::send_message(fd_, packet, {}, {});
  if (sent.error == EAGAIN) return;
  // The kernel never cuts a packet as short as this one. If it did, no later byte could be read.
  if (sent.error != 0 || sent.nbytes != packet.size()) unsendable_ = true;
}

Status FrameSocket::send_error(int error) {
  switch (error) {
    case EPIPE:
    case ECONNRESET:
    case ECONNREFUSED:
    case ENOTCONN:
      unsendable_ = true;
      return Status(Code::kPeerGone,
                    format("the peer of socket %d has closed its end or has ended: %s", fd_,
                           kConnectAgain))
          .with("fd", fd_)
          .with("errno", error);
    case ETOOMANYREFS:
      return errno_status(error, format("socket %d: this user has too many fds in flight, sent and "
                                        "not yet received: wait until peers have "
                                        "received them, or raise RLIMIT_NOFILE (ulimit -n)",
                                        fd_))
          .with("limit_value", os::fd_limit())
          .with("fd", fd_);
    case EMSGSIZE: {  // seqpacket only: a packet must fit in the send buffer
      Status status =
          Status(
              Code::kResourceExhausted,
              format("socket %d: its send buffer is smaller than one packet: raise SO_SNDBUF", fd_))
              .with("errno", error)
              .with("limit", std::string("SO_SNDBUF"))
              .with("wanted", static_cast<uint64_t>(kHeaderSize + queue_[next_].payload.size()))
              .with("fd", fd_);
      if (const auto size = os::send_buffer_size(fd_))
        status = std::move(status).with("limit_value", *size);
      return status;
    }
    default: return errno_status(error, format("sending on socket %d", fd_)).with("fd", fd_);
  }
}

// ---- receiving

Result<InFrame> FrameSocket::recv(os::Waiter& waiter) {
  if (!stopped_.is_ok()) return stopped_;
  TENON_TRY(waiter.check_cancel());
  for (size_t reads = 1;; ++reads) {
    // Packets that never make a frame, bells, and messages that are withdrawn must not hold a call
    // beyond its time if they never cease. The socket stays ready, so no wait would end it.
    if (reads % kReadsAtOnce == 0)
      TENON_TRY(waiter.check_over(fd_, "the rest of a message from the peer"));
    // This load comes before the check of the ring. So if the sender has begun with a frame on the
    // socket, the check sees all frames that it had put into the ring before.
    const bool expects_socket = ring_in_ && ring_in_->expects_socket(expected_sequence_);
    TENON_ASSIGN(const RingHas found, take_from_ring());
    if (found == RingHas::kFrame) return std::exchange(frame_, InFrame());
    if (found == RingHas::kNews) continue;
    bool whole = false;
    const uint64_t taken = taken_;
    TENON_TRY(take_packets(&whole));
    if (whole) return std::exchange(frame_, InFrame());
    if (taken_ != taken) continue;  // a bell, and there may be packets behind it
    TENON_TRY(fill(waiter, expects_socket));
  }
}

// Takes the next frame out of the ring, if the ring has it. kNews: check the ring again before the
// socket.
Result<FrameSocket::RingHas> FrameSocket::take_from_ring() {
  if (!ring_in_ || header_known_ || fds_told_ > 0) return RingHas::kNothing;
  Result<std::optional<RingReceiver::Taken>> taken =
      ring_in_->take(expected_sequence_, &frame_.payload);
  if (!taken.is_ok()) return stop(std::move(taken).status());
  if (!taken.value()) return RingHas::kNothing;
  if (taken.value()->is_overtaken) return RingHas::kNews;
  frame_.kind = taken.value()->kind;
  frame_.fds_announced = 0;
  ring_in_->wake_up();
  return RingHas::kFrame;
}

Status FrameSocket::read_ring(std::unique_ptr<RingReceiver> ring) {
  if (ring_in_) return Status(Code::kCorrupt, "a second ring").with("field", std::string("ring"));
  ring_in_ = std::move(ring);
  seen_ring_.store(ring_in_.get(), std::memory_order_release);
  ring_in_->ready();
  return Status::ok();
}

// Takes whole packets off the buffer. Nothing is taken before all memory for it is there, so a
// failed allocation loses no byte and no fd.
Status FrameSocket::take_packets(bool* whole) {
  for (;;) {
    if (buffered() < kHeaderSize) return {};
    if (!header_known_) TENON_TRY(parse_header());
    const size_t packet = kHeaderSize + header_.payload;
    if (type_ == SocketType::kSeqpacket && buffered() != packet) {
      return stop(no_frame(format("a packet of %zu bytes that says %zu", buffered(), packet)));
    }
    if (buffered() < packet) return {};
    const bool last = (header_.flags & kFlagMore) == 0;
    const bool is_bell = header_.kind == kBell;
    if (last && !is_bell) {
      const std::byte* payload = buffer_.get() + begin_ + kHeaderSize;
      frame_.payload.assign(payload, payload + header_.payload);
      if (fds_lost_) frame_.fds_status = loss();
    }
    begin_ += packet;
    taken_ += packet;
    header_known_ = false;
    if (begin_ == end_) begin_ = end_ = 0;
    if (is_bell) return {};
    if (!last) continue;
    fds_told_ = 0;
    fds_lost_ = false;
    ++expected_sequence_;
    *whole = true;
    return {};
  }
}

Status FrameSocket::parse_header() {
  const std::byte* at = buffer_.get() + begin_;
  if (const uint32_t magic = get<uint32_t>(at); magic != kMagic)
    return stop(no_frame(format("it starts with 0x%08x", magic)));
  if (const uint16_t version = get<uint16_t>(at + 4); version != kFrameVersion) {
    return stop(Status(
        Code::kIncompatible,
        format("the peer sends frames of version %u, this side reads %u", version, kFrameVersion)));
  }
  Header header;
  header.kind = get<uint16_t>(at + 6);
  header.flags = get<uint32_t>(at + 8);
  header.payload = get<uint32_t>(at + 12);
  header.packet_fds = get<uint32_t>(at + 16);
  header.frame_fds = get<uint32_t>(at + 20);
  header.sequence = get<uint64_t>(at + 24);

  if ((header.flags & ~kFlagMore) != 0)
    return stop(
        Status(Code::kIncompatible, format("the peer sends frames with flags 0x%x", header.flags)));
  if (header.payload > kMaxFramePayload)
    return stop(no_frame(format("a payload of %u bytes", header.payload)));
  if (header.frame_fds > max_fds_)
    return stop(
        no_frame(format("%u fds in one frame, at most %u are taken", header.frame_fds, max_fds_)));
  if (header.sequence != expected_sequence_) {
    return stop(no_frame(format("frame number %llu where %llu is due",
                                static_cast<unsigned long long>(header.sequence),
                                static_cast<unsigned long long>(expected_sequence_))));
  }
  const bool first = fds_told_ == 0;  // every packet but the last carries fds
  if (!first && (header.kind != frame_.kind || header.frame_fds != frame_.fds_announced))
    return stop(no_frame("its packets do not agree"));
  // The number of fds fixes how a frame is cut into packets, so every field can be checked.
  const size_t fds_left = header.frame_fds - fds_told_;
  const bool more = fds_left > kMaxFdsPerPacket;
  if (header.packet_fds != std::min(fds_left, kMaxFdsPerPacket) ||
      more != ((header.flags & kFlagMore) != 0) || (more && header.payload != 0)) {
    return stop(
        no_frame(format("a packet with %u fds, flags %u and %u bytes where %zu fds are left",
                        header.packet_fds, header.flags, header.payload, fds_left)));
  }
  if (header.kind == kBell && (!first || header.frame_fds > 0 || header.payload > 0))
    return stop(no_frame("a bell that brings something"));
  header_ = header;
  TENON_TRY(claim_fds());
  header_known_ = true;
  if (header.kind == kBell) return {};
  frame_.kind = header.kind;
  frame_.fds_announced = header.frame_fds;
  fds_told_ += header.packet_fds;
  return {};
}

// Gives the packet at begin_ its fds, and finds fds that belong to no packet.
Status FrameSocket::claim_fds() {
  if (batch_.held && batch_.to <= taken_) TENON_TRY(drop_stray_fds());
  if (header_.packet_fds == 0) {
    // Fds that came with this packet's last byte may belong to the next packet. If no byte came
    // behind it, there is no next packet.
    if (batch_.held && batch_.to <= taken_ + kHeaderSize + header_.payload) return drop_stray_fds();
    return {};
  }
  const size_t announced = header_.packet_fds;
  if (!batch_.held || batch_.from > taken_)
    return stop(no_frame(format("%zu fds announced and not sent", announced)));
  const size_t came = batch_.fds.size();
  if (came > announced || (came < announced && !batch_.fds.cut())) {
    return stop(no_frame(format("%zu fds announced and %zu sent", announced, came)));
  }
  if (!accepts(header_.kind, header_.frame_fds)) fds_lost_ = true;
  // A frame can stay unfinished for as long as its sender likes, and its fds stay open in this
  // process meanwhile.
  if (accepted_fds_ != nullptr && header_.frame_fds >= kManyFds && !os::has_spare_fds())
    fds_lost_ = true;
  if (fds_lost_) {
    batch_.fds.clear();
  } else {
    batch_.fds.move_to(frame_.fds);
    fds_lost_ = came < announced;
  }
  batch_.held = false;
  return {};
}

// Closes fds that no packet announced. The kernel also sets MSG_CTRUNC for data other than fds,
// such as a security label, so a batch without fds is no error.
Status FrameSocket::drop_stray_fds() {
  const size_t count = batch_.fds.size();
  batch_.fds.clear();
  batch_.held = false;
  return count == 0 ? Status() : stop(no_frame(format("%zu fds that no packet announced", count)));
}

// Waits until there is a frame in the ring or something was read from the socket. `expects_socket`:
// the next frame comes from the socket, and the ring has none that comes before it.
Status FrameSocket::fill(os::Waiter& waiter, bool expects_socket) {
  if (!ring_in_ || buffered() > 0 || fds_told_ > 0 || expects_socket) return read_socket(waiter);
  if (waiter.may_wait() && ring_in_->spin(expected_sequence_)) return {};
  ring_in_->fall_asleep();
  if (!ring_in_->sees_anything(expected_sequence_)) {
    // A call whose wait ended leaves this side asleep, so that the socket becomes readable when
    // there is a frame, for a caller that polls it.
    TENON_TRY(read_socket(waiter));
  }
  ring_in_->wake_up();
  return {};
}

Status FrameSocket::read_socket(os::Waiter& waiter) {
  if (buffer_ == nullptr) buffer_ = std::make_unique_for_overwrite<std::byte[]>(kBufferSize);
  const size_t needed = header_known_ ? kHeaderSize + header_.payload : kHeaderSize;
  if (begin_ > 0 && kBufferSize - begin_ < needed) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, buffered());
    end_ -= begin_;
    begin_ = 0;
  }
  size_t room = kBufferSize - end_;
  // The fds of this packet came with the first bytes of its header, and wait for the rest of it.
  // One read of a stream could bring the next packet and its fds too.
  if (type_ == SocketType::kStream && batch_.held && !header_known_)
    room = kHeaderSize - buffered();
  for (;;) {
    os::ReceivedFds fds;
    const os::Transfer got = os::receive_message(fd_, {buffer_.get() + end_, room},
                                                 waiter.unbounded() && !tells_waits_, &fds);
    switch (got.error) {
      case 0:
        if (got.nbytes == 0) return end_of_stream(fds.size() > 0);
        if (got.data_cut) return stop(no_frame("a packet that is too long"));
        if (type_ == SocketType::kSeqpacket && got.nbytes < kHeaderSize)
          return stop(no_frame(format("a packet of %zu bytes", got.nbytes)));
        if (batch_.held && batch_.fds.size() > 0 && fds.size() > 0)
          return stop(no_frame("fds in the middle of a packet"));
        put_away(fds, got.nbytes);
        return {};
      case EAGAIN: {
        waits_.store(tells_waits_, std::memory_order_seq_cst);
        Status ready = waiter.until_ready(fd_, POLLIN, "a message from the peer");
        waits_.store(false, std::memory_order_seq_cst);
        TENON_TRY(std::move(ready));
        break;
      }
      case ECONNRESET:
        // The peer closed without reading all of this side's bytes. The kernel reports that once,
        // before the bytes that the peer had sent, which are still to be read.
        break;
      default:
        return errno_status(got.error, format("receiving on socket %d", fd_)).with("fd", fd_);
    }
  }
}

void FrameSocket::put_away(os::ReceivedFds& fds, size_t nbytes) {
  const uint64_t from = taken_ + buffered();
  if (fds.size() > 0 || (fds.cut() && !batch_.held)) {
    batch_.fds = std::move(fds);
    batch_.from = from;
    batch_.to = from + nbytes;
    batch_.held = true;
  }
  end_ += nbytes;
}

Status FrameSocket::end_of_stream(bool with_fds) {
  // On a seqpacket socket an empty packet looks like the end.
  if (with_fds || (type_ == SocketType::kSeqpacket && !os::peer_hung_up(fd_)))
    return stop(no_frame("an empty packet"));
  const bool between = buffered() == 0 && fds_told_ == 0;
  // The peer may have put a frame into its ring after the last check of the ring. A frame that
  // waits for one on the socket never becomes readable, so each position is checked only once more.
  if (between && ring_in_ && ring_in_->has_news() && ring_in_->position() + 1 != end_seen_at_) {
    end_seen_at_ = ring_in_->position() + 1;
    return {};
  }
  return stop(Status(Code::kPeerGone,
                     format("the peer of socket %d has closed its end or has ended%s: %s", fd_,
                            between ? "" : ", in the middle of a frame", kConnectAgain))
                  .with("fd", fd_));
}

bool FrameSocket::has_nothing() const noexcept {
  if (!stopped_.is_ok()) return true;
  if (ring_in_ && ring_in_->has_news()) return false;
  if (buffered() > 0 || fds_told_ > 0) return false;
  // A receiver that finds a frame in its last check before a sleep may be rung for that frame all
  // the same. Nobody reads that bell before the next receive, which may never come.
  const size_t unread = os::unread_nbytes(fd_);
  return unread == 0 || (ring_in_ && unread == kHeaderSize && is_bell_next());
}

bool FrameSocket::is_bell_next() const noexcept {
  std::array<std::byte, kHeaderSize> head;
  return os::peek(fd_, head) == head.size() && get<uint32_t>(head.data()) == kMagic &&
         get<uint16_t>(head.data() + 6) == kBell;
}

// A frame that arrives after recv() found nothing stays on the socket until recv() clears waits_.
// So waits_ is read before and after the check of the socket.
bool FrameSocket::waits_with_nothing() const noexcept {
  const auto has_none = [&] {
    const RingReceiver* const ring = seen_ring_.load(std::memory_order_acquire);
    return (ring == nullptr || !ring->has_news()) && os::unread_nbytes(fd_) == 0;
  };
  return waits_.load(std::memory_order_seq_cst) && has_none() &&
         waits_.load(std::memory_order_seq_cst);
}

// Nothing more is received, so what was held for receiving is released.
Status FrameSocket::stop(Status why) {
  stopped_ = why;
  buffer_.reset();
  begin_ = end_ = 0;
  batch_.fds.clear();
  batch_.held = false;
  frame_ = InFrame();
  return why;
}

Status FrameSocket::loss() const {
  if (!accepts(frame_.kind, frame_.fds_announced)) {
    return Status(Code::kResourceExhausted,
                  format("the peer sends %u fds at once, more than those of %llu segments and what "
                         "goes with "
                         "them: raise max_segments to take them",
                         frame_.fds_announced, static_cast<unsigned long long>(max_segments_)))
        .with("limit", std::string("max_segments"))
        .with("limit_value", max_segments_)
        .with("wanted", static_cast<uint64_t>(frame_.fds_announced));
  }
  Status status =
      Status(
          Code::kResourceExhausted,
          format("%zu of %u fds of a message found no place in this process and were dropped: "
                 "raise RLIMIT_NOFILE (ulimit -n) or close fds, and "
                 "make a new connection, because the peer does not send them again over this one",
                 frame_.fds_announced - frame_.fds.size(), frame_.fds_announced))
          .with("limit", std::string("RLIMIT_NOFILE"))
          .with("limit_value", os::fd_limit())
          .with("wanted", static_cast<uint64_t>(frame_.fds_announced));
  if (const auto open = os::open_fd_count()) status = std::move(status).with("in_use", *open);
  return status;
}

}  // namespace tenon::channel
