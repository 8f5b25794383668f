// The borrower's side of leases: the token that says that it is alive, and the page where it gives
// leases back.
//
// As long as a Holding lives, the lender keeps every block that was lent under it and not given
// back. A fork copies the token: then the leases held at that moment are the family's, nobody gives
// them back any more, and they end when the last of the family has let go.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/counted.h"
#include "base/fork.h"
#include "base/status.h"
#include "os/fd.h"
#include "os/mapping.h"

namespace tenon::memory {

// A copy of a token. The lender behind it waits as long as it is open.
struct Token {
  Token() noexcept = default;
  Token(const Token&) = delete;
  Token& operator=(const Token&) = delete;
  ~Token();
  uint64_t id = 0;  // in this process
  os::Fd fd;
  // It was handed on: whoever has it must hear that it is not needed any more.
  std::atomic<bool> told{false};
  uint64_t generation = fork_generation();
};
std::shared_ptr<Token> make_token(os::Fd fd);

// The states of a lease, as in docs/format/lease.md. RELEASED and ENDED are the lender's to see: by
// the page, and by the token's hang-up.
enum class LeaseState : uint8_t { kHeld, kFamily, kReleased, kEnded };

class GivingBack;

class Holding : public Counted {
 public:
  // What came with a message: nothing of it is trusted. `page` and `bell` not open: leases end only
  // together. Takes the fds over on success.
  static Result<Ref<Holding>> open(os::Fd* token, os::Fd* page, os::Fd* bell);

  // Slots are below this; 0: leases end only together.
  uint32_t slots() const noexcept { return slots_; }

  // Once for each lease. `mark`: fork_mark() when it came. Whoever reads the block must be done.
  void give_back(uint32_t slot, uint32_t mark) noexcept;
  // That, now or with others (GivingBack), and the lease's reference.
  void end_lease(uint32_t slot, uint32_t mark) noexcept;
  // HELD, or FAMILY: a fork has been since it came.
  LeaseState state_of(uint32_t mark) const noexcept {
    return generation_ != fork_generation() || forked_since(mark) ? LeaseState::kFamily
                                                                  : LeaseState::kHeld;
  }
  // The process that watches the token has ended. False for one that this process cannot tell of.
  bool lender_is_gone() const noexcept;
  // Asks the lender for a new token, once, if this one was shared by a fork since it came.
  void renew() noexcept;

  // Tokens of lenders further up: they, too, wait for as long as anything that was lent on is held
  // here.
  void inherit(std::shared_ptr<Token> token);
  void disinherit(const Token* token) noexcept;
  // All that whoever is lent on must have: its own token and those inherited.
  std::vector<std::shared_ptr<Token>> tokens() const;

 private:
  friend class GivingBack;
  inline bool can_give_back(uint32_t slot, uint32_t mark) const noexcept;
  Holding() noexcept : generation_(fork_generation()), mark_(fork_mark()) {}
  // The connection may know it for longer, weakly: the lender must not wait for that.
  void dispose() noexcept override;

  std::shared_ptr<Token> token_;
  os::Fd bell_;
  os::Mapping page_;
  uint32_t slots_ = 0;
  uint64_t generation_;
  uint32_t mark_;
  std::atomic<bool> asked_{false};
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Token>> inherited_;
};

// While it lives, leases that its thread gives back are told to the lender together, those with
// their bits in one word of the page. Until then they are HELD, so nothing in between may wait, or
// run what the user wrote: for that there is a Pause.
class GivingBack {
 public:
  GivingBack() noexcept;
  GivingBack(const GivingBack&) = delete;
  GivingBack& operator=(const GivingBack&) = delete;
  ~GivingBack();

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
  Holding* holding_ = nullptr;  // with `count_` references
  uint64_t bits_ = 0;
  uint32_t word_ = 0;
  uint32_t count_ = 0;
};

}  // namespace tenon::memory
