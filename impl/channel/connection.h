// Messages over a socket. Remembers which segments crossed, so that an fd crosses once however many tensors live in its segment.
//
// Both ends number segments by the sender's serial. The sender says with each message which of the numbers it will not use again (their
// segments are gone there); until then the receiver holds the segment, so that a number it was told of can always be followed.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/counted.h"
#include "base/status.h"
#include "channel/borrowing.h"
#include "channel/frames.h"
#include "channel/lending.h"
#include "memory/segment.h"
#include "os/fd.h"
#include "os/wait.h"
#include "share/by_fd.h"
#include "tensor/descriptor.h"
#include "tensor/message.h"
#include "tensor/pack.h"

namespace tenon::channel {

struct ConnectionOptions {
  share::OpenOptions open;
  tensor::DescriptorLimits limits;
};

class Connection {
 public:
  static Result<std::unique_ptr<Connection>> create(int socket, const ConnectionOptions& options);
  // The socket is closed with the connection from now on.
  void adopt_socket() noexcept { owned_ = os::Fd(socket_); }
  int socket() const noexcept { return socket_; }

  // Null message: only finish what an earlier call left.
  Status send(const tensor::Message* message, const os::Wait& wait);
  Result<std::unique_ptr<tensor::Message>> recv(const os::Wait& wait);

 private:
  Connection(int socket, SocketType type, const ConnectionOptions& options, const memory::Borrower& peer);
  Status check_process() const;
  bool send_renewal() noexcept;
  Status enqueue(const tensor::Message& message);
  void collect_forgotten(size_t added, std::vector<uint64_t>* out);

  // A segment held because the peer numbered it, and counted as such: what only connections hold is needed by nobody here, and holding each
  // other's segments for ever is what two ends that send the same one to and fro would do otherwise.
  class Numbered {
   public:
    Numbered() noexcept = default;
    Numbered(Numbered&& other) noexcept : segment_(std::move(other.segment_)) {}
    Numbered& operator=(Numbered&& other) noexcept {
      std::swap(segment_, other.segment_);
      return *this;
    }
    Numbered(const Numbered&) = delete;
    Numbered& operator=(const Numbered&) = delete;
    ~Numbered() { set(nullptr); }
    void set(Ref<memory::Segment> segment) noexcept {
      if (segment_) segment_->numbered.fetch_sub(1, std::memory_order_relaxed);
      segment_ = std::move(segment);
      if (segment_) segment_->numbered.fetch_add(1, std::memory_order_relaxed);
    }
    const Ref<memory::Segment>& get() const noexcept { return segment_; }

   private:
    Ref<memory::Segment> segment_;
  };

  // A segment that the peer has numbered.
  struct Received {
    os::Fd fd;  // until it is mapped; for private opens it stays
    Numbered segment;
    memory::Access access = memory::Access::kAuto;
    uint64_t nbytes = 0;
  };
  Status register_segments(const tensor::DescriptorContent& content, InFrame* frame, size_t first_fd);
  Status resolve(const tensor::DescriptorContent& content, std::vector<tensor::Resolved>* out);
  Result<std::span<const std::byte>> find_bytes(const InFrame& frame, bool in_memfd, std::vector<std::byte>* large) const;
  Status take_leases(std::span<const std::byte> bytes, size_t first_fd, size_t* used, uint64_t* token_fds);
  Status take_unread_leases();
  Result<std::unique_ptr<tensor::Message>> open_pending();

  int socket_;
  os::Fd owned_;
  ConnectionOptions options_;
  uint64_t generation_;
  FrameSocket frames_;

  std::mutex send_mutex_;
  std::vector<uint64_t>
      unfinished_;  // messages whose send ended early, until all is sent: calling with one of them again must not send it again
  tensor::Packed scratch_;
  Lending lending_;
  std::unordered_map<uint64_t, size_t> sent_;  // segment number -> index into sent_list_
  std::vector<std::pair<uint64_t, Weak<memory::Segment>>> sent_list_;
  size_t sweep_ = 0;
  std::vector<uint64_t> forgotten_;  // numbers to tell the peer with the next message

  std::mutex recv_mutex_;
  Borrowing borrowing_;
  std::unordered_map<uint64_t, Received> received_;
  // Taken off the socket, and not yet given out: memory was short. A lease that was taken is kept, for given back it would be ended, and
  // the next try would open bytes that are another's by then.
  struct Pending {
    InFrame frame;
    std::vector<memory::Lease> leases;
    std::vector<Ref<storage::Storage>> storages;
  };
  std::optional<Pending> pending_;
  Status lost_;    // fds were dropped or refused once, and why: a number without a segment is no proof of a bad peer
  Status broken_;  // bytes came that are no message
};

}  // namespace tenon::channel
