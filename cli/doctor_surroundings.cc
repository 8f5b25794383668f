// `tenon doctor`: reports the namespaces of this process, what happens at the end of the session,
// and the manager.
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "doctor.h"
#include "names/filename.h"
#include "names/manager.h"
#include "os/fd.h"
#include "os/local_socket.h"
#include "os/peer.h"
#include "os/process.h"
#include "os/wait.h"

namespace tenon::cli {
namespace {

namespace fs = std::filesystem;

struct Namespace {
  const char* name;       // under /proc/self/ns
  uint64_t initial;       // the inode number of the initial namespace
  const char* elsewhere;  // the meaning of being in another namespace than the initial one
};

// The kernel's own numbers (include/linux/proc_ns.h). The number of the mount namespace is fixed
// only since Linux 6.17. Before that it was one of the first that are handed out.
constexpr Namespace kNamespaces[] = {
    {"pid", 0xeffffffcU,
     "pids and /proc/<pid>/fd mean something in this container only: descriptors that travel as "
     "bytes do not leave it"},
    {"ipc", 0xefffffffU, "nothing: Tenon and PyTorch use files, not System V memory"},
    {"user", 0xeffffffdU, "user ids may be others outside: names of other users cannot be judged"},
    {"mnt", 0xeffffff8U,
     "names are seen by processes only that have the same directory mounted; share it by a bind "
     "mount"},
};

std::optional<uint64_t> namespace_of(const char* process, const char* name) {
  std::error_code error;
  const std::string link =
      fs::read_symlink(format("/proc/%s/ns/%s", process, name), error).string();
  const size_t open = link.find('[');
  if (error || open == std::string::npos) return std::nullopt;
  return parse_count(std::string_view(link).substr(open + 1));
}

bool has_fixed_mount_number() {
  utsname names{};
  unsigned major = 0;
  unsigned minor = 0;
  if (uname(&names) != 0 || std::sscanf(names.release, "%u.%u", &major, &minor) != 2) return false;
  return major > 6 || (major == 6 && minor >= 17);
}

std::optional<bool> is_initial(const Namespace& space, uint64_t inode, bool initial_pids) {
  if (inode == space.initial) return true;
  if (std::string_view(space.name) != "mnt" || has_fixed_mount_number()) return false;
  // Compares with the namespace of the machine's first process, if that process has pid 1 here.
  const auto first = initial_pids ? namespace_of("1", "mnt") : std::nullopt;
  if (!first) return std::nullopt;
  return inode == *first;
}

Check check_namespaces() {
  Check check{.id = "namespaces", .title = "namespaces"};
  bool initial_pids = false;
  std::string limits;
  for (const Namespace& space : kNamespaces) {
    const auto inode = namespace_of("self", space.name);
    const std::optional<bool> initial =
        inode ? is_initial(space, *inode, initial_pids) : std::nullopt;
    if (std::string_view(space.name) == "pid") initial_pids = initial.value_or(false);
    check.facts[space.name] = {{"inode", maybe(inode)}, {"initial", maybe(initial)}};
    if (!check.value.empty()) check.value += ", ";
    check.value += std::string(space.name) + " " +
                   (!inode     ? kUnreadable
                    : !initial ? "unknown"
                    : *initial ? "initial"
                               : "its own");
    if (initial && !*initial) {
      check.level = Level::kNote;
      limits += (limits.empty() ? "" : ". ") + std::string(space.name) + ": " + space.elsewhere;
    }
  }
  check.limits = limits;
  return check;
}

Check check_user_namespaces() {
  Check check{.id = "user_namespaces", .title = "user namespaces"};
  const auto most = read_number("/proc/sys/user/max_user_namespaces");
  // This is a setting of Debian's kernels.
  const auto unprivileged = read_number("/proc/sys/kernel/unprivileged_userns_clone");
  // This is a setting of Ubuntu's kernels.
  const auto restricted = read_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
  check.facts = {{"max_user_namespaces", maybe(most)},
                 {"unprivileged_userns_clone", maybe(unprivileged)},
                 {"apparmor_restrict_unprivileged_userns", maybe(restricted)}};
  check.value =
      "user.max_user_namespaces " + (most ? "is " + count_text(*most) : std::string(kUnreadable));
  const char* change = nullptr;
  if (most && *most == 0) change = "sudo sysctl user.max_user_namespaces=15000";
  if (unprivileged && *unprivileged == 0) change = "sudo sysctl kernel.unprivileged_userns_clone=1";
  if (restricted && *restricted != 0)
    change = "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0";
  if (change != nullptr) {
    check.level = Level::kNote;
    check.limits = "Tenon does not need them. Containers without root (podman, unshare) do";
    check.change = change;
  }
  return check;
}

struct RemoveIpc {
  std::string file;  // the file with the setting; empty: no file has it
  bool on = true;    // systemd's default
};

// Reads the setting from the last file that has it, in the order in which systemd reads them.
RemoveIpc read_remove_ipc() {
  std::vector<std::string> files = {"/etc/systemd/logind.conf"};
  // The pairs of name and path are sorted by name over all folders.
  std::vector<std::pair<std::string, std::string>> dropped_in;
  for (const char* folder : {"/usr/lib/systemd/logind.conf.d", "/run/systemd/logind.conf.d",
                             "/etc/systemd/logind.conf.d"}) {
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      const std::string name = at->path().filename().string();
      if (!name.ends_with(".conf")) continue;
      std::erase_if(dropped_in, [&name](const auto& other) { return other.first == name; });
      dropped_in.emplace_back(name, at->path().string());
    }
  }
  std::sort(dropped_in.begin(), dropped_in.end());
  for (const auto& [name, path] : dropped_in) files.push_back(path);
  RemoveIpc found;
  for (const std::string& file : files) {
    const auto text = read_text(file);
    if (!text) continue;
    for (const std::string_view line : split_text(*text, '\n')) {
      constexpr std::string_view kKey = "RemoveIPC=";
      if (!line.starts_with(kKey)) continue;
      const std::string_view value = line.substr(kKey.size());
      found = {file, value.starts_with("y") || value.starts_with("t") || value.starts_with("1") ||
                         value.starts_with("on")};
    }
  }
  return found;
}

Check check_session(const std::string& directory) {
  Check check{.id = "session_end", .title = "end of session"};
  struct stat info{};
  // sd_booted() checks the first folder, and logind makes the second.
  const bool logind =
      stat("/run/systemd/system", &info) == 0 && stat("/run/systemd/seats", &info) == 0;
  const RemoveIpc remove = read_remove_ipc();
  constexpr uid_t kSystemUsers = 1000;
  const bool spared = geteuid() < kSystemUsers || directory != names::kSharedMemory;
  check.facts = {{"logind", logind},
                 {"remove_ipc", remove.on},
                 {"remove_ipc_file", remove.file.empty() ? Json(nullptr) : Json(remove.file)}};
  if (!logind) {
    check.value = "no systemd-logind here: names stay when a user logs out";
    return check;
  }
  check.value = std::string("systemd-logind's RemoveIPC is ") + (remove.on ? "on" : "off") + " (" +
                (remove.file.empty() ? "its default" : remove.file) + ")";
  if (!remove.on) return check;
  if (spared) {
    check.limits =
        "it spares users below 1,000 and directories other than /dev/shm, so it does not concern "
        "this user here";
    return check;
  }
  check.level = remove.file.empty() ? Level::kNote : Level::kWarn;
  check.limits =
      "when this user's last session ends, every name of theirs in /dev/shm goes, also those of "
      "jobs that still run";
  check.change = "sudo loginctl enable-linger $USER";
  return check;
}

// Connects to the manager, which makes this process its client for a moment. The manager notices
// nothing else.
Check check_manager() {
  Check check{.id = "manager", .title = "manager"};
  const std::string path = names::manager_socket();
  check.facts = {{"socket", path}, {"running", false}, {"pid", nullptr}};
  os::Waiter waiter({.timeout_ns = 0});
  Result<os::Fd> connected = os::connect_local(os::SocketKind::kStream, path, &waiter);
  if (!connected.is_ok()) {
    const Code code = connected.status().code();
    check.value = "not running; it is started when a process of PyTorch's must open by name";
    if (code != Code::kNotFound) {
      check.level = code == Code::kPeerGone ? Level::kOk : Level::kNote;
      check.value = code == Code::kPeerGone
                        ? "not running any more; the next one takes its place at " + path
                        : connected.status().message();
    }
    return check;
  }
  Result<os::Peer> peer = os::peer_of(connected.value().get());
  // The kernel gives the pid that called listen(), which may be a parent that is gone.
  const pid_t pid = peer.is_ok() && os::process_facts(peer.value().pid) ? peer.value().pid : 0;
  check.facts = {{"socket", path}, {"running", true}, {"pid", pid > 0 ? Json(pid) : Json(nullptr)}};
  check.value = pid > 0 ? format("pid %d listens on %s", pid, path.c_str()) : "running on " + path;
  if (peer.is_ok() && !os::is_own_or_root(peer.value())) {
    check.level = Level::kWarn;
    check.value += format(", but belongs to user %u", peer.value().uid);
    check.limits = "Tenon does not trust it, and starts one of its own in another place";
  }
  return check;
}

}  // namespace

void check_surroundings(const std::string& directory, Checks* out) {
  out->push_back(check_namespaces());
  out->push_back(check_user_namespaces());
  out->push_back(check_session(directory));
  out->push_back(check_manager());
}

}  // namespace tenon::cli
