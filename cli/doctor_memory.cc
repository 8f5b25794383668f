// `tenon doctor`: reports how much memory there is, how much of it cgroups allow, and its pages.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>

#include "doctor.h"
#include "os/limits.h"

namespace tenon::cli {
namespace {

constexpr uint64_t kMargin = uint64_t{16} << 20;

struct Met {
  std::string limit;
  uint64_t left = 0;
};

// The limit that an allocation of this size would meet first. Every allocation of Tenon asks
// ask_headroom().
std::optional<Met> limit_met(uint64_t wanted) {
  const Status status = os::ask_headroom(wanted);
  if (status.is_ok()) return std::nullopt;
  const std::string limit(status.detail("limit"));
  const std::string left(status.detail("left"));
  if (limit.empty() || left.empty() || limit == "RLIMIT_NOFILE") return std::nullopt;
  return Met{limit, parse_count(left).value_or(0)};
}

// Finds the tightest limit. Each answer names one limit. A request for less than that limit leaves
// can fail only at a tighter limit.
std::optional<Met> tightest_cgroup() {
  std::optional<Met> tightest;
  uint64_t wanted = UINT64_MAX / 2;
  for (int steps = 0; steps < 64; ++steps) {
    const std::optional<Met> met = limit_met(wanted);
    if (!met) return tightest;
    if (met->limit != "MemAvailable") tightest = met;
    if (met->left <= kMargin) return tightest;
    wanted = met->left - kMargin;
  }
  return tightest;
}

Level level_for(uint64_t left) noexcept {
  return left < kMargin                     ? Level::kFail
         : left < 4 * kDefaultSegmentNbytes ? Level::kWarn
                                            : Level::kOk;
}

std::string room_text(uint64_t left) {
  return "room for " + plural_text(left / kDefaultSegmentNbytes, "segment", "segments") + " of " +
         size_text(kDefaultSegmentNbytes);
}

Check check_available() {
  Check check{.id = "memory", .title = "memory"};
  const std::string meminfo = read_text("/proc/meminfo").value_or("");
  const auto total = find_number(meminfo, "MemTotal:");
  const auto available = find_number(meminfo, "MemAvailable:");
  if (!total || !available) {
    check.level = Level::kNote;
    check.value = std::string("/proc/meminfo ") + kUnreadable;
    check.limits = "Tenon cannot refuse an allocation before the kernel kills for it";
    return check;
  }
  check.facts = {{"total_nbytes", *total * 1024}, {"available_nbytes", *available * 1024}};
  check.level = level_for(*available * 1024);
  check.value = size_text(*available * 1024) + " of " + size_text(*total * 1024) + " available";
  check.limits = room_text(*available * 1024);
  if (check.level != Level::kOk) check.change = "ps -eo pid,rss,args --sort=-rss | head";
  return check;
}

Check check_cgroup() {
  Check check{.id = "memory_cgroup", .title = "memory cgroup"};
  const auto cgroups = read_text("/proc/self/cgroup");
  if (!cgroups) {
    check.level = Level::kNote;
    check.value = std::string("/proc/self/cgroup ") + kUnreadable;
    check.limits = "if there is a limit, who passes it is killed, and Tenon cannot see it coming";
    return check;
  }
  const auto met = tightest_cgroup();
  check.facts = {{"limit", nullptr}, {"left_nbytes", nullptr}};
  if (!met) {
    check.value = "no limit that is tighter than the machine's memory";
    return check;
  }
  check.facts = {{"limit", met->limit}, {"left_nbytes", met->left}};
  check.level = level_for(met->left);
  check.value = size_text(met->left) + " left of " + met->limit;
  check.limits =
      room_text(met->left) +
      "; shared memory is charged to who touches it first. Tenon refuses what would pass the limit";
  if (check.level != Level::kOk)
    check.change = "raise memory.max of that cgroup (Docker: --memory, systemd: MemoryMax=)";
  return check;
}

Check check_huge_pages() {
  Check check{.id = "huge_pages", .title = "huge pages"};
  const auto meminfo = read_text("/proc/meminfo");
  const auto total = meminfo ? find_number(*meminfo, "HugePages_Total:") : std::nullopt;
  const auto free_count = meminfo ? find_number(*meminfo, "HugePages_Free:") : std::nullopt;
  const uint64_t page_nbytes =
      meminfo ? find_number(*meminfo, "Hugepagesize:").value_or(0) * 1024 : 0;
  const auto shmem = read_text("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  std::optional<std::string> chosen;  // the word in brackets
  if (shmem) {
    const size_t open = shmem->find('[');
    const size_t close = shmem->find(']');
    if (open != std::string::npos && close != std::string::npos && close > open)
      chosen = shmem->substr(open + 1, close - open - 1);
  }
  check.facts = {{"total", maybe(total)},
                 {"free", maybe(free_count)},
                 {"page_nbytes", page_nbytes != 0 ? Json(page_nbytes) : Json(nullptr)},
                 {"shmem_enabled", maybe(chosen)}};
  check.value = "pool: " + known_count(free_count) + " of " + known_count(total) + " free, " +
                (page_nbytes != 0 ? size_text(page_nbytes) : std::string("unknown size")) +
                " each; ";
  check.value += "for shared memory: " + chosen.value_or(kUnreadable);
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (chosen && (*chosen == "never" || *chosen == "deny")) {
    check.level = Level::kNote;
    check.limits = "a segment of " + size_text(kDefaultSegmentNbytes) + " is " +
                   count_text(kDefaultSegmentNbytes / page) + " pages of " + size_text(page) +
                   ": more page faults and address look-ups than with huge ones";
    check.change = "echo within_size | sudo tee /sys/kernel/mm/transparent_hugepage/shmem_enabled";
  }
  return check;
}

}  // namespace

void check_memory(Checks* out) {
  out->push_back(check_available());
  out->push_back(check_cgroup());
  out->push_back(check_huge_pages());
}

}  // namespace tenon::cli
