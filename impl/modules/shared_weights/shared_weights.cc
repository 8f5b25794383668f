#include "modules/shared_weights/shared_weights.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/fork.h"
#include "modules/shared_weights/budget.h"
#include "modules/shared_weights/load.h"
#include "modules/shared_weights/on_device.h"
#include "modules/shared_weights/packets.h"
#include "os/host.h"
#include "os/limits.h"
#include "os/local_socket.h"
#include "os/lock_file.h"
#include "os/peer.h"
#include "os/service.h"
#include "os/socket.h"
#include "share/by_fd.h"

namespace tenon::shared_weights {

using memory::Segment;

namespace {

constexpr int64_t kFirstTurnNs = 200'000;
constexpr int64_t kLongestTurnNs = 5'000'000;
// A process without the library's thread serves its own listener in such steps while it waits.
constexpr int64_t kOwnTurnNs = 2'000'000;

bool is_end_of_wait(const Status& status) noexcept {
  return status.code() == Code::kTimeout || status.code() == Code::kWouldBlock;
}

std::string identity_text(const FileIdentity& file) {
  return format("%llu bytes, changed at %lld.%09lld, CRC %08llx", as_llu(file.nbytes),
                static_cast<long long>(file.mtime_ns / 1'000'000'000),
                static_cast<long long>(file.mtime_ns % 1'000'000'000), as_llu(file.head_crc));
}

const char* different_field(const FileIdentity& one, const FileIdentity& other) noexcept {
  if (one.nbytes != other.nbytes) return "nbytes";
  return one.mtime_ns != other.mtime_ns ? "mtime_ns" : "head_crc";
}

// One call of SharedWeights::open().
class Opening {
 public:
  Opening(Place place, std::optional<OpenedFile> file, const OpenOptions& options,
          const os::Wait& wait)
      : place_(std::move(place)), file_(std::move(file)), options_(options), waiter_(wait) {}

  Result<Ref<SharedWeights>> run();

 private:
  // Each of these returns null if the state of the name has changed and the caller tries again.
  Result<Ref<SharedWeights>> try_once();
  Result<Ref<SharedWeights>> attach(ForkClosed socket);
  Result<Ref<SharedWeights>> take(const Facts& facts, std::vector<os::Fd> fds, Holds holds,
                                  ForkClosed socket);
  Result<Ref<SharedWeights>> become_first(ForkClosed place_lock);
  Result<Ref<SharedWeights>> load(const std::shared_ptr<Member>& member);

  Status wait_for(int socket);
  Status pause();
  Status still_waiting(const Status& over) const;
  Status refused(const Refused& refused) const;
  Status not_tenon(const Status& why) const;
  void report(uint64_t done, uint64_t total) const {
    if (options_.progress) options_.progress(done, total);
  }

  const Place place_;
  const std::optional<OpenedFile> file_;
  const OpenOptions& options_;
  os::Waiter waiter_;
  int64_t pause_ns_ = kFirstTurnNs;
  int32_t server_pid_ = 0;
  std::optional<Progress> progress_;
  std::optional<SocketId> socket_id_;  // of NAME.sock, before this process connected to it
};

Status Opening::still_waiting(const Status& over) const {
  if (!is_end_of_wait(over)) return over;
  int32_t pid = server_pid_;
  std::string why;
  if (pid != 0 && progress_) {
    why = format("process %d is still loading them (%llu of %llu bytes): wait longer", pid,
                 as_llu(progress_->done), as_llu(progress_->total));
  } else if (pid != 0) {
    why = format(
        "process %d serves them and does not answer: continue it if it is stopped, or end "
        "it",
        pid);
  } else {
    Result<os::Fd> hold = os::open_lock_file(place_.hold, false, 0, static_cast<gid_t>(-1));
    if (hold.is_ok()) {
      std::vector<pid_t> owners = os::lock_owners(hold.value().get());
      std::erase(owners, os::process_id());
      if (!owners.empty()) pid = owners.front();
    }
    why = pid != 0 ? format(
                         "process %d has them and does not serve them yet: wait longer, and "
                         "continue it if it is stopped",
                         pid)
                   : std::string("the process that has them does not serve them yet: wait longer");
  }
  Status status(over.code(), format("the weights \"%s\" in %s: %s", place_.name.c_str(),
                                    place_.directory.c_str(), why.c_str()));
  if (pid != 0) status = std::move(status).with("pid", pid);
  return std::move(status).with("path", place_.socket).caused_by(over);
}

Status Opening::not_tenon(const Status& why) const {
  return Status(why.code(), format("%s, process %d: %s", place_.socket.c_str(), server_pid_,
                                   why.message().c_str()))
      .with("path", place_.socket)
      .with("pid", server_pid_)
      .caused_by(why);
}

Status Opening::refused(const Refused& refused) const {
  const auto status = [&](Code code, const std::string& why) {
    return Status(code, format("the weights \"%s\" of process %d %s", place_.name.c_str(),
                               server_pid_, why.c_str()))
        .with("path", place_.socket)
        .with("pid", server_pid_);
  };
  switch (refused.why) {
    case Refusal::kUser:
      return status(Code::kPermission,
                    "are for its own user only: open them as that user, or let that process open "
                    "them for a group");
    case Refusal::kFull:
      return status(Code::kResourceExhausted, "have as many holders as that process can serve")
          .with("limit", "connections");
    case Refusal::kVersion: return status(Code::kNotFound, "have no such version");
    case Refusal::kOtherFile: break;
  }
  const FileIdentity mine = file_ ? file_->identity : FileIdentity{};
  return Status(Code::kPermission,
                format("the name \"%s\" stands for another file or for another version of it: "
                       "process %d lends %s (%s), and %s has %s. Open the new file under another "
                       "name, or close these weights in all processes first, or open the name "
                       "without a path to get what is lent",
                       place_.name.c_str(), server_pid_, refused.label.c_str(),
                       identity_text(refused.file).c_str(), file_ ? file_->path.c_str() : "",
                       identity_text(mine).c_str()))
      .with("path", file_ ? file_->path : place_.socket)
      .with("pid", server_pid_)
      .with("field", different_field(refused.file, mine));
}

Status Opening::wait_for(int socket) { return wait_served(&waiter_, socket, "shared weights"); }

Status Opening::pause() {
  if (os::has_no_thread()) TENON_TRY(os::poll_service());
  const int64_t pause_ns = pause_ns_;
  pause_ns_ = std::min(pause_ns_ * 2, kLongestTurnNs);
  return waiter_.pause(pause_ns, "shared weights");
}

Result<Ref<SharedWeights>> Opening::take(const Facts& facts, std::vector<os::Fd> fds, Holds holds,
                                         ForkClosed socket) {
  if (facts.version > kFirstVersion) {
    TENON_ASSIGN(holds.version, try_version_hold(place_, facts.version));
    if (!holds.version.is_open()) return Ref<SharedWeights>();
    // A server that is killed loses its locks and its connections one after the other. So a process
    // with an older version may have found before this hold that nobody held the version, and may
    // be about to become the server. It has NAME.lock until it listens.
    TENON_ASSIGN(const ForkClosed place_lock, try_place_lock(place_));
    if (!place_lock.is_open() || !socket_id_ || socket_at(place_) != socket_id_)
      return Ref<SharedWeights>();
  }
  if (file_ && file_->identity != facts.file)
    return not_tenon(Status(Code::kCorrupt, "the server lends another file than it says"));
  const bool on_device = facts.memory == MemoryKind::kDevice;
  const bool is_frozen = facts.memory != MemoryKind::kLenderWrites;
  if (facts.memory == MemoryKind::kFile)
    return not_tenon(Status(Code::kIncompatible, "this library cannot open memory of that kind"));
  if (on_device != options_.device.has_value() || fds.size() != (on_device ? 2U : 1U))
    return not_tenon(Status(Code::kCorrupt, "the server lends memory of another device"));
  for (os::Fd& each : fds) each.mark_foreign();
  os::Fd& fd = fds.back();
  share::OpenOptions how;
  how.access = memory::Access::kReadOnly;
  Result<Ref<Segment>> opened = share::open_segment(
      fd.get(), memory::Access::kReadOnly, facts.segment_nbytes, facts.segment_nbytes, how, &fd);
  if (!opened.is_ok()) return not_tenon(opened.status());
  Ref<Segment> segment = std::move(opened).value();
  // Memory that its publisher writes is sealed against all other writers.
  const memory::Mode mode = is_frozen ? memory::Mode::kFrozen : memory::Mode::kLenderWrites;
  if (segment->mode() != mode || segment->frozen() != is_frozen || segment->writable())
    return not_tenon(Status(Code::kCorrupt, is_frozen
                                                ? "the memory is not frozen, so it could change"
                                                : "the memory can be written by more processes "
                                                  "than its publisher"));
  // Of weights on a device, the holes of the segment are never read.
  if (!on_device) TENON_TRY(segment->check_pages(0, segment->nbytes()));
  // This process may have the weights already. Then one member of it is enough.
  std::shared_ptr<Member> member = Member::of(*segment);
  DeviceBlock device;
  if (on_device && member) device.block = member->device_block();
  if (on_device && !device.block) {
    Result<DeviceBlock> mapped = open_block(fds.front(), *options_.device, segment);
    if (!mapped.is_ok()) return not_tenon(mapped.status());
    device = std::move(mapped).value();
    if (member) member->set_device_block(device.block);
  }
  const Ref<device::CudaSharedBlock> block = device.block;
  TENON_ASSIGN(Ref<weights::Weights> weights,
               weights_in(segment, block, facts.file_offset, facts.file_nbytes(), facts.label));
  if (!member) {
    TENON_ASSIGN(member, Member::watch(place_, std::move(holds), std::move(socket), facts,
                                       server_pid_, segment.get(), std::move(device)));
  }
  return Ref<SharedWeights>::adopt(
      new SharedWeights(std::move(segment), std::move(weights), std::move(member), false));
}

Result<Ref<SharedWeights>> Opening::attach(ForkClosed socket) {
  TENON_ASSIGN(const os::Peer server, os::peer_of(socket.get()));
  server_pid_ = server.pid;
  progress_.reset();
  TENON_ASSIGN(const bool is_trusted,
               os::is_admitted(socket.get(), server, place_.admitted_group()));
  if (!is_trusted)
    return Status(Code::kPermission,
                  format("process %d of user %u serves the weights \"%s\": open only weights of "
                         "your own user, or name the group of that user",
                         server.pid, server.uid, place_.name.c_str()))
        .with("path", place_.socket)
        .with("pid", server.pid)
        .with("uid", static_cast<int64_t>(server.uid));
  // From here on this process counts as a holder. If the server dies after it has sent the weights,
  // nobody loads a second copy meanwhile.
  Holds holds;
  TENON_ASSIGN(holds.name, try_hold(place_));
  if (!holds.name.is_open()) return Ref<SharedWeights>();
  Hello hello;
  if (file_) hello.file = file_->identity;
  const std::vector<std::byte> request = encode_packet(hello);
  const os::Transfer sent = os::send_message(socket.get(), request, {}, {});
  // A server that refuses may have hung up already. Its answer can still be read.
  if (sent.error != 0 && sent.error != EPIPE && sent.error != ECONNRESET)
    return not_tenon(errno_status(sent.error, "asking for the weights"));
  for (;;) {
    TENON_TRY(wait_for(socket.get()));
    std::array<std::byte, kMaxPacketNbytes> room;
    os::ReceivedFds fds;
    os::Transfer got = os::receive_message(socket.get(), room, false, &fds);
    // The kernel first reports that the server hung up while the request was unread.
    if (got.error == ECONNRESET) got = os::receive_message(socket.get(), room, false, &fds);
    if (got.error == EAGAIN) continue;
    if (got.error == ECONNRESET || (got.error == 0 && got.nbytes == 0)) {
      server_pid_ = 0;
      return Ref<SharedWeights>();
    }
    if (got.error != 0) return not_tenon(errno_status(got.error, "receiving the weights"));
    if (got.data_cut)
      return not_tenon(Status(Code::kCorrupt, "a packet of shared weights is too long"));
    Result<Packet> decoded = decode_packet(std::span(room).first(got.nbytes));
    if (!decoded.is_ok()) return not_tenon(decoded.status());
    const Packet& packet = decoded.value();
    if (packet.kind == PacketKind::kProgress) {
      progress_ = packet.progress;
      report(packet.progress.done, packet.progress.total);
      continue;
    }
    if (packet.kind == PacketKind::kRefused) return refused(packet.refused);
    if (fds.cut())
      return os::with_fd_limit(errno_status(EMFILE, "taking the fd of shared weights"));
    std::vector<os::Fd> taken;
    fds.move_to(taken);
    if (packet.kind != PacketKind::kWeights || taken.empty())
      return not_tenon(Status(Code::kCorrupt, "the server sent no weights"));
    return take(packet.facts, std::move(taken), std::move(holds), std::move(socket));
  }
}

Result<Ref<SharedWeights>> Opening::load(const std::shared_ptr<Member>& member) {
  const uint64_t total = file_->identity.nbytes;
  const uint64_t generation = fork_generation();
  const auto report_done = [&]() -> Status {
    report(member->done()->load(std::memory_order_relaxed), total);
    if (generation == fork_generation()) return Status::ok();
    return {Code::kUnsupported, "a child of fork cannot go on with a load of its parent"};
  };
  TENON_TRY(report_done());
  TENON_ASSIGN(Loaded loaded, load_on(options_.device, *file_, options_.max_nbytes, member->done(),
                                      report_done, waiter_));
  TENON_ASSIGN(Ref<weights::Weights> weights,
               weights_in(loaded.segment, loaded.device.block, loaded.file_offset,
                          loaded.file_nbytes, member->info().facts.label));
  member->lend(loaded.segment.get(), loaded.file_offset, std::move(loaded.device));
  return Ref<SharedWeights>::adopt(
      new SharedWeights(std::move(loaded.segment), std::move(weights), member, true));
}

Result<Ref<SharedWeights>> Opening::become_first(ForkClosed place_lock) {
  Holds holds;
  TENON_ASSIGN(holds.name, try_first_hold(place_));
  // The processes that have the weights choose a server now.
  if (!holds.name.is_open()) return Ref<SharedWeights>();
  if (!file_) {
    (void)remove_if_last(place_, holds.name.get());
    return Status(Code::kNotFound,
                  format("no process has weights of the name \"%s\" in %s: give the path of the "
                         "file to load them",
                         place_.name.c_str(), place_.directory.c_str()))
        .with("path", place_.socket);
  }
  if (Status size = check_size(file_->path, file_->identity.nbytes, options_.max_nbytes);
      !size.is_ok()) {
    (void)remove_if_last(place_, holds.name.get());
    return size;
  }
  BudgetLock budget_lock;
  if (options_.budget_nbytes != 0) {
    TENON_ASSIGN(budget_lock, BudgetLock::try_take(place_));
    if (!budget_lock.is_open()) {
      (void)remove_if_last(place_, holds.name.get());
      return Ref<SharedWeights>();
    }
    if (Status status = check_budget(place_, file_->identity.nbytes, options_.budget_nbytes, false);
        !status.is_ok()) {
      (void)remove_if_last(place_, holds.name.get());
      return status;
    }
  }
  note_nbytes(place_.hold, file_->identity.nbytes);
  // A name that nobody has begins with version 1 again.
  remove_older_holds(place_, kAllVersions);
  Facts facts;
  facts.file = file_->identity;
  facts.loader_pid = os::process_id();
  facts.label = label_of(*file_);
  if (options_.device) facts.memory = MemoryKind::kDevice;
  Result<std::shared_ptr<Member>> serving = Member::serve(place_, std::move(holds), facts);
  if (!serving.is_ok()) {
    (void)remove_if_last(place_, -1);
    return serving.status();
  }
  const std::shared_ptr<Member> member = std::move(serving).value();
  // The next process that finds a listener waits there, so the lock is not needed any more.
  place_lock.reset();
  budget_lock = BudgetLock();
  struct Leave {
    Member* member;
    ~Leave() {
      if (member != nullptr) member->leave();
    }
  } leave{member.get()};
  sweep_dead_names(place_);
  TENON_ASSIGN(Ref<SharedWeights> weights, load(member));
  leave.member = nullptr;
  return weights;
}

Result<Ref<SharedWeights>> Opening::try_once() {
  socket_id_ = socket_at(place_);
  Result<ForkClosed> connected = connect_at_once(place_);
  if (connected.is_ok()) return attach(std::move(connected).value());
  const Status& why = connected.status();
  if (why.code() == Code::kWouldBlock) return Ref<SharedWeights>();  // the queue is full
  if (!is_nobody_there(why)) return why;
  TENON_TRY(make_directory(place_));
  Result<ForkClosed> locked = try_place_lock(place_);
  // The last process that left the directory removed it.
  if (locked.status().code() == Code::kNotFound && place_.is_default) return Ref<SharedWeights>();
  if (!locked.is_ok()) return locked.status();
  if (!locked.value().is_open()) return Ref<SharedWeights>();
  // Another process may have begun to listen before the lock.
  socket_id_ = socket_at(place_);
  Result<ForkClosed> again = connect_at_once(place_);
  if (again.is_ok()) {
    locked.value().reset();
    return attach(std::move(again).value());
  }
  if (!is_nobody_there(again.status())) return Ref<SharedWeights>();
  return become_first(std::move(locked).value());
}

Result<Ref<SharedWeights>> Opening::run() {
  for (;;) {
    Result<Ref<SharedWeights>> opened = try_once();
    if (!opened.is_ok()) {
      // An error of the wait gets the name of the process for which the caller waits.
      if (is_end_of_wait(opened.status())) return still_waiting(opened.status());
      return opened;
    }
    if (opened.value()) return opened;
    if (Status status = pause(); !status.is_ok()) return still_waiting(status);
  }
}

}  // namespace

Status wait_served(os::Waiter* waiter, int fd, const char* awaited) {
  if (!os::has_no_thread()) return waiter->until_ready(fd, POLLIN, awaited);
  for (;;) {
    TENON_TRY(os::poll_service());
    os::Waiter turn(os::Wait{.timeout_ns = kOwnTurnNs});
    Status ready = turn.until_ready(fd, POLLIN, awaited);
    if (ready.is_ok() || !is_end_of_wait(ready)) return ready;
    TENON_TRY(waiter->check_over(fd, awaited));
  }
}

Result<uint64_t> SharedWeights::wait_changed(const os::Wait& wait) const {
  TENON_ASSIGN(const int fd, member_->changed_fd());
  const uint64_t own = member_->info().facts.version;
  os::Waiter waiter(wait);
  for (;;) {
    const uint64_t newest = member_->newest();
    if (newest > own) return newest;
    TENON_TRY(wait_served(&waiter, fd, "a newer version of the weights"));
  }
}

Result<Ref<SharedWeights>> SharedWeights::open(const std::optional<std::string>& path,
                                               const std::string& name, const OpenOptions& options,
                                               const os::Wait& wait) {
  TENON_ASSIGN(Place place, choose_place_on(options.device, name, options.access));
  std::optional<OpenedFile> file;
  if (path) {
    TENON_ASSIGN(file, open_file(*path));
  }
  Opening opening(std::move(place), std::move(file), options, wait);
  return opening.run();
}

}  // namespace tenon::shared_weights
