// The home of storages: large segments in which blocks are born.
//
// There are two default homes for each mode, one for blocks of up to 64 KiB and one for larger
// ones, with segments of 64 MiB, as many as it takes; and there are arenas that the user makes,
// with one segment whose size is reserved address space. Pages are made as the front moves (reserve
// before use). A freed block is used again, warm. A block that was lent under a lease is used again
// when its leases have ended; one that was lent without a lease (a bare fd, a name) is retired
// instead, for nobody tells the lender when the borrower is done: a segment with no living block
// goes back to the system once it holds retired blocks and no room, so a loop of lend and release
// has bounded memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/counted.h"
#include "base/status.h"
#include "memory/lent_block.h"
#include "memory/mode.h"
#include "memory/segment.h"
#include "memory/space.h"

namespace tenon::memory {

inline constexpr uint64_t kArenaSegmentNbytes = uint64_t{64} << 20;
inline constexpr uint64_t kSmallBlockMax = uint64_t{64} << 10;
// Larger blocks get a segment of their own: they would not share one well.
inline constexpr uint64_t kArenaBlockMax = uint64_t{8} << 20;

class Arena;
struct ArenaSegment;

// A range of a segment that belongs to one storage. Give it back with free_block.
struct Block {
  Ref<Segment> segment;          // counts_segment() says whether it is counted
  ArenaSegment* home = nullptr;  // null: the segment is this block's alone
  uint64_t offset = 0;
  uint64_t nbytes = 0;        // of the storage
  uint64_t taken_nbytes = 0;  // of the segment
  bool zero = false;          // no page was touched yet, so the bytes are 0
  // The bytes may be those of an earlier lend, which the next borrower must not see.
  bool was_lent = false;
};

// Into `out`, an empty block, where it stays; after a failure it is no block. nbytes > 0, alignment
// a power of two up to a page. A FROZEN block always has its own segment: freezing seals a segment
// whole.
Status allocate_block(Mode mode, uint64_t nbytes, uint64_t alignment, bool isolated, Block* out);

// As allocate_block with a segment of its own, whose pages are not made yet: the caller fills it
// with write_through_fd(fresh).
Status allocate_unreserved_block(Mode mode, uint64_t nbytes, Block* out);

// Whether a block of that home has a counted reference to its segment. Not in a user's arena, which
// has its segment until its last block has gone; in a child of fork for good, for no block of the
// parent's goes there.
bool counts_segment(const ArenaSegment* home) noexcept;

// Makes what pages a segment lacks exist, so that it can be given to a device, which takes one
// whole. Of a user's arena none are made: how much of its capacity has memory is for its user to
// say. RESOURCE_EXHAUSTED, before a page is made; UNSUPPORTED in a child of fork that would have to
// make some of its parent's.
Status reserve_whole(Segment* segment);

// How a block was lent. kNever: its bytes are no borrower's. kLeased: it was lent under leases, or
// its bytes may be those of an earlier lend, and it is cleared before it is lent again. kUnleased:
// it was lent without a lease, and is retired.
enum class Lent { kNever, kLeased, kUnleased };
void free_block(Block&& block, Lent lent) noexcept;

// Give back every segment of the default homes without a living block. Returns bytes.
uint64_t trim_arena() noexcept;

struct ArenaTotals {
  uint64_t live_nbytes = 0;  // in storages of this process
  uint64_t lent_nbytes = 0;  // under leases, and their storages have gone
  uint64_t retired_nbytes = 0;
  uint64_t kept_nbytes = 0;  // pages of the default homes that are nobody's
  uint64_t storages = 0;     // that have a block, also one of the parent's
};
ArenaTotals arena_totals() noexcept;

struct ArenaOptions {
  Mode mode = Mode::kShared;
  uint64_t capacity_nbytes = 0;  // 0: as much address space as can be had, up to 1 TiB
  uint64_t alignment = kBlockAlignment;
  BackingRequest backing;
  uint64_t prefault_nbytes = 0;
};

struct ArenaStats {
  uint64_t capacity_nbytes = 0;
  uint64_t reserved_nbytes = 0;  // pages that exist
  uint64_t live_nbytes = 0;      // in storages of this process
  uint64_t lent_nbytes = 0;      // under a lease, whether their storage still lives here or not
  uint64_t free_nbytes = 0;      // pages that exist and are nobody's
  uint64_t retired_nbytes = 0;
  uint64_t peak_nbytes = 0;  // the most that was in use at once, as storages or lent
  uint64_t live_blocks = 0;
  uint64_t lent_blocks = 0;
  uint64_t largest_free_nbytes = 0;  // of the free bytes, the longest piece
};

// An arena that the user made.
class Arena : public Counted {
 public:
  static Result<Ref<Arena>> create(const ArenaOptions& options);

  // RESOURCE_EXHAUSTED with limit "arena" if it is full. UNSUPPORTED in a child of fork: it would
  // hand out its parent's bytes.
  Status allocate(uint64_t nbytes, uint64_t alignment, Block* out);
  ArenaStats stats() const;
  Backing describe_backing() const;
  const ArenaOptions& options() const noexcept { return options_; }
  const Ref<Segment>& segment() const noexcept;
  // Makes pages ahead of need. RESOURCE_EXHAUSTED where the machine has no more; what was made
  // stays.
  Status reserve(uint64_t nbytes);
  // One step of it, well under a millisecond. False: there is no more to do, or no more to be had.
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
