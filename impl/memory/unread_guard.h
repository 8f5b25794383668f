// What a lender lent may come back to it in a message that it has not read yet. The message carried
// the lender's own token, or one before it on the same connection did, and the lender does not keep
// that token: its hang-up would never come. So a ledger whose token is gone waits until whoever had
// the token sent back has read all that came before.
#pragma once

#include <atomic>
#include <cstdint>

namespace tenon::memory {

enum class Drained : uint8_t {
  kYes,
  kNo,    // UnreadGuard::drained() will be called
  kBusy,  // to be asked again soon
};

// Of one connection.
class UnreadGuard {
 public:
  // Whether nothing is left to read now. Called by any thread, with locks held whose rank at fork
  // is up to 12: must not wait.
  using Ask = Drained (*)(void* context) noexcept;

  UnreadGuard(Ask ask, void* context) noexcept : ask_(ask), context_(context) {}
  UnreadGuard(const UnreadGuard&) = delete;
  UnreadGuard& operator=(const UnreadGuard&) = delete;
  // After it there is no call any more, nor one under way.
  ~UnreadGuard();

  // A token of that ledger came over the connection. Before the copy that came is closed. Throws
  // std::bad_alloc.
  void add(uint64_t ledger);
  // By whoever calls add().
  bool has_any() const noexcept { return has_any_; }
  // Some ledger waits for drained().
  bool is_wanted() const noexcept { return wanted_.load(std::memory_order_acquire); }
  void drained() noexcept;

 private:
  friend Drained ask_guards(uint64_t ledger) noexcept;
  Ask ask_;
  void* context_;
  std::atomic<bool> wanted_{false};
  bool has_any_ = false;
};

// For ledgers.cc: whether a ledger whose token is gone may end.
Drained ask_guards(uint64_t ledger) noexcept;

}  // namespace tenon::memory
