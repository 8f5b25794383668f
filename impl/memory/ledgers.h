// The registry of all ledgers of this process. It watches their tokens, and knows whether a thread
// waits for leases to end. Only the .cc files of memory/ and their unit tests use this header. The
// functions for the other folders are in ledger.h.
//
// All functions but count_leases() and tokens_forgotten() take locks: end_hung_up_soon() takes
// LockRank::kService, register_ledger() that and LockRank::kLedgers, and the others
// LockRank::kLedgers (base/lock_rank.h). A forked child begins with an empty registry: its parent's
// leases never end there.
#pragma once

#include <cstdint>

#include "base/counted.h"
#include "base/status.h"
#include "memory/ledger.h"

namespace tenon::memory {

// Watches the ledger's token, and keeps the ledger until the token is gone and its leases have
// ended. The errors are those of os::serve_fd(). After an error or std::bad_alloc the ledger is not
// registered.
Status register_ledger(const Ref<Ledger>& ledger);
// Adds `more`, which may be negative, to the number of leases behind has_leases().
void count_leases(int64_t more) noexcept;
// Makes the library's thread look again at the ledgers whose token is gone and that had to wait
// (unread_guard.h).
void end_hung_up_soon() noexcept;
// How often tell_forgotten() was called.
uint64_t tokens_forgotten() noexcept;
// Borrowers ring after each release as long as a thread is between begin_waiting() and
// stop_waiting(). A release before begin_waiting() does not ring. So after begin_waiting() the
// caller first looks for ended leases, and only then waits.
void begin_waiting() noexcept;
void stop_waiting() noexcept;

}  // namespace tenon::memory
