// Tells which pages a range of this process's address space really has.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tenon::os {

struct MappedPages {
  bool known = false;        // false without /proc, or if nothing is mapped there
  uint64_t page_nbytes = 0;  // the kernel's page there: larger than the system's for hugetlb
  uint64_t resident_nbytes = 0;
  // The bytes in transparent huge pages of shared memory and files that are mapped as such, and in
  // hugetlb pages. Huge pages of anonymous memory are not counted.
  uint64_t huge_nbytes = 0;
  uint64_t locked_nbytes = 0;             // address space whose pages are never swapped
  uint64_t unlocked_resident_nbytes = 0;  // pages in the rest of it
};

// Sums up every mapping that touches [base, base + nbytes), because the kernel counts by whole
// mappings. It counts only pages that this process has in its page tables. The call reads about all
// mappings that lie before the range too.
MappedPages inspect_pages(const std::byte* base, uint64_t nbytes);

}  // namespace tenon::os
