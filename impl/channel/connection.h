// Messages over a socket. An fd crosses once however many tensors live in its segment
// (numbering.h), and blocks go under leases (lending.h, borrowing.h).
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
#include "base/status.h"
#include "channel/borrowing.h"
#include "channel/devices.h"
#include "channel/frames.h"
#include "channel/lender_watch.h"
#include "channel/lending.h"
#include "channel/numbering.h"
#include "os/fd.h"
#include "os/peer.h"
#include "os/wait.h"
#include "share/by_fd.h"
#include "tensor/descriptor.h"
#include "tensor/message.h"
#include "tensor/pack.h"

namespace tenon::channel {

// Who may be at the other end: anybody, for whoever made the socket has decided; this user and
// root; members of a group besides.
enum class Peers { kAny, kSameUser, kGroup };

struct ConnectionOptions {
  share::OpenOptions open;
  tensor::DescriptorLimits limits;
  uint64_t max_mapped_nbytes = 0;  // 0: as os::MapBudget has it
  Peers peers = Peers::kAny;
  gid_t group = 0;  // with kGroup
  // A device's read-only storages are lent, too, though whoever gets them can write them.
  bool cuda_let_write = false;
  bool cuda_keep_open = false;  // as in share::CudaOpenOptions
  // Let in named files that Tenon made, if the peer is of this user or root.
  bool named_files = false;
  bool drop_when_gone = false;  // drop received memory when the lender is gone
};

class Connection {
 public:
  // In a child of fork it may be as a thread left it that was using it: then nothing of it is
  // touched but its socket.
  struct End {
    void operator()(Connection* connection) const noexcept;
  };
  using Owned = std::unique_ptr<Connection, End>;

  static Result<Owned> create(int socket, const ConnectionOptions& options);
  // The socket is closed with the connection from now on.
  void adopt_socket() noexcept { owned_ = os::Fd(socket_); }
  int socket() const noexcept { return socket_; }
  const os::Peer& peer() const noexcept { return peer_; }
  // Readable from the moment when the lender is gone and what it lent is dropped. Borrowed.
  Result<int> gone_fd();

  // In which stream memory of that device is used here, in messages from now on: the default stream
  // until then.
  void set_stream(int32_t device, cuda::Stream stream) { streams_.set(device, stream); }

  // Null message: only finish what an earlier call left. A message whose send ended early is kept,
  // and a call with it again goes on with that one, until this thread has heard that it is through:
  // from such a call, or from a later one.
  Status send(const tensor::Message* message, const os::Wait& wait);
  Result<std::unique_ptr<tensor::Message>> recv(const os::Wait& wait);

 private:
  class Collecting;
  class Forgetting;
  Connection(int socket, SocketType type, const ConnectionOptions& options, const os::Peer& peer);
  Status check_process() const;
  bool send_renewal() noexcept;
  Status pack_and_grant(const tensor::Message& message, tensor::Packed* packed,
                        Lending::Grant* grant);
  Status enqueue(const tensor::Message& message);
  Result<uint64_t> keep(const tensor::Message& message);
  void forget_kept(uint64_t frame, const tensor::Message* message) noexcept;
  Result<std::span<const std::byte>> find_bytes(const InFrame& frame, bool in_memfd,
                                                std::vector<std::byte>* large) const;
  Status take_leases(std::span<const std::byte> bytes, size_t first_fd, size_t* used,
                     uint64_t* token_fds);
  Status take_unread_leases();
  Status take_devices(const DeviceBlock& block, size_t first_fd,
                      const tensor::DescriptorContent& content,
                      std::vector<share::CudaReach>* out) const;
  bool has_nothing_to_read() const noexcept {
    return !pending_ && (!broken_.is_ok() || frames_.has_nothing());
  }
  memory::Drained is_drained() noexcept;
  Result<std::unique_ptr<tensor::Message>> open_pending();
  bool is_dropped() const noexcept { return options_.drop_when_gone && watch_->is_gone(); }

  int socket_;
  os::Fd owned_;
  ConnectionOptions options_;
  os::Peer peer_;
  uint64_t generation_;
  FrameSocket frames_;
  DeviceStreams streams_;
  std::atomic<bool> on_devices_{false};  // memory of a device went or came
  std::mutex watch_mutex_;
  std::shared_ptr<LenderWatch> watch_;  // set at birth, or by gone_fd()

  // Of each direction two: the turn is a caller's for as long as it waits, and only callers take
  // it. The other is taken by the library's thread too, which tries and never waits for the peer;
  // so a caller waits for it, and is not told that the connection is busy.
  std::mutex send_turn_;
  std::mutex send_mutex_;
  struct Kept {
    uint64_t message;
    uint64_t frame;  // of all frames which: it is through when so many are sent
    std::thread::id sender;
  };
  std::vector<Kept> kept_;
  tensor::Packed scratch_;
  Lending lending_;
  SentNumbers sent_;

  std::mutex recv_turn_;
  std::mutex recv_mutex_;
  Borrowing borrowing_{&guard_};
  ReceivedNumbers received_;
  // Taken off the socket, and not yet given out: memory was short. A lease that was taken is kept,
  // for given back it would be ended, and the next try would open bytes that are another's by then.
  struct Pending {
    InFrame frame;
    std::vector<memory::Lease> leases;
    std::vector<Ref<storage::Storage>> storages;
    bool leases_taken = false;
  };
  std::optional<Pending> pending_;
  Status broken_;  // bytes came that are no message
  // Last, so that it ends first: what it asks after is whole until then.
  memory::UnreadGuard guard_{
      [](void* context) noexcept { return static_cast<Connection*>(context)->is_drained(); }, this};
};

}  // namespace tenon::channel
