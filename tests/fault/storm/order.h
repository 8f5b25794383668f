// What the driver tells the peers of the storm of leases; the sockets of the links come with it.
#pragma once

#include <array>
#include <cstdint>

#include "fault/storm/plan.h"
#include "fault/storm/wire.h"

namespace storm {

inline constexpr size_t kMostLinks = 16;  // of one peer
static_assert(kMostLinks <= kMostFds);

struct Order {
  // R: a round; S: settle; T: let go of the connections too, and say what is left; Q: end.
  char what = 0;
  bool hostile = false;
  uint32_t n_links = 0;
  uint64_t seed = 0;
  std::array<bool, kMostLinks> out{};
  std::array<Carrier, kMostLinks> carriers{};
};

}  // namespace storm
