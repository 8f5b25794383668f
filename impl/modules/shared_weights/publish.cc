#include "modules/shared_weights/publish.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/fork.h"
#include "modules/shared_weights/budget.h"
#include "modules/shared_weights/buffers.h"
#include "modules/shared_weights/load.h"
#include "modules/shared_weights/on_device.h"
#include "modules/shared_weights/packets.h"
#include "modules/shared_weights/values.h"
#include "os/host.h"
#include "os/local_socket.h"
#include "os/lock_file.h"
#include "os/peer.h"
#include "os/service.h"
#include "os/socket.h"

namespace tenon::shared_weights {

namespace {

constexpr int64_t kFirstPublishTurnNs = 200'000;
constexpr int64_t kLongestPublishTurnNs = 5'000'000;
constexpr int64_t kAnswerNs = 200'000'000;
// A server that hangs up so often without an answer does not know the request.
constexpr int kMostHangUps = 3;

// Makes the memory of the new version. Sets the identity and the label of `facts`. `buffer` is the
// memory to write, or null for memory that is frozen.
using Prepare =
    std::function<Result<Loaded>(const os::Waiter& waiter, const Buffer* buffer, Facts* facts)>;

// One call of publish_file() or publish_values().
class Publishing {
 public:
  Publishing(Place place, uint64_t budget_nbytes, const os::Wait& wait)
      : place_(std::move(place)), budget_nbytes_(budget_nbytes), waiter_(wait) {}

  // `nbytes`: the size of the weights. `reuses`: `prepare` gets a buffer.
  Result<Ref<SharedWeights>> run(uint64_t nbytes, bool reuses, const Prepare& prepare);

 private:
  Result<ForkClosed> take_turn();
  Status pause();
  // Announces the size to processes that check a budget, and checks this process's own.
  Status announce(uint64_t nbytes);
  // A buffer that no process has any more, or a new one.
  Result<std::unique_ptr<Buffer>> take_buffer(uint64_t nbytes);
  // Null: the state of the name is changing, and the caller tries again.
  Result<Ref<SharedWeights>> try_switch(Loaded* loaded, Facts facts,
                                        const Ref<weights::Weights>& weights);
  // Tells the server that this process takes NAME.sock. The server looks there when the connection
  // hangs up. Not open: nobody listens. WOULD_BLOCK: the caller tries again.
  Result<ForkClosed> tell_server();
  Status hear_answer(int socket, int32_t server_pid);

  const Place place_;
  const uint64_t budget_nbytes_;
  os::Waiter waiter_;
  int64_t pause_ns_ = kFirstPublishTurnNs;
  int32_t deaf_pid_ = 0;  // the server that hung up without an answer
  int hang_ups_ = 0;      // how often it did
};

Status Publishing::pause() {
  if (os::has_no_thread()) TENON_TRY(os::poll_service());
  const int64_t pause_ns = pause_ns_;
  pause_ns_ = std::min(pause_ns_ * 2, kLongestPublishTurnNs);
  return waiter_.pause(pause_ns, "the turn to publish weights");
}

Result<ForkClosed> Publishing::take_turn() {
  for (;;) {
    TENON_TRY(make_directory(place_));
    Result<ForkClosed> turn = try_turn(place_);
    // The last process that left the directory removed it.
    const bool has_gone = turn.status().code() == Code::kNotFound && place_.is_default;
    if (!turn.is_ok() && !has_gone) return turn;
    if (turn.is_ok() && turn.value().is_open()) return turn;
    Status over = pause();
    if (over.is_ok()) continue;
    Result<os::Fd> file = os::open_lock_file(place_.turn, false, 0, static_cast<gid_t>(-1));
    const std::vector<pid_t> owners =
        file.is_ok() ? os::lock_owners(file.value().get()) : std::vector<pid_t>();
    const pid_t pid = owners.empty() ? 0 : owners.front();
    const std::string who = pid != 0 ? format("process %d", pid) : "another process";
    Status status(over.code(),
                  format("the weights \"%s\" in %s: %s publishes a version of them: wait longer, "
                         "and continue that process if it is stopped",
                         place_.name.c_str(), place_.directory.c_str(), who.c_str()));
    if (pid != 0) status = std::move(status).with("pid", pid);
    return std::move(status).with("path", place_.turn).caused_by(over);
  }
}

Status Publishing::announce(uint64_t nbytes) {
  BudgetLock lock;
  while (budget_nbytes_ != 0) {
    TENON_ASSIGN(lock, BudgetLock::try_take(place_));
    if (lock.is_open()) {
      TENON_TRY(check_budget(place_, nbytes, budget_nbytes_, true));
      break;
    }
    TENON_TRY(pause());
  }
  note_nbytes(place_.turn, nbytes);
  return Status::ok();
}

Result<std::unique_ptr<Buffer>> Publishing::take_buffer(uint64_t nbytes) {
  while (has_buffers(place_)) {
    TENON_ASSIGN(const ForkClosed locked, try_place_lock(place_));
    if (!locked.is_open()) {
      TENON_TRY(pause());
      continue;
    }
    Result<std::unique_ptr<Buffer>> found = find_free_buffer(place_, nbytes);
    if (!found.is_ok() || found.value() != nullptr) return found;
    break;
  }
  return Buffer::create(nbytes);
}

Result<ForkClosed> Publishing::tell_server() {
  Result<ForkClosed> connected = connect_at_once(place_);
  if (is_nobody_there(connected.status())) return ForkClosed();
  if (!connected.is_ok()) return connected;
  const int socket = connected.value().get();
  TENON_ASSIGN(const os::Peer server, os::peer_of(socket));
  TENON_ASSIGN(const bool is_trusted, os::is_admitted(socket, server, place_.admitted_group()));
  // Root's weights may be opened, but not replaced.
  const bool is_roots = server.uid == 0 && os::user_id() != 0 && !place_.admitted_group();
  if (!is_trusted || is_roots)
    return Status(Code::kPermission,
                  format("process %d of user %u serves the weights \"%s\": publish only weights of "
                         "your own user, or name the group of that user",
                         server.pid, server.uid, place_.name.c_str()))
        .with("path", place_.socket)
        .with("pid", server.pid)
        .with("uid", static_cast<int64_t>(server.uid));
  Hello hello;
  hello.want = Want::kPublish;
  // If the server has hung up, hear_answer() finds it.
  (void)os::send_message(socket, encode_packet(hello), {}, {});
  TENON_TRY(hear_answer(socket, server.pid));
  return connected;
}

Status Publishing::hear_answer(int socket, int32_t server_pid) {
  const auto status = [&](Code code, const char* why) {
    return Status(code, format("the weights \"%s\" of process %d %s", place_.name.c_str(),
                               server_pid, why))
        .with("path", place_.socket)
        .with("pid", server_pid);
  };
  os::Waiter patience(os::Wait{.timeout_ns = kAnswerNs});
  Status ready = wait_served(&patience, socket, "the server of the weights");
  // A server that is stopped hears of the new version when it goes on.
  if (ready.code() == Code::kTimeout) return Status::ok();
  if (!ready.is_ok()) return ready;
  std::array<std::byte, kMaxPacketNbytes> room;
  os::ReceivedFds fds;
  const os::Transfer got = os::receive_message(socket, room, false, &fds);
  if (got.error != 0 || got.nbytes == 0) {
    hang_ups_ = deaf_pid_ == server_pid ? hang_ups_ + 1 : 1;
    deaf_pid_ = server_pid;
    if (hang_ups_ < kMostHangUps) return {Code::kWouldBlock, "the server has hung up"};
    return status(Code::kIncompatible,
                  "are served by a version of Tenon that knows of one version of weights only: end "
                  "that process, or publish under another name");
  }
  TENON_ASSIGN(const Packet packet, decode_packet(std::span(room).first(got.nbytes)));
  if (packet.kind == PacketKind::kNewest) return Status::ok();
  if (packet.kind != PacketKind::kRefused)
    return status(Code::kCorrupt, "are served by a program that is not Tenon");
  if (packet.refused.why == Refusal::kFull)
    return status(Code::kResourceExhausted, "have as many holders as that process can serve")
        .with("limit", "connections");
  return status(Code::kPermission, "are for its own user only: publish them as that user");
}

Result<Ref<SharedWeights>> Publishing::try_switch(Loaded* loaded, Facts facts,
                                                  const Ref<weights::Weights>& weights) {
  TENON_TRY(make_directory(place_));
  Result<ForkClosed> server = tell_server();
  if (server.status().code() == Code::kWouldBlock) return Ref<SharedWeights>();
  if (!server.is_ok()) return server.status();
  Result<ForkClosed> locked = try_place_lock(place_);
  if (locked.status().code() == Code::kNotFound && place_.is_default) return Ref<SharedWeights>();
  if (!locked.is_ok()) return locked.status();
  if (!locked.value().is_open()) return Ref<SharedWeights>();
  // With the lock, the server is the one that was told.
  const bool is_other = server.value().is_open()
                            ? os::peer_hung_up(server.value().get())
                            : !is_nobody_there(connect_at_once(place_).status());
  if (is_other) return Ref<SharedWeights>();
  Holds holds;
  TENON_ASSIGN(holds.name, try_first_hold(place_));
  facts.version = kFirstVersion;
  if (holds.name.is_open()) {
    remove_older_holds(place_, kAllVersions);
  } else {
    TENON_ASSIGN(holds.name, try_hold(place_));
    if (!holds.name.is_open()) return Ref<SharedWeights>();
    TENON_ASSIGN(const uint64_t newest, newest_version(place_));
    facts.version = newest + 1;
    TENON_ASSIGN(holds.version, make_version_hold(place_, facts.version));
    if (!holds.version.is_open()) return Ref<SharedWeights>();
  }
  const uint64_t version = facts.version;
  note_nbytes(hold_path(place_, version), loaded->segment->nbytes());
  Result<std::shared_ptr<Member>> serving =
      Member::serve(place_, std::move(holds), std::move(facts));
  if (!serving.is_ok()) {
    (void)remove_if_last(place_, -1);
    return serving.status();
  }
  const std::shared_ptr<Member> member = std::move(serving).value();
  struct Leave {
    Member* member;
    ~Leave() {
      if (member != nullptr) member->leave();
    }
  } leave{member.get()};
  remove_older_holds(place_, version);
  locked.value().reset();
  member->lend(loaded->segment.get(), loaded->file_offset, std::move(loaded->device));
  leave.member = nullptr;
  server.value().reset();
  return Ref<SharedWeights>::adopt(new SharedWeights(loaded->segment, weights, member, true));
}

Result<Ref<SharedWeights>> Publishing::run(uint64_t nbytes, bool reuses, const Prepare& prepare) {
  struct Turn {
    const Place& place;
    ForkClosed lock;
    ~Turn() {
      give_turn(place, std::move(lock));
      remove_empty_directory(place);
    }
  } turn{place_, {}};
  TENON_ASSIGN(turn.lock, take_turn());
  TENON_TRY(announce(nbytes));
  Facts facts;
  facts.loader_pid = os::process_id();
  const uint64_t generation = fork_generation();
  std::unique_ptr<Buffer> buffer;
  if (reuses) {
    TENON_ASSIGN(buffer, take_buffer(nbytes));
    facts.memory = MemoryKind::kLenderWrites;
  }
  TENON_ASSIGN(Loaded loaded, prepare(waiter_, buffer.get(), &facts));
  if (generation != fork_generation())
    return Status(Code::kUnsupported, "a child of fork cannot go on with a load of its parent");
  TENON_ASSIGN(const Ref<weights::Weights> weights,
               weights_in(loaded.segment, loaded.device.block, loaded.file_offset,
                          loaded.file_nbytes, facts.label));
  sweep_dead_names(place_);
  for (;;) {
    Result<Ref<SharedWeights>> published = try_switch(&loaded, facts, weights);
    if (!published.is_ok() || published.value()) {
      if (published.is_ok() && buffer != nullptr)
        keep_buffer(place_, std::move(buffer), published.value()->info().facts.version,
                    loaded.segment.get());
      return published;
    }
    TENON_TRY(pause());
  }
}

}  // namespace

Result<Ref<SharedWeights>> publish_file(const std::string& path, const std::string& name,
                                        const OpenOptions& options, const os::Wait& wait) {
  TENON_ASSIGN(Place place, choose_place_on(options.device, name, options.access));
  TENON_ASSIGN(const OpenedFile file, open_file(path));
  TENON_TRY(check_size(path, file.identity.nbytes, options.max_nbytes));
  Publishing publishing(std::move(place), options.budget_nbytes, wait);
  return publishing.run(
      file.identity.nbytes, false,
      [&](const os::Waiter& waiter, const Buffer*, Facts* facts) -> Result<Loaded> {
        facts->file = file.identity;
        facts->label = label_of(file);
        if (options.device) facts->memory = MemoryKind::kDevice;
        std::atomic<uint64_t> done{0};
        const uint64_t generation = fork_generation();
        const auto report = [&]() -> Status {
          if (options.progress) options.progress(done.load(), file.identity.nbytes);
          if (generation == fork_generation()) return Status::ok();
          return {Code::kUnsupported, "a child of fork cannot go on with a load of its parent"};
        };
        TENON_TRY(report());
        return load_on(options.device, file, options.max_nbytes, &done, report, waiter);
      });
}

Result<Ref<SharedWeights>> publish_values(std::span<const weights::SavedTensor> values,
                                          const std::string& name, const OpenOptions& options,
                                          bool reuses, const os::Wait& wait) {
  if (options.device)
    return Status(Code::kUnsupported,
                  "tensors are published into the CPU's memory: save them to a file, and publish "
                  "that file for the device")
        .with("option", "device");
  TENON_ASSIGN(Place place, choose_place_on({}, name, options.access));
  TENON_ASSIGN(const ValuesFile file, layout_values(values));
  TENON_TRY(check_size(kValuesLabel, file.nbytes, options.max_nbytes));
  Publishing publishing(std::move(place), options.budget_nbytes, wait);
  return publishing.run(
      file.nbytes, reuses,
      [&](const os::Waiter& /*waiter*/, const Buffer* buffer, Facts* facts) -> Result<Loaded> {
        facts->label = kValuesLabel;
        return load_values(file, buffer, &facts->file);
      });
}

}  // namespace tenon::shared_weights
