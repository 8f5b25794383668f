#include "names/named_segment.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <new>
#include <thread>
#include <utility>

#include "base/checked.h"
#include "memory/spare.h"
#include "names/held_files.h"
#include "names/liveness.h"
#include "names/names_thread.h"
#include "os/host.h"
#include "os/limits.h"
#include "os/named_file.h"
#include "share/cache.h"
#include "share/named_file_head.h"

namespace tenon::names {
namespace {

using os::Fd;

constexpr uint64_t kFileHead = share::kFilenameHeaderNbytes;
// The most tries, a millisecond apart, to lock a new file.
constexpr int kLockTries = 1000;

// Sets the size of the file and makes all of its pages. RESOURCE_EXHAUSTED if the file system has
// no room.
Status reserve_file(int fd, const std::string& directory, uint64_t nbytes) {
  TENON_TRY(os::check_file_size(nbytes));
  const uint64_t room = os::free_space(fd);
  if (nbytes > room) {
    return Status(
               Code::kResourceExhausted,
               format(
                   "%s is full: %llu bytes are needed, and %llu are left (the size of %s is %llu)",
                   directory.c_str(), as_llu(nbytes), as_llu(room), directory.c_str(),
                   as_llu(os::total_space(fd))))
        .with("limit", std::string("size of ") + directory)
        .with("limit_value", os::total_space(fd))
        .with("wanted", nbytes)
        .with("path", directory);
  }
  TENON_TRY(os::set_file_size(fd, nbytes));
  if (Status status = memory::reserve_in_chunks(fd, 0, nbytes); !status.is_ok())
    return std::move(status).with("path", directory);
  return Status::ok();
}

// A file that is being made, under a temporary name. The destructor removes this name, unless
// finish() gave the file its own.
class Making {
 public:
  static Result<Making> create(const Ref<Directory>& directory) {
    TENON_ASSIGN(Filename name, choose_filename(directory->path(), kMakingPrefix, ""));
    Making making;
    making.directory_ = directory;
    Result<Fd> made = os::create_name(directory->fd(), name.leaf);
    if (!made.is_ok()) return name_error(directory->path(), made.status());
    making.fd_ = std::move(made).value();
    making.leaf_ = std::move(name.leaf);
    return making;
  }
  Making(Making&& other) noexcept = default;
  Making& operator=(Making&&) = delete;
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;
  ~Making() {
    if (fd_.is_open()) (void)os::unlink_name(directory_->fd(), leaf_);
  }

  int fd() const noexcept { return fd_.get(); }
  // Renames the file. If a dead file has the chosen name, removes that name and tries again.
  Result<Fd> finish(const Filename& name) {
    Status renamed = os::rename_name(directory_->fd(), leaf_, name.leaf, name.path());
    if (!renamed.is_ok() && renamed.code() == Code::kPermission) {
      if (remove_dead_namesake(directory_->fd(), name.leaf))
        renamed = os::rename_name(directory_->fd(), leaf_, name.leaf, name.path());
    }
    if (!renamed.is_ok()) return renamed;
    return std::move(fd_);
  }

 private:
  Making() noexcept = default;
  Ref<Directory> directory_;
  std::string leaf_;
  Fd fd_;
};

Status write_head(int fd, uint64_t nbytes) {
  alignas(share::FilenameHeader) std::byte bytes[kFileHead] = {};
  auto* header = new (bytes) share::FilenameHeader{};
  header->count.store(1, std::memory_order_relaxed);
  header->magic = share::kFilenameMagic;
  header->maker_pid = os::process_id();
  header->nbytes = nbytes;
  header->made_ns = os::real_time_ns();
  header->maker_pid_namespace = os::host_identity().pid_namespace;
  return os::write_file(fd, 0, bytes, kFileHead);
}

Result<Ref<Segment>> map_own_file(int fd, const Ref<Directory>& directory, const Filename& name,
                                  uint64_t total) {
  Segment::OpenRequest request;
  request.access = Access::kWritable;
  request.allow_unsealed = true;
  request.nbytes = total;
  TENON_ASSIGN(const Segment::Inspected inspected, Segment::inspect(fd, request));
  auto tail = std::make_unique<FileTail>(directory, name.leaf, inspected.file.device,
                                         inspected.file.inode, "");
  FileTail* const holder = tail.get();
  TENON_ASSIGN(Ref<Segment> segment, Segment::open_named(fd, inspected, true, std::move(tail)));
  holder->enter(std::launder(reinterpret_cast<share::FilenameHeader*>(segment->base())),
                os::Mapping());
  return share::intern_segment(std::move(segment));
}

}  // namespace

namespace {

// Makes the file. `name` is free, or is the name of a dead file.
Result<Ref<Segment>> try_create(const FilenameOptions& options, const Filename& name,
                                uint64_t nbytes, uint64_t total) {
  TENON_ASSIGN(const Ref<Directory> directory, open_names_directory(name.directory));
  sweep_some_names(directory, watch_names(directory));
  TENON_ASSIGN(Making making, Making::create(directory));
  const gid_t group = options.has_group ? options.group : static_cast<gid_t>(-1);
  TENON_TRY(os::set_access(making.fd(), mode_of(options), group, name.path()));
  TENON_TRY(reserve_file(making.fd(), name.directory, total));
  // A process that sweeps the directory may hold the lock for a moment.
  for (int tries = 0; !os::take_shared_lock(making.fd()); ++tries) {
    if (tries == kLockTries)
      return refuse_name(name.path(), Code::kUnsupported,
                         "cannot be locked: its file system has no locks");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  TENON_TRY(write_head(making.fd(), nbytes));
  // From here on other processes see the file, and it is whole.
  TENON_ASSIGN(const Fd fd, making.finish(name));
  Result<Ref<Segment>> segment = map_own_file(fd.get(), directory, name, total);
  if (!segment.is_ok()) (void)os::unlink_name(directory->fd(), name.leaf);
  return segment;
}

// Removes all dead names of the directory, to make room. sweep_some_names() checks only a few
// names.
void remove_dead_names(const std::string& directory) noexcept {
  try {
    LookOptions options;
    options.remove = true;
    (void)look_at_all(directory, options, [](const NameReport&) { return true; });
  } catch (...) {
    // There is no memory. The second attempt is made without the room.
  }
}

}  // namespace

Status check_mode(const FilenameOptions& options) {
  if ((options.mode & ~mode_t{0666}) != 0 || (options.mode & 0600) != 0600) {
    return Status(
        Code::kInvalidArgument,
        format(
            "the mode %04o of a name is none of 0600 to 0666 with reading and writing for its user",
            static_cast<unsigned>(options.mode)));
  }
  return Status::ok();
}

mode_t mode_of(const FilenameOptions& options) noexcept {
  return options.has_group ? options.mode | 0060 : options.mode;
}

Result<Ref<Segment>> create_named_segment(const FilenameOptions& options, uint64_t nbytes) {
  TENON_TRY(check_mode(options));
  TENON_ASSIGN(const Filename name,
               choose_filename(options.directory, options.prefix, options.name));
  uint64_t total = 0;
  if (!checked_add(nbytes, kFileHead, &total) || total > uint64_t{INT64_MAX})
    return Status(Code::kResourceExhausted, format("no machine has %llu bytes", as_llu(nbytes)))
        .with("limit", std::string("memory"));
  return memory::with_spare([&] { return try_create(options, name, nbytes, total); },
                            [&] { remove_dead_names(name.directory); });
}

}  // namespace tenon::names
