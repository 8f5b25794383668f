// The files by which the processes that share weights under one name find each other, and the locks
// of these files. member.cc and shared_weights.cc follow the protocol with them
// (docs/format/shared_weights.md).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "cuda/device.h"
#include "modules/shared_weights/fork_closed.h"

namespace tenon::shared_weights {

struct Access {
  std::string directory;       // empty: the directory of this user in /dev/shm
  std::optional<gid_t> group;  // members of this group may open the weights too
};

struct Place {
  std::string directory;
  std::string name;    // with device_ending() for weights on a device
  std::string socket;  // the server listens here
  std::string lock;    // held exclusively for microseconds, while the server changes
  std::string hold;    // held shared by each process that has a version of the weights
  std::string turn;    // held exclusively by the process that publishes the next version
  mode_t mode = 0600;
  gid_t group = static_cast<gid_t>(-1);
  bool is_default = false;
  std::optional<gid_t> admitted_group() const noexcept {
    if (group == static_cast<gid_t>(-1)) return std::nullopt;
    return group;
  }
};

// Checks the name and the directory, and makes the default directory. INVALID_ARGUMENT: the name is
// empty, too long, begins with a dot, or has a slash or a control character; the directory is not
// absolute; a group without a directory. NOT_FOUND: there is no such directory. UNSUPPORTED: it is
// on a network file system. PERMISSION: the default directory belongs to another user.
// `ending` is that of the device on which the weights lie, or empty.
Result<Place> choose_place(const std::string& name, const Access& access,
                           const std::string& ending = {});

// The names of the files of weights on a device have an ending with the UUID of the device. So the
// same weights can lie on several devices and in the CPU's memory. The number of a device would not
// do, because it is another one in each container.
std::string device_ending(const cuda::Uuid& uuid);
struct NameAndDevice {
  std::string name;
  std::string device;  // the UUID in hexadecimal digits; empty for the CPU
};
NameAndDevice split_device_ending(const std::string& file_name);
// The directory of this user in /dev/shm, which is the default.
std::string default_directory();
// The files of a name in a directory that the caller has checked.
Place place_in(const std::string& directory, const std::string& name);
// Makes the default directory again, which the last process that left it may have removed.
Status make_directory(const Place& place);

// Takes NAME.lock without waiting. Not open: another process has it now. The file is made if there
// is none.
Result<ForkClosed> try_place_lock(const Place& place);
// Takes NAME.hold shared. Not open: there is no such file, or a process has it exclusively for a
// moment.
Result<ForkClosed> try_hold(const Place& place);
// Which socket lies at NAME.sock: each server makes another one. Nothing: there is none.
struct SocketId {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const SocketId&) const = default;
};
std::optional<SocketId> socket_at(const Place& place) noexcept;
// Connects to NAME.sock without waiting. WOULD_BLOCK: the listener's queue is full.
Result<ForkClosed> connect_at_once(const Place& place);
// Whether such a connect failed because no process listens at NAME.sock.
bool is_nobody_there(const Status& connected) noexcept;
// Makes NAME.hold, and takes it shared if no process holds it. Not open: a process holds it. The
// caller has NAME.lock.
Result<ForkClosed> try_first_hold(const Place& place);

// A process that has version N > 1 of the weights holds NAME.hold.N shared, besides NAME.hold. The
// file of the newest version stays as long as the name, so that no number is used twice. The caller
// of these functions has NAME.lock, except for the first three.

std::string version_path(const Place& place, uint64_t version);
// The versions N of all files NAME.hold.N, in no order.
Result<std::vector<uint64_t>> list_versions(const Place& place);
// Takes NAME.hold.N shared. Not open: there is no such file, or a process looks at it just now.
Result<ForkClosed> try_version_hold(const Place& place, uint64_t version);
// Makes NAME.hold.N and takes it shared.
Result<ForkClosed> make_version_hold(const Place& place, uint64_t version);
// The largest N of all files NAME.hold.N, or 1 if there are none.
Result<uint64_t> newest_version(const Place& place);
// Whether a process may hold a version after this one.
bool is_newer_held(const Place& place, uint64_t version) noexcept;
// Removes NAME.hold.N if no process holds it. True: it is gone, and no process will ever hold this
// version again. The version is not the newest. Throws std::bad_alloc.
bool remove_unheld_version(const Place& place, uint64_t version);
inline constexpr uint64_t kAllVersions = UINT64_MAX;
// Removes the files of the versions before this one that no process holds.
void remove_older_holds(const Place& place, uint64_t version) noexcept;

// Takes a lock file of the directory exclusively, without waiting. Not open: another process has
// it.
Result<ForkClosed> try_exclusive(const Place& place, const std::string& path);
// NAME.hold for version 1, and NAME.hold.N for a later one.
std::string hold_path(const Place& place, uint64_t version);
// NAME.turn, NAME.hold and NAME.hold.N say in their first 8 bytes, little-endian, how large the
// weights are. note_nbytes() does nothing if the file cannot be written. noted_nbytes() is 0 if the
// file does not say.
void note_nbytes(const std::string& path, uint64_t nbytes) noexcept;
uint64_t noted_nbytes(const std::string& path) noexcept;
// Whether a process publishes under the name.
bool is_turn_taken(const Place& place);

// Takes NAME.turn without waiting. Not open: another process publishes now.
Result<ForkClosed> try_turn(const Place& place);
// Removes the default directory if nothing is in it. Another directory stays.
void remove_empty_directory(const Place& place) noexcept;
// Removes NAME.turn, which the caller has. The next publisher makes it again.
void give_turn(const Place& place, ForkClosed turn) noexcept;

// Removes the files if no other process holds NAME.hold. `hold` is the caller's hold, or -1 if it
// has none. The caller has NAME.lock. True: the files are gone.
bool remove_if_last(const Place& place, int hold) noexcept;
// Removes the files of names in the directory that nobody holds, because their last process was
// killed, and the temporary sockets of killed processes. Looks at a limited number of files.
void sweep_dead_names(const Place& place) noexcept;

}  // namespace tenon::shared_weights
