// The lender's side of deposits: messages that belong to whoever fetches them first.
//
// A lease needs somebody who has it. A message on a queue has many possible receivers, so until one
// of them fetches it the message has the leases itself. Whoever fetches claims the message by one
// exchange in the claims page (claims_page.h), and gives single leases back by a lease page of his
// own, as on a connection: slots are the depot's, and a bit of a borrower's page is believed for
// the slots of the messages that this borrower claimed. His token's hang-up ends all of them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/counted.h"
#include "base/fork.h"
#include "base/status.h"
#include "memory/lent_block.h"
#include "os/fd.h"
#include "os/mapping.h"

namespace tenon::memory {

class Depot final : public Counted {
 public:
  static Result<Ref<Depot>> create();
  // A keeper's: over the page of a lender that has ended. It has no leases to end. Its borrowers
  // are numbered from `next_borrower` on.
  static Result<Ref<Depot>> inherit(os::Fd page, uint32_t next_borrower);
  bool made_by_this_process() const noexcept { return generation_ == fork_generation(); }
  // The claims page, which every borrower gets. Borrowed.
  int page() const noexcept { return page_fd_.get(); }

  // Where a message is, until it is over.
  struct Place {
    uint32_t message = 0;
    uint32_t generation = 0;
  };
  // Leases of these objects for one message, all or none. The first is the envelope, whose lease
  // the receiver gives back when he has opened the others. Nobody can claim the message before
  // open(). RESOURCE_EXHAUSTED with limit "leases" or "messages".
  Result<Place> deposit(std::span<Leased* const> objects, uint32_t* slots);
  // More of them, for a message that nobody can have claimed yet.
  Status add(Place place, std::span<Leased* const> objects, uint32_t* slots);
  void open(Place place) noexcept;
  // Ends the leases of a message that nobody has claimed, opened or not. False: somebody has, or it
  // is over.
  bool withdraw(Place place) noexcept;
  // This process fetches its own message: it claims it, opens what is in it, and ends the leases.
  bool claim_here(Place place) noexcept;
  void end_message(Place place) noexcept;
  bool is_unfetched(Place place) const noexcept;
  uint64_t count_unfetched() const noexcept;
  // Whether a slot is one of the message's.
  bool has_slot(Place place, uint32_t slot) const noexcept;

  // Those that are there and whose fetching is not over: unfetched, or somebody is still opening
  // them.
  std::vector<Place> pending() const;
  bool is_pending(Place place) const noexcept;
  uint32_t next_borrower() const noexcept;

  // A number for a new borrower. RESOURCE_EXHAUSTED after 2^31 - 2 of them.
  Result<uint32_t> add_borrower();

  // A number for something whose fd borrowers ask for once: a segment, or a token of a lender
  // further up.
  struct Number {
    uint32_t thing = 0;
    uint64_t serial = 0;
  };
  Result<Number> number_thing();
  void end_thing(Number number) noexcept;

  // For the ledger of a borrower (ledger.h): slots that he gives back, and what is left of his at
  // his end.
  std::mutex& mutex() const noexcept { return mutex_; }
  // With the lock, as the next two. Null: this borrower has no lease in this slot.
  Leased* take(uint32_t slot, uint32_t borrower) noexcept;
  // Slots are below this.
  uint32_t end() const noexcept { return static_cast<uint32_t>(slots_.size()); }
  // Some of what a borrower has, from the message `cursor` on; 0: nothing is left.
  size_t take_claimed(uint32_t borrower, uint32_t* cursor, std::span<Leased*> out) noexcept;

  struct Totals {
    uint64_t leases = 0;
    uint64_t nbytes = 0;
  };
  Totals totals_of(uint32_t borrower) const noexcept;

 private:
  Depot() noexcept = default;
  struct Slot {
    Leased* object = nullptr;  // null: the lease has ended, or the slot is free
    uint32_t message = 0;      // of a free slot the next free one
  };
  struct Message {
    uint32_t generation = 1;
    uint32_t remaining = 0;  // leases; 0: the message is over
    uint32_t cursor = 0;     // of take_claimed() and end_message(): what stands before it has ended
    std::vector<uint32_t> slots;
  };
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kHere = 1;  // this process's own number as a borrower

  bool is_there(Place place) const noexcept {
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
  uint32_t next_borrower_ = kHere + 1;
  uint64_t next_serial_ = 1;
  std::vector<uint32_t> free_things_;
  uint32_t next_thing_ = 0;
  uint64_t generation_ = fork_generation();
  os::Fd page_fd_;
  os::Mapping page_;
};

}  // namespace tenon::memory
