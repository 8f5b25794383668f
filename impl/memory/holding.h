// The borrower's side of leases: a Holding has the token, which says that the borrower is alive,
// and the lease page, where the borrower gives leases back. channel/ and tensor/portable.cc open
// holdings, and a Lease (lease.h) keeps one.
//
// As long as a Holding lives, the lender keeps every block that was lent under it and not given
// back. A lender may itself be a borrower of another process, and lend that memory on. The token of
// such a lender further up then travels along. A fork copies the token. The leases that are held at
// that moment become FAMILY: nobody gives them back one by one any more, and they end when the last
// process of the family has let go.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/counted.h"
#include "base/fork.h"
#include "base/status.h"
#include "os/fd.h"
#include "os/mapping.h"

namespace tenon::memory {

// A copy of a token in this process. The lender that made the token keeps the blocks as long as the
// copy is open. The destructor may take LockRank::kService. A forked child has a copy too: the
// lender waits until both are closed, and only the process that made the LeaseToken tells its
// receivers that it is not needed any more (tell_forgotten() in ledger.h).
struct LeaseToken {
  LeaseToken() noexcept = default;
  LeaseToken(const LeaseToken&) = delete;
  LeaseToken& operator=(const LeaseToken&) = delete;
  ~LeaseToken();
  uint64_t id = 0;  // unique in this process
  os::Fd fd;
  // The token was handed on. When this process needs it no more, the receivers must hear of that.
  std::atomic<bool> told{false};
  uint64_t generation = fork_generation();
};
std::shared_ptr<LeaseToken> make_token(os::Fd fd);

// The states of a lease, as in docs/format/lease.md. Only the lender sees RELEASED (by the page)
// and ENDED (by the token's hang-up).
enum class LeaseState : uint8_t { kHeld, kFamily, kReleased, kEnded };

class GivingBack;

// Any thread may call its functions. The last release closes fds of another process
// (os::close_foreign()). In a forked child all leases of an inherited Holding are FAMILY, and
// give_back(), end_lease() and renew() tell the lender nothing. inherit(), disinherit() and
// tokens() take LockRank::kInheritedTokens.
class Holding : public Counted {
 public:
  // Makes a holding from the fds that came with a message. It checks them, because none is trusted.
  // If `page` and `bell` are not open, the leases only end together. Takes the fds over on success,
  // and rings the bell, by which the lender learns which process took the token. CORRUPT or
  // INCOMPATIBLE with detail "field" = "tokens", or an error of inspecting or mapping the page.
  // After an error or std::bad_alloc all fds are still the caller's.
  static Result<Ref<Holding>> open(os::Fd* token, os::Fd* page, os::Fd* bell);

  // A slot is the number of one lease. All slots are below this number. 0: the leases only end
  // together.
  uint32_t slots() const noexcept { return slots_; }

  // Gives a lease back. Call this once for each lease, when no thread here reads the block any
  // more. `mark` is fork_mark() at the arrival of the lease. Does nothing for a FAMILY lease,
  // without a page, and for a slot that is not below slots(), so the caller need not check.
  void give_back(uint32_t slot, uint32_t mark) noexcept;
  // Gives a lease back, now or together with others (GivingBack), and drops the lease's reference
  // to this holding.
  void end_lease(uint32_t slot, uint32_t mark) noexcept;
  // FAMILY if a fork has begun since the lease came, or was under way then. Otherwise HELD.
  LeaseState state_of(uint32_t mark) const noexcept {
    return generation_ != fork_generation() || forked_since(mark) ? LeaseState::kFamily
                                                                  : LeaseState::kHeld;
  }
  // Whether no process has the read end of the token any more (POLLERR): the lender has ended or
  // has closed its watch. False while a forked child of the lender still has the read end open, and
  // if this process cannot tell.
  bool lender_is_gone() const noexcept;
  // Asks the lender for a new token, once, if a fork has copied this one since it came.
  void renew() noexcept;

  // inherit() keeps a token of a lender further up. That lender then waits, too, as long as this
  // process holds anything of this holding. disinherit() drops that token.
  void inherit(std::shared_ptr<LeaseToken> token);
  void disinherit(const LeaseToken* token) noexcept;
  // Returns the tokens that go along when this memory is lent on: the holding's own and the
  // inherited ones.
  std::vector<std::shared_ptr<LeaseToken>> tokens() const;

 private:
  friend class GivingBack;
  inline bool can_give_back(uint32_t slot, uint32_t mark) const noexcept;
  Holding() noexcept : generation_(fork_generation()), mark_(fork_mark()) {}
  // Closes everything with the last strong reference. A connection may keep a weak one for longer,
  // and the lender must not wait for that.
  void dispose() noexcept override;

  std::shared_ptr<LeaseToken> token_;
  os::Fd bell_;
  os::Mapping page_;
  uint32_t slots_ = 0;
  uint64_t generation_;
  uint32_t mark_;
  std::atomic<bool> asked_{false};
  std::vector<std::shared_ptr<LeaseToken>> inherited_;  // LockRank::kInheritedTokens guards it
};

// Collects the leases that this thread ends by end_lease() while the object lives, and gives them
// back together if their bits are in one word of the page. give_back() does not collect. Until then
// they are HELD. So the code in between must not wait or call the user's code, except under a
// Pause.
class GivingBack {
 public:
  GivingBack() noexcept;
  GivingBack(const GivingBack&) = delete;
  GivingBack& operator=(const GivingBack&) = delete;
  ~GivingBack();

  // Gives back what was collected so far, and collects nothing while it lives.
  class Pause {
   public:
    Pause() noexcept;
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
    ~Pause();

   private:
    GivingBack* paused_;
  };

 private:
  friend class Holding;
  void add(Holding* holding, uint32_t slot) noexcept;
  void tell() noexcept;

  GivingBack* outer_;
  Holding* holding_ = nullptr;  // the object owns `count_` references to it
  uint64_t bits_ = 0;
  uint32_t word_ = 0;
  uint32_t count_ = 0;
};

}  // namespace tenon::memory
