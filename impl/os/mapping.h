// A range of a file in this process's address space, unmapped when it goes.
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

  // `offset` is a multiple of the page size; `fd` is ignored for kAnonymous. `alignment` is the
  // base's, a power of two (0: a page): a huge page is mapped as one only at a multiple of its
  // size. RESOURCE_EXHAUSTED names vm.max_map_count when that is what was met.
  static Result<Mapping> create(Kind kind, int fd, uint64_t offset, uint64_t nbytes,
                                uint64_t alignment = 0);

  // Make all pages of a kAnonymous one exist, asking for headroom chunk by chunk.
  Status populate();

  // Reads a page of each place of [offset, offset + nbytes), so that no later load waits for one or
  // fails for want of one. Where a load would end in SIGBUS this is RESOURCE_EXHAUSTED. UNSUPPORTED
  // before Linux 5.14.
  Status populate_for_reading(uint64_t offset, uint64_t nbytes) const;

  std::byte* base() const noexcept { return base_; }
  uint64_t nbytes() const noexcept { return nbytes_; }

 private:
  std::byte* base_ = nullptr;
  uint64_t nbytes_ = 0;
};

}  // namespace tenon::os
