// All ledgers of this process: who watches their tokens, and who waits for them to end. For
// ledger*.cc and arena_wait.cc only.
#pragma once

#include <cstdint>

#include "base/counted.h"
#include "base/status.h"
#include "memory/ledger.h"

namespace tenon::memory {

// Keeps the ledger until its token is gone.
Status register_ledger(const Ref<Ledger>& ledger);
void count_leases(int64_t more) noexcept;
// A ledger whose token is gone, and that had to wait, is looked at again.
void end_hung_up_soon() noexcept;
// How often tell_forgotten() was called.
uint64_t tokens_forgotten() noexcept;
// Borrowers ring after a release as long as somebody waits.
void begin_waiting() noexcept;
void stop_waiting() noexcept;

}  // namespace tenon::memory
