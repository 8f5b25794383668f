// An order of the driver to a peer of the storm of leases. The sockets of the links travel with it.
#pragma once

#include <array>
#include <cstdint>

#include "process/fault/storm/plan.h"
#include "process/fault/storm/wire.h"

namespace storm {

inline constexpr size_t kMostLinks = 16;  // of one peer
static_assert(kMostLinks <= kMostFds);

struct Order {
  // R: a round. S: settle. T: release the connections too, and report what is left. Q: end.
  char what = 0;
  bool hostile = false;
  uint32_t n_links = 0;
  uint64_t seed = 0;
  std::array<bool, kMostLinks> out{};
  std::array<Carrier, kMostLinks> carriers{};
};

}  // namespace storm
