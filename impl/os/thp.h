// Transparent huge pages in shared memory: what the administrator gives, asking for them, and
// making them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace tenon::os {

// The page that one entry of the middle page table maps: 2 MiB on x86-64. 0: the kernel has no
// transparent huge pages, or /sys cannot be read.
uint64_t thp_nbytes();

// The chosen words of shmem_enabled, for all sizes and for this one: "never", "advise, inherit".
// Empty without /sys.
std::string shmem_thp_setting();

// By really making one and counting its memory: whether a mapping that wants huge pages gets them
// when it is touched, or only by collapse(). Takes one huge page for a moment; ask for headroom
// before.
enum class ThpBy { kNothing, kFault, kCollapse };
Result<ThpBy> probe_thp(bool may_collapse);

// Whether a mapping wants huge pages. A kernel without them is no error.
void advise_thp(std::byte* base, uint64_t nbytes, bool wanted) noexcept;

// Make pages exist by faulting them in, which alone gives huge ones where the administrator's word
// is "advise": fallocate knows no mapping. UNSUPPORTED before Linux 5.14.
Status populate(std::byte* base, uint64_t nbytes);

// Make huge pages of what is there. Of each of them at least one small page must exist; the kernel
// fills in the rest. It does so even where the administrator's word is "never", which is about what
// happens unasked (not where it is "deny"). False: not all of them.
bool collapse(std::byte* base, uint64_t nbytes) noexcept;

}  // namespace tenon::os
