#include "os/confine.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "os/fd.h"

namespace tenon::os {
namespace {

// The structs and numbers of Landlock from the kernel's documentation (userspace-api/landlock). The
// headers of older distributions lack the later ones.
struct RulesetAttributes {
  uint64_t handled_access_fs;
  uint64_t handled_access_net;
  uint64_t scoped;
};
struct [[gnu::packed]] PathBeneathAttributes {
  uint64_t allowed_access;
  int32_t parent_fd;
};
constexpr long kCreateRuleset = 444;
constexpr long kAddRule = 445;
constexpr long kRestrictSelf = 446;
constexpr uint32_t kAskVersion = 1;
constexpr int kRulePathBeneath = 1;

constexpr uint64_t kReadFile = 1 << 2;
constexpr uint64_t kReadFolder = 1 << 3;
constexpr uint64_t kRemoveFolder = 1 << 4;
constexpr uint64_t kRemoveFile = 1 << 5;
constexpr uint64_t kMakeSocket = 1 << 9;

// The ruleset that refuses every access which version `abi` knows, unless a rule allows it.
RulesetAttributes all_that(long abi) noexcept {
  constexpr uint64_t kFirst = (uint64_t{1} << 13) - 1;
  RulesetAttributes all{kFirst, 0, 0};
  if (abi >= 2) all.handled_access_fs |= 1 << 13;  // refer
  if (abi >= 3) all.handled_access_fs |= 1 << 14;  // truncate
  if (abi >= 5) all.handled_access_fs |= 1 << 15;  // ioctl of devices
  if (abi >= 4) all.handled_access_net = 3;        // bind, connect of TCP
  if (abi >= 6) all.scoped = 3;                    // abstract sockets, signals
  return all;
}

size_t size_of_attributes(long abi) noexcept {
  if (abi >= 6) return sizeof(RulesetAttributes);
  return abi >= 4 ? 2 * sizeof(uint64_t) : sizeof(uint64_t);
}

Result<bool> landlock(std::span<const AllowedPlace> places) {
  const long abi = ::syscall(kCreateRuleset, nullptr, size_t{0}, kAskVersion);
  if (abi < 1) return false;
  const RulesetAttributes all = all_that(abi);
  const Fd ruleset(static_cast<int>(::syscall(kCreateRuleset, &all, size_of_attributes(abi), 0U)));
  if (!ruleset.is_open()) return errno_status(errno, "making a Landlock ruleset");
  for (const AllowedPlace& place : places) {
    const Fd folder(::open(place.path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!folder.is_open())
      return errno_status(errno, "directory " + place.path).with("path", place.path);
    PathBeneathAttributes rule{0, folder.get()};
    if (place.read) rule.allowed_access |= kReadFile | kReadFolder;
    if (place.remove_files) rule.allowed_access |= kRemoveFile;
    if (place.rename_sockets) rule.allowed_access |= kRemoveFile | kMakeSocket;
    if (place.remove_folders) rule.allowed_access |= kRemoveFolder;
    if (::syscall(kAddRule, ruleset.get(), kRulePathBeneath, &rule, 0U) != 0)
      return errno_status(errno, "a Landlock rule for " + place.path).with("path", place.path);
  }
  if (::syscall(kRestrictSelf, ruleset.get(), 0U) != 0)
    return errno_status(errno, "entering a Landlock ruleset");
  return true;
}

}  // namespace

Result<bool> confine(std::span<const AllowedPlace> places) {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return errno_status(errno, "giving up new privileges");
  Result<bool> landlocked = landlock(places);
  if (!landlocked.is_ok()) return landlocked;
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3]{};
  if (::syscall(SYS_capset, &header, none) != 0)
    return errno_status(errno, "giving up capabilities");
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return errno_status(errno, "giving up core dumps");
  return landlocked;
}

void raise_fd_limit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace tenon::os
