// Implements reserve_whole(), which makes all pages of a segment exist. Devices need that, because
// they are given whole segments.
#include <algorithm>
#include <mutex>
#include <utility>

#include "memory/arena_segment.h"
#include "os/limits.h"
#include "os/memfd.h"

namespace tenon::memory {
namespace {

constexpr uint64_t kReservedAtOnce = uint64_t{512} << 10;

// Null: the segment is not, or no longer, in a default home. The caller holds the arenas' lock.
ArenaSegment* find_home(const Segment* segment) noexcept {
  HomeSegments* list = nullptr;
  return arena_state().find_home(segment, &list);
}

Status not_whole(const Segment& segment, uint64_t present_nbytes) {
  const char* const who = segment.own() ? "" : " where it was made";
  return Status(
             Code::kResourceExhausted,
             format(
                 "the storage lies in a segment of %llu bytes, of which %llu have memory, and a "
                 "device is given all of it: make the "
                 "storage ISOLATED, or reserve its arena up to its capacity,%s before it is pinned",
                 as_llu(segment.nbytes()), as_llu(present_nbytes), who))
      .with("limit", std::string("memory of the segment"))
      .with("limit_value", present_nbytes)
      .with("wanted", segment.nbytes())
      .with("option", std::string("TENON_STORAGE_ISOLATED or tenon_arena_reserve"));
}

// The lender of an opened segment makes its pages. If the segment is no larger than that of a
// default home and its file can be written, the missing pages are made here.
Status check_opened(Segment* segment) {
  const uint64_t total = segment->nbytes();
  if (segment->any_fd() >= 0) {
    TENON_ASSIGN(const os::FileInfo file, os::inspect_file(segment->any_fd()));
    const bool can_make = file.writable && total <= kArenaSegmentNbytes;
    if (file.in_memory && !can_make && file.allocated_nbytes < total)
      return not_whole(*segment, file.allocated_nbytes);
  }
  return segment->check_pages(0, total);
}

}  // namespace

Status reserve_whole(Segment* segment) {
  if (!segment->own()) return check_opened(segment);
  const uint64_t total = segment->nbytes();
  if (segment->reserved_nbytes() >= total) return Status::ok();
  if (!segment->made_by_this_process())
    return Status(Code::kUnsupported,
                  "the storage's segment belongs to the process that made it, and this one is a "
                  "child of fork");
  bool asked = false;
  // The lock is held for one piece at a time, so that allocations get their turn.
  while (true) {
    const std::lock_guard<std::mutex> lock(arena_state().mutex);
    ArenaSegment* const home = find_home(segment);
    if (home == nullptr)
      return segment->reserved_nbytes() >= total ? Status::ok()
                                                 : not_whole(*segment, segment->reserved_nbytes());
    if (home->reserved >= total) return Status::ok();
    if (!std::exchange(asked, true)) TENON_TRY(os::ask_headroom(total - home->reserved));
    const uint64_t nbytes = std::min(total - home->reserved, kReservedAtOnce);
    TENON_TRY(segment->reserve(home->reserved, nbytes));
    count_reserved(home, home->reserved + nbytes);
  }
}

}  // namespace tenon::memory
