// The tests of ledgers lend this object. It counts the leases that it has.
#pragma once

#include <atomic>
#include <cstdint>

#include "memory/lent_block.h"

namespace tenon::memory {

class LentObject final : public Leased {
 public:
  void lease_began() noexcept override {
    ++leases;
    Leased::lease_began();
  }
  void lease_ended() noexcept override {
    --leases;
    Leased::lease_ended();
  }
  uint64_t leased_nbytes() const noexcept override { return 100; }
  std::atomic<int> leases{0};
};

}  // namespace tenon::memory
