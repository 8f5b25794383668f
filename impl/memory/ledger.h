// The lender's side of leases: what each borrower was lent.
//
// A ledger belongs to a token (os/token.h) that travels with the first message. When every copy of
// the token is gone, by whatever way, the kernel reports a hang-up at the other end, and all that
// the ledger lists has ended. Until then a borrower ends single leases by the lease page
// (lease_page.h). The ledger is the truth; the page is only what the borrower says.
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

// Who is at the other end, as the kernel says it: SO_PEERCRED of the connection.
struct Borrower {
  int32_t pid = 0;
  uint32_t uid = 0;
};

// The fds that travel. Closed with the last message that carries them. They come and go with a lock
// that fork holds, and all are in a list: what is in a child's table is so in its memory too,
// whichever thread was at it, and the child closes it.
struct TokenFds : std::enable_shared_from_this<TokenFds> {
  TokenFds() noexcept;  // with that lock, as whatever changes one
  TokenFds(const TokenFds&) = delete;
  TokenFds& operator=(const TokenFds&) = delete;
  ~TokenFds();  // takes that lock: with none held whose rank at fork is 8 or more

  os::Fd token;
  os::Fd page;  // not open, as the bell: a ledger whose leases only end together
  os::Fd bell;
  bool is_childs_too = false;  // of a descriptor, which a child of fork has as its parent has it
  TokenFds* next = nullptr;
  TokenFds* previous = nullptr;
};

class Ledger : public Counted {
 public:
  // Watched from now on. `by_slot`: with a lease page. With no lock held whose rank at fork is 8 or
  // more.
  static Result<Ref<Ledger>> create(const Borrower& borrower, bool by_slot);
  // Of a borrower who claims messages of a depot: the slots are the depot's, and grant() is not for
  // it.
  static Result<Ref<Ledger>> create_for_depot(const Borrower& borrower, Ref<Depot> depot,
                                              uint32_t number);

  uint64_t id() const noexcept { return id_; }
  bool made_by_this_process() const noexcept { return generation_ == fork_generation(); }
  // Until they are taken, the ledger has them.
  const TokenFds& fds() const noexcept { return *fds_; }
  // To be let go of when the kernel has them: a copy that stays here would hide the hang-up.
  std::shared_ptr<TokenFds> take_fds() noexcept { return std::move(fds_); }
  bool has_fds() const noexcept { return fds_ != nullptr; }

  // One lease of each object, all or none. RESOURCE_EXHAUSTED with limit "leases". PEER_GONE: the
  // ledger has ended.
  Status grant(std::span<Leased* const> objects, uint32_t* slots);
  // Undo grant() for what never left. Slots that cannot be are passed over.
  void take_back(std::span<const uint32_t> slots) noexcept;
  bool has_ended() const noexcept { return ended_.load(std::memory_order_acquire); }
  // The borrower asked for a new token, since others have this one too.
  bool wants_renewal() const noexcept;
  // Who sends it: called by the library's thread, may fail (false: to be tried again). Set to null
  // before `context` goes.
  using Renewer = bool (*)(void* context) noexcept;
  void set_renewer(Renewer renewer, void* context) noexcept;
  bool renew() noexcept;
  // That, or a token that was handed on is not needed any more: the renewer is to be called.
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

  // For the registry.
  size_t drain() noexcept;
  // Whether another thread is in the middle of ending leases that it has already taken out of here.
  // Always no inside an owner's function, which may be what that thread waits for.
  bool is_ending_elsewhere() const noexcept;
  void set_waiting(bool waiting) noexcept;
  // From now on its borrower rings after every release: what is lent on is somebody else's, who may
  // wait for it.
  void always_ring() noexcept;
  void end() noexcept;  // the token is gone: no more grants, and the leases end in slices
  bool end_some(size_t most) noexcept;  // false: none is left
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

  mutable std::mutex mutex_;  // for the slots, and whether the borrower is to ring
  std::vector<std::unique_ptr<Chunk>> chunks_;
  uint32_t end_ = 0;  // slots below here were used
  uint32_t first_free_ = UINT32_MAX;
  uint32_t ending_ = 0;
  std::atomic<uint32_t> threads_ending_{
      0};  // that have taken slots, and may not have ended their leases yet
  Totals totals_;
  OnBoard on_board_;
  board::LedgerFigures* figures_ = nullptr;  // null: not on the board
  std::atomic<bool> ended_{false};

  std::recursive_mutex renewer_mutex_;  // the renewer itself changes who it is
  Renewer renewer_ = nullptr;
  void* renewer_context_ = nullptr;

  uint64_t id_ = 0;
  uint64_t generation_ = fork_generation();
  uint64_t token_id_ = 0;
  Ref<Depot> depot_;     // null: the slots are this ledger's own
  uint32_t number_ = 0;  // by which the depot knows the borrower
  os::Fd watch_;
  os::Fd listener_;
  std::atomic<bool> always_ring_{false};
  std::atomic<uint64_t> heard_{
      0};  // of how many tokens that were handed on and are gone the renewer has been told
  std::shared_ptr<TokenFds> fds_;
  os::Mapping page_;
};

// Whether this process has granted a lease that may still stand. Cheap.
bool has_leases() noexcept;
// Look at every ledger for leases that ended. Returns how many.
size_t drain_ledgers() noexcept;
// Likewise, and asks the kernel which tokens are gone, which the library's thread may not have come
// to yet. A system call for each ledger. Waits for other threads that are just ending leases, a
// fraction of a second at most: an owner's function may run there, and may wait for this thread.
size_t settle_ledgers() noexcept;
// Of one: whoever lets go of a token that may have been the last does not leave it to the thread.
void settle_ledger(Ledger& ledger) noexcept;
// A token that was handed on is not needed here any more: the library's thread has the connections
// say so.
void tell_forgotten() noexcept;
// The ledger of which it is a copy of the token; 0: none of this process. It must not be kept: the
// hang-up would never come.
uint64_t own_ledger_of(int token) noexcept;
// Something became free: waits look again.
void signal_space() noexcept;
// For an error: "pid 12 (python3) has 3 leases of 4096 bytes; ..." the largest few.
std::string describe_holders();
std::vector<Ledger::Totals> ledger_totals();

}  // namespace tenon::memory
