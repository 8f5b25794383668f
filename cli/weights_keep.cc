// `tenon weights keep`, `drop` and `switch`: a small process that holds the newest weights of a
// name as long as it runs, the end of such processes, and a new version of the weights.
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commands.h"
#include "keeper_lock.h"
#include "modules/shared_weights/on_device.h"
#include "modules/shared_weights/place.h"
#include "modules/shared_weights/publish.h"
#include "modules/shared_weights/shared_weights.h"
#include "notify.h"
#include "os/clock.h"
#include "os/host.h"
#include "os/wait.h"
#include "output.h"
#include "progress.h"

namespace tenon::cli {
namespace {

using shared_weights::Place;
using shared_weights::SharedWeights;

constexpr int64_t kStatusEveryNs = 500'000'000;
constexpr int kRetryMs = 1000;
// How long `switch` watches that another process has the new version before it ends.
constexpr int kTakenMs = 200;
constexpr int kLookMs = 20;

// What the signal handler uses.
os::Cancel* keeper_cancel = nullptr;
volatile sig_atomic_t keeper_signal = 0;

extern "C" void end_keeping(int signal) {
  const int error = errno;
  keeper_signal = signal;
  keeper_cancel->trigger();
  errno = error;
}

// SIGINT, SIGTERM and SIGHUP end a load, a wait, and the keeping. A signal that is ignored, as by
// nohup, stays so. The cancel is never destroyed, because a handler may still run.
Result<os::Cancel*> cancel_by_signals() {
  TENON_ASSIGN(std::unique_ptr<os::Cancel> cancel, os::Cancel::create());
  keeper_cancel = cancel.release();
  for (const int each : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before{};
    if (sigaction(each, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) continue;
    struct sigaction action{};
    action.sa_handler = &end_keeping;
    action.sa_flags = SA_RESTART;
    sigaction(each, &action, nullptr);
  }
  return keeper_cancel;
}

// Ends this process by the signal that it got, so that its parent sees the usual reason.
int end_by_signal() {
  (void)flush_output();
  (void)::signal(keeper_signal, SIG_DFL);
  (void)::raise(keeper_signal);
  return kExitProblem;
}

// Shows the load on the terminal, and tells the service manager.
class KeepProgress {
 public:
  explicit KeepProgress(std::string name) : name_(std::move(name)) {}

  void show(uint64_t done, uint64_t total) {
    // Another process may begin the load anew when the one that loaded has died.
    if (!bar_ || done < done_) {
      bar_.emplace(name_, total);
      done_ = 0;
    }
    bar_->add(done - done_);
    done_ = done;
    const int64_t now = os::monotonic_ns();
    if (now < next_ns_) return;
    next_ns_ = now + kStatusEveryNs;
    (void)notify_manager("STATUS=loading: " + size_text(done) + " of " + size_text(total) + "\n");
  }
  void clear() { bar_.reset(); }

 private:
  const std::string name_;
  std::optional<Progress> bar_;
  uint64_t done_ = 0;
  int64_t next_ns_ = 0;
};

Result<gid_t> group_of(const std::string& text) {
  gid_t gid = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, gid);
  if (error == std::errc() && rest == end) return gid;
  errno = 0;
  const group* const found = ::getgrnam(text.c_str());
  if (found == nullptr)
    return invalid("there is no group '" + text + "': name a group of this machine, or its number");
  return found->gr_gid;
}

Result<Place> place_of(const WeightsOptions& options, const shared_weights::Access& access) {
  TENON_ASSIGN(const std::optional<int32_t> device, shared_weights::parse_device(options.device));
  return shared_weights::choose_place_on(device, options.name, access);
}

Result<shared_weights::Access> access_of(const WeightsOptions& options) {
  shared_weights::Access access;
  access.directory = options.directory;
  if (!options.group.empty()) {
    TENON_ASSIGN(access.group, group_of(options.group));
  }
  return access;
}

std::string drop_command(const WeightsOptions& options) {
  std::string command = "tenon weights drop " + options.name;
  if (!options.directory.empty()) command += " --directory " + options.directory;
  if (options.device != "cpu") command += " --device " + options.device;
  return command;
}

Status say_kept(const WeightsOptions& options, const SharedWeights& kept) {
  const auto info = kept.info();
  const uint64_t nbytes = kept.segment().nbytes();
  const std::string what = size_text(nbytes) + " of " + info.facts.label +
                           format(", version %llu", as_llu(info.facts.version)) +
                           (options.device == "cpu" ? "" : " on " + options.device);
  if (options.json) {
    print_json({{"name", options.name},
                {"pid", os::process_id()},
                {"nbytes", nbytes},
                {"device", options.device},
                {"file", info.facts.label},
                {"version", info.facts.version},
                {"loaded", kept.loaded_here()}});
  } else {
    print_text("keeping the weights " + safe_text(options.name) + " (" + safe_text(what) + ", " +
               (kept.loaded_here() ? "loaded by this process" : "found in memory") +
               "): end it with Ctrl-C, or with " + safe_text(drop_command(options)) + "\n");
  }
  const Status told = notify_manager("READY=1\nSTATUS=keeping " + what + "\n");
  if (!told.is_ok()) print_error(told);
  return flush_output();
}

// True: a signal came. False: the fd is readable, or the time is over.
bool ends_before(const os::Cancel* cancel, int fd, int timeout_ms) {
  pollfd both[2] = {{cancel->fd(), POLLIN, 0}, {fd, POLLIN, 0}};
  while (::poll(both, 2, timeout_ms) < 0 && errno == EINTR) {
  }
  return both[0].revents != 0;
}

// Holds the newest version until a signal comes.
Status follow_versions(const WeightsOptions& options, const shared_weights::Access& access,
                       const os::Cancel* cancel, Ref<SharedWeights> kept) {
  shared_weights::OpenOptions how;
  how.access = access;
  TENON_ASSIGN(how.device, shared_weights::parse_device(options.device));
  for (;;) {
    TENON_ASSIGN(const int changed, kept->changed_fd());
    if (ends_before(cancel, changed, -1)) return Status::ok();
    Result<Ref<SharedWeights>> newest = SharedWeights::open(
        std::nullopt, options.name, how, os::Wait{.timeout_ns = -1, .cancel = keeper_cancel});
    const bool is_newer =
        newest.is_ok() && newest.value()->info().facts.version > kept->info().facts.version;
    if (is_newer) {
      kept = std::move(newest).value();
      TENON_TRY(say_kept(options, *kept));
    } else if (ends_before(cancel, -1, kRetryMs)) {
      return Status::ok();
    }
  }
}

Status keep(const WeightsOptions& options) {
  TENON_ASSIGN(const os::Cancel* const cancel, cancel_by_signals());
  TENON_ASSIGN(shared_weights::Access access, access_of(options));
  TENON_ASSIGN(const Place place, place_of(options, access));
  TENON_ASSIGN(const KeeperLock lock, KeeperLock::take(place));
  KeepProgress progress(options.name);
  shared_weights::OpenOptions how;
  how.access = std::move(access);
  TENON_ASSIGN(how.device, shared_weights::parse_device(options.device));
  how.budget_nbytes = options.budget;
  how.progress = [&progress](uint64_t done, uint64_t total) { progress.show(done, total); };
  std::optional<std::string> file;
  if (!options.file.empty()) file = options.file;
  Result<Ref<SharedWeights>> opened =
      SharedWeights::open(file, options.name, how, os::Wait{.cancel = keeper_cancel});
  progress.clear();
  TENON_ASSIGN(Ref<SharedWeights> kept, std::move(opened));
  TENON_TRY(say_kept(options, *kept));
  TENON_TRY(follow_versions(options, how.access, cancel, std::move(kept)));
  (void)notify_manager("STOPPING=1\n");
  return Status::ok();
}

// Whether another process has the version, or a later one has taken its place.
bool is_taken(const SharedWeights& weights) {
  const auto info = weights.info();
  return !info.serves || info.facts.holders > 1;
}

// Publishes a file, and holds the new version until another process has it. A signal ends the wait.
Status switch_version(const WeightsOptions& options) {
  TENON_ASSIGN(const os::Cancel* const cancel, cancel_by_signals());
  KeepProgress progress(options.name);
  shared_weights::OpenOptions how;
  TENON_ASSIGN(how.access, access_of(options));
  TENON_ASSIGN(how.device, shared_weights::parse_device(options.device));
  how.budget_nbytes = options.budget;
  how.progress = [&progress](uint64_t done, uint64_t total) { progress.show(done, total); };
  Result<Ref<SharedWeights>> published = shared_weights::publish_file(
      options.file, options.name, how, os::Wait{.cancel = keeper_cancel});
  progress.clear();
  TENON_ASSIGN(const Ref<SharedWeights> weights, std::move(published));
  const uint64_t version = weights->info().facts.version;
  if (options.json) {
    print_json({{"ok", true}, {"name", options.name}, {"version", version}});
  } else {
    print_text(format("version %llu of ", as_llu(version)) + safe_text(options.name) +
               " is published\n");
  }
  TENON_TRY(flush_output());
  bool is_told = options.json;
  int taken_ms = 0;
  for (int waited_ms = 0; taken_ms < kTakenMs; waited_ms += kLookMs) {
    taken_ms = is_taken(*weights) ? taken_ms + kLookMs : 0;
    if (taken_ms == 0 && waited_ms >= kTakenMs && !is_told) {
      print_text(
          "no other process has it yet, so this one holds it: Ctrl-C gives it up, and then "
          "the version before it is the newest again\n");
      TENON_TRY(flush_output());
      is_told = true;
    }
    if (ends_before(cancel, -1, kLookMs)) return Status::ok();
  }
  return Status::ok();
}

int report(const WeightsOptions& options, const Status& status) {
  if (options.json)
    print_json({{"ok", false}, {"error", status_json(status)}});
  else
    print_error(status);
  return kExitProblem;
}

}  // namespace

int keep_weights(const WeightsOptions& options) {
  const Status status = keep(options);
  if (status.is_ok()) return kExitOk;
  if (keeper_signal != 0 && status.code() == Code::kCancelled) return end_by_signal();
  return report(options, status);
}

int switch_weights(const WeightsOptions& options) {
  const Status status = switch_version(options);
  if (status.is_ok()) return kExitOk;
  if (keeper_signal != 0 && status.code() == Code::kCancelled) return end_by_signal();
  return report(options, status);
}

int drop_weights(const WeightsOptions& options) {
  Result<Place> place = place_of(options, {options.directory, {}});
  if (!place.is_ok()) return report(options, place.status());
  const auto patience_ns = static_cast<int64_t>(options.timeout * 1e9);
  Result<std::vector<pid_t>> ended = end_keepers(place.value(), patience_ns);
  // place_of() makes the default directory.
  shared_weights::remove_empty_directory(place.value());
  if (!ended.is_ok()) return report(options, ended.status());
  const std::vector<pid_t>& pids = ended.value();
  if (options.json) {
    print_json({{"ok", true}, {"name", options.name}, {"ended", pids}});
    return kExitOk;
  }
  std::string text;
  for (const pid_t pid : pids) text += " " + std::to_string(pid);
  print_text("ended " + plural_text(pids.size(), "keeper", "keepers") + " of " +
             safe_text(options.name) + ":" + text + "\n");
  return kExitOk;
}

}  // namespace tenon::cli
