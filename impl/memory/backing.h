// Which pages a segment gets, where they lie and whether they may be swapped: what was asked, what
// the machine gave, and why not if less.
//
// For a segment with a request, in this order:
//   1. choose_pages       before anything is made; page_nbytes of the answer is what sizes and
//   growth are rounded to
//   2. create_backed_memfd, and the mapping of it: with MAP_NORESERVE, or a hugetlb mapping takes
//   its whole size out of the pool, here and
//      at every borrower; and at a multiple of page_nbytes, or no huge page can be mapped as one
//   3. apply_backing      on the whole mapping, before a page of it exists
//   4. make_pages         for each range, as the segment grows: instead of reserve_in_chunks
//   5. describe           whenever somebody asks
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "memory/mode.h"
#include "os/fd.h"
#include "os/memfd.h"

namespace tenon::memory {

// The ladder, from the top: hugetlb, THP, small. kAuto: THP if the administrator gives it to shared
// memory, else small; the pool of hugetlb pages is taken only on request.
enum class Pages : uint32_t { kAuto = 0, kSmall = 1, kThp = 2, kHugetlb = 3 };

struct BackingRequest {
  Pages pages = Pages::kAuto;
  uint64_t huge_page_nbytes = 0;  // kHugetlb: 0 is the machine's default size
  int32_t numa_node = -1;         // -1: wherever
  // Never swapped: RESOURCE_EXHAUSTED over RLIMIT_MEMLOCK, exact or not.
  bool lock = false;
  // What is missing is an error. Else the next step down is taken, and Backing says why.
  bool exact = false;
  // Asks for anything that an ordinary segment does not get.
  bool is_plain() const noexcept { return pages == Pages::kAuto && numa_node < 0 && !lock; }
};

// What a segment really has.
struct Backing {
  Pages pages = Pages::kSmall;  // never kAuto
  // Of that step: the system's page, the huge page of THP, or the hugetlb page.
  uint64_t page_nbytes = 0;
  int32_t numa_node = -1;  // -1: not bound
  bool locked = false;     // never swapped; always so for hugetlb
  // THP that this kernel makes of small pages only when told so for each of them (make_pages does).
  bool collapse = false;
  // From describe, of what this process has in its page tables by now: all, and what is mapped as
  // huge pages.
  uint64_t resident_nbytes = 0;
  uint64_t huge_nbytes = 0;
  // OK, or why a step was not had though it was asked for.
  Status pages_refused;
  Status numa_refused;
  Status lock_refused;
};

// The highest step that this machine really gives, found by mapping a page of it and touching it.
// INVALID_ARGUMENT: no such huge page size or node. With `exact`, UNSUPPORTED (the kernel has no
// such step, or the mode cannot have it) or RESOURCE_EXHAUSTED (detail limit: vm.nr_hugepages).
// FROZEN has no hugetlb: it is filled by pwrite, which hugetlb files do not know.
Result<Backing> choose_pages(const BackingRequest& request, Mode mode);

// `nbytes` is a multiple of the huge page for kHugetlb; RLIMIT_FSIZE must have been asked before.
Result<os::Fd> create_backed_memfd(const os::Nonce& nonce, uint64_t nbytes, const Backing& backing);

// Advice and policy for a whole new mapping. Fills in numa_node, and locks the first page to see
// whether locking is allowed at all: locks count by address space, so the rest is locked by
// make_pages as it grows.
Status apply_backing(std::byte* base, uint64_t nbytes, const BackingRequest& request,
                     Backing* backing);

// Make the pages of [offset, offset + nbytes) exist, of the chosen kind and locked if backing says
// so. The machine's, the node's or the pool's room is asked before, in pieces; `fd` is open for
// writing, `base` is where its offset 0 is mapped (read-only: for FROZEN). Multiples of
// backing.page_nbytes keep huge pages whole; other ranges work. After a failure some of the pages
// may exist.
Status make_pages(int fd, std::byte* base, uint64_t offset, uint64_t nbytes,
                  const Backing& backing);

// What the kernel says that a range has now: `applied` with page kind, node and lock corrected.
// Reads /proc/self/smaps: milliseconds in a process with many mappings or much memory. THP is said
// to be there when at least one huge page of it is mapped; before the first page exists, what was
// applied stays.
Backing describe(const std::byte* base, uint64_t nbytes, const Backing& applied);

}  // namespace tenon::memory
