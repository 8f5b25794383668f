// `tenon doctor`: reports the limits of this process, which are those of the shell that started it:
// fds, mappings, address space, locked memory and file size.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>

#include "doctor.h"

namespace tenon::cli {
namespace {

struct Limit {
  std::optional<uint64_t> soft;  // nothing: no limit
  std::optional<uint64_t> hard;
};

bool ask(int resource, Limit* out) {
  struct rlimit limit{};
  if (getrlimit(static_cast<decltype(RLIMIT_NOFILE)>(resource), &limit) != 0) return false;
  if (limit.rlim_cur != RLIM_INFINITY) out->soft = limit.rlim_cur;
  if (limit.rlim_max != RLIM_INFINITY) out->hard = limit.rlim_max;
  return true;
}

std::string amount(const std::optional<uint64_t>& limit, std::string (*text)(uint64_t)) {
  return limit ? text(*limit) : "unlimited";
}

Json facts_of(const Limit& limit) {
  return {{"soft", maybe(limit.soft)}, {"hard", maybe(limit.hard)}};
}

// Gives the shell's own command if the hard limit allows it, and otherwise the command with which
// root raises the limit of this shell.
std::string raise_command(const Limit& limit, uint64_t wanted, const char* flag, uint64_t unit,
                          const char* name) {
  if (!limit.hard || *limit.hard >= wanted)
    return format("ulimit %s %llu", flag, static_cast<unsigned long long>(wanted / unit));
  return format("sudo prlimit --pid $$ --%s=%llu:%llu", name,
                static_cast<unsigned long long>(wanted), static_cast<unsigned long long>(wanted));
}

std::optional<uint64_t> count_entries(const char* directory) {
  std::error_code error;
  uint64_t count = 0;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error))
    ++count;
  if (error) return std::nullopt;
  return count;
}

Check check_fds() {
  Check check{.id = "open_files", .title = "open files"};
  Limit limit;
  if (!ask(RLIMIT_NOFILE, &limit)) {
    check.level = Level::kNote;
    check.value = kUnreadable;
    return check;
  }
  // The count includes the fd that counting itself uses.
  std::optional<uint64_t> used = count_entries("/proc/self/fd");
  if (used) used = std::max<uint64_t>(*used, 1) - 1;
  check.facts = facts_of(limit);
  check.facts["used"] = maybe(used);
  check.value = amount(limit.soft, count_text) + " fds for a process (hard limit " +
                amount(limit.hard, count_text) + "), " + known_count(used, "an unknown number") +
                " in use here";
  if (!limit.soft) return check;
  const uint64_t left = *limit.soft - std::min(used.value_or(3), *limit.soft);
  // This many fds are enough for a connection, the library's thread, a segment, and the fds that
  // opening a segment needs for a moment.
  constexpr uint64_t kLeast = 16;
  constexpr uint64_t kFew = 1024;
  constexpr uint64_t kPlenty = 4096;
  check.facts["left"] = left;
  check.limits = "by fd: PyTorch about " + plural_text(left, "tensor", "tensors") +
                 ", one fd each; Tenon " + plural_text(left, "segment", "segments") + " of " +
                 size_text(kDefaultSegmentNbytes) + " (" + size_text(left * kDefaultSegmentNbytes) +
                 ") with any number of tensors. By name, a file takes no fd";
  if (*limit.soft < kPlenty) {
    check.level = left < kLeast ? Level::kFail : *limit.soft < kFew ? Level::kWarn : Level::kNote;
    check.change = raise_command(limit, 65536, "-n", 1, "nofile");
  }
  return check;
}

Check check_mappings() {
  Check check{.id = "mappings", .title = "mappings"};
  const auto most = read_number("/proc/sys/vm/max_map_count");
  const auto maps = read_text("/proc/self/maps");
  const std::optional<uint64_t> used = maps ? std::optional<uint64_t>(static_cast<uint64_t>(
                                                  std::count(maps->begin(), maps->end(), '\n')))
                                            : std::nullopt;
  check.facts = {{"max_map_count", maybe(most)}, {"used", maybe(used)}};
  if (!most) {
    check.level = Level::kNote;
    check.value = std::string("vm.max_map_count ") + kUnreadable;
    check.limits = "the kernel's default is 65,530 for a process";
    return check;
  }
  constexpr uint64_t kDefault = 65530;
  constexpr uint64_t kFew = 8192;
  const uint64_t left = *most - std::min(used.value_or(100), *most);
  check.facts["left"] = left;
  check.value = "vm.max_map_count is " + count_text(*most) + " for a process, " +
                known_count(used, "an unknown number") + " in use here";
  check.limits = "PyTorch: about " + plural_text(left, "tensor", "tensors") +
                 ", one mapping each; Tenon: " + plural_text(left, "named file", "named files") +
                 ", or as many segments of " + size_text(kDefaultSegmentNbytes) + " (" +
                 size_text(left * kDefaultSegmentNbytes) + ")";
  if (*most < kDefault) {
    check.level = *most < kFew ? Level::kWarn : Level::kNote;
    check.change = "sudo sysctl vm.max_map_count=1048576";
  }
  return check;
}

// A limit that is usually unset, and its meaning where it is set. `prlimit` is its name for
// prlimit(1), and `ulimit` is the shell's letter.
struct SizeLimit {
  const char* id;
  const char* title;
  int resource;
  const char* name;
  const char* prlimit;
  const char* ulimit;
  Level (*level)(uint64_t limit);
  std::string (*meaning)(uint64_t limit);
};

constexpr SizeLimit kSizeLimits[] = {
    {.id = "address_space",
     .title = "address space",
     .resource = RLIMIT_AS,
     .name = "RLIMIT_AS",
     .prlimit = "as",
     .ulimit = "-v",
     .level =
         [](uint64_t limit) {
           return limit < 16 * kDefaultSegmentNbytes ? Level::kWarn : Level::kNote;
         },
     .meaning =
         [](uint64_t limit) {
           return "at most " + plural_text(limit / kDefaultSegmentNbytes, "segment", "segments") +
                  " of " + size_text(kDefaultSegmentNbytes) +
                  ", less what the program itself takes";
         }},
    // This limit applies to memory files too.
    {.id = "file_size",
     .title = "file size",
     .resource = RLIMIT_FSIZE,
     .name = "RLIMIT_FSIZE",
     .prlimit = "fsize",
     .ulimit = "-f",
     .level =
         [](uint64_t limit) {
           return limit < 4096                    ? Level::kFail
                  : limit < kDefaultSegmentNbytes ? Level::kWarn
                                                  : Level::kNote;
         },
     .meaning =
         [](uint64_t) {
           return std::string(
               "the largest segment or named file. Tenon refuses a larger one with an error, "
               "PyTorch is killed by SIGXFSZ");
         }},
    {.id = "locked_memory",
     .title = "locked memory",
     .resource = RLIMIT_MEMLOCK,
     .name = "RLIMIT_MEMLOCK",
     .prlimit = "memlock",
     .ulimit = "-l",
     .level = [](uint64_t) { return Level::kNote; },
     .meaning =
         [](uint64_t limit) {
           const uint64_t segments = limit / kDefaultSegmentNbytes;
           return "Tenon locks nothing. A program that pins shared memory by mlock or for RDMA can "
                  "pin that much, " +
                  (segments == 0 ? std::string("less than one segment")
                                 : plural_text(segments, "segment", "segments")) +
                  " of " + size_text(kDefaultSegmentNbytes);
         }},
};

Check check_size(const SizeLimit& which) {
  Check check{.id = which.id, .title = which.title};
  Limit limit;
  const bool known = ask(which.resource, &limit);
  check.facts = facts_of(limit);
  check.value =
      known ? amount(limit.soft, size_text) + " (" + which.name + ")" : std::string(kUnreadable);
  if (limit.soft) {
    check.level = which.level(*limit.soft);
    check.limits = which.meaning(*limit.soft);
    check.change = limit.hard ? std::string("sudo prlimit --pid $$ --") + which.prlimit +
                                    "=unlimited:unlimited"
                              : std::string("ulimit ") + which.ulimit + " unlimited";
  }
  return check;
}

}  // namespace

void check_process_limits(Checks* out) {
  out->push_back(check_fds());
  out->push_back(check_mappings());
  for (const SizeLimit& each : kSizeLimits) out->push_back(check_size(each));
}

}  // namespace tenon::cli
