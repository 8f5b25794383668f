// The tests of memory give sizes in these units.
#pragma once

#include <cstdint>

namespace tenon::test {

inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kTiB = uint64_t{1} << 40;

}  // namespace tenon::test
