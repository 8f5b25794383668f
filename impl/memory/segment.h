// A Segment is the kernel object behind shared bytes, and its mapping in this process. This process
// made the object, or opened it from an fd that came from elsewhere. Arenas, storages and openings
// use segments.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "base/counted.h"
#include "base/fork.h"
#include "base/status.h"
#include "memory/backing.h"
#include "memory/mode.h"
#include "os/fd.h"
#include "os/map_budget.h"
#include "os/mapping.h"
#include "os/memfd.h"

namespace tenon::memory {

// Makes the pages of a range of a file exist. Asks for the machine's headroom before each piece.
Status reserve_in_chunks(int fd, uint64_t offset, uint64_t nbytes);

// Tells a segment from all others on this machine, for as long as any process holds it.
struct SegmentKey {
  uint64_t device = 0;
  uint64_t inode = 0;
  // Each of the two accesses has a mapping of its own, so that the MMU enforces READ_ONLY, and not
  // good will.
  bool writable = false;

  bool operator==(const SegmentKey&) const = default;
};

class Segment;

// Something that a higher layer does when a segment ends. memory/ knows nothing of it. Names
// (names/held_files.h, names/name_server.cc) and pinned memory (device/pinned.cc) have tails. Tails
// are called without a ranked lock, by the thread that releases the last reference. If that is the
// service thread and may_wait() is true for a tail, a thread of its own ("tenon-end") calls them. A
// forked child calls its copy of the tail too, so a tail that ends something of its parent's checks
// fork_generation().
class SegmentTail {
 public:
  SegmentTail() noexcept = default;
  SegmentTail(const SegmentTail&) = delete;
  SegmentTail& operator=(const SegmentTail&) = delete;
  virtual ~SegmentTail() = default;
  virtual void before_unmap(Segment* segment) noexcept = 0;
  // Whether before_unmap() may wait for somebody else's work, such as a device's.
  virtual bool may_wait() const noexcept { return false; }
  virtual void after_unmap() noexcept = 0;
  // Opens a new fd of the segment's file, for a segment that keeps none. The result is not open if
  // this tail knows no way to the file.
  virtual Result<os::Fd> reopen() { return os::Fd(); }

 private:
  friend class Segment;
  SegmentTail* next_ = nullptr;
};

// Any thread may call its functions. The last release runs the tails and closes fds, which takes
// locks of any rank, so the caller holds no ranked lock. A forked child has its own copy of the
// mapping and the fds, and its release of the segment ends only those. It reads and lends an
// inherited segment as its parent does, but freeze(), and write_through_fd() for FROZEN, fail with
// UNSUPPORTED.
class Segment : public Counted {
 public:
  // Makes a segment of this process. SHARED and LENDER_WRITES get all their seals at once
  // (LENDER_WRITES after its one writable mapping exists). FROZEN is mapped read-only, its size is
  // sealed at once, and freeze() seals it against writing. Where memfd_create is denied, SHARED is
  // a nameless file without seals. No pages exist yet: reserve() makes them. RESOURCE_EXHAUSTED: no
  // fd, address space or memory, or over RLIMIT_FSIZE. PERMISSION or UNSUPPORTED: memfd_create is
  // denied (os::is_memfd_denied()).
  static Result<Ref<Segment>> create(Mode mode, uint64_t nbytes);
  // Likewise, with the pages, the node and the lock that `request` asks for. `nbytes` is rounded up
  // to whole pages of the chosen kind. The mode is not FROZEN.
  static Result<Ref<Segment>> create_backed(Mode mode, uint64_t nbytes,
                                            const BackingRequest& request);

  struct OpenRequest {
    Access access = Access::kAuto;  // kAuto: the most that the fd and its seals allow
    bool allow_unsealed = false;
    // Called for an unsealed file in memory. If it returns true, the file may be unsealed.
    bool (*trusts)(int fd) = nullptr;
    // The caller will only read, so any readable file will do, sealed or not.
    bool for_private = false;
    uint64_t nbytes = 0;         // the segment's size, as the peer claims it; 0: ask the fd
    uint64_t needed_nbytes = 0;  // the least size that the file must have
  };
  // The facts about an fd that inspect() found, by all checks that need no mapping.
  struct Inspected {
    os::FileInfo file;
    unsigned seals = 0;
    Mode mode = Mode::kShared;
    bool sealed = false;
    bool writable = false;
    // The file is on hugetlbfs. A process that touches a missing page gets SIGBUS.
    bool huge_pages = false;
    uint64_t nbytes = 0;
    SegmentKey key() const noexcept { return {file.device, file.inode, writable}; }
  };
  // INVALID_ARGUMENT: the fd is closed, or is no regular file. PERMISSION: the fd is not readable,
  // or the file may be cut short, may lose huge pages to its writers, or does not allow the wanted
  // access (detail `option`). CORRUPT: it is smaller than the peer claims.
  static Result<Inspected> inspect(int fd, const OpenRequest& request);
  // Takes the fd over on success. After an error or std::bad_alloc it is still the caller's. The
  // mapping counts against `budget`, which may be null, and against this process's budget for other
  // processes' memory. RESOURCE_EXHAUSTED: over a budget, or no address space.
  static Result<Ref<Segment>> open(os::Fd* fd, const Inspected& inspected,
                                   const std::shared_ptr<os::MapBudget>& budget);

  // Opens a named file, and makes all of its pages. The fd stays the caller's, and the segment
  // keeps none: the mapping keeps the file and its lock, so a name costs no fd. `own`: this process
  // made the file. `tail` is attached to the segment. CORRUPT: pages are missing, and the file
  // cannot be written. RESOURCE_EXHAUSTED: no memory for them, no address space, or over what this
  // process fills for its peers (limit "filled_nbytes").
  static Result<Ref<Segment>> open_named(int fd, const Inspected& inspected, bool own,
                                         std::unique_ptr<SegmentTail> tail);

  SegmentKey key() const noexcept { return key_; }
  Mode mode() const noexcept { return mode_; }
  bool sealed() const noexcept { return sealed_; }
  bool writable() const noexcept { return key_.writable; }
  bool own() const noexcept { return own_; }
  // A child of fork inherits mappings and fds, but not the right to hand out or take back blocks.
  bool made_by_this_process() const noexcept { return own_ && generation_ == fork_generation(); }
  uint64_t nbytes() const noexcept { return nbytes_; }
  // Of an own segment: how many of its bytes have pages. An arena makes them from offset 0 on.
  uint64_t reserved_nbytes() const noexcept {
    return reserved_nbytes_.load(std::memory_order_relaxed);
  }
  // The size of a page of this segment. reserve() in multiples of it keeps huge pages whole.
  uint64_t unit_nbytes() const noexcept;
  // The pages that the segment has. Reads /proc/self/smaps if create_backed() made the segment.
  Backing describe_backing() const;
  std::byte* base() const noexcept { return mapping_.base(); }
  // Part of the memfd's name. All zero if the name has none, as for memory that Tenon did not make,
  // and for a file that is no memfd.
  os::Nonce nonce() const;
  // A number that no other segment of this process has or had.
  uint64_t serial() const noexcept { return serial_; }

  // Makes pages of an own segment exist. Asks for headroom chunk by chunk. Call it once for each
  // range, because reserved_nbytes() is counted here. After a failure some of the pages may exist,
  // and nothing is counted. The caller drops a new segment whole. An arena asks for the same range
  // again later.
  Status reserve(uint64_t offset, uint64_t nbytes);
  // Copies bytes in through the fd, which makes the pages and fills them in one pass. `fresh`: the
  // pages do not exist yet, so headroom is asked for. For SHARED, and for FROZEN before freeze().
  // In a segment without an fd and in huge pages the bytes are copied through the mapping.
  // PERMISSION: after freeze(), and for LENDER_WRITES, whose seal refuses writes through an fd.
  Status write_through_fd(uint64_t offset, const void* data, uint64_t nbytes, bool fresh);
  // Fills a new FROZEN segment, whose pages do not exist yet. `fill` writes all bytes through a
  // writable mapping that exists only during the call, and that no forked child gets. It asks for
  // headroom itself. Call freeze() afterwards. The errors are those of `fill` and of
  // os::Mapping::create(). PERMISSION: the segment is frozen. UNSUPPORTED: this process is a child
  // of fork.
  Status fill(const std::function<Status(std::byte* base)>& fill);
  Status read_through_fd(uint64_t offset, void* data, uint64_t nbytes) const;
  // Checks that the pages of a range exist, so that reading the range cannot make the segment grow.
  // Missing pages are made if the fd can be written. For opened segments: an own segment always
  // passes. CORRUPT: pages are missing, and the fd cannot be written. RESOURCE_EXHAUSTED: no memory
  // for them, or over what this process fills for its peers (limit "filled_nbytes").
  Status check_pages(uint64_t offset, uint64_t nbytes);
  // Seals a FROZEN segment against writing. A second call does nothing. After an error, such as IO
  // because the kernel still has a page in use, the segment is not frozen, and the call can be
  // repeated.
  Status freeze();
  bool frozen() const noexcept { return frozen_.load(std::memory_order_acquire); }

  // Returns the fd to lend with. For an own segment it is read-only in every mode but SHARED. For
  // an opened segment it is the fd that came from the lender. A segment that keeps no fd asks its
  // tails for one. The fd stays the segment's. May take LockRank::kLendFd. UNSUPPORTED: the segment
  // has no fd, and no tail knows a way to the file.
  Result<int> lending_fd();
  int any_fd() const noexcept { return write_fd_.is_open() ? write_fd_.get() : read_fd_.get(); }

  // Returns the first tail that is a T. It lives as long as the caller holds the segment. Null:
  // there is none.
  template <typename T>
  T* find_tail() const noexcept {
    for (SegmentTail* tail = tails_.load(std::memory_order_acquire); tail != nullptr;
         tail = tail->next_) {
      if (auto* found = dynamic_cast<T*>(tail); found != nullptr) return found;
    }
    return nullptr;
  }
  void attach_tail(std::unique_ptr<SegmentTail> tail) noexcept;

  // Undoes open() for the fd, which is the caller's again. Call it only while no other thread has
  // the segment, which has no fd to lend afterwards.
  os::Fd take_back_fd() noexcept;
  // How many of the references do not use the segment. Their holders count themselves here, so that
  // each of them can tell whether anybody uses it.
  std::atomic<uint64_t> idle_references{0};

  // The end hook: it is called once, before anything of the segment ends. It belongs to the
  // identity cache (share/cache.h).
  using EndHook = void (*)(Segment*) noexcept;
  void call_at_end(EndHook hook) noexcept { end_hook_.store(hook, std::memory_order_release); }
  // Whether call_at_end() was called. This stays true as long as the segment lives.
  bool has_end_hook() const noexcept {
    return end_hook_.load(std::memory_order_relaxed) != nullptr;
  }

 private:
  Segment() noexcept;
  void dispose() noexcept override;
  bool ends_apart() noexcept;
  void end() noexcept;
  static Result<Ref<Segment>> create_with(Mode mode, uint64_t nbytes, const BackingRequest& request,
                                          std::unique_ptr<Backing> backing);
  Result<os::Fd> reopen() const;
  static bool count_tells(const os::FileInfo& file, bool sealed) noexcept;
  Status charge_holes(uint64_t nbytes);
  Status check_huge_pages(uint64_t offset, uint64_t end, const os::FileInfo& file) const;

  std::atomic<EndHook> end_hook_{nullptr};
  os::Fd write_fd_;
  os::Fd read_fd_;
  // Of own LENDER_WRITES segments and of named files, which make it at the first lend.
  std::atomic<int> lend_fd_{-1};
  std::atomic<SegmentTail*> tails_{nullptr};  // tails are only added, until end() takes them all
  os::Mapping mapping_;
  os::MapCharge charge_;  // if the mapping is of another process's memory
  std::mutex fd_mutex_;   // keeps freeze() and the writes through the fd apart
  SegmentKey key_;
  Mode mode_ = Mode::kShared;
  os::Nonce nonce_{};
  uint64_t nbytes_ = 0;
  std::atomic<uint64_t> reserved_nbytes_{0};  // own: bytes of pages that exist
  std::atomic<uint64_t> present_nbytes_{0};   // opened: pages are known to exist up to here
  std::atomic<uint64_t> filled_nbytes_{0};    // opened: bytes of its holes that were filled here
  std::unique_ptr<Backing> backing_;          // null: ordinary pages, on any node
  uint64_t serial_ = 0;
  uint64_t generation_ = 0;
  bool sealed_ = false;
  bool huge_pages_ = false;  // opened: the file is on hugetlbfs
  bool own_ = false;
  std::atomic<bool> frozen_{false};
};

// Counts for tenon_stats of what exists in this process.
struct SegmentTotals {
  std::atomic<uint64_t> segments{0};
  std::atomic<uint64_t> fds{0};
  std::atomic<uint64_t> reserved_nbytes{0};
  std::atomic<uint64_t> filled_nbytes{0};  // holes of other processes' memory that were filled here
};
SegmentTotals& segment_totals() noexcept;

}  // namespace tenon::memory
