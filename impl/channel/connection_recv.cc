// The receiving half of Connection: it takes frames apart and opens the memory that they name.
#include <algorithm>
#include <cstring>

#include "channel/connection.h"
#include "channel/connection_calls.h"
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

Status corrupt_frame(const char* what) {
  return Status(Code::kCorrupt, what).with("field", std::string("frame"));
}

Status check_memfd(int fd, uint64_t nbytes) {
  constexpr unsigned kNeeded = os::kSealWrite | os::kSealShrink;
  TENON_ASSIGN(const os::FileInfo file, os::inspect_file(fd));
  if (!file.in_memory || (file.seals & kNeeded) != kNeeded || file.nbytes < nbytes)
    return corrupt_frame("a large message whose memfd is not sealed or too short");
  return Status::ok();
}

}  // namespace

// Runs at the end of a receive, before the receive lets the connection go. It lets go of a dead
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

Result<std::span<const std::byte>> Connection::find_bytes(const InFrame& frame, bool in_memfd,
                                                          std::vector<std::byte>* large) const {
  if (!in_memfd) return std::span<const std::byte>(frame.payload);
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
  large->resize(nbytes);
  TENON_TRY(os::read_file(fd, 0, large->data(), nbytes));
  return std::span<const std::byte>(*large);
}

Result<std::unique_ptr<Message>> Connection::recv(const os::Wait& wait) {
  TENON_TRY(check_process());
  const Collecting collecting(*this);
  // These storages are released after the turn, because the end of a device storage calls
  // collect_some_cuda().
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
    if (!pending_) {
      Result<InFrame> frame = frames_.recv(waiter);
      if (!frame.is_ok()) {
        if (frame.status().code() == Code::kPeerGone) borrowing_.end();
        if (guard_.is_wanted() && has_nothing_to_read()) guard_.drained();
        return std::move(frame).status();
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

Status Connection::take_leases(std::span<const std::byte> bytes, size_t first_fd, size_t* used,
                               uint64_t* token_fds) {
  InFrame* const frame = &pending_->frame;
  TENON_ASSIGN(const LeaseBlock block, decode_lease_block(bytes, used));
  *token_fds = block.n_fds();
  if (*token_fds > frame->fds_announced - first_fd)
    return corrupt_frame("a lease block with more tokens than fds");
  if (pending_->leases_taken) return Status::ok();
  const std::span<os::Fd> fds =
      std::span(frame->fds).subspan(std::min(first_fd, frame->fds.size()));
  TENON_TRY(borrowing_.take(block, fds.first(std::min<size_t>(*token_fds, fds.size())),
                            &pending_->leases));
  pending_->leases_taken = true;
  if (guard_.has_any()) frames_.tell_waits();
  return Status::ok();
}

// When an oversized message is refused, its leases are still taken, so that they are given back
// now. Otherwise they would stand as long as the connection.
Status Connection::take_unread_leases() {
  const InFrame& frame = pending_->frame;
  // Without the memfd the leases cannot be read, and end with the connection.
  if (frame.fds.empty()) return Status::ok();
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

Status Connection::take_devices(const DeviceBlock& block, size_t first_fd,
                                const DescriptorContent& content,
                                std::vector<device::ReachableCuda>* out) const {
  const std::span<const os::Fd> fds =
      std::span(pending_->frame.fds).subspan(first_fd, block.n_fds());
  TENON_ASSIGN(
      *out, reach_devices(block, fds, content, streams_, {options_.open, options_.cuda_keep_open}));
  return Status::ok();
}

Result<std::unique_ptr<Message>> Connection::open_pending() {
  InFrame* const frame = &pending_->frame;
  // Bytes that are no message end the connection, because nothing that the peer says later can be
  // relied on.
  const auto end = [&](Status status) -> Status {
    if (status.code() == Code::kCorrupt) broken_ = status;
    // The segments that the message would have made known stay unknown.
    if (!received_.has_lost() && frame->fds_announced > 0) received_.lose(status);
    return status;
  };
  if (!frame->fds_status.is_ok()) received_.lose(frame->fds_status);
  if (frame->kind < kMessage || frame->kind > kLargeDevices)
    return end(corrupt_frame("a frame of no known kind"));
  const bool leased = frame->kind >= kLeased;
  const bool on_devices = frame->kind == kDevices || frame->kind == kLargeDevices;
  const bool in_memfd =
      frame->kind == kLargeMessage || frame->kind == kLargeLeased || frame->kind == kLargeDevices;
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
    if (Status taken = take_leases(bytes, first_fd, &used, &token_fds); !taken.is_ok())
      return end(std::move(taken));
    bytes = bytes.subspan(used);
    first_fd += token_fds;
  }
  if (frame->kind == kTokens) {
    if (!bytes.empty() || !pending_->leases.empty())
      return end(corrupt_frame("tokens with something behind them"));
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
    if (devices.n_fds() > frame->fds_announced - first_fd)
      return end(corrupt_frame("a device block with more fds than came"));
    bytes = bytes.subspan(used);
    first_fd += devices.n_fds();
  }
  Result<DescriptorContent> decoded = tensor::decode_descriptor(
      bytes, frame->fds_announced - first_fd, options_.limits, devices.segments.size());
  if (!decoded.is_ok()) return end(std::move(decoded).status());
  DescriptorContent content = std::move(decoded).value();
  if (leased && content.storages.size() != pending_->leases.size())
    return end(corrupt_frame("a lease block of another number of storages"));
  // From here on the numbers of the message's segments are known. An error other than CORRUPT
  // concerns this message alone.
  const auto end_if_corrupt = [&](Status status) -> Status {
    return status.code() == Code::kCorrupt ? end(std::move(status)) : std::move(status);
  };
  TENON_TRY(end_if_corrupt(received_.add(content, frame, first_fd)));
  if (!frame->fds_status.is_ok()) return frame->fds_status;
  std::vector<tensor::Resolved> resolved;
  TENON_TRY(end_if_corrupt(received_.resolve(content, &resolved)));
  std::vector<device::ReachableCuda> reached;
  if (on_devices)
    TENON_TRY(end_if_corrupt(take_devices(devices, first_device_fd, content, &reached)));
  for (size_t i = 0; i < resolved.size(); ++i) {
    if (content.segments[i].reach == Reach::kDevice)
      resolved[i].device = &reached[content.segments[i].fd_index];
  }
  Result<std::unique_ptr<Message>> message = tensor::unpack(
      std::move(content), resolved, pending_->leases, options_.open, &pending_->storages);
  if (!message.is_ok()) return end_if_corrupt(std::move(message).status());
  return message;
}

}  // namespace tenon::channel
