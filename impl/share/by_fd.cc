#include "share/by_fd.h"

#include <algorithm>

#include "base/checked.h"
#include "memory/spare.h"
#include "share/cache.h"
#include "share/named_file_head.h"

namespace tenon::share {
namespace {

using memory::Mode;

Status refuse_lend(const char* why, const char* option) {
  return Status(Code::kPermission, format("%s: use %s", why, option))
      .with("option", std::string(option));
}

// Combines the access that the handle claims with the access that the opener wants. A handle that
// says READ_ONLY never opens writable.
Result<Access> wanted_access(Access claimed, Access wanted) {
  if (claimed == Access::kReadOnly && wanted == Access::kWritable)
    return refuse_lend("the handle is read-only and cannot be opened writable",
                       "PRIVATE_COW or PRIVATE_COPY");
  if (wanted != Access::kAuto) return wanted;
  return claimed;
}

Status check_claim(const Claim& claim, uint64_t* end) {
  if (!checked_add(claim.offset, claim.nbytes, end) || *end > uint64_t{INT64_MAX}) {
    return Status(Code::kInvalidArgument, "offset and nbytes of the handle overflow")
        .with("field", std::string("offset"));
  }
  if (claim.segment_nbytes != 0 && *end > claim.segment_nbytes) {
    return Status(Code::kInvalidArgument, "the handle's range lies outside its segment")
        .with("field", std::string("nbytes"));
  }
  return Status::ok();
}

}  // namespace

Result<Access> check_lend(const Storage& storage, Access wanted) {
  TENON_TRY(storage.check_lender());
  if (storage.is_private()) {
    return Status(Code::kUnsupported,
                  "the storage is private memory, which cannot be lent: copy it into a shared "
                  "storage, and lend that one")
        .with("option", std::string("tenon_storage_new_from"));
  }
  if (storage.device_memory() != nullptr) {
    return Status(Code::kUnsupported, format("the storage is on CUDA device %d, whose memory has "
                                             "no fd and no name: lend it over a "
                                             "connection, or by a handle of its own",
                                             storage.device().id))
        .with("option", std::string("tenon_share_cuda"));
  }
  if (storage.mode() == Mode::kShared) {
    if (wanted == Access::kReadOnly)
      return refuse_lend(
          "a SHARED storage cannot be lent read-only, because its borrowers could write all the "
          "same",
          "LENDER_WRITES or FROZEN");
    if (!storage.is_read_only()) return Access::kWritable;
    // The storage was opened read-only, but only this process's own mapping is read-only. No lend
    // can pass that on.
    if (storage.segment())
      return refuse_lend(
          "the storage was opened read-only from a segment that its borrowers may write, and "
          "cannot be lent on so",
          "WRITABLE when it is opened");
    return Access::kReadOnly;
  }
  if (wanted == Access::kWritable)
    return refuse_lend("the storage's mode forbids writable lends", "SHARED");
  if (storage.mode() == Mode::kFrozen && storage.segment() && !storage.segment()->frozen()) {
    return refuse_lend("the storage of mode FROZEN is not frozen yet, and cannot be lent before",
                       "tenon_storage_freeze");
  }
  return Access::kReadOnly;
}

Result<Access> check_lend_device(const Storage& storage, Access wanted) {
  TENON_TRY(storage.check_lender());
  if (!storage.is_read_only()) return wanted;
  if (wanted == Access::kWritable) return refuse_lend("the storage is read-only", "a writable one");
  return Access::kReadOnly;
}

Result<Lend> lend(const Ref<Storage>& storage, Access wanted, bool under_lease) {
  Lend result;
  TENON_ASSIGN(result.access, check_lend(*storage, wanted));
  result.nbytes = storage->nbytes();
  const Ref<Segment>& segment = storage->segment();
  if (!segment) return result;
  TENON_ASSIGN(result.fd, memory::with_spare([&] { return segment->lending_fd(); }));
  result.offset = storage->offset();
  result.segment_nbytes = segment->nbytes();
  // The segment and the storage join the identity cache, so that opening the handle in this process
  // gives this storage.
  if (!is_cached(*segment)) (void)intern_segment(segment);
  if (!is_cached(*storage)) (void)intern_storage(Ref<Storage>(storage));
  if (!under_lease) storage->mark_lent();  // last, because a failed lend must not retire the block
  return result;
}

namespace {

bool is_named_file(int fd) {
  Result<FilenameHead> head = read_head(fd);
  return head.is_ok() && head.value().magic == kFilenameMagic;
}

// Sets which files without seals `options` let in.
void set_unsealed(const OpenOptions& options, Segment::OpenRequest* request) noexcept {
  request->allow_unsealed = options.allow_unsealed;
  if (options.allow_named_files) request->trusts = &is_named_file;
}

Result<Ref<Segment>> try_open_segment(int fd, Access claimed, uint64_t segment_nbytes,
                                      uint64_t needed_nbytes, const OpenOptions& options,
                                      os::Fd* adopt) {
  Segment::OpenRequest request;
  TENON_ASSIGN(request.access, wanted_access(claimed, options.access));
  set_unsealed(options, &request);
  request.nbytes = segment_nbytes;
  request.needed_nbytes = needed_nbytes;
  TENON_ASSIGN(const Segment::Inspected inspected, Segment::inspect(fd, request));
  if (Ref<Segment> known = find_segment(inspected.key());
      known && known->nbytes() >= needed_nbytes) {
    if (adopt != nullptr) adopt->reset();
    return known;
  }
  os::Fd own;
  if (adopt == nullptr) {
    TENON_ASSIGN(own, os::duplicate(fd));
    own.mark_foreign();
    adopt = &own;
  }
  TENON_ASSIGN(Ref<Segment> opened, Segment::open(adopt, inspected, options.budget));
  // intern_segment() may throw std::bad_alloc. In that case the caller gets its fd back.
  struct GiveBack {
    Segment* segment;
    os::Fd* fd;
    ~GiveBack() {
      if (segment != nullptr) *fd = segment->take_back_fd();
    }
  } give_back{opened.get(), adopt};
  Ref<Segment> known = intern_segment(opened);
  give_back.segment = nullptr;
  // An unsealed file may have grown since it was first mapped.
  return known->nbytes() >= needed_nbytes ? known : opened;
}

}  // namespace

Result<Ref<Segment>> open_segment(int fd, Access claimed, uint64_t segment_nbytes,
                                  uint64_t needed_nbytes, const OpenOptions& options,
                                  os::Fd* adopt) {
  return memory::with_spare(
      [&] { return try_open_segment(fd, claimed, segment_nbytes, needed_nbytes, options, adopt); });
}

namespace {

// Makes a storage, unless the identity cache has one by now.
Ref<Storage> open_new(const Ref<Segment>& segment, uint64_t offset, uint64_t nbytes,
                      memory::Lease* lease) {
  Ref<Storage> opened = Storage::open_uncounted(segment, offset, nbytes, {});
  const bool has_lease = lease != nullptr && lease->stands();
  if (has_lease) opened->swap_lease(lease);
  try {
    Ref<Storage> known = intern_storage(std::move(opened));
    // `opened` is still here if another storage was known.
    if (opened) {  // NOLINT(bugprone-use-after-move): intern_storage() leaves it then
      if (has_lease) opened->swap_lease(lease);
      known->lent_again();
    }
    return known;
  } catch (...) {
    // No memory. The lease would be given back with the storage, but the caller will try again and
    // needs it.
    if (has_lease) opened->swap_lease(lease);
    throw;
  }
}

Result<Ref<Storage>> open_foreign(const Ref<Segment>& segment, uint64_t offset, uint64_t nbytes,
                                  memory::Lease* lease) {
  Status checked = memory::with_spare([&] { return segment->check_pages(offset, nbytes); });
  if (checked.is_ok()) return open_new(segment, offset, nbytes, lease);
  // A known storage has its pages.
  Ref<Storage> known = find_storage(segment.get(), offset, nbytes);
  if (!known) return checked;
  known->lent_again();
  return known;
}

}  // namespace

Result<Ref<Storage>> open_range(const Ref<Segment>& segment, uint64_t offset, uint64_t nbytes,
                                memory::Lease* lease) {
  // Memory of another process is mostly not known yet, so a storage is made at once.
  if (!segment->own()) return open_foreign(segment, offset, nbytes, lease);
  if (Ref<Storage> known = find_storage(segment.get(), offset, nbytes)) {
    // `known` may be a storage that a forked child inherited. It does not keep the block in the
    // parent. Only the lease does, so a storage is made that keeps the lease.
    const bool inherited = !segment->made_by_this_process();
    if (!inherited || lease == nullptr || !lease->stands() || known->lease() != nullptr) {
      known->lent_again();
      return known;
    }
    Ref<Storage> own = Storage::open(segment, offset, nbytes);
    own->swap_lease(lease);
    return own;
  }
  return open_new(segment, offset, nbytes, lease);
}

Result<Ref<Storage>> open_private(int fd, const Claim& claim, const OpenOptions& options) {
  uint64_t end = 0;
  TENON_TRY(check_claim(claim, &end));
  Segment::OpenRequest request;
  set_unsealed(options, &request);
  request.for_private = options.private_copy;
  request.nbytes = claim.segment_nbytes;
  request.needed_nbytes = end;
  request.access = Access::kReadOnly;
  TENON_ASSIGN(const Segment::Inspected inspected, Segment::inspect(fd, request));
  return options.private_copy
             ? Storage::open_private_copy(fd, claim.offset, claim.nbytes)
             : memory::with_spare([&] {
                 return Storage::open_private_cow(fd, claim.offset, claim.nbytes, inspected.sealed,
                                                  options.budget);
               });
}

Result<Ref<Storage>> open_by_fd(int fd, const Claim& claim, const OpenOptions& options,
                                os::Fd* adopt) {
  uint64_t end = 0;
  TENON_TRY(check_claim(claim, &end));
  // A private opening may be written whatever the handle allows, because its writes never reach the
  // lender.
  Access access = Access::kWritable;
  if (!options.is_private()) {
    TENON_ASSIGN(access, wanted_access(claim.access, options.access));
  }
  if (fd == -1) {
    if (claim.nbytes != 0 || claim.offset != 0)
      return Status(Code::kInvalidArgument, "a handle without an fd must be empty").with("fd", fd);
    if (options.is_private()) return Storage::create({.is_private = true}, 0);
    return Storage::open_empty(Mode::kShared, access == Access::kReadOnly);
  }
  if (options.is_private()) {
    TENON_ASSIGN(Ref<Storage> storage, open_private(fd, claim, options));
    if (adopt != nullptr) adopt->reset();
    return storage;
  }
  if (claim.nbytes == 0) {
    TENON_ASSIGN(const os::FileInfo file, os::inspect_file(fd));
    (void)file;
    Ref<Storage> empty = Storage::open_empty(Mode::kShared, access == Access::kReadOnly);
    if (adopt != nullptr) adopt->reset();
    return empty;
  }
  // open_segment() works on a copy of the fd, so a later failure leaves the caller's fd as it was.
  TENON_ASSIGN(Ref<Segment> segment,
               open_segment(fd, claim.access, claim.segment_nbytes, end, options, nullptr));
  TENON_ASSIGN(Ref<Storage> storage, open_range(segment, claim.offset, claim.nbytes, nullptr));
  if (adopt != nullptr) adopt->reset();
  return storage;
}

}  // namespace tenon::share
