// The lender's side of leases: a ledger lists what one borrower was lent.
//
// A ledger belongs to one token (os/token.h), which travels with the first message. When every copy
// of the token is gone, for whatever reason, the kernel reports a hang-up at the lender's end, and
// all leases of the ledger have ended. Until then the borrower ends single leases through the lease
// page (lease_page.h). The ledger decides what is lent. The page is only the borrower's claim. A
// slot is the number of one lease, on the page and in the ledger.
//
// A bell is a socket that the borrower writes to after a release, if the lender waits for memory.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/counted.h"
#include "base/fork.h"
#include "base/status.h"
#include "memory/arena.h"
#include "memory/board.h"
#include "os/fd.h"
#include "os/mapping.h"

namespace tenon::memory {

class Depot;

// The process at the other end, as the kernel tells it: SO_PEERCRED of the connection when the
// ledger begins, and from then on the credentials of whoever rang the bell last.
struct Borrower {
  int32_t pid = 0;
  uint32_t uid = 0;
};

// The fds that travel to the borrower. They are closed with the last message that carries them.
// fork copies the fd table and the memory at different moments. So a lock that fork holds guards
// the fds (LockRank::kTokenFds), and all TokenFds are in one list: the child finds every fd that it
// has inherited, whichever thread was busy with it, and closes it.
struct TokenFds : std::enable_shared_from_this<TokenFds> {
  TokenFds() noexcept;  // the caller holds that lock, as for every change of the fds
  TokenFds(const TokenFds&) = delete;
  TokenFds& operator=(const TokenFds&) = delete;
  ~TokenFds();  // takes that lock, so the caller holds no lock from kTokenFds on (base/lock_rank.h)

  os::Fd token;
  os::Fd page;  // not open, like `bell`, if the leases of the ledger only end together
  os::Fd bell;
  bool is_childs_too = false;  // the fds belong to a descriptor and stay open in forked children
  TokenFds* next = nullptr;
  TokenFds* previous = nullptr;
};

// Any thread may call its functions. A function that ends leases (take_back(), drain(), end_some())
// releases storages, so its caller holds no ranked lock. The ledger's own locks have no rank. So a
// forked child calls no function of an inherited ledger that locks: it asks made_by_this_process()
// or has_ended(), which is true there, and releases the ledger.
class Ledger : public Counted {
 public:
  // The library's thread watches the token from now on. `by_slot`: the ledger has a lease page, so
  // that each lease can end by itself. The caller holds no lock from kTokenFds on
  // (base/lock_rank.h). After an error or std::bad_alloc there is no ledger, and its fds are
  // closed.
  static Result<Ref<Ledger>> create(const Borrower& borrower, bool by_slot);
  // The ledger of a borrower that claims messages of a depot. The slots belong to the depot, so
  // grant() must not be called.
  static Result<Ref<Ledger>> create_for_depot(const Borrower& borrower, Ref<Depot> depot,
                                              uint32_t number);

  uint64_t id() const noexcept { return id_; }
  bool made_by_this_process() const noexcept { return generation_ == fork_generation(); }
  // The ledger keeps the fds until take_fds().
  const TokenFds& fds() const noexcept { return *fds_; }
  // The caller drops the fds once the kernel has them: a copy that stays in this process would hide
  // the hang-up.
  std::shared_ptr<TokenFds> take_fds() noexcept { return std::move(fds_); }
  bool has_fds() const noexcept { return fds_ != nullptr; }

  // Grants one lease of each object, all or none. `slots` receives the slot of each.
  // RESOURCE_EXHAUSTED with limit "leases" if the page has no free slots, and PEER_GONE if the
  // ledger has ended. Takes the arenas' lock.
  Status grant(std::span<Leased* const> objects, uint32_t* slots);
  // Undoes grant() for objects that never left this process. It ignores slots without a lease.
  void take_back(std::span<const uint32_t> slots) noexcept;
  bool has_ended() const noexcept { return ended_.load(std::memory_order_acquire); }
  // Whether the borrower asked for a new token, because other processes have this one too.
  bool wants_renewal() const noexcept;
  // The function that sends a new token. The library's thread calls it, and calls it again later if
  // it returns false. set_renewer() waits until a renewer on another thread has returned. So a
  // renewer must not wait for a lock that a caller of set_renewer() holds. Set it to null before
  // `context` goes.
  using Renewer = bool (*)(void* context) noexcept;
  void set_renewer(Renewer renewer, void* context) noexcept;
  // Calls the renewer, if one is set. False: the renewer could not send now, so call this again.
  bool renew() noexcept;
  // Whether the renewer must be called: the borrower asked for a new token, or a token that was
  // handed on is not needed any more.
  bool has_news() const noexcept;

  struct Totals {
    Borrower borrower;
    uint64_t leases = 0;
    uint64_t nbytes = 0;
    uint64_t granted = 0;  // since it began
    uint64_t granted_nbytes = 0;
    int64_t began_ns = 0;  // CLOCK_MONOTONIC
  };
  Totals totals() const noexcept;

  // The functions from here on are for the registry (memory/ledgers.h), except always_ring(), which
  // channel/lending.cc calls. drain() ends the leases that the borrower has given back on the page,
  // and returns their number.
  size_t drain() noexcept;
  // Whether another thread has taken leases out of the ledger and is still ending them. Inside an
  // owner's function the answer is always no, because that thread may wait for the owner.
  bool is_ending_elsewhere() const noexcept;
  void set_waiting(bool waiting) noexcept;
  // Makes the borrower ring after every release. The ledger of a borrower that was lent a third
  // process's memory needs this, because that process may wait for the memory.
  void always_ring() noexcept;
  // The token is gone: refuses grants from now on. end_some() then ends the leases in slices, and
  // returns false when none is left.
  void end() noexcept;
  bool end_some(size_t most) noexcept;
  // Reads what rang, and notes the process that rang as the borrower.
  void hear_bell() noexcept;
  int watch() const noexcept { return watch_.get(); }
  uint64_t token_id() const noexcept { return token_id_; }
  int listener() const noexcept { return listener_.get(); }  // -1: none
  void forget_in_child() noexcept;

 private:
  Ledger() noexcept = default;
  static Result<Ref<Ledger>> create(Ref<Ledger> ledger, const Borrower& borrower, bool by_slot);
  // A slot holds an object, or, if it is free, the next free one: slot * 2 + 1.
  static constexpr uint32_t kChunk = 4096;
  using Chunk = std::array<uintptr_t, kChunk>;
  uintptr_t& at(uint32_t slot) noexcept { return (*chunks_[slot / kChunk])[slot % kChunk]; }
  inline Leased* take_slot(uint32_t slot) noexcept;
  std::mutex& slots_mutex() const noexcept;
  bool has_none() const noexcept;
  uint32_t slots_end() const noexcept;
  size_t take_some(std::span<Leased*> out) noexcept;
  class Ending;
  void publish() noexcept;
  void dispose() noexcept override { on_board_.leave(); }

  mutable std::mutex mutex_;  // guards the slots, and whether the borrower must ring
  std::vector<std::unique_ptr<Chunk>> chunks_;
  uint32_t end_ = 0;  // slots below here were used
  uint32_t first_free_ = UINT32_MAX;
  uint32_t ending_ = 0;
  // The threads that have taken slots and may not have ended the leases yet.
  std::atomic<uint32_t> threads_ending_{0};
  Totals totals_;
  OnBoard on_board_;
  board::LedgerFigures* figures_ = nullptr;  // null: not on the board
  std::atomic<bool> ended_{false};

  std::recursive_mutex renewer_mutex_;  // recursive: a renewer may call set_renewer()
  Renewer renewer_ = nullptr;
  void* renewer_context_ = nullptr;

  uint64_t id_ = 0;
  uint64_t generation_ = fork_generation();
  uint64_t token_id_ = 0;
  Ref<Depot> depot_;     // null: the slots are this ledger's own
  uint32_t number_ = 0;  // the borrower's number in the depot
  os::Fd watch_;
  os::Fd listener_;
  std::atomic<bool> always_ring_{false};
  // How many tokens that were handed on and are gone the renewer knows of.
  std::atomic<uint64_t> heard_{0};
  std::shared_ptr<TokenFds> fds_;
  os::Mapping page_;
};

// Any thread may call the functions from here on. drain_ledgers(), settle_ledgers(),
// settle_ledger(), describe_holders() and ledger_totals() end leases, which may take any lock, so
// their caller holds no ranked lock. own_ledger_of() takes LockRank::kLedgers, signal_space()
// kArenaWait, and tell_forgotten() kService. A forked child begins without ledgers and leases.

// Whether this process has granted a lease that may still stand. The answer costs one atomic read.
bool has_leases() noexcept;
// Drains every ledger, which ends the leases that borrowers have given back. Also ends a slice of
// the leases of each ledger whose token is gone. Returns 0 if nothing ended. Otherwise the number
// is the leases that were given back, plus one for each ledger whose token is gone. In a process
// without a service thread it calls os::poll_service() first.
size_t drain_ledgers() noexcept;
// Drains every ledger, and asks the kernel which tokens are gone, because the library's thread may
// not have noticed yet. This takes a system call for each ledger. It also waits for other threads
// that are just ending leases, for a fraction of a second at most: an owner's function may run on
// such a thread and wait for this one. Returns a number as drain_ledgers() does.
size_t settle_ledgers() noexcept;
// Settles one ledger. A caller that closes what may be the last copy of a token calls this, and
// does not leave the hang-up to the library's thread.
void settle_ledger(Ledger& ledger) noexcept;
// This process needs a token no more that was handed on to it. The library's thread makes the
// connections tell its lender.
void tell_forgotten() noexcept;
// The id of this process's ledger whose token `token` is a copy of; 0 if there is none. The caller
// must not keep the copy, or the hang-up would never come.
uint64_t own_ledger_of(int token) noexcept;
// Wakes the callers that wait for free memory.
void signal_space() noexcept;
// The four borrowers with the most bytes, for an error: "pid 12 (python3): 3 leases of 4096 bytes;
// …". The bytes are those of all its leases together. "nobody" if no lease stands.
std::string describe_holders();
// The totals of every ledger that has leases.
std::vector<Ledger::Totals> ledger_totals();

}  // namespace tenon::memory
