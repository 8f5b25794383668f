// The lender's side of deposits: a Depot keeps the leases of deposited messages until they end. A
// deposited message waits at its lender until a receiver fetches it with a ticket
// (channel/ticket.h). channel/ deposits messages here, and the ledgers of receivers take leases
// from here. A receiver that has met the lender is called a borrower, and has a number.
//
// A lease needs a holder. A message on a queue has many possible receivers, so until one of them
// fetches it the message has the leases itself. A receiver claims the message by one exchange in
// the claims page (claims_page.h). It gives single leases back by a lease page of its own, as on a
// connection. A claim changes the claim word only: the leases stay in the depot's slots until each
// is given back. The slots are the depot's, so a bit in a borrower's page is believed only for
// slots of messages that this borrower has claimed. The hang-up of its token ends all of its
// leases.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/counted.h"
#include "base/fork.h"
#include "base/prefetch.h"
#include "base/status.h"
#include "memory/lent_block.h"
#include "os/fd.h"
#include "os/mapping.h"

namespace tenon::memory {

// Any thread may call its functions. They take mutex(), which has no rank, except open(),
// is_unfetched(), is_pending() and the functions for the holder of mutex(). deposit() and add()
// take the arenas' lock too. withdraw() and end_message() release storages, so their caller holds
// no ranked lock.
class Depot final : public Counted {
 public:
  static Result<Ref<Depot>> create();
  // Makes the depot of a keeper (channel/deposit_keeper.h), which serves the messages of a lender
  // that has ended, over that lender's claims page. It has no leases to end. Its borrowers are
  // numbered from `next_borrower` on. INCOMPATIBLE for a page of another size than this version of
  // Tenon makes. After an error the fd is closed.
  static Result<Ref<Depot>> inherit(os::Fd page, uint32_t next_borrower);
  // If this is false, a forked child calls only withdraw(), claim_here() and end_message(), which
  // then do nothing: mutex() may be locked for ever.
  bool made_by_this_process() const noexcept { return generation_ == fork_generation(); }
  // The fd of the claims page, which every borrower gets. It stays the depot's.
  int page() const noexcept { return page_fd_.get(); }

  // Identifies a message until it is over, which means that its last lease has ended.
  struct MessageSlot {
    uint32_t message = 0;
    uint32_t generation = 0;
  };
  // Begins a message with one lease of each object, all or none. `slots` receives the slot of each
  // lease. The first object is the envelope (Envelope in channel/deposit.cc): a Leased of 0 bytes
  // that keeps the message's storages. The receiver gives back the envelope's lease when it has
  // opened all other objects. Nobody can claim the message before open(). RESOURCE_EXHAUSTED with
  // limit "leases" or "messages". The call also fails if the claims page needs a new page and there
  // is no memory for it. After an error or std::bad_alloc no message has begun.
  Result<MessageSlot> deposit(std::span<Leased* const> objects, uint32_t* slots);
  // Adds leases, all or none, to a message that nobody can have claimed: it is not open, or nobody
  // was given its ticket. The call does not check that. INVALID_ARGUMENT if the message is over.
  // RESOURCE_EXHAUSTED with limit "leases". It may need a page, as deposit() does.
  Status add(MessageSlot place, std::span<Leased* const> objects, uint32_t* slots);
  // Asks the CPU for the line of the claims page that the next deposit() most likely writes, and
  // that the receiver of an earlier message has written. Call it some time before.
  void prefetch_next() const noexcept {
    prefetch_for_write(next_claim_.load(std::memory_order_relaxed));
  }
  // From now on any process that has the message's ticket can claim it.
  void open(MessageSlot place) noexcept;
  // Ends the leases of a message that nobody has claimed, before or after open(). False: it has
  // been claimed, it is over, or this process is a forked child.
  bool withdraw(MessageSlot place) noexcept;
  // For a process that fetches its own message. It claims the message by claim_here(), opens the
  // storages, and ends the leases by end_message(). In a forked child claim_here() returns false
  // and end_message() does nothing.
  bool claim_here(MessageSlot place) noexcept;
  void end_message(MessageSlot place) noexcept;
  bool is_unfetched(MessageSlot place) const noexcept;
  // Whether the slot has a lease of this message.
  bool has_slot(MessageSlot place, uint32_t slot) const noexcept;

  // The messages whose fetching is not over: they are unfetched, or their receiver is still opening
  // their storages.
  std::vector<MessageSlot> pending() const;
  uint64_t count_pending() const noexcept;  // how many there are
  bool is_pending(MessageSlot place) const noexcept;
  uint32_t next_borrower() const noexcept;

  // Returns a number for a new borrower. No number is used twice. RESOURCE_EXHAUSTED after number
  // 2^31 - 2.
  Result<uint32_t> add_borrower();

  // The number of a thing whose fd each borrower asks for once. A thing is a segment, or a token of
  // a lender further up. `thing` is an index in the claims page, and is used again. `serial` is
  // never used twice, so it shows that a cached fd belongs to an earlier thing.
  struct Number {
    uint32_t thing = 0;
    uint64_t serial = 0;
  };
  // RESOURCE_EXHAUSTED with limit "segments". It may need a page, as deposit() does.
  Result<Number> number_thing();
  void end_thing(Number number) noexcept;

  // The rest is for the ledger of a borrower (ledger.h). It takes the slots that the borrower gives
  // back and, when the borrower's token hangs up, all that are left.
  std::mutex& mutex() const noexcept { return mutex_; }
  // Takes the object out of a slot and returns it. Null: this borrower has no lease in this slot.
  // The caller holds mutex(), as for the next two functions. After it has released mutex(), it
  // calls end_leases() (lent_block.h) for the objects that it took, and count_leases() (ledgers.h).
  Leased* take(uint32_t slot, uint32_t borrower) noexcept;
  // All slots are below this number.
  uint32_t end() const noexcept { return static_cast<uint32_t>(slots_.size()); }
  // Takes objects of the leases that a borrower has, from message `*cursor` on, as take() does.
  // Returns how many objects it put into `out`. 0: no lease is left.
  size_t take_claimed(uint32_t borrower, uint32_t* cursor, std::span<Leased*> out) noexcept;

  struct Totals {
    uint64_t leases = 0;
    uint64_t nbytes = 0;
  };
  Totals totals_of(uint32_t borrower) const noexcept;

 private:
  Depot() noexcept = default;
  // A slot whose lease has ended stays taken until the last lease of its message has ended. Then
  // all slots of the message become free together (finish()).
  struct Slot {
    Leased* object = nullptr;  // null: the lease has ended, or the slot is free
    uint32_t message = 0;      // in a free slot: the next free slot
  };
  struct Message {
    uint32_t generation = 1;
    uint32_t remaining = 0;  // leases that have not ended; 0: the message is over
    // take_claimed() and end_message() go through `slots`. Every lease before this index has ended.
    uint32_t cursor = 0;
    std::vector<uint32_t> slots;
  };
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kHere = 1;  // this process's own number as a borrower

  bool is_there(MessageSlot place) const noexcept {
    return place.message < messages_.size() &&
           messages_[place.message].generation == place.generation &&
           messages_[place.message].remaining > 0;
  }
  Leased* end_lease_of(uint32_t slot) noexcept;
  void finish(uint32_t message) noexcept;
  size_t take_rest(uint32_t message, std::span<Leased*> out) noexcept;
  Status make_slots(size_t more);
  void grant(uint32_t message, std::span<Leased* const> objects, uint32_t* slots) noexcept;

  mutable std::mutex mutex_;
  std::vector<Slot> slots_;
  uint32_t free_slot_ = kNone;
  std::vector<Message> messages_;
  std::vector<uint32_t> free_messages_;
  std::atomic<const void*> next_claim_{nullptr};  // see prefetch_next()
  uint32_t next_borrower_ = kHere + 1;
  uint64_t next_serial_ = 1;
  std::vector<uint32_t> free_things_;
  uint32_t next_thing_ = 0;
  uint64_t generation_ = fork_generation();
  os::Fd page_fd_;
  os::Mapping page_;
};

}  // namespace tenon::memory
