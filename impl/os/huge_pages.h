// Pages of hugetlbfs: a pool of their own, which the administrator fills. What this file makes is
// never swapped, knows no pwrite, and is mapped and unmapped only in multiples of its page.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "os/fd.h"
#include "os/memfd.h"

namespace tenon::os {

// The machine's default size; 0: the kernel has no hugetlb pages, or /proc cannot be read.
uint64_t default_huge_page_nbytes();

// The sizes that this kernel has, from the smallest; empty without /sys.
std::vector<uint64_t> huge_page_sizes();

struct HugePagePool {
  bool known = false;  // false without /sys
  uint64_t total = 0;
  uint64_t free = 0;        // and promised to nobody
  uint64_t could_grow = 0;  // by nr_overcommit_hugepages, if the machine has the memory
  // What an administrator sets: vm.nr_hugepages, or the file of another size.
  std::string limit;
};
HugePagePool huge_page_pool(uint64_t page_nbytes);

// A sealable, close-on-exec memfd of huge pages, with none of them taken: that shows only in
// reserve_huge_pages. `nbytes` is a multiple of the page; RLIMIT_FSIZE must have been asked before.
// UNSUPPORTED: the kernel has no hugetlb pages; INVALID_ARGUMENT: none of this size.
Result<Fd> create_hugetlb_memfd(const Nonce& nonce, uint64_t nbytes, uint64_t page_nbytes);

// Make the huge pages that [offset, offset + nbytes) touches exist. An empty pool is
// RESOURCE_EXHAUSTED, and no signal: who touches a page that this did not make gets SIGBUS.
// `numa_node` is for the message: the node that the range is bound to, or -1.
Status reserve_huge_pages(int fd, uint64_t offset, uint64_t nbytes, uint64_t page_nbytes,
                          int32_t numa_node);

// Whether one can really be had: maps one, takes it, touches it and gives it back. *seal_holds:
// whether a borrower of a file that is sealed against future writes is refused a writable mapping
// of it, which kernels before 5.13 forgot.
Status probe_huge_page(uint64_t page_nbytes, int32_t numa_node, bool* seal_holds);

}  // namespace tenon::os
