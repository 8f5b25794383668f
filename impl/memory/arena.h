// Arenas: the memory in which storages are allocated. storage/ takes blocks here and gives them
// back. A block is FREE, LIVE (a storage of this process lies in it) or LENT (no storage lies in
// it, but a lease keeps it), see BlockState in board.h.
//
// There are two default homes for each mode, one for blocks of up to 64 KiB and one for larger
// blocks. A default home has as many segments of 64 MiB as it needs. An arena that the user makes
// has one segment, whose size is reserved address space. The front of a segment is the end of the
// part that blocks have used so far. Pages are made as the front moves, before the block that needs
// them is handed out.
//
// A freed block is used again while it is still warm in the processor's caches. A block that was
// lent under leases is used again when all of them have ended. A block that was lent without a
// lease (a bare fd, a name) is retired instead, because nobody tells the lender when the borrower
// is done. A segment of a default home that has no LIVE or LENT block goes back to the system if it
// holds retired blocks and its front has no room for a large block any more. So a loop of lend and
// release has bounded memory. Without retired blocks it is kept and used again, until trim_arena().
//
// Functions that allocate, free, reserve, trim or count take the arenas' lock
// (memory/arena_segment.h), and most may end leases and segments. So their caller holds no ranked
// lock (base/lock_rank.h). A forked child begins with empty default homes. Its parent's blocks and
// arenas are inherited as they are: free_block() frees nothing of them there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/counted.h"
#include "base/status.h"
#include "memory/free_space.h"
#include "memory/lent_block.h"
#include "memory/mode.h"
#include "memory/segment.h"

namespace tenon::memory {

inline constexpr uint64_t kArenaSegmentNbytes = uint64_t{64} << 20;
inline constexpr uint64_t kSmallBlockMax = uint64_t{64} << 10;
// In a default home, a larger block gets a segment of its own, because such blocks would leave
// shared segments half empty.
inline constexpr uint64_t kArenaBlockMax = uint64_t{8} << 20;

class Arena;
struct ArenaSegment;

// A range of a segment that belongs to one storage. Give it back with free_block.
struct Block {
  Ref<Segment> segment;  // counts_segment() says whether this reference is counted
  // The arena's record of the segment. Null: the segment is this block's alone.
  ArenaSegment* home = nullptr;
  uint64_t offset = 0;
  uint64_t nbytes = 0;        // the size of the storage
  uint64_t taken_nbytes = 0;  // the size of the block
  bool zero = false;          // no block has used the range before, so the bytes are 0
  // The bytes may come from an earlier lend, and the next borrower must not see them.
  bool was_lent = false;
};

// Allocates a block into `*out`, which is empty: from a default home, or with a segment of its own
// if `isolated` is set or the block is larger than kArenaBlockMax. After a failure `*out` is empty
// again. nbytes > 0. `alignment` is a power of two up to a page. A FROZEN block always has its own
// segment, because freezing seals a whole segment. RESOURCE_EXHAUSTED, with the limit, after giving
// back what is kept (memory/spare.h). Also the errors of Segment::create().
Status allocate_block(Mode mode, uint64_t nbytes, uint64_t alignment, bool isolated, Block* out);

// Allocates a block with a segment of its own whose pages are not made yet. The caller fills it
// with Segment::write_through_fd(), `fresh` set, which makes the pages. The errors are those of
// allocate_block(), but kept memory is not given back here: the caller uses with_spare()
// (memory/spare.h) around both steps.
Status allocate_unreserved_block(Mode mode, uint64_t nbytes, Block* out);

// Whether a block of `home` holds a counted reference to its segment. A block of a user's arena
// does not, because the arena keeps its segment until the last block has gone. In a child of fork
// the arena keeps the segment for good, because no block of the parent is ever freed there.
bool counts_segment(const ArenaSegment* home) noexcept;

// Makes the missing pages of a segment exist, so that it can be given to a device, which takes a
// whole segment. device/pinned.cc calls this. A user's arena gets no pages here, because its user
// says how much of its capacity has memory. An opened segment gets the pages that it lacks if its
// file can be written and it is no larger than a default home's segment. RESOURCE_EXHAUSTED if such
// an arena or any other opened segment lacks pages, or if the machine has no room for all of them,
// which is asked before the first one is made. Also the errors of Segment::check_pages().
// UNSUPPORTED in a child of fork if the segment is the parent's and lacks pages.
Status reserve_whole(Segment* segment);

// How a block was lent. kNever: its bytes come from no lend. kLeased: it was lent under leases, or
// its bytes may come from an earlier lend, so it is cleared before it is lent again. kUnleased: it
// was lent without a lease, and is retired.
enum class Lent { kNever, kLeased, kUnleased };
// Gives back a block whose storage has ended. A block that was lent under a lease is given back by
// LentBlock::storage_gone() instead (lent_block.h). An empty block is left alone.
void free_block(Block&& block, Lent lent) noexcept;

// Gives back to the system every segment of the default homes that has no LIVE or LENT block, with
// the retired blocks in it. Settles the ledgers before (settle_ledgers() in ledger.h). Returns how
// many bytes had pages.
uint64_t trim_arena() noexcept;

struct ArenaTotals {
  uint64_t live_nbytes = 0;  // in storages of this process
  uint64_t lent_nbytes = 0;  // in LENT blocks: a lease stands, and the storage has gone
  uint64_t retired_nbytes = 0;
  uint64_t kept_nbytes = 0;  // free pages of the default homes
  uint64_t storages = 0;     // storages with a block, those of the parent included
};
ArenaTotals arena_totals() noexcept;

struct ArenaOptions {
  Mode mode = Mode::kShared;
  // 0: 1 TiB of address space (or RLIMIT_FSIZE if that is less). If so much cannot be had, half of
  // what can.
  uint64_t capacity_nbytes = 0;
  uint64_t alignment = kBlockAlignment;  // the least alignment of every block
  BackingRequest backing;
  // The service thread makes the pages of the first `prefault_nbytes` bytes in the background.
  uint64_t prefault_nbytes = 0;
};

struct ArenaStats {
  uint64_t capacity_nbytes = 0;
  uint64_t reserved_nbytes = 0;  // pages that exist
  uint64_t live_nbytes = 0;      // in storages of this process
  uint64_t lent_nbytes = 0;      // in blocks under a lease, LIVE or LENT
  uint64_t free_nbytes = 0;      // pages that exist and are free
  uint64_t retired_nbytes = 0;
  uint64_t peak_nbytes = 0;  // the most that was in LIVE and LENT blocks at once
  uint64_t live_blocks = 0;
  uint64_t lent_blocks = 0;
  uint64_t largest_free_nbytes = 0;  // the longest free piece
};

// An arena that the user made. Any thread may call its functions. In a forked child allocate() and
// reserve() of an inherited arena fail with UNSUPPORTED. The child leaks the arena if it had blocks
// in use.
class Arena : public Counted {
 public:
  // INVALID_ARGUMENT for a capacity that no file can have. Other errors are those of
  // choose_pages(), Segment::create() and os::add_work().
  static Result<Ref<Arena>> create(const ArenaOptions& options);

  // RESOURCE_EXHAUSTED with limit "arena" if the arena is full. UNSUPPORTED in a child of fork,
  // because the child would hand out bytes of its parent. After an error `*out` is only to be
  // destroyed.
  Status allocate(uint64_t nbytes, uint64_t alignment, Block* out);
  ArenaStats stats() const;
  Backing describe_backing() const;
  const ArenaOptions& options() const noexcept { return options_; }
  const Ref<Segment>& segment() const noexcept;
  // Makes the pages of the first `nbytes` bytes exist, ahead of need. RESOURCE_EXHAUSTED if the
  // machine has no more memory. The pages that were made until then stay.
  Status reserve(uint64_t nbytes);
  // Makes one piece of these pages, in well under a millisecond. False: all of them exist, or the
  // machine has no more memory.
  bool reserve_some(uint64_t nbytes) noexcept;

 private:
  explicit Arena(const ArenaOptions& options) noexcept : options_(options) {}
  ~Arena() override;
  void dispose() noexcept override;
  uint64_t end_of(uint64_t nbytes) const noexcept;
  Status check_owner() const;
  static Result<Ref<Arena>> try_create(const ArenaOptions& options);
  Status try_allocate(uint64_t nbytes, uint64_t alignment, Block* out);
  Status reserve_up_to(uint64_t end);
  Status take_pages(uint64_t end);
  Status too_large(uint64_t nbytes) const;
  Status full(uint64_t nbytes) const;

  ArenaOptions options_;
  ArenaSegment* home_ = nullptr;
};

}  // namespace tenon::memory
