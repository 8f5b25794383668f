#include "os/limits.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/process_state.h"
#include "os/fd.h"
#include "os/small_file.h"
#include "os/socket.h"

namespace tenon::os {
namespace {

// Page tables, slabs and the like need memory on top of the requested bytes.
constexpr uint64_t kHeadroomMargin = uint64_t{2} << 20;
constexpr uint64_t kUnlimited = UINT64_MAX;
constexpr int64_t kFreshNs = 50'000'000;
constexpr int64_t kDiscoverNs = 1'000'000'000;

std::vector<std::string_view> split_text(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  size_t at = 0;
  for (;;) {
    const size_t end = text.find(separator, at);
    parts.push_back(text.substr(at, end - at));
    if (end == std::string_view::npos) return parts;
    at = end + 1;
  }
}

// One level of a memory cgroup hierarchy.
struct Level {
  std::string directory;
  bool v2;

  // The bytes that may still be taken below this level, and its limit.
  uint64_t free_nbytes(uint64_t* limit_nbytes, bool* no_fd) const {
    const uint64_t limit = parse_number(
        read_small_file(directory + (v2 ? "/memory.max" : "/memory.limit_in_bytes"), no_fd),
        kUnlimited);  // "max" is no number
    *limit_nbytes = limit;
    if (limit >= (uint64_t{1} << 62)) return kUnlimited;
    const uint64_t usage = parse_number(
        read_small_file(directory + (v2 ? "/memory.current" : "/memory.usage_in_bytes"), no_fd), 0);
    const std::string stat = read_small_file(directory + "/memory.stat", no_fd);
    // The kernel can drop the page cache of files at any time. Shared memory is on the anonymous
    // lists and not in these counts.
    const uint64_t cache =
        v2 ? find_field(stat, "inactive_file ", 0) + find_field(stat, "active_file ", 0)
           : find_field(stat, "total_inactive_file ", 0) +
                 find_field(stat, "total_active_file ", 0);
    const uint64_t held = usage > cache ? usage - cache : 0;
    return limit > held ? limit - held : 0;
  }
  bool is_limited(bool* no_fd) const {
    return parse_number(
               read_small_file(directory + (v2 ? "/memory.max" : "/memory.limit_in_bytes"), no_fd),
               kUnlimited) < (uint64_t{1} << 62);
  }
};

// The mount point of a hierarchy, and the cgroup that is the root of the mount (not "/" inside a
// container).
struct Mount {
  std::string point;
  std::string root;
};

bool find_mount(std::string_view mountinfo, bool v2, Mount* out) {
  for (const std::string_view line : split_text(mountinfo, '\n')) {
    const size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    const auto before = split_text(line.substr(0, dash), ' ');
    const auto after = split_text(line.substr(dash + 3), ' ');
    if (before.size() < 5 || after.size() < 3) continue;
    if (v2 ? after[0] != "cgroup2" : after[0] != "cgroup") continue;
    if (!v2) {
      const auto options = split_text(after[2], ',');
      if (std::find(options.begin(), options.end(), "memory") == options.end()) continue;
    }
    out->root = std::string(before[3]);
    out->point = std::string(before[4]);
    return true;
  }
  return false;
}

void add_levels(const Mount& mount, std::string_view path, bool v2, std::vector<Level>* out) {
  if (mount.root != "/" && path.starts_with(mount.root)) path.remove_prefix(mount.root.size());
  std::string below(path);
  while (!below.empty() && below != "/") {
    out->push_back({mount.point + below, v2});
    below.erase(below.rfind('/'));
  }
  out->push_back({mount.point, v2});
}

std::vector<Level> discover_levels(bool* no_fd) {
  std::vector<Level> levels;
  const std::string mounts = read_small_file("/proc/self/mountinfo", no_fd);
  const std::string cgroups = read_small_file("/proc/self/cgroup", no_fd);
  for (const std::string_view line : split_text(cgroups, '\n')) {
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const bool v2 = controllers.empty();
    const auto names = split_text(controllers, ',');
    if (!v2 && std::find(names.begin(), names.end(), "memory") == names.end()) continue;
    Mount mount;
    if (find_mount(mounts, v2, &mount)) add_levels(mount, line.substr(second + 1), v2, &levels);
  }
  std::erase_if(levels, [no_fd](const Level& level) { return !level.is_limited(no_fd); });
  return levels;
}

int64_t coarse_now() noexcept {
  struct timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Reading the limits takes tens of microseconds. So each OK leaves a credit, a small part of the
// free memory, from which small requests are granted for kFreshNs.
struct LimitsState : ProcessState<LockRank::kMemoryLimits> {
  uint64_t credit = 0;
  int64_t asked_ns = 0;
  int64_t discovered_ns = 0;
  std::vector<Level> levels;

  void in_child() noexcept {
    credit = 0;  // a child is often moved to another cgroup
    discovered_ns = 0;
  }
};

LimitsState& limits_state() noexcept { return process_state<LimitsState>(); }

Status headroom_refused(uint64_t wanted, uint64_t free_nbytes, const std::string& limit,
                        uint64_t limit_nbytes) {
  return Status(Code::kResourceExhausted,
                format("%llu bytes of memory are needed, and %llu of %llu are left (%s)",
                       as_llu(wanted), as_llu(free_nbytes), as_llu(limit_nbytes), limit.c_str()))
      .with("limit", limit)
      .with("limit_value", limit_nbytes)
      .with("left", free_nbytes)
      .with("wanted", wanted);
}

Status blind(uint64_t wanted) {
  return with_fd_limit(
      Status(Code::kResourceExhausted,
             format("%llu bytes of memory are needed, and no fd is left to read how much is free",
                    static_cast<unsigned long long>(wanted)))
          .with("limit", std::string("RLIMIT_NOFILE"))
          .with("wanted", wanted));
}

}  // namespace

uint64_t fd_limit() noexcept {
  struct rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? uint64_t{limit.rlim_cur} : 0;
}

uint64_t machine_nbytes() noexcept {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) : 0;
}

bool has_spare_fds() noexcept {
  const uint64_t limit = fd_limit();
  const std::optional<uint64_t> open = open_fd_count();
  return !open || limit == 0 || *open + std::max<uint64_t>(limit / 8, 16) <= limit;
}

Status with_fd_limit(Status status) {
  if (status.detail("limit") != "RLIMIT_NOFILE") return status;
  return std::move(status).with("limit_value", fd_limit());
}

Status with_path(Status status, const std::string& path) {
  return std::move(status).with("path", path);
}

Status ask_headroom(uint64_t nbytes) {
  LimitsState& all = limits_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const int64_t now = coarse_now();
  if (nbytes <= all.credit && now - all.asked_ns < kFreshNs) {
    all.credit -= nbytes;
    return Status::ok();
  }
  all.credit = 0;
  // Without an fd the limits cannot be read. Then the request is refused, and nothing is
  // remembered.
  bool no_fd = false;
  if (all.discovered_ns == 0 || now - all.discovered_ns > kDiscoverNs) {
    std::vector<Level> levels = discover_levels(&no_fd);
    if (no_fd) return blind(nbytes);
    all.levels = std::move(levels);
    all.discovered_ns = now;
  }
  uint64_t need = 0;
  if (__builtin_add_overflow(nbytes, kHeadroomMargin, &need)) need = kUnlimited;
  uint64_t least = kUnlimited;
  const std::string meminfo = read_small_file("/proc/meminfo", &no_fd);
  if (no_fd) return blind(nbytes);
  const uint64_t available_kib = find_field(meminfo, "MemAvailable:", kUnlimited / 1024);
  least = std::min(least, available_kib * 1024);
  if (least < need)
    return headroom_refused(nbytes, least, "MemAvailable",
                            find_field(meminfo, "MemTotal:", 0) * 1024);
  for (const Level& level : all.levels) {
    uint64_t limit_nbytes = 0;
    const uint64_t free_nbytes = level.free_nbytes(&limit_nbytes, &no_fd);
    if (no_fd) return blind(nbytes);
    if (free_nbytes < need)
      return headroom_refused(nbytes, free_nbytes, "memory cgroup " + level.directory,
                              limit_nbytes);
    least = std::min(least, free_nbytes);
  }
  all.credit = std::min(kReserveChunk, (least - need) / 4);
  all.asked_ns = now;
  return Status::ok();
}

uint64_t file_size_limit() noexcept {
  struct rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnlimited;
  return limit.rlim_cur;
}

Status check_file_size(uint64_t nbytes) {
  const uint64_t limit = file_size_limit();
  if (nbytes <= limit) return Status::ok();
  return Status(Code::kResourceExhausted,
                format("a segment of %llu bytes is over RLIMIT_FSIZE (%llu bytes): raise that "
                       "limit (ulimit -f), or make smaller storages",
                       static_cast<unsigned long long>(nbytes),
                       static_cast<unsigned long long>(limit)))
      .with("limit", std::string("RLIMIT_FSIZE"))
      .with("limit_value", limit)
      .with("wanted", nbytes);
}

namespace {

// Counts in small pieces: at the limit of mappings the file has megabytes, and malloc gets no
// mapping for them then.
uint64_t count_mappings() noexcept {
  const Fd fd(open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  uint64_t count = 0;
  char buffer[4096];
  for (;;) {
    const ssize_t got = fd.is_open() ? read(fd.get(), buffer, sizeof buffer) : 0;
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return count;
    count += static_cast<uint64_t>(std::count(buffer, buffer + got, '\n'));
  }
}

}  // namespace

uint64_t max_map_count() noexcept {
  static constinit std::atomic<uint64_t> known{0};
  if (const uint64_t most = known.load(std::memory_order_relaxed); most != 0) return most;
  constexpr uint64_t kUsual = 65530;
  try {
    bool no_fd = false;
    const uint64_t most =
        parse_number(read_small_file("/proc/sys/vm/max_map_count", &no_fd), kUsual);
    if (!no_fd) known.store(most, std::memory_order_relaxed);
    return most;
  } catch (...) {
    return kUsual;  // no memory
  }
}

Status mapping_limit_status(uint64_t nbytes) {
  bool no_fd = false;
  const uint64_t most =
      parse_number(read_small_file("/proc/sys/vm/max_map_count", &no_fd), kUnlimited);
  const uint64_t count = count_mappings();
  std::string limit = "address space";
  uint64_t value = 0;
  struct rlimit space{};
  // One line of maps may be no mapping that counts ([vsyscall]), and the kernel stops one mapping
  // short of the limit.
  if (count + 2 >= most) {
    limit = "vm.max_map_count";
    value = most;
  } else if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) {
    limit = "RLIMIT_AS";
    value = space.rlim_cur;
  }
  return Status(Code::kResourceExhausted,
                format("no room to map %llu bytes: %s (%llu mappings in use)",
                       static_cast<unsigned long long>(nbytes), limit.c_str(),
                       static_cast<unsigned long long>(count)))
      .with("errno", ENOMEM)
      .with("limit", limit)
      .with("limit_value", value)
      .with("wanted", nbytes);
}

}  // namespace tenon::os
