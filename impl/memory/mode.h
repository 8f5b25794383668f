// The types that say who may write shared memory. A segment gets its mode at birth and keeps it.
// Each lend and each opening asks for an access and gets one. All layers from memory/ up use these
// types. The numbers are those of tenon/storage.h and tenon/by_fd.h.
//
// SHARED: lender and borrowers may write. LENDER_WRITES: only the lender may, and the kernel
// refuses a borrower's writes. FROZEN: the lender fills the memory and freezes it, and then nobody
// may write it. An access of kAuto is the most that the mode and the fd allow.
// docs/concepts/modes.md compares the modes.
#pragma once

#include <cstdint>

namespace tenon::memory {

enum class Mode : uint8_t { kShared = 0, kLenderWrites = 1, kFrozen = 2 };
enum class Access : uint32_t { kAuto = 0, kReadOnly = 1, kWritable = 2 };

inline constexpr uint32_t kModes = 3;

}  // namespace tenon::memory
