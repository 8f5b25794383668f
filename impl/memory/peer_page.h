// The first steps by which a process checks a page of shared memory that another process made,
// before it maps the page: a lease page (holding.cc), a claims page (channel/lender_link.cc), or
// the two files of a ring (channel/frame_ring.cc). What the rest of a header means is checked
// there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"

namespace tenon::memory {

// One kind of page. Its header begins with the magic (8 bytes) and the version (u32).
struct PageKind {
  std::array<uint8_t, 8> magic;
  uint32_t version;
  size_t incompat_offset;  // of the u64 with the incompatible features. This version knows none
  const char* name;        // such as "a lease page", for the errors of check_page_header()
  // The errors of check_page_file().
  const char* unsealed;
  const char* of_huge_pages;
  const char* too_short;
  const char* field;  // the detail "field" of all these errors
};

// kWrite: the fd must be open for writing, and no seal may forbid it.
enum class PageUse { kRead, kWrite };

// Checks that nobody can cut the file of a page short, and that it has at least `least_nbytes`
// bytes, and returns its size. A load or a store behind the end of a file raises SIGBUS, and so can
// one in a file of huge pages. CORRUPT. Also the errors of os::inspect_file().
Result<uint64_t> check_page_file(int fd, const PageKind& kind, PageUse use, uint64_t least_nbytes);

// Checks magic, version and features in a private copy of the header. CORRUPT or INCOMPATIBLE.
Status check_page_header(std::span<const std::byte> header, const PageKind& kind);

}  // namespace tenon::memory
