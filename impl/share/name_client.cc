#include <poll.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/fork.h"
#include "os/host.h"
#include "os/limits.h"
#include "os/local_socket.h"
#include "os/socket.h"
#include "share/liveness.h"
#include "share/name_packets.h"
#include "share/name_server.h"
#include "share/names.h"
#include "share/names_thread.h"

namespace tenon::share {
namespace {

using memory::Access;
using memory::Segment;
using os::Fd;

struct Lender {
  Ref<Directory> directory;
  std::string leaf;
};

struct Ties {
  std::mutex mutex;
  std::unordered_map<int, Lender> lenders;  // by the connection
};

Ties& ties() noexcept {
  alignas(Ties) static std::byte room[sizeof(Ties)];
  static Ties* const instance = new (room) Ties();
  return *instance;
}

const bool g_fork_hooks = [] {
  (void)ties();
  register_fork_hooks(2, {[]() noexcept { ties().mutex.lock(); }, []() noexcept { ties().mutex.unlock(); },
                          []() noexcept {
                            ties().mutex.unlock();
                            ties().lenders.clear();
                          }});
  return true;
}();

// The kernel takes a dying lender's sockets one after the other, and this one's may come before its listener's.
constexpr int kLooks = 20;

void on_hang_up(int fd, bool) noexcept {
  Lender gone;
  {
    Ties& all = ties();
    const std::lock_guard<std::mutex> lock(all.mutex);
    const auto found = all.lenders.find(fd);
    if (found == all.lenders.end()) return;
    gone = std::move(found->second);
    all.lenders.erase(found);
  }
  stop_serving_fd(fd);
  LookOptions options;
  options.remove = true;
  for (int looks = 0; looks < kLooks; ++looks) {
    try {
      Result<NameReport> report = look_at(gone.directory->fd(), gone.leaf, options);
      if (!report.is_ok() || report.value().state != NameState::kLive) return;
    } catch (...) {
      return;  // no memory: the next sweep does it
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// The connection to one lender of the segment.
class TieTail : public memory::SegmentTail {
 public:
  explicit TieTail(Fd socket) noexcept : socket_(std::move(socket)) {}
  void before_unmap(Segment*) noexcept override {
    // In a child of fork the connection is a copy of the parent's, and nobody here listens to it.
    if (generation_ != fork_generation()) return;
    stop_serving_fd(socket_.get());
    Ties& all = ties();
    const std::lock_guard<std::mutex> lock(all.mutex);
    all.lenders.erase(socket_.get());
  }
  void after_unmap() noexcept override {}

 private:
  Fd socket_;
  const uint64_t generation_ = fork_generation();
};

}  // namespace

void tie_to_lender(const Ref<Segment>& segment, const Filename& name, Fd socket) {
  if (segment->own() || segment->find_tail<TieTail>() != nullptr) return;
  Result<Ref<Directory>> directory = open_names_directory(name.directory);
  if (!directory.is_ok()) return;
  const int fd = socket.get();
  auto tail = std::make_unique<TieTail>(std::move(socket));
  {
    Ties& all = ties();
    const std::lock_guard<std::mutex> lock(all.mutex);
    all.lenders[fd] = {directory.value(), name.leaf};
  }
  // Best effort: without it the next sweep does the same.
  (void)serve_fd(fd, &on_hang_up);
  segment->attach_tail(std::move(tail));
}

Result<Handed> ask_name(const Filename& name, NameRequest request, bool other_user, os::Waiter* waiter) {
  const std::string path = name.path();
  auto named = [&](Status status) { return std::move(status).with("path", path); };
  Result<Fd> connected = os::connect_local(os::SocketKind::kPackets, path, waiter);
  if (!connected.is_ok()) return name_error(path, connected.status());
  Fd socket = std::move(connected).value();
  TENON_ASSIGN(const os::Peer peer, os::peer_of(socket.get()));
  if (peer.uid != os::user_id() && !other_user) {
    return named(Status(Code::kPermission, format("the lender behind %s is user %u", path.c_str(), peer.uid))
                     .with("option", std::string("OTHER_USER")));
  }
  const RequestPacket packet{kNameMagic, static_cast<uint32_t>(request)};
  const os::Transfer sent = os::send_message(socket.get(), std::as_bytes(std::span(&packet, 1)), {}, {});
  // A lender that refuses may have hung up already: what it said is still there.
  if (sent.error != 0 && sent.error != EPIPE && sent.error != ECONNRESET)
    return named(errno_status(sent.error, format("asking the lender behind %s", path.c_str())));
  if (Status ready = waiter->until_ready(socket.get(), POLLIN); !ready.is_ok()) {
    return named(Status(ready.code(), format("the lender behind %s, pid %d, does not answer", path.c_str(), peer.pid))
                     .with("pid", peer.pid)
                     .caused_by(ready));
  }
  AnswerPacket answer{};
  os::ReceivedFds fds;
  os::Transfer got = os::receive_message(socket.get(), std::as_writable_bytes(std::span(&answer, 1)), false, &fds);
  // The kernel reports first that the lender hung up on an unread request; what it had said before is there all the same.
  if (got.error == ECONNRESET) got = os::receive_message(socket.get(), std::as_writable_bytes(std::span(&answer, 1)), false, &fds);
  if ((got.error == 0 && got.nbytes == 0) || got.error == ECONNRESET)
    return named(Status(Code::kPeerGone, format("the lender behind %s hung up", path.c_str())));
  if (got.error != 0) return named(errno_status(got.error, format("the answer from %s", path.c_str())));
  if (fds.cut()) return named(os::with_fd_limit(errno_status(EMFILE, format("taking the fd from %s", path.c_str()))));
  const bool known_code = answer.code >= 0 && answer.code <= static_cast<int32_t>(Code::kInternal);
  if (got.nbytes != sizeof answer || got.data_cut || answer.magic != kNameMagic || !known_code)
    return named(Status(Code::kCorrupt, format("what answers behind %s is no lender of Tenon's", path.c_str())));
  if (answer.code != 0) {
    const char* why = static_cast<Code>(answer.code) == Code::kPermission ? "lends to its own user only" : "has nothing to lend any more";
    return named(Status(static_cast<Code>(answer.code), format("the lender behind %s %s", path.c_str(), why)));
  }
  Handed handed;
  if (request == NameRequest::kReceived) return handed;
  std::vector<Fd> taken;
  fds.move_to(taken);
  if (taken.size() != 1 || answer.access < 1 || answer.access > 2)
    return named(Status(Code::kCorrupt, format("the lender behind %s handed out no memory", path.c_str())));
  handed.socket = std::move(socket);
  handed.fd = std::move(taken.front());
  handed.access = static_cast<Access>(answer.access);
  handed.segment_nbytes = answer.segment_nbytes;
  return handed;
}

}  // namespace tenon::share
