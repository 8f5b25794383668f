// Transparent huge pages in shared memory: reads what the administrator allows, asks for such
// pages, and makes them. memory/backing.cc is the caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace tenon::os {

// The size of the page that one entry of the middle page table maps: 2 MiB on x86-64. 0: the kernel
// has no transparent huge pages, or /sys cannot be read.
uint64_t thp_nbytes();

// The chosen words of shmem_enabled, for all sizes and for this size: "never", "advise, inherit".
// Empty without /sys.
std::string shmem_thp_setting();

// Finds out whether a mapping that wants huge pages gets them when it is touched (kFault), or only
// by collapse() (kCollapse, which is tried if `may_collapse`). The probe makes one huge page and
// counts its memory. It takes that page for a moment, so ask for headroom before (limits.h).
enum class ThpBy { kNothing, kFault, kCollapse };
Result<ThpBy> probe_thp(bool may_collapse);

// Tells the kernel whether a mapping wants huge pages. A kernel without them is no error.
void advise_thp(std::byte* base, uint64_t nbytes, bool wanted) noexcept;

// Makes pages exist by faulting them in. Where the administrator's word is "advise", only this
// gives huge pages, because fallocate knows no mapping. RESOURCE_EXHAUSTED where a touch would end
// in a signal, because there is no memory or no space in the file system. UNSUPPORTED before Linux
// 5.14.
Status populate(std::byte* base, uint64_t nbytes);

// Makes huge pages of the small pages that exist. At least one small page of each huge page must
// exist, and the kernel fills in the rest. It does so even where the administrator's word is
// "never", which only forbids huge pages that nobody asked for. It refuses where the word is
// "deny". Returns false if not all became huge pages, and before Linux 6.1.
bool collapse(std::byte* base, uint64_t nbytes) noexcept;

}  // namespace tenon::os
