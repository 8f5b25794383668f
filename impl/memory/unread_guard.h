// Keeps a ledger alive while a message that brings the ledger's blocks home may still be unread.
//
// A borrower may lend a block back to its lender. The message then carries the lender's own token,
// or an earlier message on the same connection did. The lender closes that copy of the token,
// because the hang-up would never come while the lender has one. So the token can be gone although
// a message with the block still lies unread in a connection. Each connection has a guard that
// notes which ledgers' tokens came over it. A ledger whose token is gone ends only when the
// connections that brought the token have nothing left to read.
#pragma once

#include <atomic>
#include <cstdint>

namespace tenon::memory {

// Whether a connection has nothing left to read.
enum class Drained : uint8_t {
  kYes,
  kNo,    // the connection will call UnreadGuard::drained()
  kBusy,  // another thread is reading, so ask again soon
};

// The guard of one connection, which outlives the guard. add() and the destructor take
// LockRank::kUnreadGuards. The destructor and drained() take LockRank::kService. A forked child
// asks no guard of its parent.
class UnreadGuard {
 public:
  // Asks the connection. Any thread may call this while it holds LockRank::kUnreadGuards and
  // earlier locks (base/lock_rank.h), so the function must not wait: it only tries a lock.
  using Ask = Drained (*)(void* context) noexcept;

  UnreadGuard(Ask ask, void* context) noexcept : ask_(ask), context_(context) {}
  UnreadGuard(const UnreadGuard&) = delete;
  UnreadGuard& operator=(const UnreadGuard&) = delete;
  // No call of `ask` is under way when this returns, and none begins afterwards.
  ~UnreadGuard();

  // Notes that a token of this ledger came over the connection. Call it before closing that copy of
  // the token. Throws std::bad_alloc.
  void add(uint64_t ledger);
  // Only for the thread that calls add().
  bool has_any() const noexcept { return has_any_; }
  // Whether a ledger waits for drained(). A connection that has nothing left to read checks this
  // after each receive.
  bool is_wanted() const noexcept { return wanted_.load(std::memory_order_acquire); }
  // The connection has nothing left to read. Has the library's thread ask again for the ledgers
  // that wait. A call too many is harmless.
  void drained() noexcept;

 private:
  friend Drained ask_guards(uint64_t ledger) noexcept;
  Ask ask_;
  void* context_;
  std::atomic<bool> wanted_{false};
  bool has_any_ = false;
};

// Whether a ledger whose token is gone may end. For ledgers.cc. kYes: no connection that brought
// the token has anything left to read. Otherwise kBusy if any of them is busy, else kNo. A guard
// that answered kYes forgets the ledger.
Drained ask_guards(uint64_t ledger) noexcept;

}  // namespace tenon::memory
