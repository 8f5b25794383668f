// `tenon doctor`: reports what the kernel lets a process do with memory files and with other
// processes. Each feature is tried out where possible.
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>

#include "doctor.h"
#include "os/fd.h"
#include "os/memfd.h"
#include "os/named_file.h"

namespace tenon::cli {
namespace {

using os::Fd;

constexpr uint64_t kPage = 4096;

Result<Fd> new_memfd() {
  TENON_ASSIGN(const os::Nonce nonce, os::random_nonce());
  return os::create_memfd(nonce, kPage);
}

bool maps_writable(int fd) noexcept {
  void* mapping = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapping == MAP_FAILED) return false;
  munmap(mapping, kPage);
  return true;
}

// Whether the seals are accepted and have their effect.
bool size_seals_hold(int fd) {
  return os::add_seals(fd, os::kSealShrink | os::kSealGrow).is_ok() && ftruncate(fd, 0) != 0 &&
         ftruncate(fd, static_cast<off_t>(2 * kPage)) != 0;
}

// Whether the lender's mapping, made before the seal, still writes, and no mapping made after it
// does.
bool future_write_seal_holds(int fd) {
  void* before = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (before == MAP_FAILED) return false;
  bool holds = os::add_seals(fd, os::kSealFutureWrite).is_ok() && !maps_writable(fd) &&
               pwrite(fd, "", 1, 0) != 1;
  if (holds) {
    *static_cast<volatile char*>(before) = 7;
    char seen = 0;
    holds = pread(fd, &seen, 1, 0) == 1 && seen == 7;
  }
  munmap(before, kPage);
  return holds;
}

bool write_seal_holds(int fd) {
  return os::add_seals(fd, os::kSealWrite).is_ok() && !maps_writable(fd) &&
         pwrite(fd, "", 1, 0) != 1;
}

std::optional<bool> try_on_memfd(bool (*holds)(int)) {
  Result<Fd> made = new_memfd();
  if (!made.is_ok()) return std::nullopt;
  const Fd fd = std::move(made).value();
  return holds(fd.get());
}

Check check_memfd() {
  Check check{.id = "memfd", .title = "memory files"};
  const auto noexec = read_number("/proc/sys/vm/memfd_noexec");
  const Result<Fd> made = new_memfd();
  check.facts = {{"works", made.is_ok()}, {"memfd_noexec", maybe(noexec)}};
  const std::string setting =
      "vm.memfd_noexec " + (noexec ? "is " + count_text(*noexec) : std::string(kUnreadable));
  if (made.is_ok()) {
    check.value = "memfd_create works; " + setting;
    return check;
  }
  check.level = Level::kFail;
  check.value = made.status().message() + "; " + setting;
  check.limits = os::is_memfd_denied(made.status())
                     ? "storages of mode LENDER_WRITES and FROZEN cannot be made, those of mode "
                       "SHARED are not sealed, and connections lend "
                       "without leases"
                     : "no storage can be made that can be lent by fd";
  check.change =
      "allow memfd_create (a seccomp profile refuses it, or RLIMIT_FSIZE or RLIMIT_NOFILE is met)";
  return check;
}

Check check_seals() {
  Check check{.id = "seals", .title = "seals"};
  const auto size = try_on_memfd(size_seals_hold);
  const auto future = try_on_memfd(future_write_seal_holds);
  const auto write = try_on_memfd(write_seal_holds);
  check.facts = {{"size", maybe(size)}, {"future_write", maybe(future)}, {"write", maybe(write)}};
  const auto word = [](const std::optional<bool>& tried) {
    return !tried ? "not tried" : *tried ? "holds" : "does not hold";
  };
  check.value = std::string("tried: SHRINK|GROW ") + word(size) + ", FUTURE_WRITE " + word(future) +
                ", WRITE " + word(write);
  if (!size || !*size) {
    check.level = Level::kFail;
    check.limits = "borrowers refuse memory that its owner can cut short";
    check.change =
        "use a kernel with memfd seals (Linux 3.17), and a container runtime that passes them on";
  } else if (!future.value_or(false) || !write.value_or(false)) {
    check.level = Level::kWarn;
    check.limits = "read-only lends (TENON_MODE_LENDER_WRITES, TENON_MODE_FROZEN) do not work";
    check.change = "use Linux 5.1 or newer";
  } else {
    check.limits =
        "lent memory cannot be cut short, and read-only lends are enforced by the kernel";
  }
  return check;
}

Check check_unsealed_copies() {
  Check check{.id = "safe_copies", .title = "safe copies"};
  const char from = 5;
  char to = 0;
  const Status read = os::copy_from_mapping(&from, &to, 1);
  const Status written = read.is_ok() ? os::copy_to_mapping(&from, &to, 1) : read;
  const bool works = read.is_ok() && written.is_ok() && to == from;
  check.facts = {{"works", works}};
  if (works) {
    check.value = "process_vm_readv and process_vm_writev on this process work";
    check.limits =
        "the library's own copies survive memory that PyTorch or a file's owner cuts short";
    return check;
  }
  check.level = Level::kWarn;
  check.value = written.message();
  check.limits =
      "files by name and other memory without seals cannot be read and written through the library";
  check.change = "allow process_vm_readv and process_vm_writev in the container's seccomp profile";
  return check;
}

Check check_proc() {
  Check check{.id = "proc", .title = "/proc"};
  const Fd self(open("/proc/self/fd/.", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  check.facts = {{"readable", self.is_open()}};
  if (self.is_open()) {
    check.value = "/proc/self/fd is there";
    return check;
  }
  check.level = Level::kFail;
  check.value = format("/proc/self/fd %s: %s", kUnreadable, strerror(errno));
  check.limits =
      "files cannot be given names, fds cannot be reopened read-only, and holders cannot be listed";
  check.change = "sudo mount -t proc proc /proc";
  return check;
}

Check check_ptrace() {
  Check check{.id = "ptrace", .title = "ptrace"};
  const auto scope = read_number("/proc/sys/kernel/yama/ptrace_scope");
  const Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  check.facts = {{"ptrace_scope", maybe(scope)}, {"pidfd", pidfd.is_open()}};
  const std::string pidfds = pidfd.is_open() ? "pidfds work" : "no pidfds";
  if (!scope) {
    check.value = "no Yama restriction (kernel.yama.ptrace_scope " + std::string(kUnreadable) +
                  "); " + pidfds;
    return check;
  }
  check.value = "kernel.yama.ptrace_scope is " + count_text(*scope) + "; " + pidfds;
  if (*scope > 0) {
    check.level = Level::kNote;
    const char* who = *scope == 1   ? "a process's ancestors"
                      : *scope == 2 ? "processes with CAP_SYS_PTRACE"
                                    : "nobody";
    check.limits = std::string("Tenon does not need it. pidfd_getfd works for ") + who +
                   " only: debuggers, and PyTorch's CUDA memory in expandable segments, need it";
    check.change = "sudo sysctl kernel.yama.ptrace_scope=0";
  }
  return check;
}

Check check_inotify() {
  Check check{.id = "inotify", .title = "inotify"};
  const auto instances = read_number("/proc/sys/fs/inotify/max_user_instances");
  const auto watches = read_number("/proc/sys/fs/inotify/max_user_watches");
  const Fd fd(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  const int error = errno;
  check.facts = {{"max_user_instances", maybe(instances)},
                 {"max_user_watches", maybe(watches)},
                 {"works", fd.is_open()}};
  check.value =
      "for a user: instances " + known_count(instances) + ", watches " + known_count(watches);
  constexpr uint64_t kFew = 128;
  if (!fd.is_open()) {
    check.level = Level::kWarn;
    check.value += std::string("; one more: ") + strerror(error);
    check.limits =
        "what a killed process leaves is not removed at once, but at the next call of anyone that "
        "looks";
    check.change = "sudo sysctl fs.inotify.max_user_instances=8192";
  } else if (instances) {
    check.limits = "each process that lends or opens by name takes one: at most " +
                   plural_text(*instances, "such process", "such processes") +
                   " of a user notice at once that another was killed";
    if (*instances < kFew) {
      check.level = Level::kNote;
      check.change = "sudo sysctl fs.inotify.max_user_instances=8192";
    }
  }
  return check;
}

Check check_backlog() {
  Check check{.id = "backlog", .title = "socket backlog"};
  const auto most = read_number("/proc/sys/net/core/somaxconn");
  check.facts = {{"somaxconn", maybe(most)}};
  if (!most) {
    check.level = Level::kNote;
    check.value = std::string("net.core.somaxconn ") + kUnreadable;
    return check;
  }
  check.value = "net.core.somaxconn is " + count_text(*most);
  check.limits = "at most " + plural_text(*most, "borrower waits", "borrowers wait") +
                 " at one socket or manager at a time; more wait in their own call";
  if (*most < 128) {
    check.level = Level::kNote;
    check.change = "sudo sysctl net.core.somaxconn=4096";
  }
  return check;
}

Check check_landlock() {
  Check check{.id = "landlock", .title = "Landlock"};
  const long abi =
      syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  const int error = errno;
  check.facts = {{"abi", abi > 0 ? Json(abi) : Json(nullptr)}};
  if (abi > 0) {
    check.value = format("ABI %ld", abi);
    check.limits = "tenon-manager confines itself to one directory";
    return check;
  }
  check.level = Level::kNote;
  check.value = std::string("none: ") + strerror(error);
  check.limits = "tenon-manager cannot confine itself to one directory";
  if (error == EOPNOTSUPP) check.change = "boot with lsm=landlock,… on the kernel's command line";
  return check;
}

}  // namespace

void check_kernel(Checks* out) {
  out->push_back(check_memfd());
  out->push_back(check_seals());
  out->push_back(check_unsealed_copies());
  out->push_back(check_proc());
  out->push_back(check_ptrace());
  out->push_back(check_inotify());
  out->push_back(check_backlog());
  out->push_back(check_landlock());
}

}  // namespace tenon::cli
