// Frames over a connected AF_UNIX socket: a small header, a payload, fds. Resumable in both
// directions: a call that ends early because its wait ended leaves the state such that the next
// call goes on at the very byte. The wire form is specified in docs/format/frames.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/status.h"
#include "os/fd.h"
#include "os/socket.h"
#include "os/wait.h"

namespace tenon::channel {

// Longer descriptors travel in a memfd, which is the caller's affair.
inline constexpr size_t kMaxFramePayload = 64 * 1024;
inline constexpr size_t kMaxFdsPerPacket = 253;  // the kernel's SCM_MAX_FD

struct OutFrame {
  uint16_t kind = 0;
  std::vector<std::byte> payload;  // at most kMaxFramePayload
  std::vector<int> fds;            // borrowed; any number: split over as many packets as it takes
  // Held until the last byte is with the kernel; it is what keeps the fds open.
  std::shared_ptr<void> keep_alive;
  uint64_t held_nbytes = 0;  // memory that keep_alive holds for this frame alone
};

struct InFrame {
  uint16_t kind = 0;
  std::vector<std::byte> payload;
  // Close-on-exec; if the kernel dropped some, those before the first that was dropped.
  std::vector<os::Fd> fds;
  uint32_t fds_announced = 0;
  // Not ok if fds were dropped: RESOURCE_EXHAUSTED with limit RLIMIT_NOFILE, its value and how many
  // are in use.
  Status fds_status;
};

// Which socket types are good, and whether this one is connected: INVALID_ARGUMENT with detail "fd"
// otherwise.
enum class SocketType { kStream, kSeqpacket };
Result<SocketType> check_socket(int fd);

// One thread may send (enqueue, idle, flush) while another one receives.
class FrameSocket {
 public:
  FrameSocket(int fd, SocketType type) : fd_(fd), type_(type) {}  // borrows the fd
  FrameSocket(const FrameSocket&) = delete;
  FrameSocket& operator=(const FrameSocket&) = delete;

  // Put one frame behind what is pending. Does not touch the socket. Throws nothing after
  // make_room().
  void enqueue(OutFrame frame);
  void make_room();
  bool idle() const noexcept { return next_ == queue_.size(); }  // nothing pending
  // Frames, from the first: how many were put in, and how many of these are wholly with the kernel.
  uint64_t enqueued() const noexcept { return next_sequence_ + (queue_.size() - next_); }
  uint64_t sent() const noexcept { return next_sequence_; }
  // RESOURCE_EXHAUSTED if so much waits already that the peer seems to read nothing: memory and fds
  // are held for each frame in the queue.
  Status check_room() const;
  // Hand what is pending to the kernel. On failure it stays pending, but after PEER_GONE nothing
  // can be sent any more. ETOOMANYREFS: RESOURCE_EXHAUSTED, and the next call tries again.
  Status flush(os::Waiter& waiter) { return flush(waiter, enqueued(), nullptr); }
  // Likewise, the first `count` frames of all. `lock`, unless it is null, is free while it waits.
  Status flush(os::Waiter& waiter, uint64_t count, std::unique_lock<std::mutex>* lock);
  // Likewise, without a wait: `full` if the socket takes no more of them now.
  Status hand_over(uint64_t count, bool* full);

  // The next whole frame. PEER_GONE at the end of the stream (message says whether in the middle of
  // a frame); CORRUPT if the bytes are no frame, and then for ever.
  Result<InFrame> recv(os::Waiter& waiter);
  // Nothing that came is still to be received, or will be. Not beside recv().
  bool has_nothing() const noexcept;
  // Likewise, beside a recv() that waits. False: it does not, or just did not. From tell_waits()
  // on, which is not called beside recv().
  bool waits_with_nothing() const noexcept;
  void tell_waits() noexcept { tells_waits_ = true; }
  // Most fds that a received frame may announce; more is CORRUPT. They are all open here before the
  // frame is whole, so this bounds what a peer can take.
  void set_max_fds(uint32_t most) noexcept { max_fds_ = most; }
  // A frame with more fds than that is delivered without any, and says so in its fds_status; they
  // are closed as they come. What is accepted depends on the kind, and on how many segments its
  // receiver takes, which is the limit that the status names.
  using AcceptedFds = uint32_t (*)(uint16_t kind, uint64_t max_segments) noexcept;
  void set_accepted_fds(AcceptedFds accepted, uint64_t max_segments) noexcept {
    accepted_fds_ = accepted;
    max_segments_ = max_segments;
  }

 private:
  struct Header {
    uint16_t kind = 0;
    uint32_t flags = 0;
    uint32_t payload = 0;
    uint32_t packet_fds = 0;
    uint32_t frame_fds = 0;
    uint64_t sequence = 0;
  };
  // The fds of one recvmsg and the bytes, counted from the first ever received, that came with
  // them. The kernel never joins two packets that carry fds in one recvmsg, and gives a packet's
  // fds with its first byte: so they belong to the one packet that starts among these bytes and
  // announces fds. Every packet before it has been taken by the time more is read, so one batch is
  // all there is.
  struct Batch {
    os::ReceivedFds fds;
    uint64_t from = 0;
    uint64_t to = 0;
    bool held = false;
  };

  Status send_error(int error);
  Status take_packets(bool* whole);
  Status parse_header();
  Status claim_fds();
  Status drop_stray_fds();
  Status fill(os::Waiter& waiter);
  Status end_of_stream(bool with_fds);
  Status stop(Status why);
  void put_away(os::ReceivedFds& fds, size_t nbytes);
  Status loss() const;
  bool accepts(uint16_t kind, uint32_t fds) const noexcept {
    return accepted_fds_ == nullptr || fds <= accepted_fds_(kind, max_segments_);
  }
  size_t buffered() const noexcept { return end_ - begin_; }

  int fd_;
  SocketType type_;

  // Sender. queue_[next_] is the frame on its way; what lies before it is gone and its room is used
  // again.
  std::vector<OutFrame> queue_;
  size_t next_ = 0;
  size_t fds_gone_ = 0;    // fds of that frame in packets that are wholly with the kernel
  size_t bytes_gone_ = 0;  // bytes of the packet on its way
  uint64_t queued_nbytes_ = 0;
  uint64_t next_sequence_ = 0;
  bool unsendable_ = false;  // the peer is gone

  // Receiver.
  std::unique_ptr<std::byte[]> buffer_;
  size_t begin_ = 0;  // [begin_, end_) of buffer_ is received and not yet taken
  size_t end_ = 0;
  uint64_t taken_ = 0;  // bytes taken since the first: where buffer_[begin_] stands
  Batch batch_;
  Header header_;  // of the packet at begin_, if header_known_
  bool header_known_ = false;
  InFrame frame_;          // what has come of the frame on its way
  uint32_t fds_told_ = 0;  // of its announced fds, how many packets so far stand for
  bool fds_lost_ = false;
  uint64_t expected_sequence_ = 0;
  // Costs a poll for each wait: a recvmsg that waits by itself cannot say when it no longer does.
  bool tells_waits_ = false;
  std::atomic<bool> waits_{false};
  uint32_t max_fds_ = 65536;
  AcceptedFds accepted_fds_ = nullptr;  // any number
  uint64_t max_segments_ = 0;
  Status stopped_;  // why nothing more can be received
};

}  // namespace tenon::channel
