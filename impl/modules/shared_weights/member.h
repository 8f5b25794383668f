// A member is this process's part in the sharing of the weights under one name. It holds NAME.hold,
// and it either serves the weights on NAME.sock or watches the process that does. When that process
// ends, the members that are left choose the next server among them. All of this is done by the
// library's thread (os/service.h), whatever the program is doing.
//
// A name may have several versions. Only a member of the newest version that a process has is the
// server. Members of older versions watch it too, and hear from it that there is a newer version.
// A publisher takes NAME.sock from the server (publish.h), which then becomes such a member.
//
// A member lives as long as the memory of the weights: it is a tail of the segment. So a process
// whose program still has one tensor hands the weights on to others.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/counted.h"
#include "base/fork.h"
#include "base/status.h"
#include "memory/segment.h"
#include "modules/shared_weights/device_block.h"
#include "modules/shared_weights/fork_closed.h"
#include "modules/shared_weights/packets.h"
#include "modules/shared_weights/place.h"
#include "os/shared_tick.h"

namespace tenon::shared_weights {

// The locks that a member has.
struct Holds {
  ForkClosed name;     // of NAME.hold
  ForkClosed version;  // of NAME.hold.N; not open for version 1
};

// Any thread may call its functions. A forked child has a copy, which is no member: its functions
// do nothing, and it hands nothing on.
class Member : public std::enable_shared_from_this<Member> {
 public:
  // Begins to serve: listens on NAME.sock while it still loads. The caller has NAME.lock and
  // `holds`. Another listener of an older version loses the path. `facts` has the identity of the
  // file, its label and the version. After an error leave() is not needed.
  static Result<std::shared_ptr<Member>> serve(Place place, Holds holds, Facts facts);
  // Joins with weights that a server gave. `watch` is the connection to that server.
  static Result<std::shared_ptr<Member>> watch(Place place, Holds holds, ForkClosed watch,
                                               Facts facts, int32_t server_pid,
                                               memory::Segment* segment, DeviceBlock device = {});
  // The member that the segment has in this process. Null: it has none.
  static std::shared_ptr<Member> of(const memory::Segment& segment) noexcept;

  // For the process that loads: the number of bytes that are loaded.
  std::atomic<uint64_t>* done() noexcept { return &done_; }
  // For the process that loads: the weights are complete. The processes that wait get them. The
  // member becomes a tail of the segment.
  void lend(memory::Segment* segment, uint64_t file_offset, DeviceBlock device = {});
  // Stops serving and watching, gives up the hold, and removes the files if no other process holds
  // the weights. Waits for NAME.lock for a moment. Further calls do nothing.
  void leave() noexcept;

  // The mapping of weights on a device, if this process has one. Another opening of the weights in
  // this process uses it too.
  Ref<device::CudaSharedBlock> device_block() const;
  void set_device_block(const Ref<device::CudaSharedBlock>& block);

  struct Info {
    Facts facts;
    bool serves = false;
    bool is_member = false;  // false in a child of fork
    int32_t server_pid = 0;  // 0: there is no server at this moment
  };
  Info info() const;
  // The newest version of which this member knows. It is the member's own if there is no newer one.
  uint64_t newest() const noexcept { return newest_.load(std::memory_order_acquire); }
  // An fd that is readable while there is a newer version than the member's. It is borrowed.
  // UNSUPPORTED in a child of fork, which hears of no versions.
  Result<int> changed_fd();

  Member(Place place, Facts facts)
      : place_(std::move(place)), facts_(std::move(facts)), newest_(facts_.version) {}

 private:
  friend struct MemberState;
  friend class MemberTail;
  enum class Phase {
    kSilent,  // it has not sent its Hello
    kWaits,   // it waits for the weights
    kHolder,  // it has the weights
    kOlder,   // it has an older version of the weights
    kAsks,    // it asked for the status
    kTakes,   // it publishes, and takes NAME.sock
  };
  struct Client {
    ForkClosed socket;
    int64_t since_ns = 0;
    Phase phase = Phase::kSilent;
  };
  static void on_listener(int fd, bool readable, bool hung_up) noexcept;
  static void on_client(int fd, bool readable, bool hung_up) noexcept;
  static void on_watch(int fd, bool readable, bool hung_up) noexcept;
  static void tick_came() noexcept;
  // The functions from here on are called under the lock of the members.
  void add_self();
  void stop_serving() noexcept;
  Status listen();
  // After a publisher took NAME.sock, or died before it could: watches the process that listens
  // there, or listens again.
  void give_way() noexcept;
  // Reads what the server says to a watcher. False: the server has hung up.
  bool hear_server();
  void set_newest(uint64_t version) noexcept;
  // False: nobody waits for the listener, or accepting must wait.
  bool accept_client();
  // Reads what a client has sent, and answers. False: the client is to be dropped.
  bool hear(Client* client);
  bool send_weights(Client* client);
  bool send_progress(const Client& client);
  void drop_client(int fd) noexcept;
  uint32_t holders() const noexcept;
  // The server is gone. Listens in its place, or watches the member that does. False: it is not
  // decided yet.
  bool elect();
  void elect_or_retry();
  void elect_later() noexcept;
  // Does what is due, and returns in how many nanoseconds there is more to do.
  int64_t work();

  const Place place_;
  Facts facts_;
  const uint64_t generation_ = fork_generation();
  std::atomic<uint64_t> done_{0};
  std::atomic<uint64_t> newest_;
  Holds holds_;
  ForkClosed changed_;   // an eventfd, made when it is first asked for
  ForkClosed listener_;  // open: this process is the server
  ForkClosed watch_;     // open: another process is the server
  int32_t server_pid_ = 0;
  bool is_electing_ = false;
  bool is_leaving_ = false;
  bool is_overtaken_ = false;     // a server with an older version refused this member
  bool is_deaf_ = false;          // the listener is not polled for a while, because there was no fd
  int64_t pause_ns_ = 0;          // between two attempts to elect
  int64_t watched_since_ns_ = 0;  // when `watch_` was connected, on the monotonic clock
  memory::Segment* segment_ = nullptr;  // null while the process loads
  // Of weights on a device. The mapping is the tensors', and ends before the segment.
  ForkClosed device_fd_;
  Weak<device::CudaSharedBlock> device_block_;
  std::unordered_map<int, Client> clients_;
};

}  // namespace tenon::shared_weights
