// The kernel object behind shared bytes, mapped in this process: made here, or opened from an fd
// that came from elsewhere.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
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

// Pages for a range of a file, with the machine's headroom asked between pieces.
Status reserve_in_chunks(int fd, uint64_t offset, uint64_t nbytes);

// What tells one segment from all others on this machine, for as long as anybody holds it.
struct SegmentKey {
  uint64_t device = 0;
  uint64_t inode = 0;
  // The two accesses have a mapping each, so that READ_ONLY is kept by the MMU and not by good
  // will.
  bool writable = false;

  bool operator==(const SegmentKey&) const = default;
};

class Segment;

// What others have to do when a segment ends, about things that memory/ knows nothing of: names.
class SegmentTail {
 public:
  SegmentTail() noexcept = default;
  SegmentTail(const SegmentTail&) = delete;
  SegmentTail& operator=(const SegmentTail&) = delete;
  virtual ~SegmentTail() = default;
  virtual void before_unmap(Segment* segment) noexcept = 0;
  // before_unmap() can take as long as somebody else's work does.
  virtual bool may_wait() const noexcept { return false; }
  virtual void after_unmap() noexcept = 0;
  // A new fd of the segment's file, for a segment that keeps none. Not open: this tail knows of
  // none.
  virtual Result<os::Fd> reopen() { return os::Fd(); }

 private:
  friend class Segment;
  SegmentTail* next_ = nullptr;
};

class Segment : public Counted {
 public:
  // A segment of this process. SHARED and LENDER_WRITES are sealed at once (LENDER_WRITES after its
  // one writable mapping exists); FROZEN is mapped read-only and sealed by freeze(). No pages exist
  // yet: reserve() makes them.
  static Result<Ref<Segment>> create(Mode mode, uint64_t nbytes);
  // With pages of a kind, on a node, locked; `nbytes` is rounded up to whole pages of that kind.
  // Not FROZEN.
  static Result<Ref<Segment>> create_backed(Mode mode, uint64_t nbytes,
                                            const BackingRequest& request);

  struct OpenRequest {
    Access access = Access::kAuto;  // kAuto: what the fd and its seals give
    bool allow_unsealed = false;
    // Asked about an unsealed file in memory; true: as with allow_unsealed.
    bool (*trusts)(int fd) = nullptr;
    bool for_private = false;    // only read from: any readable file will do, sealed or not
    uint64_t nbytes = 0;         // what the peer says the segment has; 0: ask the fd
    uint64_t needed_nbytes = 0;  // what the file must have at the least
  };
  // What an fd is, after every check that does not need a mapping.
  struct Inspected {
    os::FileInfo file;
    unsigned seals = 0;
    Mode mode = Mode::kShared;
    bool sealed = false;
    bool writable = false;
    // Of hugetlbfs: a page that is lacking is a SIGBUS for whoever touches it.
    bool huge_pages = false;
    uint64_t nbytes = 0;
    SegmentKey key() const noexcept { return {file.device, file.inode, writable}; }
  };
  static Result<Inspected> inspect(int fd, const OpenRequest& request);
  // Takes the fd over on success. What it maps counts against `budget`, which may be null, and
  // against this process's budget for other processes' memory.
  static Result<Ref<Segment>> open(os::Fd* fd, const Inspected& inspected,
                                   const std::shared_ptr<os::MapBudget>& budget);

  // A named file, all of its pages made. The fd is borrowed and not kept, for the mapping keeps the
  // file and its lock: a name costs no fd. `own`: made here.
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
  // Own: how much of it, from the front, has pages.
  uint64_t reserved_nbytes() const noexcept {
    return reserved_nbytes_.load(std::memory_order_relaxed);
  }
  // What memory is taken in: reserve() in multiples of this keeps huge pages whole.
  uint64_t unit_nbytes() const noexcept;
  // What it got. Reads /proc/self/smaps if it was asked for anything.
  Backing describe_backing() const;
  std::byte* base() const noexcept { return mapping_.base(); }
  // Part of the memfd's name; all zero for memory that Tenon did not make.
  os::Nonce nonce() const;
  uint64_t serial() const noexcept { return serial_; }

  // Make pages exist. Asks for headroom chunk by chunk. After a failure some of the pages may
  // exist: a new segment goes back whole, and an arena's front asks for the same range again.
  Status reserve(uint64_t offset, uint64_t nbytes);
  // Copy bytes in through the fd: makes pages and fills them in one pass. SHARED, and FROZEN before
  // freeze().
  Status write_through_fd(uint64_t offset, const void* data, uint64_t nbytes, bool fresh);
  Status read_through_fd(uint64_t offset, void* data, uint64_t nbytes) const;
  // Whether the pages of a range exist, so that reading it cannot make the segment grow. Opened
  // segments only; makes them when it may.
  Status check_pages(uint64_t offset, uint64_t nbytes);
  Status freeze();
  bool frozen() const noexcept { return frozen_.load(std::memory_order_acquire); }

  // The fd to lend with: read-only for anything but SHARED. Borrowed.
  Result<int> lending_fd();
  int any_fd() const noexcept { return write_fd_.is_open() ? write_fd_.get() : read_fd_.get(); }

  // The first tail that is a T, for as long as the segment is held; null: none.
  template <typename T>
  T* find_tail() const noexcept {
    for (SegmentTail* tail = tails_.load(std::memory_order_acquire); tail != nullptr;
         tail = tail->next_) {
      if (auto* found = dynamic_cast<T*>(tail); found != nullptr) return found;
    }
    return nullptr;
  }
  void attach_tail(std::unique_ptr<SegmentTail> tail) noexcept;

  // Undo open(): the fd is the caller's again.
  os::Fd take_back_fd() noexcept;
  // How many connections hold this segment for no other reason than that their peer numbered it.
  std::atomic<uint64_t> numbered{0};

  // For the identity cache: called once, before anything of the segment goes.
  void tell_cache(void (*forget)(Segment*) noexcept) noexcept {
    cache_hook_.store(forget, std::memory_order_release);
  }
  // The identity cache has this very segment, and will as long as it lives.
  bool is_in_cache() const noexcept {
    return cache_hook_.load(std::memory_order_relaxed) != nullptr;
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

  std::atomic<void (*)(Segment*) noexcept> cache_hook_{nullptr};
  os::Fd write_fd_;
  os::Fd read_fd_;
  // Own LENDER_WRITES, and named files: made at the first lend.
  std::atomic<int> lend_fd_{-1};
  std::atomic<SegmentTail*> tails_{nullptr};  // only added to, until dispose() takes them all
  os::Mapping mapping_;
  os::MapCharge charge_;  // of another process's memory
  std::mutex fd_mutex_;   // freezing against writing
  SegmentKey key_;
  Mode mode_ = Mode::kShared;
  os::Nonce nonce_{};
  uint64_t nbytes_ = 0;
  std::atomic<uint64_t> reserved_nbytes_{0};  // own: pages that exist
  std::atomic<uint64_t> present_nbytes_{0};   // opened: known to have pages up to here
  std::atomic<uint64_t> filled_nbytes_{0};    // opened: of its holes, how much was filled here
  std::unique_ptr<Backing> backing_;          // null: ordinary pages, anywhere
  uint64_t serial_ = 0;
  uint64_t generation_ = 0;
  bool sealed_ = false;
  bool huge_pages_ = false;  // opened: of hugetlbfs
  bool own_ = false;
  std::atomic<bool> frozen_{false};
};

// For tenon_stats: what exists in this process.
struct SegmentTotals {
  std::atomic<uint64_t> segments{0};
  std::atomic<uint64_t> fds{0};
  std::atomic<uint64_t> reserved_nbytes{0};
  std::atomic<uint64_t> filled_nbytes{0};  // holes of other processes' memory that were filled here
};
SegmentTotals& segment_totals() noexcept;

}  // namespace tenon::memory
