// Limits how much address space the memory of other processes may take in this one. Memory that a
// peer lends is mapped whole, and a sparse file can be larger than the address space. A process
// without free address space can neither allocate nor start a thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/status.h"

namespace tenon::os {

// The size of the address space, or RLIMIT_AS if that is less.
uint64_t address_space_nbytes() noexcept;

// The budget of one peer. All peers together may take half of the address space, and half of
// vm.max_map_count.
class MapBudget {
 public:
  // A limit of 0 stands for a quarter of the address space.
  explicit MapBudget(uint64_t limit_nbytes) noexcept;
  uint64_t limit_nbytes() const noexcept { return limit_nbytes_; }
  uint64_t used_nbytes() const noexcept { return used_nbytes_.load(std::memory_order_relaxed); }

 private:
  friend class MapCharge;
  uint64_t limit_nbytes_;
  std::atomic<uint64_t> used_nbytes_{0};
};

// The share of one mapping, for as long as this object lives. It counts against the process's
// budget, and against the budget of a peer unless that is null.
class MapCharge {
 public:
  MapCharge() noexcept = default;
  MapCharge(MapCharge&& other) noexcept
      : nbytes_(std::exchange(other.nbytes_, 0)), budget_(std::move(other.budget_)) {}
  MapCharge& operator=(MapCharge&& other) noexcept {
    std::swap(nbytes_, other.nbytes_);
    std::swap(budget_, other.budget_);
    return *this;
  }
  MapCharge(const MapCharge&) = delete;
  MapCharge& operator=(const MapCharge&) = delete;
  ~MapCharge();

  // Call before the mapping is made. Threads together cannot exceed a limit. A charge of 0 bytes
  // counts nothing, not even a mapping. RESOURCE_EXHAUSTED names the limit that was reached.
  static Result<MapCharge> take(uint64_t nbytes, std::shared_ptr<MapBudget> budget);

 private:
  uint64_t nbytes_ = 0;
  std::shared_ptr<MapBudget> budget_;
};

}  // namespace tenon::os
