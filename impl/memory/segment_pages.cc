// Checks that the pages of an opened segment exist, so that using the segment does not take this
// machine's memory by surprise.
#include <algorithm>

#include "base/checked.h"
#include "memory/segment.h"
#include "os/limits.h"

namespace tenon::memory {

// Whether the number of a file's pages can show that none is missing before some offset. The check
// is a count and no map, because SEEK_HOLE takes reserved pages that were never touched for holes.
// A lender that reserves from the front, as Tenon does, passes. The count shows nothing for an
// unsealed file that may be written: its pages may lie elsewhere, and a store into a hole of a full
// file system is a SIGBUS.
bool Segment::count_tells(const os::FileInfo& file, bool sealed) noexcept {
  return sealed || !file.writable;
}

Status Segment::check_pages(uint64_t offset, uint64_t nbytes) {
  if (nbytes == 0 || own_) return Status::ok();
  const uint64_t page = os::page_nbytes();
  const uint64_t end = std::min(round_up(offset + nbytes, page), round_up(nbytes_, page));
  if (end <= present_nbytes_.load(std::memory_order_relaxed)) return Status::ok();
  TENON_ASSIGN(const os::FileInfo file, os::inspect_file(read_fd_.get()));
  if (!file.in_memory) return Status::ok();  // a hole in a file on a disk reads from the page cache
  if (huge_pages_) return check_huge_pages(offset, end, file);
  if (count_tells(file, sealed_) && file.allocated_nbytes >= end) {
    present_nbytes_.store(file.allocated_nbytes, std::memory_order_relaxed);
    return Status::ok();
  }
  if (!file.writable) {
    return Status(Code::kCorrupt, format("%llu bytes are claimed, and the segment has only %llu: "
                                         "reading its holes would take memory here",
                                         as_llu(end), as_llu(file.allocated_nbytes)))
        .with("option", std::string("PRIVATE_COPY"));
  }
  const uint64_t begin = offset / page * page;
  // Room for all of it is asked before the first page is made, because a peer's claim is no reason
  // to fill this machine up to its limit.
  if (file.allocated_nbytes < end) {
    const uint64_t missing = std::min(end - begin, end - file.allocated_nbytes);
    TENON_TRY(charge_holes(missing));
    TENON_TRY(os::ask_headroom(missing));
  }
  // This says nothing about the pages before the range, so the next range is checked anew.
  return reserve_in_chunks(read_fd_.get(), begin, end - begin);
}

// Holes are filled with this machine's memory, and a peer can claim as many as it likes. So a
// process fills at most a quarter of the machine's memory.
Status Segment::charge_holes(uint64_t nbytes) {
  const uint64_t most = os::machine_nbytes() / 4;
  std::atomic<uint64_t>& all = segment_totals().filled_nbytes;
  const uint64_t before = all.fetch_add(nbytes, std::memory_order_relaxed);
  filled_nbytes_.fetch_add(nbytes, std::memory_order_relaxed);
  if (most == 0 || (nbytes <= most && before <= most - nbytes)) return Status::ok();
  filled_nbytes_.fetch_sub(nbytes, std::memory_order_relaxed);
  all.fetch_sub(nbytes, std::memory_order_relaxed);
  return Status(Code::kResourceExhausted,
                format("%llu bytes of the segment have no memory yet, and this process fills at "
                       "most %llu for its peers: let the "
                       "maker write them first, or open it as PRIVATE_COPY",
                       as_llu(nbytes), as_llu(most)))
      .with("limit", std::string("filled_nbytes"))
      .with("limit_value", most)
      .with("in_use", before)
      .with("wanted", nbytes);
}

// A count does not tell where the pages lie. So the kernel makes those of the range, or says that
// it cannot. After that the seals against writing keep them.
Status Segment::check_huge_pages(uint64_t offset, uint64_t end, const os::FileInfo& file) const {
  const uint64_t begin = offset / os::page_nbytes() * os::page_nbytes();
  Status made = mapping_.populate_for_reading(begin, end - begin);
  if (made.code() == Code::kUnsupported && file.allocated_nbytes >= file.nbytes)
    return Status::ok();
  return made;
}

}  // namespace tenon::memory
