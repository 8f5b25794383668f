#include "names/liveness.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>

#include "base/process_state.h"
#include "os/host.h"
#include "os/local_socket.h"
#include "os/memfd.h"
#include "os/named_file.h"
#include "os/process.h"
#include "os/wait.h"
#include "share/named_file_head.h"

namespace tenon::names {
namespace {

using os::Alone;
using os::Fd;
using os::NameInfo;

constexpr std::string_view kHalfMadePrefix = ".tenon-";  // a socket between its bind and its link
// The age below which such a socket counts as being made. A maker that takes longer loses its
// socket to a sweep and makes another.
constexpr int64_t kHalfMadeNs = 40'000'000;

NameKind kind_of(int fd, std::string_view leaf, uint64_t file_nbytes, share::FilenameHead* head) {
  // PyTorch makes the name first and enlarges the file next. A maker that was killed in between
  // left an empty file, which no process can open as a storage.
  if (file_nbytes == 0 && maker_of_torch_name(leaf) != 0) return NameKind::kTorchFile;
  Result<share::FilenameHead> read = share::read_head(fd);
  if (!read.is_ok()) return NameKind::kOther;
  *head = read.value();
  if (head->magic == share::kFilenameMagic) return NameKind::kFile;
  // PyTorch writes nothing but a count in the head. A file with anything else there is not
  // PyTorch's, whatever its name is.
  return head->rest_is_zero && maker_of_torch_name(leaf) != 0 ? NameKind::kTorchFile
                                                              : NameKind::kOther;
}

// Whether the name is a bell, or a file that is being made.
bool is_hidden(std::string_view leaf) noexcept {
  return leaf.starts_with(kBellPrefix) || leaf.starts_with(kMakingPrefix);
}

// Whether the name looks like one of Tenon's or PyTorch's.
bool by_its_name(std::string_view leaf) noexcept {
  return leaf.starts_with(kDefaultPrefix) || maker_of_torch_name(leaf) != 0 ||
         leaf.starts_with(kHalfMadePrefix);
}

// The kind of a file that cannot be opened.
NameKind kind_by_name(std::string_view leaf) noexcept {
  return maker_of_torch_name(leaf) != 0 ? NameKind::kTorchFile : NameKind::kFile;
}

void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

// kTenon: a process that uses Tenon has the lock. kSomebody: another process has the file open or
// mapped. kUnknown: the kernel does not tell.
enum class Holding { kNobody, kTenon, kSomebody, kUnknown };

// Asks the kernel whether a process holds the file. With the result kNobody this process has the
// exclusive lock and the lease until `fd` is closed.
Holding ask_holding(int fd, int patience) {
  bool locked = false;
  for (int tries = 0;; ++tries) {
    locked = locked || os::take_exclusive_lock(fd);
    const Alone alone = locked ? os::take_lease(fd) : Alone::kNo;
    if (alone == Alone::kYes) return Holding::kNobody;
    if (alone == Alone::kUnknown) return Holding::kUnknown;
    if (tries + 1 >= patience) return locked ? Holding::kSomebody : Holding::kTenon;
    pause();
  }
}

// Decides whether a file that no process holds is dead, or waits for a message in flight.
void judge(NameReport* report, const share::FilenameHead& head, const NameInfo& info,
           const LookOptions& options) {
  const int64_t now = os::real_time_ns();
  report->state = NameState::kDead;
  report->why = "nobody has it open or mapped (the kernel gave a lock and a write lease)";
  if (report->kind == NameKind::kFile) {
    // Senders set a date at most kKeepNs from now. A later one is ignored, so that a process that
    // can write the head cannot keep the file for ever. Both numbers are positive, so the
    // subtraction cannot overflow.
    const int64_t left = head.keep_until_ns > now ? head.keep_until_ns - now : 0;
    if (head.count > 0 && head.in_flight > 0 && left > 0 && left <= kKeepNs) {
      report->state = NameState::kInFlight;
      report->why = format(
          "its sender ended in order, and %d messages may be on their way; kept for %lld s more",
          head.in_flight, static_cast<long long>((left + 999'999'999) / 1'000'000'000));
    }
    return;
  }
  if (head.count <= 0) {
    report->why += "; its count is 0";
  } else if (report->maker_pid != 0 && os::process_facts(report->maker_pid)) {
    report->state = NameState::kInFlight;
    report->why = format(
        "nobody has it open or mapped, but its maker, pid %d, lives and may have it in a message",
        report->maker_pid);
  } else if (now - info.changed_ns < options.min_age_ns) {
    report->state = NameState::kInFlight;
    report->why =
        format("nobody has it open or mapped, but it is only %lld s old and may be in a message",
               static_cast<long long>((now - info.changed_ns) / 1'000'000'000));
  } else {
    report->why += format("; its maker, pid %d, is gone", report->maker_pid);
  }
}

// Whether the name still leads to the same file.
bool still_there(int directory, const std::string& leaf, const NameInfo& info) {
  Result<NameInfo> now = os::look_at_name(directory, leaf);
  return now.is_ok() && now.value().inode == info.inode && now.value().device == info.device;
}

void remove(int directory, const NameInfo& info, NameReport* report) {
  if (!still_there(directory, report->leaf, info)) return;
  const Status status = os::unlink_name(directory, report->leaf);
  report->removed = status.is_ok();
  if (!report->removed) report->why += "; " + status.message();
}

Status look_at_socket(int directory, const NameInfo& info, const LookOptions& options,
                      NameReport* report) {
  const bool half_made = report->leaf.starts_with(kHalfMadePrefix);
  // The sticky bit marks Tenon's sockets, because a socket has no room for a magic number
  // (docs/format/filename.md).
  if ((info.mode & S_ISVTX) == 0 && !half_made) return Status::ok();
  report->kind = NameKind::kSocket;
  os::Waiter waiter({.timeout_ns = 0});
  const Result<Fd> connected =
      os::connect_local(os::SocketKind::kPackets,
                        format("/proc/self/fd/%d/%s", directory, report->leaf.c_str()), &waiter);
  if (connected.is_ok() || connected.status().code() == Code::kWouldBlock) {
    report->state = NameState::kLive;
    report->why = "a lender listens on it";
    return Status::ok();
  }
  if (connected.status().code() != Code::kPeerGone) {
    if (connected.status().code() == Code::kNotFound ||
        connected.status().code() == Code::kResourceExhausted)
      return connected.status();
    report->why = connected.status().message();
    return Status::ok();
  }
  if (half_made && report->age_ns < kHalfMadeNs) {
    report->state = NameState::kLive;
    report->why = "it is being made";
    return Status::ok();
  }
  report->state = NameState::kDead;
  report->why = "nobody listens on it (connecting is refused)";
  if (options.remove) remove(directory, info, report);
  return Status::ok();
}

// Two threads of this process that checked one file at once would each find the other's fd, and
// call the file held.
struct NameCheckLock : ProcessState<LockRank::kNameCheck> {};
Status look_at_regular(int directory, const NameInfo& seen, const LookOptions& options,
                       NameReport* report) {
  const std::lock_guard<std::mutex> lock(process_state<NameCheckLock>().mutex);
  Fd fd;
  for (int tries = 1;; ++tries) {
    Result<Fd> opened = os::open_name(directory, report->leaf, false);
    if (opened.is_ok()) {
      fd = std::move(opened).value();
      break;
    }
    if (opened.status().code() == Code::kNotFound ||
        opened.status().code() == Code::kResourceExhausted)
      return opened.status();
    report->why = opened.status().message();
    if (opened.status().code() == Code::kWouldBlock) {
      // Another process checks the file and holds a lease on it, so the file cannot be read now.
      // The caller asks again.
      report->kind = kind_by_name(report->leaf);
      report->state = NameState::kLive;
    } else if (by_its_name(report->leaf) && !is_hidden(report->leaf)) {
      report->kind = kind_by_name(report->leaf);
    }
    if (opened.status().code() != Code::kWouldBlock || tries >= options.patience)
      return Status::ok();
    pause();
  }
  TENON_ASSIGN(const NameInfo info, os::look_at_file(fd.get()));
  if (info.inode != seen.inode || info.kind != NameInfo::Kind::kFile)
    return Status(Code::kNotFound, "another file by now");
  share::FilenameHead head;
  report->kind = kind_of(fd.get(), report->leaf, info.nbytes, &head);
  if (report->kind == NameKind::kOther) {
    // The file may be a lender's bell, or a file that is still being made. If no process holds it,
    // its lender or maker has died, and the file is removed. It is nobody's name, so it is not
    // reported.
    if (is_hidden(report->leaf) && options.remove &&
        ask_holding(fd.get(), options.patience) == Holding::kNobody)
      remove(directory, info, report);
    return Status::ok();
  }
  report->count = head.count;
  report->nbytes = info.nbytes - std::min(info.nbytes, share::kFilenameHeaderNbytes);
  if (report->kind == NameKind::kFile) {
    const int64_t now = os::real_time_ns();
    report->age_ns = head.made_ns > 0 && head.made_ns < now ? now - head.made_ns : 0;
    if (head.maker_pid_namespace == os::host_identity().pid_namespace)
      report->maker_pid = head.maker_pid;
  } else {
    report->maker_pid = maker_of_torch_name(report->leaf);
  }
  switch (ask_holding(fd.get(), options.patience)) {
    case Holding::kTenon:
      report->state = NameState::kLive;
      report->why = "a process of Tenon's holds its lock";
      return Status::ok();
    case Holding::kSomebody:
      report->state = NameState::kLive;
      report->why = "some process has it open or mapped";
      return Status::ok();
    case Holding::kUnknown:
      report->why = "the kernel does not tell who holds it (no leases here)";
      return Status::ok();
    case Holding::kNobody: break;
  }
  // The head is read again. The last holder may have ended in order since the first read, and may
  // have written how long a message is to be kept.
  if (kind_of(fd.get(), report->leaf, info.nbytes, &head) != report->kind) {
    report->state = NameState::kLive;
    report->why = "it changed while it was looked at";
    os::drop_lease(fd.get());
    return Status::ok();
  }
  report->count = head.count;
  judge(report, head, info, options);
  const bool may = report->kind == NameKind::kFile || options.torch;
  if (report->state == NameState::kDead && options.remove && may) remove(directory, info, report);
  os::drop_lease(fd.get());
  return Status::ok();
}

}  // namespace

NameReport report_unopened(const std::string& leaf, const NameInfo& info) {
  NameReport report;
  report.leaf = leaf;
  report.device = info.device;
  report.inode = info.inode;
  report.nbytes = info.nbytes;
  report.allocated_nbytes = info.allocated_nbytes;
  report.uid = info.uid;
  report.mode = info.mode;
  report.age_ns = std::max<int64_t>(os::real_time_ns() - info.changed_ns, 0);
  report.why = "it is neither Tenon's nor PyTorch's";
  return report;
}

Result<NameReport> look_at(int directory, const std::string& leaf, const LookOptions& options) {
  TENON_ASSIGN(const NameInfo info, os::look_at_name(directory, leaf));
  NameReport report = report_unopened(leaf, info);
  if (info.kind == NameInfo::Kind::kOther) return report;
  if (info.kind == NameInfo::Kind::kSocket && !options.sockets) return report;
  if (!options.any_user && info.uid != os::user_id()) {
    if (by_its_name(leaf)) {
      report.kind = info.kind == NameInfo::Kind::kSocket ? NameKind::kSocket : kind_by_name(leaf);
      report.why = format("it belongs to user %u", info.uid);
    }
    return report;
  }
  TENON_TRY(info.kind == NameInfo::Kind::kSocket
                ? look_at_socket(directory, info, options, &report)
                : look_at_regular(directory, info, options, &report));
  return report;
}

Status look_at_all(const std::string& directory, const LookOptions& options,
                   const std::function<bool(const NameReport&)>& each) {
  TENON_ASSIGN(const Fd fd, os::open_directory(directory));
  Status failed;
  TENON_TRY(os::list_names(fd.get(), [&](const char* leaf) {
    Result<NameReport> report = look_at(fd.get(), leaf, options);
    if (report.is_ok()) return report.value().kind == NameKind::kOther || each(report.value());
    // A name that was removed meanwhile is no failure. A limit (RESOURCE_EXHAUSTED) would fail for
    // the following names too, so the listing stops.
    if (report.status().code() == Code::kResourceExhausted) failed = report.status();
    return failed.is_ok();
  }));
  return failed;
}

void remove_dead_sockets(int directory) noexcept {
  try {
    LookOptions options;
    options.remove = true;
    (void)os::list_names(directory, [&](const char* leaf) {
      Result<NameInfo> info = os::look_at_name(directory, leaf);
      if (info.is_ok() && info.value().kind == NameInfo::Kind::kSocket)
        (void)look_at(directory, leaf, options);
      return true;
    });
  } catch (...) {
    // No memory: the next sweep does it.
  }
}

bool remove_if_dead(int directory, const std::string& leaf) noexcept {
  try {
    LookOptions options;
    options.remove = true;
    // For PyTorch's own files this applies PyTorch's rule and no more: a count of 0 says that no
    // process is left. The maximum of min_age_ns keeps all other files of PyTorch.
    options.torch = true;
    options.min_age_ns = std::numeric_limits<int64_t>::max();
    options.sockets = false;
    Result<NameReport> report = look_at(directory, leaf, options);
    if (!report.is_ok()) return report.status().code() != Code::kResourceExhausted;
    return report.value().removed ||
           (report.value().kind == NameKind::kOther && !is_hidden(leaf)) ||
           report.value().state == NameState::kInFlight;
  } catch (...) {
    return true;  // no memory: the next sweep does it
  }
}

bool sweep_name(int directory, const std::string& leaf) noexcept {
  try {
    LookOptions options;
    options.remove = true;
    Result<NameReport> report = look_at(directory, leaf, options);
    if (!report.is_ok()) return report.status().code() != Code::kResourceExhausted;
    if (report.value().removed) return true;
    switch (report.value().kind) {
      case NameKind::kOther: return !is_hidden(leaf);
      case NameKind::kSocket: return !leaf.starts_with(kHalfMadePrefix);
      case NameKind::kFile:
      case NameKind::kTorchFile: break;
    }
    return report.value().state != NameState::kLive;
  } catch (...) {
    return true;  // no memory: the next sweep does it
  }
}

bool remove_dead_namesake(int directory, const std::string& leaf) {
  LookOptions options;
  options.remove = true;
  options.patience = 3;
  Result<NameReport> report = look_at(directory, leaf, options);
  if (!report.is_ok()) return report.status().code() == Code::kNotFound;
  if (report.value().removed) return true;
  // Another thread or process may have removed the dead name at the same moment.
  NameInfo info;
  info.device = report.value().device;
  info.inode = report.value().inode;
  return report.value().state == NameState::kDead && !still_there(directory, leaf, info);
}

}  // namespace tenon::names
