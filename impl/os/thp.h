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

// The administrator's setting, as a text for messages. It is the chosen word of shmem_enabled, such
// as "never". From Linux 6.11 on the word for pages of this size follows, as in "advise, inherit".
// Empty without /sys. It concerns memfds. A mount of tmpfs has its own option huge=.
std::string shmem_thp_setting();

// Finds out whether a mapping that wants huge pages gets them when it is touched (kFault), or only
// by collapse() (kCollapse, which is tried if `may_collapse`). The probe makes a memfd of the size
// of one huge page, touches one byte, and reads how much memory the file has then. It takes that
// page for a moment, so ask for headroom before (limits.h). Errors: no fd, no memory, or a file
// size limit (RESOURCE_EXHAUSTED), and those of memfd_create.
enum class ThpBy { kNothing, kFault, kCollapse };
Result<ThpBy> probe_thp(bool may_collapse);

// In the functions from here on, `base` is the start of a page, and of a huge page in collapse().
// They keep no state, so any thread may call them.

// Tells the kernel whether a mapping wants huge pages. A kernel without them is no error.
void advise_thp(std::byte* base, uint64_t nbytes, bool wanted) noexcept;

// Makes pages exist by faulting them in (MADV_POPULATE_WRITE). Where the administrator's word is
// "advise", only this gives huge pages, because fallocate knows no mapping. RESOURCE_EXHAUSTED
// where a touch would end in a signal, because there is no memory or no space in the file system.
// UNSUPPORTED before Linux 5.14.
Status populate(std::byte* base, uint64_t nbytes);

// Makes huge pages of the small pages that exist (MADV_COLLAPSE). At least one small page of each
// huge page must exist, and the kernel fills in the rest. It does so even where the administrator's
// word is "never", which only forbids huge pages that nobody asked for. It refuses where the word
// is "deny". Returns false if not all became huge pages, and before Linux 6.1.
bool collapse(std::byte* base, uint64_t nbytes) noexcept;

}  // namespace tenon::os
