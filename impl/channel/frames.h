// Frames over a connected AF_UNIX socket: a small header, a payload and fds
// (docs/format/frames.md). A Connection sends and receives its messages through a FrameSocket. Both
// directions are resumable: after a call whose wait ended early, the next call goes on at the very
// next byte.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/status.h"
#include "channel/frame_ring.h"
#include "os/fd.h"
#include "os/socket.h"
#include "os/wait.h"

namespace tenon::channel {

// A longer descriptor travels in a memfd, which the caller makes.
inline constexpr size_t kMaxFramePayload = 64 * 1024;
inline constexpr size_t kMaxFdsPerPacket = 253;  // the kernel's SCM_MAX_FD

struct OutFrame {
  uint16_t kind = 0;
  std::vector<std::byte> payload;  // at most kMaxFramePayload
  std::vector<int> fds;            // borrowed; any number, over several packets if necessary
  // Keeps the fds open. It is held until the kernel has the last byte of the frame. flush(),
  // hand_over() or the destructor releases it, which can end segments.
  std::shared_ptr<void> keep_alive;
  // Bytes of memory that keep_alive holds for this frame alone. check_room() counts them.
  uint64_t held_nbytes = 0;
  bool by_socket = false;  // the frame crosses on the socket, even if the ring could take it
};

struct InFrame {
  uint16_t kind = 0;
  std::vector<std::byte> payload;
  // Close-on-exec. If fds were dropped, these are the fds before the first that was dropped.
  std::vector<os::Fd> fds;
  uint32_t fds_announced = 0;  // the number of fds that the sender announced
  // Not OK if fds were dropped. The code is RESOURCE_EXHAUSTED. The limit is max_segments if more
  // fds were announced than are accepted (set_accepted_fds()). Otherwise it is RLIMIT_NOFILE, with
  // its value and the number of fds in use.
  Status fds_status;
};

// Checks that the socket is a connected AF_UNIX socket of one of these types, and returns the type.
// INVALID_ARGUMENT with detail "fd" otherwise.
enum class SocketType { kStream, kSeqpacket };
Result<SocketType> check_socket(int fd);

// One thread may send (enqueue, idle, flush) while another thread receives. The connection's locks
// see to that. The sender holds no ranked lock (base/lock_rank.h), because of keep_alive. A forked
// child must not send or receive, because it shares the socket with its parent. Connection refuses
// the child before.
class FrameSocket {
 public:
  FrameSocket(int fd, SocketType type) : fd_(fd), type_(type) {}  // borrows the fd
  FrameSocket(const FrameSocket&) = delete;
  FrameSocket& operator=(const FrameSocket&) = delete;

  // Appends one frame to the queue. Does not touch the socket. Throws std::bad_alloc, unless
  // make_room(), which throws it too, was called for this frame since the last enqueue() but for
  // other frames of the same call.
  void enqueue(OutFrame frame);
  void make_room(size_t frames = 1);
  bool idle() const noexcept { return next_ == queue_.size(); }  // no frame waits
  // The number of frames that were ever queued, and how many of these the kernel or the ring has
  // whole.
  uint64_t enqueued() const noexcept { return sent_ + (queue_.size() - next_); }
  uint64_t sent() const noexcept { return sent_; }
  // RESOURCE_EXHAUSTED (limit send_queue) if 4096 frames or 256 MiB wait, so that the peer seems to
  // read nothing. Each frame in the queue holds memory and fds.
  Status check_room() const;
  // Gives the queued frames to the kernel. On failure, a wait that ended included, the rest stays
  // queued, but after PEER_GONE nothing can be sent any more. RESOURCE_EXHAUSTED: too many fds are
  // in flight (ETOOMANYREFS), or SO_SNDBUF has no room for a packet. The next call tries again.
  Status flush(os::Waiter& waiter) { return flush(waiter, enqueued(), nullptr); }
  // Does the same for the first `count` frames, counted as enqueued() counts. `lock`, unless it is
  // null, is released while the call waits, so other threads may queue frames meanwhile.
  Status flush(os::Waiter& waiter, uint64_t count, std::unique_lock<std::mutex>* lock);
  // Does the same without a wait. If the socket is full, it sets `*full` and returns OK. Otherwise
  // `*full` is false.
  Status hand_over(uint64_t count, bool* full);
  // From now on frames without fds cross in this ring where they can. The caller has queued the
  // frame that brings the ring to the peer. Null: no ring.
  void use_ring(std::unique_ptr<RingSender> ring) noexcept;
  RingSender* ring() noexcept { return ring_out_.get(); }
  // Rings on the socket, so that the peer's call looks at its ring. If the socket is full, the peer
  // has something to read anyway, and nothing is sent.
  void ring_bell() noexcept;
  // The peer has hung up, so nothing can be sent any more. A ring does not tell.
  void peer_is_gone() noexcept { unsendable_ = true; }

  // Receives the next whole frame. PEER_GONE at the end of the stream, with a text that says
  // whether it came in the middle of a frame. CORRUPT or INCOMPATIBLE if the bytes are no frame
  // that this side reads. After each of these, every later call fails in the same way. A wait that
  // ended and std::bad_alloc lose nothing.
  Result<InFrame> recv(os::Waiter& waiter);
  // True if every byte that has arrived belongs to a frame that recv() has returned, or if nothing
  // can be received any more. Not to be called during recv().
  bool has_nothing() const noexcept;
  // Reads this ring from now on. CORRUPT: there is one already.
  Status read_ring(std::unique_ptr<RingReceiver> ring);
  // The ring that is read. Null: there is none yet. Any thread may ask.
  const RingReceiver* ring_in() const noexcept {
    return seen_ring_.load(std::memory_order_acquire);
  }
  // Tells the peer that its ring is read no more.
  void leave_ring() noexcept {
    if (ring_in_) ring_in_->leave();
  }
  // Whether the peer waits for room in its ring, and wants this side to ring_bell(). Ask after
  // recv().
  bool must_ring() noexcept { return ring_in_ && ring_in_->must_ring(); }
  // Whether recv() waits in another thread and nothing has arrived. False: recv() does not wait, or
  // something may have arrived. This works after tell_waits(), which must not be called during
  // recv().
  bool waits_with_nothing() const noexcept;
  void tell_waits() noexcept { tells_waits_ = true; }
  // Sets the most fds that a received frame may announce. More are CORRUPT. All fds of a frame are
  // open in this process before the frame is whole, so this limits how many a peer can take.
  void set_max_fds(uint32_t most) noexcept { max_fds_ = most; }
  // Sets how many fds are accepted, by the frame's kind and by `max_segments`, the number of
  // segments that the receiver takes. A frame that announces more fds is delivered without any.
  // They are closed as they come, and the frame's fds_status names the limit max_segments. Once
  // `accepted` is set, a frame with many fds (kManyFds) also loses fds if this process has few left
  // (os::has_spare_fds()), because a peer can leave a frame unfinished for as long as it likes.
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
  // The fds of one recvmsg, and the range of bytes that came with them, counted from the first byte
  // ever received. The kernel never joins two packets that carry fds in one recvmsg, and it gives a
  // packet's fds with the packet's first byte. So the fds belong to the one packet that starts in
  // this range and announces fds. That packet claims them when its header is parsed. More fds
  // before that are CORRUPT (fill()), so one batch is enough.
  struct Batch {
    os::ReceivedFds fds;
    uint64_t from = 0;
    uint64_t to = 0;
    bool held = false;  // no packet has claimed the fds yet
  };

  Status give_frames(uint64_t count, bool* full);
  Status send_error(int error);
  bool put_into_ring() noexcept;
  void finish_frame();
  enum class RingHas { kNothing, kFrame, kNews };
  Result<RingHas> take_from_ring();
  Status take_packets(bool* whole);
  Status parse_header();
  Status claim_fds();
  Status drop_stray_fds();
  Status fill(os::Waiter& waiter, bool expects_socket);
  Status read_socket(os::Waiter& waiter);
  Status end_of_stream(bool with_fds);
  Status stop(Status why);
  bool is_bell_next() const noexcept;
  void put_away(os::ReceivedFds& fds, size_t nbytes);
  Status loss() const;
  bool accepts(uint16_t kind, uint32_t fds) const noexcept {
    return accepted_fds_ == nullptr || fds <= accepted_fds_(kind, max_segments_);
  }
  size_t buffered() const noexcept { return end_ - begin_; }

  int fd_;
  SocketType type_;

  // Sender. queue_[next_] is the frame that is being sent. The frames before it are sent, and their
  // room is used again.
  std::vector<OutFrame> queue_;
  size_t next_ = 0;
  size_t fds_gone_ = 0;    // fds of that frame in packets that the kernel has whole
  size_t bytes_gone_ = 0;  // bytes of the present packet that the kernel has
  uint64_t queued_nbytes_ = 0;
  uint64_t sent_ = 0;           // frames on the socket and in the ring
  uint64_t next_sequence_ = 0;  // of the frames on the socket
  bool is_counted_ = false;     // the ring knows of the frame that is being sent on the socket
  bool unsendable_ = false;     // the peer is gone
  std::unique_ptr<RingSender> ring_out_;

  // Receiver.
  std::unique_ptr<std::byte[]> buffer_;
  size_t begin_ = 0;  // [begin_, end_) of buffer_ is received and not yet taken
  size_t end_ = 0;
  uint64_t taken_ = 0;  // bytes ever taken: the position of buffer_[begin_] in the stream
  Batch batch_;
  Header header_;  // the header of the packet at begin_, if header_known_
  bool header_known_ = false;
  InFrame frame_;          // the part of the present frame that has come
  uint32_t fds_told_ = 0;  // how many of its fds the packets so far have announced
  bool fds_lost_ = false;
  uint64_t expected_sequence_ = 0;
  uint64_t end_seen_at_ = 0;  // the position in the ring plus 1 at which the socket had ended
  std::unique_ptr<RingReceiver> ring_in_;
  std::atomic<const RingReceiver*> seen_ring_{nullptr};  // ring_in_, for other threads
  // Whether recv() notes in waits_ that it waits. Each wait then costs a poll, because a recvmsg
  // that blocks cannot tell when it stops waiting.
  bool tells_waits_ = false;
  std::atomic<bool> waits_{false};
  uint32_t max_fds_ = 65536;
  AcceptedFds accepted_fds_ = nullptr;  // null: any number is accepted
  uint64_t max_segments_ = 0;
  Status stopped_;  // why nothing more can be received
};

}  // namespace tenon::channel
