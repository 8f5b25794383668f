#include "memory/arena.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

#include "base/checked.h"
#include "base/fork.h"
#include "base/immortal.h"
#include "os/limits.h"

namespace tenon::memory {

struct ArenaSegment {
  Ref<Segment> segment;
  uint64_t front = 0;     // blocks were born below here
  uint64_t reserved = 0;  // pages exist below here
  uint64_t touched = 0;   // bytes below here may be other than 0
  uint64_t live = 0;      // blocks in storages
  uint64_t retired = 0;   // blocks that were lent and released
  uint64_t retired_nbytes = 0;
  std::unordered_map<uint64_t, std::vector<uint64_t>> free_blocks;  // class -> offsets, last freed first
};

namespace {

constexpr uint64_t kFirstReserve = uint64_t{256} << 10;

struct State {
  std::mutex mutex;
  std::array<std::vector<std::unique_ptr<ArenaSegment>>, kModes> segments;
  uint64_t live_nbytes = 0;
  uint64_t retired_nbytes = 0;
};

State& state() noexcept { return immortal<State>(); }

// The child must not hand out blocks of the parent's segments, nor may its releases touch the parent's lists. It forgets them; storages
// that it inherited hold their segments themselves.
void forget_in_child() noexcept {
  State& all = state();
  for (auto& list : all.segments) {
    // Storages of the parent still point to these; made_by_this_process() keeps free_block from following. The small records are left to
    // leak.
    for (auto& segment : list) {
      segment->segment = nullptr;
      (void)segment.release();
    }
    list.clear();
  }
  all.live_nbytes = 0;
  all.retired_nbytes = 0;
}

const bool g_fork_hooks = [] {
  (void)state();
  // The child has one thread, so the lock is not needed to forget; and the end of a segment takes locks that come before this one.
  register_fork_hooks(10, {[]() noexcept { state().mutex.lock(); }, []() noexcept { state().mutex.unlock(); },
                           []() noexcept { state().mutex.unlock(); }, &forget_in_child});
  return true;
}();

// Steps of an eighth of a power of two: at most an eighth of a block is lost, and blocks of about one size can stand in for each other.
uint64_t size_class(uint64_t nbytes) noexcept {
  const uint64_t rounded = round_up(nbytes, kBlockAlignment);
  if (rounded <= 1024) return rounded;
  const uint64_t step = std::bit_floor(rounded) / 8;
  return round_up(rounded, std::max(step, kBlockAlignment));
}

bool take_free(ArenaSegment* home, uint64_t class_nbytes, uint64_t alignment, Block* out) {
  const auto found = home->free_blocks.find(class_nbytes);
  if (found == home->free_blocks.end() || found->second.empty()) return false;
  std::vector<uint64_t>& offsets = found->second;
  if (offsets.back() % alignment != 0) return false;
  out->offset = offsets.back();
  offsets.pop_back();
  out->zero = false;
  return true;
}

Status reserve_front(ArenaSegment* home, uint64_t end) {
  if (end <= home->reserved) return Status::ok();
  const uint64_t total = home->segment->nbytes();
  // Ahead of need, as much again as there is already, so that small blocks do not pay a system call each; just the need if the machine is
  // nearly full.
  const uint64_t ahead = std::clamp(home->reserved, kFirstReserve, os::kReserveChunk);
  const uint64_t generous = std::min(total, round_up(std::max(end, home->reserved + ahead), kFirstReserve));
  const uint64_t exact = std::min(total, round_up(end, os::page_nbytes()));
  Status status = home->segment->reserve(home->reserved, generous - home->reserved);
  uint64_t reached = generous;
  if (!status.is_ok() && exact < generous) {
    status = home->segment->reserve(home->reserved, exact - home->reserved);
    reached = exact;
  }
  if (status.is_ok()) home->reserved = reached;
  return status;
}

bool has_room(const ArenaSegment& home, uint64_t class_nbytes, uint64_t alignment) noexcept {
  return round_up(home.front, alignment) + class_nbytes <= home.segment->nbytes();
}

Status take_front(ArenaSegment* home, uint64_t class_nbytes, uint64_t alignment, Block* out) {
  const uint64_t offset = round_up(home->front, alignment);
  const uint64_t end = offset + class_nbytes;
  TENON_TRY(reserve_front(home, end));
  out->offset = offset;
  out->zero = offset >= home->touched;
  home->front = end;
  home->touched = std::max(home->touched, end);
  return Status::ok();
}

Result<Block> finish(State* all, ArenaSegment* home, Block block) {
  block.home = home;
  block.segment = home->segment;
  ++home->live;
  all->live_nbytes += block.class_nbytes;
  return block;
}

Result<Block> own_segment_block(Mode mode, uint64_t nbytes, bool reserve) {
  uint64_t segment_nbytes = 0;
  if (!checked_round_up(nbytes, os::page_nbytes(), &segment_nbytes) || segment_nbytes > uint64_t{INT64_MAX})
    segment_nbytes = uint64_t{INT64_MAX} / 4096 * 4096;
  // All of it, before a file of that size exists; for more than a chunk reserve() asks again as it goes.
  TENON_TRY(os::ask_headroom(segment_nbytes));
  Block block;
  TENON_ASSIGN(block.segment, Segment::create(mode, segment_nbytes));
  if (reserve) TENON_TRY(block.segment->reserve(0, segment_nbytes));
  block.nbytes = nbytes;
  block.class_nbytes = segment_nbytes;
  block.zero = true;
  State& all = state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.live_nbytes += segment_nbytes;
  return block;
}

}  // namespace

Result<Block> allocate_block(Mode mode, uint64_t nbytes, uint64_t alignment, bool isolated) {
  if (isolated || mode == Mode::kFrozen || nbytes > kArenaBlockMax) return own_segment_block(mode, nbytes, true);
  alignment = std::max(alignment, kBlockAlignment);
  Block block;
  block.nbytes = nbytes;
  block.class_nbytes = size_class(nbytes);
  State& all = state();
  std::unique_lock<std::mutex> lock(all.mutex);
  auto& list = all.segments[static_cast<uint32_t>(mode)];
  // Newest first: it is the one with room, and segments are few (one per 64 MiB).
  for (auto at = list.rbegin(); at != list.rend(); ++at) {
    if (take_free(at->get(), block.class_nbytes, alignment, &block)) return finish(&all, at->get(), std::move(block));
  }
  for (auto at = list.rbegin(); at != list.rend(); ++at) {
    if (!has_room(**at, block.class_nbytes, alignment)) continue;
    TENON_TRY(take_front(at->get(), block.class_nbytes, alignment, &block));
    return finish(&all, at->get(), std::move(block));
  }
  // A small RLIMIT_FSIZE makes small segments, and blocks that would fill one have their own.
  const uint64_t segment_nbytes = std::min(kArenaSegmentNbytes, os::file_size_limit() / os::page_nbytes() * os::page_nbytes());
  if (nbytes > segment_nbytes / 8) {
    lock.unlock();
    return own_segment_block(mode, nbytes, true);
  }
  auto home = std::make_unique<ArenaSegment>();
  TENON_ASSIGN(home->segment, Segment::create(mode, segment_nbytes));
  TENON_TRY(take_front(home.get(), block.class_nbytes, alignment, &block));
  list.push_back(std::move(home));
  return finish(&all, list.back().get(), std::move(block));
}

Result<Block> allocate_unreserved_block(Mode mode, uint64_t nbytes) { return own_segment_block(mode, nbytes, false); }

void free_block(Block&& block, bool was_lent) noexcept {
  Ref<Segment> segment = std::move(block.segment);
  if (!segment || !segment->made_by_this_process()) return;
  State& all = state();
  Ref<Segment> dropped;  // let go after the lock
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.live_nbytes -= block.class_nbytes;
  ArenaSegment* home = block.home;
  if (home == nullptr) return;
  --home->live;
  if (was_lent) {
    ++home->retired;
    home->retired_nbytes += block.class_nbytes;
    all.retired_nbytes += block.class_nbytes;
  } else if (home->live > 0 || home->retired > 0) {
    try {
      home->free_blocks[block.class_nbytes].push_back(block.offset);
    } catch (...) {
      // No memory to remember the block by: it stays unused until its segment goes.
    }
  }
  if (home->live > 0) return;
  if (home->retired == 0) {
    home->free_blocks.clear();  // whole again
    home->front = 0;
    return;
  }
  // No block lives, and some are with borrowers. While there is room it goes on serving; then it goes, and the borrowers keep its pages for
  // as long as they map them.
  if (has_room(*home, kArenaBlockMax, kBlockAlignment)) return;
  auto& list = all.segments[static_cast<uint32_t>(segment->mode())];
  const auto found = std::find_if(list.begin(), list.end(), [home](const auto& each) { return each.get() == home; });
  if (found == list.end()) return;
  all.retired_nbytes -= home->retired_nbytes;
  dropped = std::move(home->segment);
  list.erase(found);
}

uint64_t trim_arena() noexcept {
  State& all = state();
  uint64_t given_back = 0;
  // Let go after the lock, one by one: the end of a segment takes locks that come before this one.
  while (true) {
    Ref<Segment> dropped;
    const std::lock_guard<std::mutex> lock(all.mutex);
    for (auto& list : all.segments) {
      const auto found = std::find_if(list.begin(), list.end(), [](const std::unique_ptr<ArenaSegment>& each) { return each->live == 0; });
      if (found == list.end()) continue;
      given_back += (*found)->reserved;
      all.retired_nbytes -= (*found)->retired_nbytes;
      dropped = std::move((*found)->segment);
      list.erase(found);
      break;
    }
    if (!dropped) return given_back;
  }
}

ArenaTotals arena_totals() noexcept {
  State& all = state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  return {all.live_nbytes, all.retired_nbytes};
}

}  // namespace tenon::memory
