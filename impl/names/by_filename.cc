#include "names/by_filename.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <new>
#include <thread>
#include <utility>

#include "base/checked.h"
#include "memory/spare.h"
#include "names/held_files.h"
#include "names/manager.h"
#include "names/name_server.h"
#include "names/named_segment.h"
#include "names/names_thread.h"
#include "os/host.h"
#include "os/limits.h"
#include "os/named_file.h"
#include "share/cache.h"
#include "share/named_file_head.h"

namespace tenon::names {
namespace {

using memory::SegmentKey;
using os::Fd;
using os::NameInfo;

constexpr uint64_t kNameHead = share::kFilenameHeaderNbytes;
// How long an opener waits for a process that checks whether the file is dead.
constexpr int64_t kSweepPatienceNs = 1'000'000'000;

std::string names_manager(const Filename& name, const std::string& manager, bool wanted) {
  return wanted && name.directory == kSharedMemory ? manager : std::string();
}

// A registration with a manager. The destructor takes it back unless keep() was called.
class Registered {
 public:
  Registered(std::string manager, std::string name)
      : manager_(std::move(manager)), name_(std::move(name)) {}
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;
  ~Registered() {
    if (!manager_.empty()) deallocate_at_manager(manager_, name_);
  }
  void keep() noexcept { manager_.clear(); }

 private:
  std::string manager_;
  std::string name_;
};

struct OpenedFile {
  Fd fd;
  NameInfo info;
  bool writable = false;
};

// Opens the file behind a name and takes its shared lock, so that no sweep can call the file dead
// any more.
Result<OpenedFile> open_locked(const Ref<Directory>& directory, const Filename& name,
                               bool want_writable) {
  const std::string path = name.path();
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::nanoseconds(kSweepPatienceNs);
  OpenedFile file;
  file.writable = true;
  while (true) {
    Result<Fd> opened = os::open_name(directory->fd(), name.leaf, file.writable);
    if (!opened.is_ok() && file.writable && !want_writable &&
        opened.status().code() == Code::kPermission) {
      file.writable = false;
      continue;
    }
    if (opened.is_ok()) {
      file.fd = std::move(opened).value();
      TENON_ASSIGN(file.info, os::look_at_file(file.fd.get()));
      if (file.info.kind != NameInfo::Kind::kFile)
        return refuse_name(path, Code::kCorrupt, "is no file");
      if (os::take_shared_lock(file.fd.get())) break;
    } else if (opened.status().code() != Code::kWouldBlock) {
      return name_error(path, opened.status());
    }
    if (std::chrono::steady_clock::now() > deadline)
      return refuse_name(path, Code::kTimeout,
                         "is held by a process that looks whether it is dead, or says so");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // This check comes after the lock: a sweep that took its lock first has removed the name by now.
  TENON_ASSIGN(const NameInfo now, os::look_at_file(file.fd.get()));
  if (now.links == 0) return refuse_name(path, Code::kNotFound, "was just removed");
  return file;
}

Status check_owner(const NameInfo& info, const std::string& path, bool other_user) {
  if (other_user || info.uid == os::user_id()) return Status::ok();
  return std::move(refuse_name(path, Code::kPermission,
                               format("belongs to user %u, and this process runs as user %u: open "
                                      "it with other_user if you trust that user",
                                      info.uid, os::user_id())))
      .with("option", std::string("OTHER_USER"));
}

Status check_size(const NameInfo& info, const std::string& path, const NameClaim& claim) {
  uint64_t end = 0;
  if (!checked_add(claim.offset, claim.nbytes, &end) || !checked_add(end, kNameHead, &end) ||
      end > uint64_t{INT64_MAX})
    return Status(Code::kInvalidArgument, "offset and nbytes of the handle overflow")
        .with("field", std::string("offset"))
        .with("path", path);
  if (info.nbytes >= end) return Status::ok();
  return refuse_name(path, Code::kCorrupt,
                     format("has %llu bytes, and %llu are claimed with its header: pass the size "
                            "and the offset that the lender's handle has",
                            as_llu(info.nbytes), as_llu(end)))
      .with("field", std::string("nbytes"));
}

// Whether a process holds a file with count 0. A forked child holds the files that it inherited
// without a part in the count, so only the kernel knows. If the file is held, the count becomes 1,
// for this process. Files of PyTorch are excluded: the process that lowered their count to 0
// removes the name next.
bool is_held_uncounted(int fd, share::FilenameHeader* header) {
  if (header->magic != share::kFilenameMagic) return false;
  const os::Alone alone = os::take_lease(fd);
  if (alone == os::Alone::kYes) os::drop_lease(fd);
  int32_t zero = 0;
  return alone == os::Alone::kNo && header->count.compare_exchange_strong(zero, 1);
}

// Raises the count. `fd` is this process's only opening of the file.
Status count_opening(int fd, share::FilenameHeader* header, const std::string& path) {
  switch (count_up(&header->count)) {
    case CountStep::kDone: return Status::ok();
    case CountStep::kZero:
      if (is_held_uncounted(fd, header)) return Status::ok();
      return refuse_name(path, Code::kNotFound, "has count 0: its last holder just let go");
    case CountStep::kBad: break;
  }
  return refuse_name(path, Code::kCorrupt,
                     format("has count %d, which no number of holders is", header->count.load()));
}

// Makes this process a holder of a file that is open and locked. `segment` is the file's segment if
// this process has it mapped without a FileTail (the file came by fd). Otherwise a segment is made.
Result<Ref<Segment>> hold_file(OpenedFile* file, const Ref<Directory>& directory,
                               const Filename& name, const NameClaim& claim,
                               const share::OpenOptions& open, const std::string& manager,
                               Ref<Segment> segment) {
  const std::string path = name.path();
  auto tail = std::make_unique<FileTail>(directory, name.leaf, file->info.device, file->info.inode,
                                         manager);
  FileTail* const holder = tail.get();
  Segment::OpenRequest request;
  request.access = open.access != Access::kAuto ? open.access : claim.access;
  request.allow_unsealed = open.allow_unsealed;
  request.nbytes = file->info.nbytes;
  Result<Segment::Inspected> inspected = Segment::inspect(file->fd.get(), request);
  if (!inspected.is_ok()) return name_error(path, inspected.status());
  const bool separate = segment || (!inspected.value().writable && file->writable);
  os::Mapping page;
  if (separate) {
    using Kind = os::Mapping::Kind;
    TENON_ASSIGN(page,
                 os::Mapping::create(file->writable ? Kind::kSharedWritable : Kind::kSharedReadOnly,
                                     file->fd.get(), 0, kNameHead));
  }
  if (!segment) {
    // The tail does nothing before enter(), so a failure below leaves no trace.
    TENON_ASSIGN(segment,
                 Segment::open_named(file->fd.get(), inspected.value(), false, std::move(tail)));
  }
  share::FilenameHeader* header = nullptr;
  if (file->writable) {
    header = std::launder(
        reinterpret_cast<share::FilenameHeader*>(separate ? page.base() : segment->base()));
    TENON_TRY(count_opening(file->fd.get(), header, path));
  }
  holder->enter(header, std::move(page));
  if (tail) {
    segment->attach_tail(std::move(tail));
    return segment;
  }
  // Another thread may have opened the same name meanwhile. In that case its segment is used and
  // this one is released, unless the file has grown since.
  Ref<Segment> known = share::intern_segment(segment);
  return known->nbytes() >= kNameHead + claim.offset + claim.nbytes ? known : segment;
}

Result<Ref<Storage>> open_private_file(OpenedFile* file, const std::string& path,
                                       const NameClaim& claim, const share::OpenOptions& open) {
  const share::Claim range{Access::kAuto, kNameHead + claim.offset, claim.nbytes, 0};
  if (claim.nbytes == 0) return Storage::create({.is_private = true}, 0);
  Result<Ref<Storage>> opened = share::open_private(file->fd.get(), range, open);
  if (!opened.is_ok()) return name_error(path, opened.status());
  return opened;
}

// Finds the file's segment, if this process holds the file by name and the segment is large enough.
Ref<Segment> find_held_segment(const NameInfo& info, const NameClaim& claim, bool writable) {
  Ref<Segment> segment = share::find_segment({info.device, info.inode, writable});
  return segment && segment->nbytes() >= kNameHead + claim.offset + claim.nbytes &&
                 segment->find_tail<FileTail>() != nullptr
             ? segment
             : nullptr;
}

// `seen` is the file that had the name a moment ago.
Result<Ref<Storage>> open_named_file(const NameClaim& claim, const Filename& name,
                                     const Ref<Directory>& directory, const NameInfo& seen,
                                     const NameOpenOptions& options, os::Waiter* waiter) {
  const std::string path = name.path();
  const share::OpenOptions& open = options.open;
  const Access wanted = open.access != Access::kAuto ? open.access : claim.access;
  if (!open.is_private() && claim.access == Access::kReadOnly && open.access == Access::kWritable)
    return refuse_name(path, Code::kPermission,
                       "was lent read-only: open it with PRIVATE_COW or PRIVATE_COPY to write")
        .with("option", std::string("PRIVATE_COW or PRIVATE_COPY"));
  if (!open.is_private()) {
    TENON_TRY(check_size(seen, path, claim));
    // A process that holds the file need not open it again. An opening would also wake the
    // processes that watch the directory.
    if (const Ref<Segment> held = find_held_segment(seen, claim, wanted != Access::kReadOnly))
      return share::open_range(held, kNameHead + claim.offset, claim.nbytes, nullptr);
  }
  TENON_ASSIGN(OpenedFile file,
               open_locked(directory, name, wanted == Access::kWritable && !open.is_private()));
  TENON_TRY(check_owner(file.info, path, options.other_user));
  TENON_TRY(check_size(file.info, path, claim));
  if (open.is_private()) return open_private_file(&file, path, claim, open);

  const SegmentKey key{file.info.device, file.info.inode,
                       file.writable && wanted != Access::kReadOnly};
  Ref<Segment> segment = share::find_segment(key);
  if (segment && segment->nbytes() < kNameHead + claim.offset + claim.nbytes) segment = nullptr;
  if (!segment || segment->find_tail<FileTail>() == nullptr) {
    const std::string manager = names_manager(name, claim.manager, !options.no_manager);
    if (!manager.empty()) TENON_TRY(register_with_manager(manager, "/" + name.leaf, waiter));
    Registered registered(manager, "/" + name.leaf);
    TENON_ASSIGN(segment,
                 hold_file(&file, directory, name, claim, open, manager, std::move(segment)));
    registered.keep();
  }
  return share::open_range(segment, kNameHead + claim.offset, claim.nbytes, nullptr);
}

Result<Ref<Storage>> open_socket(const NameClaim& claim, const Filename& name,
                                 const NameOpenOptions& options, os::Waiter* waiter) {
  const NameRequest request = options.received ? NameRequest::kOpenReceived : NameRequest::kOpen;
  TENON_ASSIGN(Handed handed, ask_name(name, request, options.other_user, waiter));
  if (claim.access == Access::kReadOnly) handed.access = Access::kReadOnly;
  const share::Claim range{handed.access, claim.offset, claim.nbytes, handed.segment_nbytes};
  Result<Ref<Storage>> opened = share::open_by_fd(handed.fd.get(), range, options.open, nullptr);
  if (opened.is_ok()) return opened;
  // The lender is to blame for a bad fd, and the handle for a bad range.
  const Status& status = opened.status();
  const bool about_range = !status.detail("field").empty();
  const std::string path = name.path();
  if (status.code() != Code::kInvalidArgument || about_range) return name_error(path, status);
  return refuse_name(path, Code::kCorrupt, "hands out no memory: " + status.message())
      .caused_by(status);
}

// Completes the handle of a named file. `range` says where the storage lies in the file.
Result<NameClaim> lend_file(const NameClaim& range, FileTail* tail, const FilenameOptions& options,
                            os::Waiter* waiter) {
  const Filename name = tail->filename();
  if (options.access == Access::kReadOnly) {
    return refuse_name(name.path(), Code::kPermission,
                       "is a file, which its own user can always write, so it cannot be lent "
                       "read-only: lend a LENDER_WRITES or FROZEN storage")
        .with("option", std::string("a LENDER_WRITES or FROZEN storage, whose name is a socket"));
  }
  if (!options.name.empty() && options.name != name.leaf)
    return refuse_name(name.path(), Code::kUnsupported, "is the name that the storage has already")
        .with("option", std::string("tenon_storage_new_filename"));
  NameClaim result = range;
  result.name = name.text();
  result.manager = tail->manager();
  if (options.torch && result.manager.empty()) {
    if (name.directory != kSharedMemory)
      return refuse_name(name.path(), Code::kUnsupported,
                         "is not in /dev/shm, the only directory in which PyTorch looks");
    std::string manager = options.manager;
    if (manager.empty()) {
      TENON_ASSIGN(manager, start_manager("", waiter));
    }
    TENON_TRY(register_with_manager(manager, "/" + name.leaf, waiter));
    tail->set_manager(manager);
    result.manager = manager;
  }
  if (options.in_flight) TENON_TRY(tail->count_message());
  return result;
}

}  // namespace

Result<Ref<Storage>> create_named(const FilenameOptions& options, uint64_t nbytes) {
  TENON_ASSIGN(Ref<Segment> segment, create_named_segment(options, nbytes));
  return share::intern_storage(Storage::open(std::move(segment), kNameHead, nbytes));
}

Result<NameClaim> lend_by_filename(const Ref<Storage>& storage, const FilenameOptions& options,
                                   os::Waiter* waiter) {
  TENON_TRY(check_mode(options));
  const Ref<Segment>& segment = storage->segment();
  if (FileTail* tail = segment ? segment->find_tail<FileTail>() : nullptr; tail != nullptr) {
    NameClaim range;
    range.access = storage->is_read_only() ? Access::kReadOnly : Access::kWritable;
    range.nbytes = storage->nbytes();
    // An empty storage has no place in the file.
    if (range.nbytes > 0) range.offset = storage->offset() - kNameHead;
    return lend_file(range, tail, options, waiter);
  }
  if (storage->can_move()) {
    TENON_ASSIGN(Ref<Segment> made, create_named_segment(options, storage->nbytes()));
    NameClaim range;
    range.access = Access::kWritable;
    range.nbytes = storage->nbytes();
    // lend_file() comes first. If it fails, the storage is where it was.
    TENON_ASSIGN(NameClaim lent, lend_file(range, made->find_tail<FileTail>(), options, waiter));
    storage->move_into(std::move(made), kNameHead);
    (void)share::intern_storage(Ref<Storage>(storage));
    return lent;
  }
  TENON_ASSIGN(const Access access, share::check_lend(*storage, options.access));
  if (options.torch) {
    return Status(Code::kUnsupported,
                  "the storage's memory has no name and cannot get one, and PyTorch opens nothing "
                  "else: make it by name")
        .with("option", std::string("tenon_storage_new_filename"));
  }
  NameClaim result;
  result.access = access;
  result.nbytes = storage->nbytes();
  if (!segment || storage->nbytes() == 0) return result;
  TENON_ASSIGN(const Filename place,
               choose_filename(options.directory, options.prefix, options.name));
  TENON_ASSIGN(const Ref<Directory> directory, open_names_directory(place.directory));
  sweep_some_names(directory, watch_names(directory));
  // lend() also marks the block as lent without a lease.
  TENON_ASSIGN(const share::Lend lent, share::lend(storage, options.access, false));
  // To connect to a socket a process needs the right to write it. So each right to read becomes a
  // right to write. The access to the memory behind the socket does not depend on it.
  const mode_t mode = mode_of(options) | ((mode_of(options) & 0444) >> 1);
  const SocketPolicy policy{mode, options.has_group, options.group};
  TENON_ASSIGN(const Filename name,
               serve_name(storage, lent.access, place,
                          options.name.empty() ? options.prefix : std::string(), policy));
  result.offset = lent.offset;
  result.name = name.text();
  if (options.in_flight) (void)count_socket_message(name, false);
  return result;
}

Result<Ref<Storage>> open_by_filename(const NameClaim& claim, const NameOpenOptions& options,
                                      os::Waiter* waiter) {
  if (claim.name.empty() && claim.nbytes == 0 && claim.offset == 0)
    return share::open_by_fd(-1, {claim.access, 0, 0, 0}, options.open, nullptr);
  TENON_ASSIGN(const Filename name, parse_filename(claim.name));
  TENON_ASSIGN(const Ref<Directory> directory, open_names_directory(name.directory));
  (void)watch_names(directory);
  Result<NameInfo> info = os::look_at_name(directory->fd(), name.leaf);
  const std::string path = name.path();
  if (!info.is_ok()) {
    if (info.status().code() == Code::kNotFound)
      return refuse_name(
          path, Code::kNotFound,
          "does not exist: it was not made yet, its last holder has released it, or it is in "
          "another container's /dev/shm; see "
          "what exists with `tenon ls`, and keep the lender's storage until the name was opened");
    return info.status();
  }
  if (info.value().kind == NameInfo::Kind::kSocket) {
    TENON_TRY(check_owner(info.value(), path, options.other_user));
    return open_socket(claim, name, options, waiter);
  }
  if (info.value().kind != NameInfo::Kind::kFile)
    return refuse_name(path, Code::kCorrupt, "is neither a file nor a socket");
  TENON_TRY(check_owner(info.value(), path, options.other_user));
  const auto open_it = [&] {
    return open_named_file(claim, name, directory, info.value(), options, waiter);
  };
  TENON_ASSIGN(Ref<Storage> storage, memory::with_spare(open_it));
  if (options.received) (void)count_message_received(claim);
  return storage;
}

Status count_message(const NameClaim& claim) {
  if (claim.name.empty()) return Status::ok();
  TENON_ASSIGN(const Filename name, parse_filename(claim.name));
  if (const Ref<Segment> segment = find_held_file(name)) {
    if (FileTail* tail = segment->find_tail<FileTail>(); tail != nullptr)
      return tail->count_message();
  }
  if (count_socket_message(name, false)) return Status::ok();
  // Says what has the name now, because another process may have removed or replaced the file.
  TENON_ASSIGN(const Ref<Directory> directory, open_names_directory(name.directory));
  Result<NameInfo> now = os::look_at_name(directory->fd(), name.leaf);
  if (!now.is_ok() && now.status().code() != Code::kNotFound) return std::move(now).status();
  const std::string what = now.is_ok()
                               ? format("inode %llu has the name", as_llu(now.value().inode))
                               : std::string("no file has the name");
  return refuse_name(
      name.path(), Code::kNotFound,
      format("is not a name of a storage that this process holds: %s", what.c_str()));
}

Status count_message_received(const NameClaim& claim) {
  if (claim.name.empty()) return Status::ok();
  TENON_ASSIGN(const Filename name, parse_filename(claim.name));
  if (const Ref<Segment> segment = find_held_file(name)) {
    if (FileTail* tail = segment->find_tail<FileTail>(); tail != nullptr) {
      tail->count_received();
      return Status::ok();
    }
  }
  if (count_socket_message(name, true)) return Status::ok();
  Result<Ref<Directory>> directory = open_names_directory(name.directory);
  if (!directory.is_ok())
    return directory.status().code() == Code::kNotFound ? Status::ok()
                                                        : std::move(directory).status();
  Result<NameInfo> info = os::look_at_name(directory.value()->fd(), name.leaf);
  if (!info.is_ok())
    return info.status().code() == Code::kNotFound ? Status::ok() : std::move(info).status();
  if (info.value().kind == NameInfo::Kind::kSocket) {
    os::Waiter waiter({.timeout_ns = kSweepPatienceNs});
    Result<Handed> answer = ask_name(name, NameRequest::kReceived, true, &waiter);
    const Code code = answer.status().code();
    return code == Code::kPeerGone || code == Code::kNotFound ? Status::ok()
                                                              : std::move(answer).status();
  }
  Result<OpenedFile> file = open_locked(directory.value(), name, true);
  if (!file.is_ok())
    return file.status().code() == Code::kNotFound ? Status::ok() : std::move(file).status();
  if (file.value().info.nbytes < kNameHead)
    return refuse_name(name.path(), Code::kCorrupt, "has no head");
  {
    TENON_ASSIGN(const os::Mapping page, os::Mapping::create(os::Mapping::Kind::kSharedWritable,
                                                             file.value().fd.get(), 0, kNameHead));
    count_message_received(std::launder(reinterpret_cast<share::FilenameHeader*>(page.base())));
    file.value().fd.reset();
  }
  (void)settle_name(directory.value(), name.leaf);
  return Status::ok();
}

Status unlink_filename(std::string_view text) {
  TENON_ASSIGN(const Filename name, parse_filename(text));
  Result<Ref<Directory>> directory = open_names_directory(name.directory);
  if (!directory.is_ok())
    return directory.status().code() == Code::kNotFound ? Status::ok()
                                                        : std::move(directory).status();
  Result<NameInfo> info = os::look_at_name(directory.value()->fd(), name.leaf);
  if (!info.is_ok())
    return info.status().code() == Code::kNotFound ? Status::ok() : std::move(info).status();
  if (info.value().kind == NameInfo::Kind::kOther)
    return refuse_name(name.path(), Code::kPermission, "is neither a file nor a socket");
  return os::unlink_name(directory.value()->fd(), name.leaf);
}

Result<SweepTotals> sweep_names(const std::string& directory, const LookOptions& options) {
  SweepTotals totals;
  if (options.remove && directory == kSharedMemory) remove_dead_managers();
  TENON_TRY(look_at_all(directory, options, [&](const NameReport& report) {
    if (report.state == NameState::kLive) ++totals.live;
    if (report.state == NameState::kInFlight) ++totals.in_flight;
    if (report.state == NameState::kUnsure) ++totals.unsure;
    if (report.state != NameState::kDead) return true;
    const bool ours = report.kind != NameKind::kTorchFile || options.torch;
    if (!ours || (options.remove && !report.removed)) {
      ++totals.unsure;
    } else {
      ++totals.dead;
      totals.removed_nbytes += report.allocated_nbytes;
    }
    return true;
  }));
  return totals;
}

void leave_by_filename() noexcept {
  leave_served_names();
  leave_names();
}

}  // namespace tenon::names
