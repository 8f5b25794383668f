// How much address space other processes' memory may take here. Memory that a peer lends is mapped
// whole, and a sparse file can be larger than the address space: a process without any can neither
// allocate nor start a thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/status.h"

namespace tenon::os {

// The size of the address space, or RLIMIT_AS if that is less.
uint64_t address_space_nbytes() noexcept;

// What one peer may take. All peers together may take half of the address space, and half of
// vm.max_map_count.
class MapBudget {
 public:
  // 0: a quarter of the address space.
  explicit MapBudget(uint64_t limit_nbytes) noexcept;
  uint64_t limit_nbytes() const noexcept { return limit_nbytes_; }
  uint64_t used_nbytes() const noexcept { return used_nbytes_.load(std::memory_order_relaxed); }

 private:
  friend class MapCharge;
  uint64_t limit_nbytes_;
  std::atomic<uint64_t> used_nbytes_{0};
};

// What one mapping takes, for as long as this lives: of the process's budget, and of a peer's
// unless it is null.
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

  // Ask before the mapping is made. RESOURCE_EXHAUSTED names the limit that is met.
  static Result<MapCharge> take(uint64_t nbytes, std::shared_ptr<MapBudget> budget);

 private:
  uint64_t nbytes_ = 0;
  std::shared_ptr<MapBudget> budget_;
};

}  // namespace tenon::os
