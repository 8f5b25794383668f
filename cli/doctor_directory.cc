// `tenon doctor`: checks the room and the mount of the directory of names, and whether its file
// system does what names need. The last check tries that with files that never get a name.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>

#include "doctor.h"
#include "names/liveness.h"
#include "os/fd.h"
#include "os/named_file.h"

namespace tenon::cli {
namespace {

using os::Fd;

struct Mount {
  std::string point;
  std::string type;
  std::string options;
};

// Joins the options of the mount and of its file system, each once.
std::string join_options(std::string_view mount, std::string_view system) {
  std::string joined(mount);
  const auto known = split_text(mount, ',');
  for (const std::string_view option : split_text(system, ',')) {
    if (std::find(known.begin(), known.end(), option) == known.end())
      joined.append(",").append(option);
  }
  return joined;
}

// Finds the last mount whose point is the directory or above it. Later mounts cover earlier ones.
std::optional<Mount> mount_of(const std::string& directory) {
  const auto mountinfo = read_text("/proc/self/mountinfo");
  if (!mountinfo) return std::nullopt;
  std::optional<Mount> found;
  for (const std::string_view line : split_text(*mountinfo, '\n')) {
    const size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    const auto before = split_text(line.substr(0, dash), ' ');
    const auto after = split_text(line.substr(dash + 3), ' ');
    if (before.size() < 6 || after.size() < 3) continue;
    const std::string_view point = before[4];
    const bool above =
        point == "/" || directory == point ||
        (directory.starts_with(point) && directory.substr(point.size()).starts_with('/'));
    if (!above || (found && point.size() < found->point.size())) continue;
    found = Mount{std::string(point), std::string(after[0]), join_options(before[5], after[2])};
  }
  return found;
}

Check check_room(const std::string& directory, int fd) {
  Check check{.id = "directory", .title = "directory"};
  const auto mount = mount_of(directory);
  struct statvfs room{};
  if (fstatvfs(fd, &room) != 0) {
    check.level = Level::kNote;
    check.value = directory + ": " + kUnreadable;
    return check;
  }
  const uint64_t unit = room.f_frsize;
  const uint64_t total = room.f_blocks * unit;
  const uint64_t left = room.f_bavail * unit;
  const bool read_only = (room.f_flag & ST_RDONLY) != 0;
  check.facts = {{"path", directory},
                 {"total_nbytes", total},
                 {"free_nbytes", left},
                 {"free_inodes", room.f_files == 0 ? Json(nullptr) : Json(uint64_t{room.f_favail})},
                 {"read_only", read_only},
                 {"file_system", mount ? Json(mount->type) : Json(nullptr)},
                 {"mount_point", mount ? Json(mount->point) : Json(nullptr)},
                 {"mount_options", mount ? Json(mount->options) : Json(nullptr)}};
  check.value = directory + ": ";
  // A tmpfs without a size limit reports no blocks.
  check.value +=
      total == 0 ? std::string("no size limit") : size_text(left) + " free of " + size_text(total);
  if (room.f_files != 0)
    check.value += ", " + plural_text(room.f_favail, "free inode", "free inodes");
  check.value += mount ? "; " + mount->type + " on " + mount->point + " (" + mount->options + ")"
                       : "; /proc/self/mountinfo " + std::string(kUnreadable);
  if (total != 0) {
    check.limits = "room for " +
                   plural_text(left / kDefaultSegmentNbytes, "named file", "named files") + " of " +
                   size_text(kDefaultSegmentNbytes) +
                   " (segments behind a socket and fds take none of it)";
  }
  if (read_only) {
    check.level = Level::kFail;
    check.limits = "mounted read-only: nothing can be named here";
    check.change = "sudo mount -o remount,rw " + directory;
  } else if (faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) != 0) {
    check.level = Level::kFail;
    check.limits = format("user %u must not make names here", geteuid());
    check.change = "sudo chmod 1777 " + directory;
  } else if (total != 0 && (left < kDefaultSegmentNbytes || room.f_favail < 64) &&
             room.f_files != 0) {
    check.level = Level::kWarn;
    check.change = "tenon gc; sudo mount -o remount,size=50%,nr_inodes=1m " + directory +
                   " (Docker: --shm-size=8g)";
  } else if (total != 0 && total <= kDefaultSegmentNbytes) {
    check.level = Level::kWarn;  // Docker's default size
    check.change = "sudo mount -o remount,size=50% " + directory + " (Docker: --shm-size=8g)";
  } else if (mount && mount->type != "tmpfs" && mount->type != "ramfs" &&
             mount->type != "hugetlbfs") {
    check.level = Level::kNote;
    check.limits += "; " + mount->type + " is not memory: its pages are written to a disk";
  }
  return check;
}

// The results of trying each feature of the file system. Nothing: unknown.
struct Tried {
  std::optional<bool> nameless, reserved, shared_lock, exclusive_lock, lease, lease_sees_mapping;
};

std::optional<bool> try_reserve(int fd) noexcept {
  if (fallocate(fd, 0, 0, 4096) == 0) return true;
  // A full file system may still support it.
  if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG) return std::nullopt;
  return false;
}

// Whether a lease is refused while there is a mapping that was made through another opening of the
// file, and granted after the mapping is gone.
std::optional<bool> try_lease_against_mapping(int fd) {
  Fd other(open(format("/proc/self/fd/%d", fd).c_str(), O_RDONLY | O_CLOEXEC));
  if (!other.is_open()) return std::nullopt;
  void* mapping = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, other.get(), 0);
  if (mapping == MAP_FAILED) return std::nullopt;
  other.reset();
  const os::Alone during = os::take_lease(fd);
  munmap(mapping, 4096);
  const os::Alone after = os::take_lease(fd);
  os::drop_lease(fd);
  return during == os::Alone::kNo && after == os::Alone::kYes;
}

Tried try_file(int directory, const std::string& path, std::string* why) {
  Tried tried;
  Result<Fd> made = os::create_nameless(directory, path);
  if (!made.is_ok()) {
    *why = made.status().message();
    if (made.status().code() == Code::kUnsupported) tried.nameless = false;
    return tried;
  }
  const Fd fd = std::move(made).value();
  tried.nameless = true;
  tried.reserved = try_reserve(fd.get());
  tried.shared_lock = os::take_shared_lock(fd.get());
  tried.exclusive_lock = os::take_exclusive_lock(fd.get());
  tried.lease = os::take_lease(fd.get()) == os::Alone::kYes;
  os::drop_lease(fd.get());
  if (*tried.lease) tried.lease_sees_mapping = try_lease_against_mapping(fd.get());
  return tried;
}

std::string verdict(const char* what, const std::optional<bool>& tried) {
  return std::string(what) + (!tried ? " not tried" : *tried ? " work" : " do not work");
}

Check check_files(const std::string& directory, int fd) {
  Check check{.id = "named_files", .title = "named files"};
  std::string why;
  const Tried tried = try_file(fd, directory, &why);
  const std::optional<bool> locks =
      tried.shared_lock && tried.exclusive_lock
          ? std::optional<bool>(*tried.shared_lock && *tried.exclusive_lock)
          : std::nullopt;
  check.facts = {{"nameless", maybe(tried.nameless)},
                 {"reserve", maybe(tried.reserved)},
                 {"flock", maybe(locks)},
                 {"lease", maybe(tried.lease)},
                 {"lease_sees_mapping", maybe(tried.lease_sees_mapping)}};
  check.value = "tried in " + directory + ": " +
                verdict("nameless files (O_TMPFILE)", tried.nameless) + ", " +
                verdict("reservations", tried.reserved) + ", " + verdict("locks", locks) + ", " +
                verdict("leases", tried.lease);
  const auto failed = [](const std::optional<bool>& what) { return what && !*what; };
  if (!tried.nameless) {
    check.level = Level::kFail;
    check.limits = why;
  } else if (failed(tried.nameless) || failed(tried.reserved)) {
    check.level = Level::kFail;
    check.limits = "no file can be lent by name here; fds and sockets can";
    check.change = "use a directory on tmpfs, such as /dev/shm";
  } else if (failed(locks) || failed(tried.lease) || failed(tried.lease_sees_mapping)) {
    check.level = Level::kWarn;
    check.limits =
        "a live name cannot be told from a dead one: what a killed process leaves here stays until "
        "somebody removes it";
    check.change = "use a directory on tmpfs, such as /dev/shm";
  } else {
    check.limits =
        "a name that nobody holds is found and removed, whoever held it and in whichever container";
  }
  return check;
}

Check check_names(const std::string& directory) {
  Check check{.id = "names", .title = "names"};
  uint64_t counts[4] = {};
  uint64_t dead_nbytes = 0;
  names::LookOptions options;
  options.patience = 20;
  const Status status =
      names::look_at_all(directory, options, [&](const names::NameReport& report) {
        ++counts[static_cast<size_t>(report.state)];
        if (report.state == names::NameState::kDead) dead_nbytes += report.allocated_nbytes;
        return true;
      });
  if (!status.is_ok()) {
    check.level = Level::kNote;
    check.value = status.message();
    return check;
  }
  const auto of = [&](names::NameState state) { return counts[static_cast<size_t>(state)]; };
  const uint64_t live = of(names::NameState::kLive);
  const uint64_t in_flight = of(names::NameState::kInFlight);
  const uint64_t dead = of(names::NameState::kDead);
  const uint64_t unsure = of(names::NameState::kUnsure);
  check.facts = {{"live", live},
                 {"in_flight", in_flight},
                 {"dead", dead},
                 {"unsure", unsure},
                 {"dead_nbytes", dead_nbytes}};
  check.value = count_text(live) + " live, " + count_text(in_flight) + " in flight, " +
                count_text(dead) + " dead, " + count_text(unsure) +
                " of other users or unsure, of Tenon and PyTorch in " + directory;
  if (dead != 0) {
    check.level = Level::kNote;
    check.limits = plural_text(dead, "dead name holds ", "dead names hold ") +
                   size_text(dead_nbytes) + " of memory";
    check.change = "tenon gc --torch --yes" +
                   (directory == names::kSharedMemory ? std::string() : " " + directory);
  }
  return check;
}

}  // namespace

void check_directory(const std::string& directory, Checks* out) {
  Result<Fd> opened = os::open_directory(directory);
  if (!opened.is_ok()) {
    Check check{.id = "directory", .title = "directory", .level = Level::kFail};
    check.value = opened.status().message();
    check.limits = "nothing can be lent by name here; fds can be lent";
    check.facts = {{"path", directory}};
    if (opened.status().code() == Code::kNotFound)
      check.change =
          "sudo mkdir -m 1777 " + directory + " && sudo mount -t tmpfs tmpfs " + directory;
    out->push_back(std::move(check));
    return;
  }
  const Fd fd = std::move(opened).value();
  out->push_back(check_room(directory, fd.get()));
  out->push_back(check_files(directory, fd.get()));
  out->push_back(check_names(directory));
}

}  // namespace tenon::cli
