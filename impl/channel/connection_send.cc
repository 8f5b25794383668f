// The sending half of Connection. Each message is queued first, even if another thread has the
// turn, and is then handed to the kernel.
#include <algorithm>
#include <cstring>

#include "base/room.h"
#include "channel/connection.h"
#include "channel/connection_calls.h"
#include "channel/lease_block.h"
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

// At this number of kept entries, those whose frames are sent are removed. Their senders did not
// come back.
constexpr size_t kMostKept = 1024;

// What a frame keeps until it is sent: the segments whose fds it carries, the device segments, the
// tokens, and the memfd of a large descriptor.
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
  TENON_TRY(
      os::add_seals(fd.get(), os::kSealWrite | os::kSealShrink | os::kSealGrow | os::kSealSeal));
  return fd;
}

}  // namespace

// Packs a message and takes its leases. A lease page must be sealed, so where memfd_create is
// denied there are no leases. Then this process's own blocks are lent as by a bare fd, and are
// retired when their storages go. Memory that this process borrowed is not lent on in that case,
// because nothing would tell its lender that it is still in use.
Status Connection::pack_and_grant(const Message& message, tensor::Packed* packed,
                                  Lending::Grant* grant) {
  TENON_TRY(tensor::pack(message, tensor::Leases::kYes, packed, options_.cuda_let_write));
  const bool on_devices = !packed->device_segments.empty();
  Status granted = lending_.prepare(*packed, grant, on_devices);
  if (!os::is_memfd_denied(granted) || on_devices || !packed->upstream.empty()) return granted;
  packed->clear();
  return tensor::pack(message, tensor::Leases::kNo, packed, options_.cuda_let_write);
}

Status Connection::enqueue(const Message& message) {
  // The vectors of scratch_ keep their capacity from message to message. Their pointers do not
  // outlive the call.
  struct Clear {
    tensor::Packed* packed;
    ~Clear() { packed->clear(); }
  } const clear{&scratch_};
  tensor::Packed& packed = scratch_;
  Lending::Grant grant;
  TENON_TRY(pack_and_grant(message, &packed, &grant));
  const bool on_devices = !packed.device_segments.empty();
  std::vector<int> device_fds;
  std::optional<DeviceBlock> devices;
  if (on_devices) {
    on_devices_.store(true, std::memory_order_relaxed);
    TENON_ASSIGN(devices, make_device_block(packed, streams_, &device_fds));
  }
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
  packed.content.forgotten = sent_.collect_forgotten(added, packed.content.segments);
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
    TENON_ASSIGN(carried->large, memory::with_spare([&] { return put_into_memfd(frame.payload); }));
    const uint64_t nbytes = frame.payload.size();
    frame.held_nbytes = nbytes;
    frame.kind = large_kind(frame.kind);
    frame.payload.resize(sizeof nbytes);
    std::memcpy(frame.payload.data(), &nbytes, sizeof nbytes);
    frame.fds.insert(frame.fds.begin(), carried->large.get());
  }
  // All memory is allocated first, so that nothing fails afterwards. A number counts as sent, and a
  // lease as granted, if and only if the frame is in the queue.
  sent_.prepare(&added);
  frames_.make_room();
  // Keeps the segments whose fds travel. The frame may wait in the queue for longer than their
  // storages live.
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

// Sends a block of tokens. The library's thread calls this, and it must not wait. Returns false if
// the connection is busy or the block could not be made, and is then called again later. What the
// socket does not take now goes with the next send.
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

Status Connection::send(const Message* message, const os::Wait& wait) {
  TENON_TRY(check_process());
  const Collecting collecting(*this);
  std::unique_lock<std::mutex> turn(send_turn_, std::try_to_lock);
  std::unique_lock<std::mutex> lock(send_mutex_);
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
