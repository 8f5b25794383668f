// Chooses and makes the pages of a segment: their kind, their NUMA node, and whether they may be
// swapped. A Backing records what the machine gave, and why if that is less than what was asked.
// segment.cc calls these functions.
//
// A segment that is made with a BackingRequest goes through these steps:
//   1. choose_pages() runs before anything is made. Sizes and growth are rounded to the
//      page_nbytes of its answer.
//   2. create_backed_memfd() makes the file, which the caller maps. The mapping needs
//      MAP_NORESERVE: otherwise a hugetlb mapping takes its whole size out of the pool, here and at
//      every borrower. It begins at a multiple of page_nbytes: otherwise no huge page can be mapped
//      as one.
//   3. apply_backing() runs on the whole mapping, before a page of it exists.
//   4. make_pages() runs for each range as the segment grows. (A segment without a BackingRequest
//      uses reserve_in_chunks() of segment.h.)
//   5. describe() runs whenever a caller asks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "memory/mode.h"
#include "os/fd.h"
#include "os/memfd.h"

namespace tenon::memory {

// The kinds of pages. If a kind cannot be had, the next lower one is tried: hugetlb, then THP, then
// small. kAuto: THP if the administrator gives it to shared memory, else small. The pool of hugetlb
// pages is used only on request.
enum class Pages : uint32_t { kAuto = 0, kSmall = 1, kThp = 2, kHugetlb = 3 };

struct BackingRequest {
  Pages pages = Pages::kAuto;
  uint64_t huge_page_nbytes = 0;  // kHugetlb: 0 is the machine's default size
  int32_t numa_node = -1;         // -1: any node
  // Whether the pages are never swapped. Above RLIMIT_MEMLOCK apply_backing() and make_pages() fail
  // with RESOURCE_EXHAUSTED, even if `exact` is false. If this system does not allow locking at all
  // (a container's filter, no mlock2), `exact` decides.
  bool lock = false;
  // Whether the call fails if something cannot be had. If false, the next lower kind is used, and
  // Backing says why.
  bool exact = false;
  // Whether the request asks for nothing but what an ordinary segment gets.
  bool is_plain() const noexcept { return pages == Pages::kAuto && numa_node < 0 && !lock; }
};

// The pages that a segment really has.
struct Backing {
  Pages pages = Pages::kSmall;  // never kAuto
  // The size of a page of that kind: the system's page, the huge page of THP, or the hugetlb page.
  uint64_t page_nbytes = 0;
  int32_t numa_node = -1;  // -1: not bound
  bool locked = false;     // never swapped; always so for hugetlb
  // For kThp, if the administrator's setting gives no huge pages at a page fault: make_pages() then
  // asks the kernel to make each huge page out of small ones (os::collapse()).
  bool collapse = false;
  // Only describe() fills these in. They count the pages that this process has in its page tables
  // by now: all pages, and those that are mapped as huge pages.
  uint64_t resident_nbytes = 0;
  uint64_t huge_nbytes = 0;
  // OK, or why the machine did not give what was asked for. With `exact` that is an error instead.
  Status pages_refused;
  Status numa_refused;
  Status lock_refused;
};

// Finds the highest kind of pages, up to the requested one, that this machine really gives. It maps
// a page of the kind and touches it. INVALID_ARGUMENT: no such huge page size or node. With
// `exact`, UNSUPPORTED (the kernel has no such kind, or the mode cannot have it) or
// RESOURCE_EXHAUSTED (detail limit: vm.nr_hugepages). FROZEN has no hugetlb pages, because it is
// filled by pwrite, which hugetlb files do not support.
Result<Backing> choose_pages(const BackingRequest& request, Mode mode);

// For kHugetlb `nbytes` is a multiple of the huge page. The caller has checked RLIMIT_FSIZE.
Result<os::Fd> create_backed_memfd(const os::Nonce& nonce, uint64_t nbytes, const Backing& backing);

// Sets the advice and the policy of a whole new mapping. Fills in numa_node, and locks the range of
// the first page, which need not exist, to see whether locking is allowed at all. RLIMIT_MEMLOCK
// counts the locked address range, with pages or without. So make_pages() locks the rest as the
// segment grows.
Status apply_backing(std::byte* base, uint64_t nbytes, const BackingRequest& request,
                     Backing* backing);

// Makes the pages of [offset, offset + nbytes) exist, of the chosen kind, and locked if `backing`
// says so. Works in pieces, and asks before each piece whether the machine and the node have room.
// RESOURCE_EXHAUSTED names the limit, which can also be the pool of hugetlb pages. `fd` is open for
// writing, and `base` is where its offset 0 is mapped. Multiples of backing.page_nbytes keep huge
// pages whole, but other ranges work too. After a failure some of the pages may exist.
Status make_pages(int fd, std::byte* base, uint64_t offset, uint64_t nbytes,
                  const Backing& backing);

// Returns `applied` with the kind of pages, the node and the lock corrected by what the kernel says
// about the range now. Reads /proc/self/smaps, which takes milliseconds in a process with many
// mappings or much memory. THP is reported when at least one huge page of it is mapped. If there
// are pages enough for a huge page and none is one, the result is kSmall, with the reason in
// `pages_refused`. Before the first page exists, the result is what was applied.
Backing describe(const std::byte* base, uint64_t nbytes, const Backing& applied);

}  // namespace tenon::memory
