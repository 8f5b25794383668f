#include "modules/shared_weights/place.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "names/filename.h"
#include "os/host.h"
#include "os/local_socket.h"
#include "os/lock_file.h"
#include "os/named_file.h"
#include "os/wait.h"
#include "tensor/name.h"

namespace tenon::shared_weights {
namespace {

constexpr std::string_view kSocketEnding = ".sock";
constexpr std::string_view kLockEnding = ".lock";
constexpr std::string_view kHoldEnding = ".hold";
constexpr std::string_view kTurnEnding = ".turn";
constexpr size_t kMaxNameNbytes = 200;
constexpr std::string_view kDeviceEnding = "@cuda-";
constexpr size_t kUuidNbytes = 36;  // as text: 32 digits and 4 hyphens
// os::listen_local() prepares a socket under such a name.
constexpr std::string_view kMakingSocket = ".tenon-";
constexpr int64_t kMakingNs = 60'000'000'000;
constexpr size_t kMostSwept = 256;

Status check_name(const std::string& name) {
  const auto refuse = [&](const char* why) {
    return invalid(format("the name '%.200s' of the weights %s", name.c_str(), why));
  };
  if (name.empty()) return refuse("is empty");
  if (name.size() > kMaxNameNbytes) return refuse("is longer than 200 bytes");
  if (name.front() == '.') return refuse("begins with a dot");
  if (!split_device_ending(name).device.empty())
    return refuse("ends as the names of weights on a device do: give the device as an option");
  const bool is_text = tensor::is_utf8(name) && std::ranges::none_of(name, [](char each) {
                         return static_cast<unsigned char>(each) < 0x20 || each == '/';
                       });
  return is_text ? Status::ok() : refuse("has a slash or a control character, or is no UTF-8");
}

void set_files(Place* place) {
  const std::string begin = place->directory + "/" + place->name;
  place->socket = begin + std::string(kSocketEnding);
  place->lock = begin + std::string(kLockEnding);
  place->hold = begin + std::string(kHoldEnding);
  place->turn = begin + std::string(kTurnEnding);
}

// The result is not open if the lock is taken, or if the file was removed before it was locked.
Result<ForkClosed> open_and_lock(const Place& place, const std::string& path, bool create,
                                 bool (*take)(int fd) noexcept) {
  return ForkClosed::make([&]() -> Result<os::Fd> {
    TENON_ASSIGN(os::Fd fd, os::open_lock_file(path, create, place.mode, place.group));
    if (!take(fd.get()) || !os::is_still_at(fd.get(), path)) return os::Fd();
    return fd;
  });
}

// Removes NAME.turn of a publisher that was killed.
void remove_dead_turn(const Place& place) noexcept {
  try {
    Result<ForkClosed> turn = open_and_lock(place, place.turn, false, &os::take_exclusive_lock);
    if (turn.is_ok()) give_turn(place, std::move(turn).value());
  } catch (...) {
    // No memory: the next process that uses the directory removes it.
  }
}

// Whether no process holds the version. The caller has NAME.lock, so an exclusive lock disturbs
// nobody but a process that takes its hold, which then begins again.
bool is_unheld(const Place& place, uint64_t version) {
  Result<ForkClosed> taken =
      open_and_lock(place, version_path(place, version), false, &os::take_exclusive_lock);
  return taken.status().code() == Code::kNotFound || (taken.is_ok() && taken.value().is_open());
}

}  // namespace

std::string device_ending(const cuda::Uuid& uuid) {
  std::string ending(kDeviceEnding);
  for (size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) ending += '-';
    ending += format("%02x", std::to_integer<unsigned>(uuid[i]));
  }
  return ending;
}

NameAndDevice split_device_ending(const std::string& file_name) {
  if (file_name.size() < kDeviceEnding.size() + kUuidNbytes) return {file_name, {}};
  const size_t uuid_at = file_name.size() - kUuidNbytes;
  const size_t ending_at = uuid_at - kDeviceEnding.size();
  if (file_name.compare(ending_at, kDeviceEnding.size(), kDeviceEnding) != 0)
    return {file_name, {}};
  return {file_name.substr(0, ending_at), file_name.substr(uuid_at)};
}

Result<Place> choose_place(const std::string& name, const Access& access,
                           const std::string& ending) {
  TENON_TRY(check_name(name));
  Place place;
  place.name = name + ending;
  if (access.directory.empty()) {
    if (access.group)
      return invalid(
          "weights for a group need a directory, because the default one belongs to "
          "this user alone");
    place.directory = default_directory();
    place.is_default = true;
    TENON_TRY(make_directory(place));
  } else {
    TENON_ASSIGN(place.directory, names::check_directory(access.directory));
    TENON_ASSIGN(const os::Fd directory, os::open_directory(place.directory));
    if (os::is_on_network(directory.get()))
      return Status(Code::kUnsupported,
                    format("%s is on a network file system, whose locks other machines have too: "
                           "choose a directory of this machine",
                           place.directory.c_str()))
          .with("path", place.directory);
    if (access.group) {
      place.mode = 0660;
      place.group = *access.group;
    }
  }
  set_files(&place);
  return place;
}

std::string default_directory() {
  return format("%s/tenon-weights-%u", std::string(names::kSharedMemory).c_str(), os::user_id());
}

Place place_in(const std::string& directory, const std::string& name) {
  Place place;
  place.directory = directory;
  place.name = name;
  set_files(&place);
  return place;
}

Status make_directory(const Place& place) {
  if (!place.is_default) return Status::ok();
  return os::make_private_directory(place.directory);
}

Result<ForkClosed> try_place_lock(const Place& place) {
  return open_and_lock(place, place.lock, true, &os::take_exclusive_lock);
}

Result<ForkClosed> try_hold(const Place& place) {
  Result<ForkClosed> held = open_and_lock(place, place.hold, false, &os::take_shared_lock);
  if (held.status().code() == Code::kNotFound) return ForkClosed();
  return held;
}

std::optional<SocketId> socket_at(const Place& place) noexcept {
  struct stat found{};
  if (::lstat(place.socket.c_str(), &found) != 0) return std::nullopt;
  return SocketId{found.st_dev, found.st_ino};
}

Result<ForkClosed> connect_at_once(const Place& place) {
  return ForkClosed::make([&] {
    os::Waiter at_once(os::Wait{.timeout_ns = 0});
    return os::connect_local(os::SocketKind::kPackets, place.socket, &at_once);
  });
}

bool is_nobody_there(const Status& connected) noexcept {
  return connected.code() == Code::kNotFound || connected.code() == Code::kPeerGone;
}

Result<ForkClosed> try_first_hold(const Place& place) {
  return open_and_lock(place, place.hold, true, [](int fd) noexcept {
    // The change to a shared lock is not atomic. But every process that wants the exclusive lock
    // has NAME.lock, which the caller has now.
    return os::take_exclusive_lock(fd) && os::take_shared_lock(fd);
  });
}

std::string version_path(const Place& place, uint64_t version) {
  return place.hold + format(".%llu", as_llu(version));
}

Result<std::vector<uint64_t>> list_versions(const Place& place) {
  const std::string begin = place.name + std::string(kHoldEnding) + ".";
  std::vector<uint64_t> found;
  TENON_ASSIGN(const os::Fd directory, os::open_directory(place.directory));
  TENON_TRY(os::list_names(directory.get(), [&](const char* leaf) {
    const std::string_view each(leaf);
    if (!each.starts_with(begin)) return true;
    uint64_t version = 0;
    const char* const end = leaf + each.size();
    const auto [stop, error] = std::from_chars(leaf + begin.size(), end, version);
    if (error == std::errc() && stop == end) found.push_back(version);
    return true;
  }));
  return found;
}

Result<ForkClosed> try_version_hold(const Place& place, uint64_t version) {
  Result<ForkClosed> held =
      open_and_lock(place, version_path(place, version), false, &os::take_shared_lock);
  if (held.status().code() == Code::kNotFound) return ForkClosed();
  return held;
}

Result<ForkClosed> make_version_hold(const Place& place, uint64_t version) {
  return open_and_lock(place, version_path(place, version), true, &os::take_shared_lock);
}

Result<uint64_t> newest_version(const Place& place) {
  TENON_ASSIGN(const std::vector<uint64_t> all, list_versions(place));
  uint64_t newest = 1;
  for (const uint64_t each : all) newest = std::max(newest, each);
  return newest;
}

bool is_newer_held(const Place& place, uint64_t version) noexcept {
  try {
    Result<std::vector<uint64_t>> all = list_versions(place);
    if (!all.is_ok()) return true;
    return std::ranges::any_of(
        all.value(), [&](uint64_t each) { return each > version && !is_unheld(place, each); });
  } catch (...) {
    return true;  // no memory: the caller asks again
  }
}

bool remove_unheld_version(const Place& place, uint64_t version) {
  const std::string path = version_path(place, version);
  // The lock lasts until the file is gone, so that no opener takes its hold in between.
  Result<ForkClosed> taken = open_and_lock(place, path, false, &os::take_exclusive_lock);
  if (taken.status().code() == Code::kNotFound) return true;
  if (!taken.is_ok() || !taken.value().is_open()) return false;
  return ::unlink(path.c_str()) == 0;
}

void remove_older_holds(const Place& place, uint64_t version) noexcept {
  try {
    Result<std::vector<uint64_t>> all = list_versions(place);
    if (!all.is_ok()) return;
    for (const uint64_t each : all.value())
      if (each < version) (void)remove_unheld_version(place, each);
  } catch (...) {
    // No memory: the next publisher removes them.
  }
}

Result<ForkClosed> try_exclusive(const Place& place, const std::string& path) {
  return open_and_lock(place, path, true, &os::take_exclusive_lock);
}

std::string hold_path(const Place& place, uint64_t version) {
  return version == 1 ? place.hold : version_path(place, version);
}

void note_nbytes(const std::string& path, uint64_t nbytes) noexcept {
  std::array<unsigned char, 8> bytes{};
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<unsigned char>(nbytes >> (8 * i));
  const os::Fd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  // Without the note the file says nothing, as a file of a Tenon without notes.
  if (file.is_open()) (void)!::pwrite(file.get(), bytes.data(), bytes.size(), 0);
}

uint64_t noted_nbytes(const std::string& path) noexcept {
  std::array<unsigned char, 8> bytes{};
  const os::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.is_open() ||
      ::pread(file.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return 0;
  uint64_t nbytes = 0;
  for (size_t i = 0; i < bytes.size(); ++i) nbytes |= uint64_t{bytes[i]} << (8 * i);
  return nbytes;
}

bool is_turn_taken(const Place& place) {
  Result<ForkClosed> free = open_and_lock(place, place.turn, false, &os::take_shared_lock);
  return free.is_ok() && !free.value().is_open();
}

Result<ForkClosed> try_turn(const Place& place) {
  return open_and_lock(place, place.turn, true, &os::take_exclusive_lock);
}

void remove_empty_directory(const Place& place) noexcept {
  if (place.is_default) ::rmdir(place.directory.c_str());
}

void give_turn(const Place& place, ForkClosed turn) noexcept {
  if (turn.is_open()) ::unlink(place.turn.c_str());
}

bool remove_if_last(const Place& place, int hold) noexcept {
  Result<ForkClosed> own = ForkClosed();
  if (hold < 0) {
    try {
      own = open_and_lock(place, place.hold, false, &os::take_exclusive_lock);
    } catch (...) {
      return false;
    }
    const bool is_absent = own.status().code() == Code::kNotFound;
    if (!is_absent && (!own.is_ok() || !own.value().is_open())) return false;
  } else if (!os::take_exclusive_lock(hold)) {
    return false;
  }
  ::unlink(place.socket.c_str());
  remove_older_holds(place, kAllVersions);
  ::unlink(place.hold.c_str());
  remove_dead_turn(place);
  ::unlink(place.lock.c_str());
  remove_empty_directory(place);
  return true;
}

void sweep_dead_names(const Place& place) noexcept {
  try {
    Result<os::Fd> directory = os::open_directory(place.directory);
    if (!directory.is_ok()) return;
    std::vector<std::string> names;
    size_t seen = 0;
    (void)os::list_names(directory.value().get(), [&](const char* leaf) {
      const std::string_view each(leaf);
      // The two endings have one length.
      if (each.ends_with(kHoldEnding) || each.ends_with(kTurnEnding)) {
        names.emplace_back(each.substr(0, each.size() - kHoldEnding.size()));
      } else if (each.starts_with(kMakingSocket)) {
        Result<os::NameInfo> info = os::look_at_name(directory.value().get(), leaf);
        const bool is_old = info.is_ok() && info.value().kind == os::NameInfo::Kind::kSocket &&
                            os::real_time_ns() - info.value().changed_ns > kMakingNs;
        if (is_old) (void)os::unlink_name(directory.value().get(), leaf);
      }
      return ++seen < kMostSwept;
    });
    for (const std::string& name : names) {
      if (name == place.name) continue;
      Place dead = place;
      dead.name = name;
      set_files(&dead);
      dead.is_default = false;  // the directory stays
      Result<ForkClosed> lock = try_place_lock(dead);
      if (lock.is_ok() && lock.value().is_open()) (void)remove_if_last(dead, -1);
    }
  } catch (...) {
    // No memory: the next process that loads weights here sweeps.
  }
}

}  // namespace tenon::shared_weights
