// A connection sends and receives messages over a socket. The C boundary (capi/src/connection.cc)
// calls it. The fd of a segment crosses once, however many tensors lie in the segment
// (segment_numbers.h). Blocks are lent under leases (lending.h, borrowing.h).
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/counted.h"
#include "base/fork.h"
#include "base/status.h"
#include "channel/borrowing.h"
#include "channel/devices.h"
#include "channel/frame_kind.h"
#include "channel/frames.h"
#include "channel/lender_watch.h"
#include "channel/lending.h"
#include "channel/segment_numbers.h"
#include "os/fd.h"
#include "os/peer.h"
#include "os/wait.h"
#include "share/by_fd.h"
#include "tensor/descriptor.h"
#include "tensor/message.h"
#include "tensor/pack.h"

namespace tenon::channel {

// Which peers are admitted. kAny: every peer, because the maker of the socket has decided.
// kSameUser: processes of this user and of root. kGroup: also processes that are members of
// `ConnectionOptions::group`.
enum class Peers { kAny, kSameUser, kGroup };

struct ConnectionOptions {
  share::OpenOptions open;
  tensor::DescriptorLimits limits;
  uint64_t max_mapped_nbytes = 0;  // 0: a quarter of the address space
  Peers peers = Peers::kAny;
  gid_t group = 0;  // used with kGroup
  // Lend a device's read-only storages even where the receiver will be able to write them.
  bool cuda_let_write = false;
  bool cuda_keep_open = false;  // as in device::CudaOpenOptions
  // Accept named files that Tenon made, if the peer is of this user or of root.
  bool named_files = false;
  bool drop_when_gone = false;  // drop received memory when the lender is gone
  // Send through a ring in shared memory what can go there (frame_ring.h).
  bool ring = false;
  // The peer is a publisher (publish/publisher.h): receive through its ring, or not at all.
  bool subscribes = false;
  ring_page::Geometry ring_geometry{64, 1024};
};

// Any thread may call the functions. Sends wait for each other, and so do receives. A send and a
// receive run at the same time. The caller holds no lock that has a rank (base/lock_rank.h): send()
// and recv() collect device memory and make memory. In a forked child send(), recv(), gone_fd() and
// set_stream() return UNSUPPORTED.
class Connection {
 public:
  // Destroys a connection, which no thread uses any more. Leases and storages may end here, so the
  // caller holds no lock that has a rank. In a forked child, a thread of the parent may have been
  // inside the connection at the fork, so that its state is torn. Then End closes the child's copy
  // of the socket, unless fork has, and leaves everything else as it is.
  struct End {
    void operator()(Connection* connection) const noexcept;
  };
  using Owned = std::unique_ptr<Connection, End>;

  // INVALID_ARGUMENT: the socket does not fit (check_socket()). PERMISSION: the peer is not
  // admitted. With `drop_when_gone` also the errors of LenderWatch::create(). On failure the socket
  // is as it was.
  static Result<Owned> create(int socket, const ConnectionOptions& options);
  // From now on the socket is closed with the connection.
  void adopt_socket() noexcept { owned_ = os::Fd(socket_); }
  // The same for a socket of which forked children close their copies at fork.
  void adopt_unshared_socket() noexcept {
    adopt_socket();
    is_unshared_ = true;
  }
  // Whether this process is a forked child of the one that made the connection.
  bool is_inherited() const noexcept { return generation_ != fork_generation(); }
  int socket() const noexcept { return socket_; }
  const os::Peer& peer() const noexcept { return peer_; }
  // An fd, borrowed, that becomes readable when the lender is gone. With `drop_when_gone` the
  // lender's memory has been dropped by then. The errors are those of LenderWatch::create().
  Result<int> gone_fd();

  // Sets the stream in which later messages use the memory of this device. Until then that is the
  // default stream. A forked child is refused, because another thread may have held the lock of the
  // streams at the fork.
  Status set_stream(int32_t device, cuda::Stream stream) {
    TENON_TRY(check_process());
    streams_.set(device, stream);
    return Status::ok();
  }

  // Sends a message. If `message` is null, the call only finishes what earlier calls left. A
  // message whose send ended early, after TIMEOUT for example, stays queued. Sending the same
  // message again resumes it, and does not send it twice. That holds until this thread has learned
  // that the message was sent, from such a call or from a later send. An error before the message
  // is queued leaves nothing behind. After PEER_GONE nothing can be sent any more.
  Status send(const tensor::Message* message, const os::Wait& wait);
  // Receives the next message. If the wait ends first, the next call continues. After CORRUPT every
  // later call returns CORRUPT. After any other error about one message, such as
  // RESOURCE_EXHAUSTED, that message is lost and the next call receives the message behind it.
  Result<std::unique_ptr<tensor::Message>> recv(const os::Wait& wait) {
    return receive(wait, false);
  }
  // Waits until this side reads the ring that the peer offers. The errors are those of recv().
  Status await_ring(const os::Wait& wait) { return receive(wait, true).status(); }
  // How many messages the peer withdrew before this side received them.
  uint64_t missed() const noexcept {
    const RingReceiver* const ring = frames_.ring_in();
    return ring != nullptr ? ring->missed() : 0;
  }

  // The rest is for a publisher (publish/publisher.h), which sends every message through the ring,
  // and calls neither send() nor functions of the same kind at the same time. What a message needs
  // the peer to know first, such as fds, crosses on the socket in a frame of its own, so that the
  // message can still be withdrawn. connection_publish.cc has these functions.

  // Makes the ring and offers it to the peer. Call it once, before the other functions. Frames that
  // the socket does not take now go with flush_some().
  Status begin_publishing();
  struct Standing {
    uint64_t waiting = 0;     // messages in the ring that the peer has not taken
    bool has_room = false;    // the ring has room, and no frame waits for the socket
    bool is_stuck = false;    // frames wait for the socket
    bool is_gone = false;     // the kernel says that nobody holds the peer's end any more
    bool has_joined = false;  // the peer has said that it reads the ring
    bool has_left = false;    // the peer has said that it will not receive any more
    bool is_asleep = false;
  };
  Standing standing() noexcept;
  // Hands frames that wait for the socket to the kernel, as far as it takes them.
  void flush_some() noexcept;
  // Whether frames wait for the socket.
  bool is_stuck() noexcept {
    const std::lock_guard<std::mutex> lock(send_mutex_);
    return !frames_.idle();
  }
  // Leases and a message of this side that a withdrawn frame had. Their end may run owners'
  // release functions, so the caller holds no lock when it destroys the object.
  class TakenBack {
   public:
    TakenBack() noexcept = default;
    TakenBack(TakenBack&&) noexcept = default;
    TakenBack& operator=(TakenBack&&) noexcept = default;
    TakenBack(const TakenBack&) = delete;
    TakenBack& operator=(const TakenBack&) = delete;
    ~TakenBack() {
      if (ledger) ledger->take_back(slots);
    }
    Ref<memory::Ledger> ledger;
    std::vector<uint32_t> slots;
  };
  // Prepares a message, and holds the connection's send lock until publish_prepared() or
  // drop_prepared(), so that other connections can prepare it meanwhile. The connection has room
  // (Standing). After an error nothing is prepared. `is_blocked`: a part of the message must cross
  // on the socket, which takes nothing now.
  Status prepare_publish(const tensor::Message& message, bool* is_blocked);
  void publish_prepared() noexcept;
  void drop_prepared() noexcept;
  // Withdraws the oldest message that waits in the ring. False: none waits. `back` gets the leases
  // that are known to have come back, which can also be those of an earlier message. `withdrawn` is
  // raised by the number of messages that the peer will never see.
  bool withdraw_oldest(std::vector<TakenBack>* back, uint64_t* withdrawn);
  // Takes back the leases of all messages that the peer has not taken. It has left or is gone.
  void take_all_back(std::vector<TakenBack>* back);
  // From now on the peer rings on the socket when it takes a message. Look at standing() after this
  // call.
  void wait_for_room() noexcept;
  void stop_waiting_for_room() noexcept;
  // The peer as the kernel told it last.
  memory::Borrower borrower() noexcept;

 private:
  Result<std::unique_ptr<tensor::Message>> receive(const os::Wait& wait, bool until_ring);
  class Collecting;
  class Forgetting;
  Connection(int socket, SocketType type, const ConnectionOptions& options, const os::Peer& peer);
  Status check_process() const;
  bool send_renewal() noexcept;
  Status offer_ring();
  Status take_ring();
  void answer_bell() noexcept;
  struct Carried;
  struct Outgoing;
  Status pack(const tensor::Message& message, Outgoing* out);
  Status add_device_handles(Outgoing* out);
  void number_segments(Outgoing* out);
  Status encode(Outgoing* out);
  static Status shape(FrameParts* parts, OutFrame* frame, std::shared_ptr<Carried>* carried);
  struct Announcement;
  struct Publishing;
  Status announce(Outgoing* out, Announcement* announcement);
  void resolve_begun(std::vector<TakenBack>* back, uint64_t* withdrawn, bool must_know);
  void commit(Outgoing* out);
  Status enqueue(const tensor::Message& message);
  Result<uint64_t> keep(const tensor::Message& message);
  void forget_kept(uint64_t frame, const tensor::Message* message) noexcept;
  struct Incoming;
  Status find_bytes(Incoming* in);
  Status take_leases(Incoming* in);
  Status take_unread_leases();
  Status decode_devices(Incoming* in);
  Status decode_message(Incoming* in);
  Status learn(Incoming* in);
  Status hold(InFrame frame);
  Result<InFrame> release_held();
  Status read_frame(Incoming* in);
  Result<std::unique_ptr<tensor::Message>> open_message(Incoming* in);
  void lose_frame(const Status& status);
  bool has_nothing_to_read() const noexcept {
    return !pending_ && (!broken_.is_ok() || frames_.has_nothing());
  }
  memory::Drained is_drained() noexcept;
  Result<std::unique_ptr<tensor::Message>> open_pending();
  bool is_dropped() const noexcept { return options_.drop_when_gone && watch_->is_gone(); }

  int socket_;
  os::Fd owned_;
  bool is_unshared_ = false;
  ConnectionOptions options_;
  os::Peer peer_;
  uint64_t generation_;
  FrameSocket frames_;
  bool has_offered_ring_ = false;  // guarded by send_mutex_, as the next one
  // Tells that the peer is gone, which a ring does not. Null: there is no ring, or no watch.
  std::shared_ptr<LenderWatch> ring_watch_;
  DeviceStreams streams_;
  std::atomic<bool> on_devices_{false};  // whether device memory was ever sent or received
  std::mutex watch_mutex_;
  std::shared_ptr<LenderWatch> watch_;  // set by create() or gone_fd()

  // Each direction has two locks. Only callers take the turn, and a caller holds it while it waits
  // for the socket. Other threads, such as the library's thread, take only the mutex. They only try
  // to take it, and never wait for the peer while they hold it. So a caller may wait for the mutex,
  // and is never told that the connection is busy because of them.
  std::mutex send_turn_;
  std::mutex send_mutex_;
  // A message that was queued and whose sender may come back with it (keep()).
  struct Kept {
    uint64_t message;
    uint64_t frame;  // this frame is sent when FrameSocket::sent() has reached this number
    std::thread::id sender;
  };
  std::vector<Kept> kept_;
  tensor::Packed scratch_;
  Lending lending_;
  SentNumbers sent_;
  std::unique_ptr<Publishing> publishing_;  // null: begin_publishing() was not called

  std::mutex recv_turn_;
  std::mutex recv_mutex_;
  Borrowing borrowing_{&guard_};
  ReceivedNumbers received_;
  // A frame that was taken off the socket and whose message was not delivered, because memory ran
  // out. The next receive tries again. Leases that were taken are kept: a lease that is given back
  // has ended, and the next try would open a block that belongs to another storage by then.
  struct Pending {
    InFrame frame;
    std::vector<memory::Lease> leases;
    std::vector<Ref<storage::Storage>> storages;
    bool leases_taken = false;
  };
  std::optional<Pending> pending_;
  // Frames that wait for their markers in the ring, with the markers' positions.
  std::vector<std::pair<uint64_t, InFrame>> held_;
  Status broken_;  // an error after bytes that were no message: every later receive fails
  // The last member, so that it is destroyed first: is_drained() uses the others until then.
  memory::UnreadGuard guard_{
      [](void* context) noexcept { return static_cast<Connection*>(context)->is_drained(); }, this};
};

}  // namespace tenon::channel
