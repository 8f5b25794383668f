// The tests of arenas make their arenas with new_arena().
#pragma once

#include <cstdint>
#include <cstdlib>
#include <utility>

#include "memory/arena.h"
#include "unit/memory/units.h"

namespace tenon::memory {

inline Ref<Arena> new_arena(uint64_t capacity_nbytes, uint64_t prefault_nbytes = 0) {
  ArenaOptions options;
  options.capacity_nbytes = capacity_nbytes;
  options.prefault_nbytes = prefault_nbytes;
  Result<Ref<Arena>> made = Arena::create(options);
  if (!made.is_ok()) std::abort();
  return std::move(made).value();
}

}  // namespace tenon::memory
