#include "memory/segment.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/fork.h"
#include "base/process_state.h"
#include "os/limits.h"
#include "os/named_file.h"
#include "os/poller.h"
#include "os/service.h"
#include "os/thp.h"

namespace tenon::memory {
namespace {

constexpr unsigned kSizeSeals = os::kSealShrink | os::kSealGrow;

std::atomic<uint64_t> g_next_serial{1};

// This lock is held while a segment's fd for lending is made and published. fork takes it too,
// because fork copies the fd table before the memory. If another thread published an fd in between,
// the child would have the number of an fd that it does not have.
struct LendFdLock : ProcessState<LockRank::kLendFd> {};
// Makes a file that can be sealed. Where memfd_create is denied, memory that needs no seal gets a
// nameless file, and `*sealable` is false.
Result<os::Fd> create_file(Mode mode, const os::Nonce& nonce, uint64_t nbytes,
                           const Backing* backing, bool* sealable) {
  *sealable = true;
  Result<os::Fd> made = backing != nullptr ? create_backed_memfd(nonce, nbytes, *backing)
                                           : os::create_memfd(nonce, nbytes);
  const bool takes_nameless =
      mode == Mode::kShared && (backing == nullptr || backing->pages != Pages::kHugetlb);
  if (made.is_ok() || !takes_nameless || !os::is_memfd_denied(made.status())) return made;
  Result<os::Fd> nameless = os::create_nameless_file(nbytes);
  if (nameless.is_ok()) *sealable = false;
  if (nameless.is_ok() || nameless.status().code() == Code::kResourceExhausted) return nameless;
  const Status& denied = made.status();
  Status neither(denied.code(), denied.message() + "; but " + nameless.status().message());
  return std::move(neither).with_details_of(denied).caused_by(nameless.status());
}

Status refuse_fd(Code code, int fd, const std::string& why) {
  return Status(code, format("fd %d %s", fd, why.c_str())).with("fd", fd);
}

}  // namespace

Status reserve_in_chunks(int fd, uint64_t offset, uint64_t nbytes) {
  for (uint64_t done = 0; done < nbytes; done += os::kReserveChunk) {
    const uint64_t chunk = std::min(nbytes - done, os::kReserveChunk);
    TENON_TRY(os::ask_headroom(chunk));
    TENON_TRY(os::reserve_pages(fd, offset + done, chunk));
  }
  return Status::ok();
}

SegmentTotals& segment_totals() noexcept {
  static constinit SegmentTotals totals;
  return totals;
}

Segment::Segment() noexcept
    : serial_(g_next_serial.fetch_add(1, std::memory_order_relaxed)),
      generation_(fork_generation()) {
  segment_totals().segments.fetch_add(1, std::memory_order_relaxed);
}

void Segment::dispose() noexcept {
  if (auto hook = end_hook_.load(std::memory_order_acquire); hook != nullptr) hook(this);
  if (!os::on_service_thread() || !ends_apart()) end();
}

// The last lease of a segment may end on the library's thread, where other leases wait for that. So
// if the end of the segment may wait, it gets a thread of its own there. False: the end cannot
// wait, or no thread can be had. If a process forks while such a thread is at work, the child keeps
// the mapping until the child itself ends.
bool Segment::ends_apart() noexcept {
  bool may_wait = false;
  for (SegmentTail* tail = tails_.load(std::memory_order_acquire); tail != nullptr;
       tail = tail->next_) {
    may_wait = may_wait || tail->may_wait();
  }
  if (!may_wait) return false;
  weak_retain();
  try {
    const auto body = [](void* self) noexcept {
      auto* const segment = static_cast<Segment*>(self);
      segment->end();
      segment->weak_release();
    };
    if (os::start_thread("tenon-end", os::Stack::kUsual, body, this).is_ok()) return true;
  } catch (...) {
    // There is no memory for a thread.
  }
  weak_release();
  return false;
}

void Segment::end() noexcept {
  SegmentTail* const tails = tails_.exchange(nullptr, std::memory_order_acq_rel);
  for (SegmentTail* tail = tails; tail != nullptr; tail = tail->next_) tail->before_unmap(this);
  mapping_ = os::Mapping();
  charge_ = os::MapCharge();
  SegmentTotals& totals = segment_totals();
  const os::Fd lend_fd(lend_fd_.exchange(-1, std::memory_order_acq_rel));
  totals.fds.fetch_sub((write_fd_.is_open() ? 1U : 0U) + (read_fd_.is_open() ? 1U : 0U) +
                           (lend_fd.is_open() ? 1U : 0U),
                       std::memory_order_relaxed);
  write_fd_.reset();
  read_fd_.reset();
  totals.reserved_nbytes.fetch_sub(reserved_nbytes_.load(std::memory_order_relaxed),
                                   std::memory_order_relaxed);
  totals.filled_nbytes.fetch_sub(filled_nbytes_.load(std::memory_order_relaxed),
                                 std::memory_order_relaxed);
  totals.segments.fetch_sub(1, std::memory_order_relaxed);
  for (SegmentTail* tail = tails; tail != nullptr;) {
    const std::unique_ptr<SegmentTail> ending(tail);
    tail = tail->next_;
    ending->after_unmap();
  }
}

void Segment::attach_tail(std::unique_ptr<SegmentTail> tail) noexcept {
  SegmentTail* const added = tail.release();
  added->next_ = tails_.load(std::memory_order_relaxed);
  while (!tails_.compare_exchange_weak(added->next_, added, std::memory_order_acq_rel)) {
  }
}

Result<os::Fd> Segment::reopen() const {
  for (SegmentTail* tail = tails_.load(std::memory_order_acquire); tail != nullptr;
       tail = tail->next_) {
    TENON_ASSIGN(os::Fd fd, tail->reopen());
    if (fd.is_open()) return fd;
  }
  return Status(Code::kUnsupported, "the segment has no fd to lend");
}

Result<Ref<Segment>> Segment::create(Mode mode, uint64_t nbytes) {
  return create_with(mode, nbytes, {}, nullptr);
}

Result<Ref<Segment>> Segment::create_backed(Mode mode, uint64_t nbytes,
                                            const BackingRequest& request) {
  TENON_ASSIGN(Backing chosen, choose_pages(request, mode));
  auto backing = std::make_unique<Backing>(std::move(chosen));
  uint64_t whole = 0;
  if (!checked_round_up(nbytes, backing->page_nbytes, &whole)) whole = nbytes;
  return create_with(mode, whole, request, std::move(backing));
}

Result<Ref<Segment>> Segment::create_with(Mode mode, uint64_t nbytes, const BackingRequest& request,
                                          std::unique_ptr<Backing> backing) {
  TENON_TRY(os::check_file_size(nbytes));
  auto segment = Ref<Segment>::adopt(new Segment());
  Segment& it = *segment;
  it.own_ = true;
  it.mode_ = mode;
  it.nbytes_ = nbytes;
  TENON_ASSIGN(it.nonce_, os::random_nonce());
  TENON_ASSIGN(it.write_fd_, create_file(mode, it.nonce_, nbytes, backing.get(), &it.sealed_));
  if (!it.sealed_) it.nonce_ = {};  // only the name of a memfd has the nonce
  segment_totals().fds.fetch_add(1, std::memory_order_relaxed);
  TENON_ASSIGN(const os::FileInfo file, os::stat_file(it.write_fd_.get()));
  it.key_ = {file.device, file.inode, mode != Mode::kFrozen};
  using Kind = os::Mapping::Kind;
  if (mode == Mode::kFrozen) {
    // A shared mapping of a writable fd counts as writable for the kernel, whatever its protection,
    // and would make F_SEAL_WRITE fail with EBUSY.
    TENON_ASSIGN(it.read_fd_, os::reopen_read_only(it.write_fd_.get()));
    segment_totals().fds.fetch_add(1, std::memory_order_relaxed);
    TENON_ASSIGN(it.mapping_,
                 os::Mapping::create(Kind::kSharedReadOnly, it.read_fd_.get(), 0, nbytes));
    TENON_TRY(os::add_seals(it.write_fd_.get(), kSizeSeals));
    return segment;
  }
  TENON_ASSIGN(it.mapping_, os::Mapping::create(Kind::kSharedWritable, it.write_fd_.get(), 0,
                                                nbytes, backing ? backing->page_nbytes : 0));
  if (backing) {
    TENON_TRY(apply_backing(it.mapping_.base(), nbytes, request, backing.get()));
    it.backing_ = std::move(backing);
  }
  if (!it.sealed_) return segment;
  const unsigned more = mode == Mode::kLenderWrites ? os::kSealFutureWrite : 0U;
  TENON_TRY(os::add_seals(it.write_fd_.get(), kSizeSeals | os::kSealSeal | more));
  return segment;
}

Result<Segment::Inspected> Segment::inspect(int fd, const OpenRequest& request) {
  Inspected result;
  TENON_ASSIGN(result.file, os::inspect_file(fd));
  const os::FileInfo& file = result.file;
  if (!file.regular)
    return refuse_fd(Code::kInvalidArgument, fd, format("is a %s and no memory", file.kind));
  if (!file.readable) return refuse_fd(Code::kPermission, fd, "is not open for reading");
  bool may_be_cut = request.allow_unsealed || request.for_private;
  if (!file.in_memory && !may_be_cut) {
    return refuse_fd(
               Code::kPermission, fd,
               "is a file on a disk and not memory: whoever can write it could cut it short, and "
               "this process would be killed "
               "(SIGBUS); open it with allow_unsealed if you trust them, or with private_copy")
        .with("option", std::string("ALLOW_UNSEALED"));
  }
  result.seals = file.seals;
  result.sealed = (result.seals & os::kSealShrink) != 0;
  if (!result.sealed && !may_be_cut && request.trusts != nullptr) may_be_cut = request.trusts(fd);
  if (!result.sealed && !may_be_cut) {
    return refuse_fd(Code::kPermission, fd,
                     "is not sealed against shrinking: its owner could cut the memory short, and "
                     "this process would be killed (SIGBUS); "
                     "open it with allow_unsealed if you trust the owner, or with private_copy")
        .with("option", std::string("ALLOW_UNSEALED"));
  }
  result.huge_pages =
      file.in_memory && file.block_nbytes > os::page_nbytes() && os::is_of_huge_pages(fd);
  // Any process that may write such a file can punch holes into it, and the pool of huge pages may
  // be empty when a hole is read.
  constexpr unsigned kNoHoles = os::kSealWrite | os::kSealFutureWrite;
  if (result.huge_pages && (result.seals & kNoHoles) == 0 && !may_be_cut) {
    return refuse_fd(
               Code::kPermission, fd,
               "has pages of hugetlbfs that its writers can take away: a load could meet SIGBUS")
        .with("option", std::string("ALLOW_UNSEALED, or the modes LENDER_WRITES and FROZEN"));
  }
  if ((result.seals & os::kSealWrite) != 0) {
    result.mode = Mode::kFrozen;
  } else if ((result.seals & os::kSealFutureWrite) != 0) {
    result.mode = Mode::kLenderWrites;
  }
  const bool can_write = file.writable && result.mode == Mode::kShared;
  if (request.access == Access::kWritable && !can_write && !request.for_private) {
    return refuse_fd(Code::kPermission, fd,
                     std::string(result.mode == Mode::kShared ? "is not open for writing"
                                                              : "is sealed against writing") +
                         ": open it READ_ONLY, or as PRIVATE_COW or PRIVATE_COPY")
        .with("option", std::string("READ_ONLY, PRIVATE_COW or PRIVATE_COPY"));
  }
  result.writable = can_write && request.access != Access::kReadOnly;
  const uint64_t least = std::max(request.nbytes, request.needed_nbytes);
  if (file.nbytes < least) {
    return refuse_fd(Code::kCorrupt, fd,
                     format("has %llu bytes, and %llu are claimed: pass the size and the offset "
                            "that the lender's handle has",
                            as_llu(file.nbytes), as_llu(least)))
        .with("field", std::string("segment_nbytes"));
  }
  // An unsealed file is mapped no further than the peer claimed, because nobody promises anything
  // about the rest.
  result.nbytes = request.nbytes != 0 ? request.nbytes : file.nbytes;
  if (result.sealed) result.nbytes = file.nbytes;
  // Huge pages are mapped and unmapped whole. The size of such a file is a multiple of them.
  if (result.huge_pages) result.nbytes = round_up(result.nbytes, file.block_nbytes);
  return result;
}

Result<Ref<Segment>> Segment::open(os::Fd* fd, const Inspected& inspected,
                                   const std::shared_ptr<os::MapBudget>& budget) {
  auto segment = Ref<Segment>::adopt(new Segment());
  Segment& it = *segment;
  it.mode_ = inspected.mode;
  it.sealed_ = inspected.sealed;
  it.huge_pages_ = inspected.huge_pages;
  it.nbytes_ = inspected.nbytes;
  it.key_ = inspected.key();
  it.frozen_.store(inspected.mode == Mode::kFrozen, std::memory_order_relaxed);
  TENON_ASSIGN(it.charge_, os::MapCharge::take(it.nbytes_, budget));
  using Kind = os::Mapping::Kind;
  TENON_ASSIGN(it.mapping_,
               os::Mapping::create(it.key_.writable ? Kind::kSharedWritable : Kind::kSharedReadOnly,
                                   fd->get(), 0, it.nbytes_));
  it.read_fd_ = std::move(*fd);
  // inspect() has counted these pages already. check_pages() looks again only beyond them.
  const os::FileInfo& file = inspected.file;
  const uint64_t counted = count_tells(file, inspected.sealed) ? file.allocated_nbytes : 0;
  it.present_nbytes_.store(!file.in_memory  ? UINT64_MAX
                           : it.huge_pages_ ? 0
                                            : counted,
                           std::memory_order_relaxed);
  segment_totals().fds.fetch_add(1, std::memory_order_relaxed);
  return segment;
}

Result<Ref<Segment>> Segment::open_named(int fd, const Inspected& inspected, bool own,
                                         std::unique_ptr<SegmentTail> tail) {
  auto segment = Ref<Segment>::adopt(new Segment());
  Segment& it = *segment;
  it.mode_ = inspected.mode;
  it.nbytes_ = inspected.nbytes;
  it.key_ = inspected.key();
  const os::FileInfo& file = inspected.file;
  // A file that has all of its pages needs no memory, and must open on a full machine too.
  if (file.in_memory && file.allocated_nbytes < round_up(it.nbytes_, os::page_nbytes())) {
    if (!file.writable) {
      return refuse_fd(
          Code::kCorrupt, fd,
          format(
              "has %llu bytes and memory for only %llu: reading its holes would take memory here",
              as_llu(it.nbytes_), as_llu(file.allocated_nbytes)));
    }
    if (!own) TENON_TRY(it.charge_holes(it.nbytes_ - std::min(it.nbytes_, file.allocated_nbytes)));
    TENON_TRY(reserve_in_chunks(fd, 0, it.nbytes_));
  }
  if (!own) {
    TENON_ASSIGN(it.charge_, os::MapCharge::take(it.nbytes_, nullptr));
  }
  using Kind = os::Mapping::Kind;
  TENON_ASSIGN(it.mapping_,
               os::Mapping::create(it.key_.writable ? Kind::kSharedWritable : Kind::kSharedReadOnly,
                                   fd, 0, it.nbytes_));
  it.present_nbytes_.store(UINT64_MAX, std::memory_order_relaxed);
  it.own_ = own;
  if (own) {
    it.reserved_nbytes_.store(it.nbytes_, std::memory_order_relaxed);
    segment_totals().reserved_nbytes.fetch_add(it.nbytes_, std::memory_order_relaxed);
  }
  it.attach_tail(std::move(tail));
  return segment;
}

// RLIMIT_FSIZE was checked when the segment got its size. It does not limit pages inside that size.
Status Segment::reserve(uint64_t offset, uint64_t nbytes) {
  TENON_TRY(backing_ ? make_pages(write_fd_.get(), base(), offset, nbytes, *backing_)
                     : reserve_in_chunks(write_fd_.get(), offset, nbytes));
  reserved_nbytes_.fetch_add(nbytes, std::memory_order_relaxed);
  segment_totals().reserved_nbytes.fetch_add(nbytes, std::memory_order_relaxed);
  return Status::ok();
}

uint64_t Segment::unit_nbytes() const noexcept {
  return backing_ ? backing_->page_nbytes : os::page_nbytes();
}

Backing Segment::describe_backing() const {
  if (backing_) return describe(base(), nbytes_, *backing_);
  Backing plain;
  plain.page_nbytes = os::page_nbytes();
  return plain;
}

Status Segment::write_through_fd(uint64_t offset, const void* data, uint64_t nbytes, bool fresh) {
  // The lock keeps freeze() away, so that a write is whole or refused.
  std::unique_lock<std::mutex> lock(fd_mutex_, std::defer_lock);
  if (mode_ == Mode::kFrozen) {
    if (generation_ != fork_generation())
      return Status(Code::kUnsupported,
                    "only the process that made a storage to be frozen can fill it");
    lock.lock();
    if (frozen())
      return Status(Code::kPermission,
                    "the storage is frozen, and nobody can write it any more: write before the "
                    "freeze, or into a new storage");
  }
  const auto* from = static_cast<const std::byte*>(data);
  const int fd = any_fd();
  // hugetlbfs does not support pwrite. The pages were made before.
  if (backing_ && backing_->pages == Pages::kHugetlb) {
    std::memcpy(base() + offset, data, nbytes);
    return Status::ok();
  }
  // A named file has no fd. Huge pages of a peer may be taken away, so the kernel copies.
  if (fd < 0 || huge_pages_) return os::copy_to_mapping(data, base() + offset, nbytes);
  if (!fresh) return os::write_file(fd, offset, from, nbytes);
  TENON_TRY(os::check_file_size(offset + nbytes));
  while (nbytes > 0) {
    const uint64_t chunk = std::min(nbytes, os::kReserveChunk);
    TENON_TRY(os::ask_headroom(chunk));
    TENON_TRY(os::write_file(fd, offset, from, chunk));
    const uint64_t pages = round_up(chunk, os::page_nbytes());
    reserved_nbytes_.fetch_add(pages, std::memory_order_relaxed);
    segment_totals().reserved_nbytes.fetch_add(pages, std::memory_order_relaxed);
    from += chunk;
    offset += chunk;
    nbytes -= chunk;
  }
  return Status::ok();
}

Status Segment::fill(const std::function<Status(std::byte* base)>& fill) {
  const std::lock_guard<std::mutex> lock(fd_mutex_);
  if (generation_ != fork_generation())
    return Status(Code::kUnsupported, "only the process that made a segment can fill it");
  if (mode_ != Mode::kFrozen || frozen())
    return Status(Code::kPermission, "the segment is frozen, and nobody can write it any more");
  TENON_TRY(os::check_file_size(nbytes_));
  const uint64_t huge = os::thp_nbytes();
  // The seal against writing is refused as long as a writable mapping exists, also in a child.
  TENON_ASSIGN(os::Mapping writable,
               os::Mapping::create(os::Mapping::Kind::kSharedWritable, write_fd_.get(), 0, nbytes_,
                                   nbytes_ >= huge ? huge : 0));
  TENON_TRY(writable.keep_from_children());
  if (huge != 0 && nbytes_ >= huge) os::advise_thp(writable.base(), nbytes_, true);
  TENON_TRY(fill(writable.base()));
  const uint64_t pages = round_up(nbytes_, os::page_nbytes());
  reserved_nbytes_.fetch_add(pages, std::memory_order_relaxed);
  segment_totals().reserved_nbytes.fetch_add(pages, std::memory_order_relaxed);
  return Status::ok();
}

Status Segment::read_through_fd(uint64_t offset, void* data, uint64_t nbytes) const {
  if (any_fd() < 0) return os::copy_from_mapping(base() + offset, data, nbytes);  // a named file
  return os::read_file(any_fd(), offset, data, nbytes);
}

Status Segment::freeze() {
  if (generation_ != fork_generation())
    return Status(Code::kUnsupported, "only the process that made a storage can freeze it");
  const std::lock_guard<std::mutex> lock(fd_mutex_);
  if (frozen()) return Status::ok();
  TENON_TRY(os::add_seals(write_fd_.get(), os::kSealWrite | os::kSealSeal));
  frozen_.store(true, std::memory_order_release);
  write_fd_.reset();
  segment_totals().fds.fetch_sub(1, std::memory_order_relaxed);
  return Status::ok();
}

os::Nonce Segment::nonce() const {
  os::Nonce nonce = nonce_;
  if (!own_ && !os::read_nonce(any_fd(), &nonce)) nonce = {};
  return nonce;
}

os::Fd Segment::take_back_fd() noexcept {
  segment_totals().fds.fetch_sub(1, std::memory_order_relaxed);
  return std::move(read_fd_);
}

Result<int> Segment::lending_fd() {
  const bool has_no_fd = any_fd() < 0;
  if (!own_ && !has_no_fd) return read_fd_.get();
  if (mode_ == Mode::kShared && !has_no_fd) return write_fd_.get();
  if (mode_ == Mode::kFrozen) return read_fd_.get();
  if (const int known = lend_fd_.load(std::memory_order_acquire); known >= 0) return known;
  const std::lock_guard<std::mutex> lock(process_state<LendFdLock>().mutex);
  if (const int known = lend_fd_.load(std::memory_order_acquire); known >= 0) return known;
  TENON_ASSIGN(os::Fd made, has_no_fd ? reopen() : os::reopen_read_only(write_fd_.get()));
  segment_totals().fds.fetch_add(1, std::memory_order_relaxed);
  lend_fd_.store(made.get(), std::memory_order_release);
  return made.detach();
}

}  // namespace tenon::memory
