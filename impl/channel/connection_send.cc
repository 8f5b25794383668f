// The sending half of Connection. Each message is queued first, even if another thread has the
// turn, and is then handed to the kernel. Its entries are send() and, for the library's thread,
// send_renewal(). All other member functions run with send_mutex_ held.
#include <algorithm>
#include <cstring>

#include "base/make_room.h"
#include "channel/connection.h"
#include "channel/connection_calls.h"
#include "channel/frame_kind.h"
#include "channel/lease_block.h"
#include "channel/outgoing.h"
#include "memory/spare.h"
#include "os/limits.h"
#include "os/memfd.h"
#include "tensor/portable.h"

namespace tenon::channel {
namespace {

using memory::Segment;
using tensor::Message;
using tensor::Reach;
using tensor::SegmentRecord;

// At this number of kept entries, those whose frames are sent are removed. Their senders never
// repeated the call.
constexpr size_t kMostKept = 1024;

}  // namespace

Result<os::Fd> put_into_memfd(std::span<const std::byte> bytes) {
  TENON_TRY(os::check_file_size(bytes.size()));
  TENON_TRY(os::ask_headroom(bytes.size()));
  TENON_ASSIGN(const os::Nonce nonce, os::random_nonce());
  TENON_ASSIGN(os::Fd fd, os::create_memfd(nonce, bytes.size()));
  TENON_TRY(os::write_file(fd.get(), 0, bytes.data(), bytes.size()));
  TENON_TRY(
      os::add_seals(fd.get(), os::kSealWrite | os::kSealShrink | os::kSealGrow | os::kSealSeal));
  return fd;
}

// Packs the message and takes its leases. A lease page must be sealed, so where memfd_create is
// denied there are no leases. Then this process's own blocks are lent as by a bare fd, and are
// retired when their storages end. Memory that this process borrowed is not lent on in that case,
// because nothing would tell its lender that it is still in use.
Status Connection::pack(const Message& message, Outgoing* out) {
  tensor::Packed& packed = out->packed;
  TENON_TRY(tensor::pack(message, tensor::Leases::kYes, &packed, options_.cuda_let_write));
  out->parts.devices = !packed.device_segments.empty();
  const bool must_lease = out->parts.devices || !packed.upstream.empty();
  Status granted = lending_.prepare(packed, &out->grant, out->parts.devices);
  if (os::is_memfd_denied(granted) && !must_lease) {
    packed.clear();
    TENON_TRY(tensor::pack(message, tensor::Leases::kNo, &packed, options_.cuda_let_write));
  } else if (!granted.is_ok()) {
    return granted;
  }
  if (!out->grant.needed()) return Status::ok();
  out->parts.leases = true;
  out->frame.fds = out->grant.fds();
  out->block = encode_lease_block(out->grant.block());
  return Status::ok();
}

// Makes the handles of the message's device memory.
Status Connection::add_device_handles(Outgoing* out) {
  if (!out->parts.devices) return Status::ok();
  on_devices_.store(true, std::memory_order_relaxed);
  TENON_ASSIGN(const DeviceBlock devices,
               make_device_block(out->packed, streams_, &out->frame.fds));
  const std::vector<std::byte> more = encode_device_block(devices);
  out->block.insert(out->block.end(), more.begin(), more.end());
  return Status::ok();
}

// Says of each host segment whether the peer knows it or its fd travels, and names the segments
// that the peer can forget.
void Connection::number_segments(Outgoing* out) {
  tensor::Packed& packed = out->packed;
  std::vector<int>& fds = out->frame.fds;
  const size_t fds_ahead = fds.size();
  for (size_t i = 0; i < packed.segments.size(); ++i) {
    SegmentRecord& record = packed.content.segments[i];
    if (record.reach == Reach::kDevice) continue;
    record.id = packed.segments[i]->serial();
    if (sent_.contains(record.id)) {
      record.reach = Reach::kKnown;
      record.fd_index = 0;
      continue;
    }
    record.fd_index = static_cast<uint32_t>(fds.size() - fds_ahead);
    fds.push_back(packed.fds[i]);
    out->added.push_back(record.id, packed.segments[i].get());
  }
  packed.content.forgotten = sent_.collect_forgotten(out->added, packed.content.segments);
}

// Encodes the descriptor behind the block.
Status Connection::encode(Outgoing* out) {
  OutFrame& frame = out->frame;
  frame.payload = tensor::encode_descriptor(out->packed.content, out->block.size());
  std::copy(out->block.begin(), out->block.end(), frame.payload.begin());
  return shape(&out->parts, &frame, &out->carried);
}

// Gives a frame its kind, and makes `carried` if the frame needs anything kept. A payload that is
// too long for a frame goes into a memfd.
Status Connection::shape(FrameParts* parts, OutFrame* frame, std::shared_ptr<Carried>* carried) {
  const size_t ahead = parts->held ? kPositionNbytes : 0;
  parts->in_memfd = frame->payload.size() > kMaxFramePayload;
  if (parts->in_memfd || !frame->fds.empty()) *carried = std::make_shared<Carried>();
  if (parts->in_memfd) {
    const std::span<const std::byte> content = std::span(frame->payload).subspan(ahead);
    TENON_ASSIGN((*carried)->large, memory::with_spare([&] { return put_into_memfd(content); }));
    const uint64_t nbytes = content.size();
    frame->held_nbytes = nbytes;
    frame->payload.resize(ahead + sizeof nbytes);
    std::memcpy(frame->payload.data() + ahead, &nbytes, sizeof nbytes);
    frame->fds.insert(frame->fds.begin(), (*carried)->large.get());
  }
  frame->kind = frame_kind(*parts);
  return Status::ok();
}

// Queues the frame. All memory is allocated first, so that nothing fails afterwards. A number
// counts as sent, and a lease as granted, if and only if the frame is in the queue.
void Connection::commit(Outgoing* out) {
  sent_.prepare(&out->added);
  frames_.make_room();
  if (out->carried) {
    // Keeps the segments whose fds travel. The frame may wait in the queue for longer than their
    // storages live.
    out->carried->segments = std::move(out->packed.segments);
    out->carried->device_segments = std::move(out->packed.device_segments);
    out->carried->tokens = lending_.commit(&out->grant);
  } else {
    (void)lending_.commit(&out->grant);
  }
  out->frame.keep_alive = std::move(out->carried);
  frames_.enqueue(std::move(out->frame));
  sent_.commit(&out->added);
}

// On failure, std::bad_alloc included, nothing is queued: `out` gives its leases back, and no
// number counts as sent.
Status Connection::enqueue(const Message& message) {
  Outgoing out(&scratch_);
  TENON_TRY(pack(message, &out));
  TENON_TRY(add_device_handles(&out));
  number_segments(&out);
  TENON_TRY(encode(&out));
  commit(&out);
  return Status::ok();
}

// Sends a block of tokens. The library's thread calls this, and it must not wait. Returns false if
// the connection is busy or the block could not be made. Then it is called again later. Bytes that
// the socket does not take now are sent with the next send.
bool Connection::send_renewal() noexcept {
  if (!check_process().is_ok()) return true;
  const std::unique_lock<std::mutex> lock(send_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  try {
    Lending::Grant grant;
    if (!lending_.prepare_renewal(&grant).is_ok()) return false;
    if (!grant.needed()) return true;
    OutFrame frame;
    frame.kind = frame_kind({.leases = true});
    frame.fds = grant.fds();
    frame.payload = encode_lease_block(grant.block());
    // In a ring of a publisher each position is a message.
    frame.by_socket = publishing_ != nullptr;
    auto carried = std::make_shared<Carried>();
    frames_.make_room();
    carried->tokens = lending_.commit(&grant);
    frame.keep_alive = std::move(carried);
    frames_.enqueue(std::move(frame));
    bool full = false;
    (void)frames_.hand_over(frames_.enqueued(), &full);
    return true;
  } catch (...) {
    return false;
  }
}

// Makes the ring, and queues the frame that brings it to the peer.
Status Connection::offer_ring() {
  has_offered_ring_ = true;
  TENON_ASSIGN(std::unique_ptr<RingSender> ring,
               memory::with_spare([&] { return RingSender::create(options_.ring_geometry); }));
  OutFrame frame;
  frame.kind = frame_kind({.ring = true});
  auto fds = ring->take_fds();
  for (const os::Fd& fd : *fds) frame.fds.push_back(fd.get());
  frame.keep_alive = std::move(fds);
  if (gone_fd().is_ok()) ring_watch_ = watch_;
  frames_.enqueue(std::move(frame));
  frames_.use_ring(std::move(ring));
  return Status::ok();
}

// Queues the message, unless an earlier call did, and returns the number of its frame. This happens
// before anything can end the call early: a caller that gets TIMEOUT knows that the connection has
// the message.
Result<uint64_t> Connection::keep(const Message& message) {
  const auto same = [&](const Kept& each) { return each.message == message.id(); };
  if (const auto found = std::find_if(kept_.begin(), kept_.end(), same); found != kept_.end())
    return found->frame;
  // Removes entries whose frames are sent and whose senders do not ask.
  if (kept_.size() >= kMostKept)
    std::erase_if(kept_, [&](const Kept& each) { return each.frame <= frames_.sent(); });
  TENON_TRY(frames_.check_room());
  make_room(&kept_, 1);
  TENON_TRY(enqueue(message));
  kept_.push_back({message.id(), frames_.enqueued(), std::this_thread::get_id()});
  return frames_.enqueued();
}

// Forgets the sends that this thread has now seen complete, which are the first `frame` frames.
// Another thread's entry stays until that thread asks, even if its frame is sent: without the
// entry, that thread's next call with the same message would send it twice.
void Connection::forget_kept(uint64_t frame, const Message* message) noexcept {
  const std::thread::id self = std::this_thread::get_id();
  std::erase_if(kept_, [&](const Kept& each) {
    return each.frame <= frame &&
           (each.sender == self || (message != nullptr && each.message == message->id()));
  });
}

// The errors are those of tenon_send (tenon/connection.h). A child of fork gets UNSUPPORTED. While
// the call waits for the peer, it holds send_turn_ and not send_mutex_, so other threads can queue
// messages.
Status Connection::send(const Message* message, const os::Wait& wait) {
  TENON_TRY(check_process());
  const Collecting collecting(*this);
  std::unique_lock<std::mutex> turn(send_turn_, std::try_to_lock);
  std::unique_lock<std::mutex> lock(send_mutex_);
  // Without a ring, everything crosses on the socket.
  if (options_.ring && !has_offered_ring_) (void)offer_ring();
  if (ring_watch_ && ring_watch_->is_gone()) frames_.peer_is_gone();
  uint64_t frame = frames_.enqueued();
  if (message != nullptr) {
    TENON_ASSIGN(frame, keep(*message));
  }
  if (frames_.sent() < frame && !turn.owns_lock()) {
    lock.unlock();
    TENON_TRY(take_turn(&turn, wait));
    lock.lock();
  }
  if (frames_.sent() < frame) {
    os::Waiter waiter(wait);
    TENON_TRY(frames_.flush(waiter, frame, &lock));
  }
  forget_kept(frame, message);
  // Also flushes frames that other threads queued and do not wait for, as far as the socket takes
  // them now. Errors surface on those threads' next calls.
  bool full = false;
  if (!frames_.idle()) (void)frames_.hand_over(frames_.enqueued(), &full);
  return Status::ok();
}

}  // namespace tenon::channel
