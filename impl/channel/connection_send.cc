// A connection's sending: each message is put behind what is pending, whoever has the turn, and
// then handed to the kernel.
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

// Messages whose sends ended early and whose senders did not come back.
constexpr size_t kMostKept = 1024;

// What a frame on its way keeps: the segments whose fds it carries, and the memfd of a large
// descriptor.
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

// A lease page must be sealed, and where memfd_create is denied there is none. Then own blocks are
// lent as by a bare fd, and retired when their storages go. What others lent is not lent on so, for
// nothing would tell them that it is still in use.
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
  // Its vectors keep their room from message to message; what they point to does not outlive the
  // call.
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
  // All memory first: a number counts as sent, and a lease as given, if and only if its frame is in
  // the queue.
  sent_.prepare(&added);
  frames_.make_room();
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

// By the library's thread, which waits for nobody: false if the connection is busy. What the socket
// does not take goes with the next send.
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

// Which frame it is. Behind what is pending, before anything can end the call early: whoever gets
// TIMEOUT knows that the connection has it.
Result<uint64_t> Connection::keep(const Message& message) {
  const auto same = [&](const Kept& each) { return each.message == message.id(); };
  if (const auto found = std::find_if(kept_.begin(), kept_.end(), same); found != kept_.end())
    return found->frame;
  // Those that are through, and whose senders never ask.
  if (kept_.size() >= kMostKept)
    std::erase_if(kept_, [&](const Kept& each) { return each.frame <= frames_.sent(); });
  TENON_TRY(frames_.check_room());
  make_room(&kept_, 1);
  TENON_TRY(enqueue(message));
  kept_.push_back({message.id(), frames_.enqueued(), std::this_thread::get_id()});
  return frames_.enqueued();
}

// This thread hears that so many frames are sent. What another thread had to leave is that one's to
// ask for, be it sent by now: its next call with the same message would send it once more.
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
  // What others put in meanwhile, and do not wait for: as much as goes now. What is wrong with it
  // their next call says.
  bool full = false;
  if (!frames_.idle()) (void)frames_.hand_over(frames_.enqueued(), &full);
  return Status::ok();
}

}  // namespace tenon::channel
