// Huge pages of hugetlbfs, which come from a pool of their own that the administrator fills. The
// memory that this file makes is never swapped, does not support pwrite, and is mapped and unmapped
// only in multiples of its page. memory/backing.cc is the caller.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "os/fd.h"
#include "os/memfd.h"

namespace tenon::os {

// The machine's default size of a huge page. 0: the kernel has no hugetlb pages, or /proc cannot be
// read.
uint64_t default_huge_page_nbytes();

// The page sizes that this kernel has, the smallest first. Empty without /sys.
std::vector<uint64_t> huge_page_sizes();

struct HugePagePool {
  bool known = false;  // false without /sys
  uint64_t total = 0;
  uint64_t free = 0;  // free and reserved by nobody
  uint64_t could_grow =
      0;  // pages that nr_overcommit_hugepages allows, if the machine has the memory
  // The setting that an administrator changes: vm.nr_hugepages, or the file of another page size.
  std::string limit;
};
HugePagePool huge_page_pool(uint64_t page_nbytes);

// Makes a sealable, close-on-exec memfd of huge pages. No page is taken yet: only
// reserve_huge_pages() shows whether there are any. `nbytes` is a multiple of the page. The caller
// has checked RLIMIT_FSIZE before. UNSUPPORTED: the kernel has no hugetlb pages. INVALID_ARGUMENT:
// the kernel has none of this size.
Result<Fd> create_hugetlb_memfd(const Nonce& nonce, uint64_t nbytes, uint64_t page_nbytes);

// Makes the huge pages exist that [offset, offset + nbytes) touches. An empty pool is
// RESOURCE_EXHAUSTED and no signal. A thread that touches a page which does not exist, while the
// pool is empty, gets SIGBUS. `numa_node` is only for the message: the node to which the range is
// bound, or -1.
Status reserve_huge_pages(int fd, uint64_t offset, uint64_t nbytes, uint64_t page_nbytes,
                          int32_t numa_node);

// Checks whether a huge page can really be had: maps one, takes it, touches it and gives it back.
// *seal_holds becomes whether the kernel refuses new writable mappings of such a file once it is
// sealed against future writes. Kernels before 5.13 forgot to refuse. After an error *seal_holds is
// as it was. The errors are those of create_hugetlb_memfd(), reserve_huge_pages() and mmap.
Status probe_huge_page(uint64_t page_nbytes, int32_t numa_node, bool* seal_holds);

}  // namespace tenon::os
