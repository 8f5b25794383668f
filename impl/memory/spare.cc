#include "memory/spare.h"

#include <array>
#include <atomic>
#include <string>
#include <string_view>

#include "memory/arena.h"
#include "memory/segment.h"

namespace tenon::memory {
namespace {

constexpr size_t kMostFunctions = 4;

std::array<std::atomic<SpareFunction>, kMostFunctions> g_functions{};

// A limit that may be met because Tenon keeps something, and what the caller can do when Tenon
// keeps nothing any more.
struct Shortage {
  std::string_view limit;
  bool is_prefix;
  const char* remedy;
};

constexpr std::string_view kDeviceMemory = "device memory";
constexpr const char* kRoom =
    "release storages, remove names that nobody needs (tenon gc), or make the file system larger";

constexpr std::array kShortages{
    Shortage{"MemAvailable", false, "release storages, or free memory of the machine"},
    Shortage{"memory", false, "release storages, or free memory of the machine"},
    Shortage{"memory cgroup ", true,
             "release storages, or raise the memory limit of the container"},
    Shortage{"memory node ", true, "release storages, or take memory of another node"},
    Shortage{"RLIMIT_NOFILE", false, "close fds, release storages, or raise the limit (ulimit -n)"},
    Shortage{"fs.file-max", false, "close fds, or raise the limit (sysctl fs.file-max)"},
    Shortage{"vm.max_map_count", false,
             "release storages, put small ones into one arena, or raise the limit (sysctl "
             "vm.max_map_count)"},
    Shortage{"RLIMIT_AS", false, "release storages, or raise the limit (ulimit -v)"},
    Shortage{"address space", false, "release storages, or give arenas a smaller capacity"},
    Shortage{"size of ", true,
             "release named storages, remove names that nobody needs (tenon gc), make it larger "
             "(docker run --shm-size), or name another "
             "directory"},
    Shortage{"file system space", false, kRoom},
    Shortage{"disk quota", false, kRoom},
    Shortage{kDeviceMemory, false, "release memory of the device, here or in other processes"},
};

const std::string* find_detail(const Status& status, std::string_view key) noexcept {
  if (!status.info()) return nullptr;
  for (const Detail& each : status.info()->details) {
    if (each.key == key) return &each.value;
  }
  return nullptr;
}

const Shortage* find_shortage(const Status& status) noexcept {
  if (status.code() != Code::kResourceExhausted) return nullptr;
  const std::string* const limit = find_detail(status, "limit");
  if (limit == nullptr) return nullptr;
  for (const Shortage& each : kShortages) {
    if (each.is_prefix ? std::string_view(*limit).starts_with(each.limit) : *limit == each.limit)
      return &each;
  }
  return nullptr;
}

// Returns the limit and its value, or nothing if the message names the limit already.
std::string describe_limit(const Status& status) {
  const std::string& limit = *find_detail(status, "limit");
  if (status.message().find(limit) != std::string::npos) return {};
  const std::string* const value = find_detail(status, "limit_value");
  return " (" + limit + (value != nullptr ? " is " + *value : std::string(" is met")) + ")";
}

}  // namespace

void register_spare(SpareFunction give_back) noexcept {
  for (std::atomic<SpareFunction>& place : g_functions) {
    SpareFunction none = nullptr;
    if (place.compare_exchange_strong(none, give_back)) return;
  }
}

void give_back_spare() noexcept {
  for (const std::atomic<SpareFunction>& each : g_functions) {
    if (const SpareFunction give_back = each.load(); give_back != nullptr) give_back();
  }
  (void)trim_arena();
}

bool is_shortage(const Status& status) noexcept { return find_shortage(status) != nullptr; }

Status describe_shortage(const Status& status) {
  const Shortage* const shortage = find_shortage(status);
  if (shortage == nullptr) return status;
  // The code that asked for device memory has added how much this process has.
  if (shortage->limit == kDeviceMemory) {
    return Status(status.code(), status.message() + "; " + shortage->remedy)
        .with_details_of(status);
  }
  const ArenaTotals held = arena_totals();
  const SegmentTotals& segments = segment_totals();
  Status told(status.code(), format("%s%s: %s; this process has made %llu bytes of shared memory "
                                    "in %llu segments with %llu fds, and of its arenas %llu bytes "
                                    "are in storages, %llu are lent and in no storage, %llu are "
                                    "retired, and %llu are kept for later",
                                    status.message().c_str(), describe_limit(status).c_str(),
                                    shortage->remedy, as_llu(segments.reserved_nbytes.load()),
                                    as_llu(segments.segments.load()), as_llu(segments.fds.load()),
                                    as_llu(held.live_nbytes), as_llu(held.lent_nbytes),
                                    as_llu(held.retired_nbytes), as_llu(held.kept_nbytes)));
  return std::move(told)
      .with_details_of(status)
      .with("live", held.live_nbytes)
      .with("lent", held.lent_nbytes)
      .with("retired", held.retired_nbytes)
      .with("kept", held.kept_nbytes);
}

}  // namespace tenon::memory
