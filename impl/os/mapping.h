// Mapping is a range of a file, or of anonymous memory, in this process's address space. It is
// unmapped when the object is destroyed. A forked child has a mapping of its own, and unmaps only
// that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/status.h"

namespace tenon::os {

uint64_t page_nbytes() noexcept;

class Mapping {
 public:
  enum class Kind { kSharedReadOnly, kSharedWritable, kPrivateCow, kAnonymous };

  Mapping() noexcept = default;
  Mapping(Mapping&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), nbytes_(std::exchange(other.nbytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(nbytes_, other.nbytes_);
    return *this;
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  // `offset` is a multiple of the page size. `fd` is ignored for kAnonymous. `alignment` is a power
  // of two (0: a page). The base is a multiple of it, unless the address space has no such place. A
  // huge page is mapped as one only at a multiple of its size. RESOURCE_EXHAUSTED names the limit
  // that was reached, as mapping_limit_status() (limits.h) finds it.
  static Result<Mapping> create(Kind kind, int fd, uint64_t offset, uint64_t nbytes,
                                uint64_t alignment = 0);

  // Makes all pages of a kAnonymous mapping exist. Asks for headroom chunk by chunk. After
  // RESOURCE_EXHAUSTED some of the pages may exist.
  Status populate();

  // Faults in every page of [offset, offset + nbytes) for reading, so that no later load waits for
  // a page or fails because there is none. `offset` is a multiple of the page size.
  // RESOURCE_EXHAUSTED where a load would end in SIGBUS. The status names the pool of huge pages
  // (vm.nr_hugepages), because only mappings of huge pages are asked for. UNSUPPORTED before Linux
  // 5.14.
  Status populate_for_reading(uint64_t offset, uint64_t nbytes) const;

  // Children of fork do not get this mapping. A child that has a copy of the object calls forget().
  Status keep_from_children() const;
  // Leaves the memory as it is.
  void forget() noexcept { base_ = nullptr; }

  std::byte* base() const noexcept { return base_; }
  uint64_t nbytes() const noexcept { return nbytes_; }

 private:
  std::byte* base_ = nullptr;
  uint64_t nbytes_ = 0;
};

}  // namespace tenon::os
