// What other processes of the user can see of this one's arenas and leases, without asking it:
// docs/format/board.md.
//
// A memfd that only this process can write, found through /proc/<pid>/fd by its name. It stands
// while there is an arena of the user's or a ledger. Each of them has a row, and so has the default
// home of each mode; the counters of arenas are the words of the row, so publishing costs nothing.
// Without an fd, memory or a place on the board they count in private memory, and nobody else sees
// them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/fork.h"
#include "memory/mode.h"
#include "os/fd.h"
#include "os/mapping.h"

namespace tenon::memory {

// Of a block, for its lender, as in docs/format/lease.md. LIVE: a storage has it. LENT: none has it
// any more, and a lease stands.
enum class BlockState : uint8_t { kFree, kLive, kLent };

namespace board {

inline constexpr const char* kNamePrefix = "tenon-board-";
inline constexpr std::array<char, 8> kMagic = {'T', 'E', 'N', 'O', 'N', 'B', 'R', 'D'};
inline constexpr uint32_t kVersion = 1;
inline constexpr uint32_t kRowNbytes = 128;
inline constexpr uint32_t kRows = 2047;
inline constexpr uint64_t kNbytes = uint64_t{kRows + 1} * kRowNbytes;

// The lowest byte of a row's tag.
enum class RowKind : uint8_t { kFree = 0, kArena = 1, kHome = 2, kLedger = 3 };
// The byte above it: of arenas their mode, of ledgers how their token travels.
enum class Carrier : uint8_t { kConnection = 0, kDescriptor = 1 };

using Word = std::atomic<uint64_t>;
static_assert(sizeof(Word) == 8 && Word::is_always_lock_free);

struct Header {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t row_nbytes;
  uint64_t incompat;
  uint64_t compat;
  uint32_t pid;  // as the process itself sees it, which tells the board from a copy of its fd
  uint32_t rows;
  uint64_t pid_namespace;
  int64_t began_ns;  // CLOCK_MONOTONIC
  Word used_rows;    // rows from here on were never used
  std::array<uint64_t, 8> zero;
};
static_assert(sizeof(Header) == kRowNbytes);

// Each has one writer at a time, who has the arenas' lock.
struct ArenaFigures {
  Word device;
  Word inode;
  Word capacity_nbytes;
  Word reserved_nbytes;  // pages exist
  Word used_nbytes;      // blocks that are LIVE or LENT
  Word peak_nbytes;
  Word live_nbytes;
  Word lent_nbytes;  // with a lease, LIVE or LENT
  Word retired_nbytes;
  Word blocks_live;
  Word blocks_lent;
  Word blocks_retired;
  Word blocks_made;  // ever
  Word made_nbytes;
};

struct LedgerFigures {
  Word borrower_pid;  // 0: not known
  Word borrower_uid;
  Word leases;
  Word nbytes;
  Word granted;  // ever
  Word granted_nbytes;
  std::array<Word, 8> zero;
};

struct Row {
  Word tag;  // RowKind, mode or carrier, and from bit 16 on a number that is never used again
  Word began_ns;
  union {
    ArenaFigures arena;
    LedgerFigures ledger;
  };
};
static_assert(sizeof(Row) == kRowNbytes && sizeof(ArenaFigures) == sizeof(LedgerFigures));

inline void add(Word& word, uint64_t more) noexcept {
  word.store(word.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}
inline void sub(Word& word, uint64_t less) noexcept { add(word, uint64_t{0} - less); }
inline uint64_t get(const Word& word) noexcept { return word.load(std::memory_order_relaxed); }
inline void put(Word& word, uint64_t value) noexcept {
  word.store(value, std::memory_order_relaxed);
}
void copy(const ArenaFigures& from, ArenaFigures* to) noexcept;

// The figures follow a block from state to state. Those of leases are counted apart, for a block
// that is LIVE may have some too.
inline void move_block(ArenaFigures* figures, uint64_t nbytes, BlockState from,
                       BlockState to) noexcept {
  if (from == BlockState::kFree) {
    const uint64_t used = get(figures->used_nbytes) + nbytes;
    put(figures->used_nbytes, used);
    if (used > get(figures->peak_nbytes)) put(figures->peak_nbytes, used);
    add(figures->blocks_made, 1);
    add(figures->made_nbytes, nbytes);
  }
  if (to == BlockState::kFree) sub(figures->used_nbytes, nbytes);
  if (to == BlockState::kLive) {
    add(figures->blocks_live, 1);
    add(figures->live_nbytes, nbytes);
  }
  if (from == BlockState::kLive) {
    sub(figures->blocks_live, 1);
    sub(figures->live_nbytes, nbytes);
  }
}

}  // namespace board

// All with the arenas' lock.
class Board {
 public:
  // False: it cannot be had. Nothing is thrown.
  bool open() noexcept;
  void close() noexcept;
  bool is_open() const noexcept { return room_ != nullptr; }
  // A row whose words are 0, to be shown before the next one is claimed; null: none is left, or no
  // page for it.
  board::Row* claim() noexcept;
  void show(board::Row* row, board::RowKind kind, uint8_t detail) noexcept;
  void give_back(board::Row* row) noexcept;
  // What the parent's arenas and ledgers point to stays mapped, for the child may still read it.
  void forget_in_child() noexcept;

 private:
  struct Room {
    os::Fd fd;
    os::Mapping mapping;
    uint64_t reached_nbytes = 0;  // pages exist
    std::unique_ptr<Room> older;  // the parent's, at a fork
  };
  static bool make_pages(Room* room, uint64_t nbytes);
  board::Row* row_at(uint64_t index) const noexcept;
  board::Header& header() const noexcept;

  std::unique_ptr<Room> room_;
  std::unique_ptr<Room> forgotten_;
  uint64_t next_number_ = 1;
};

// An arena or a ledger, and its row if it has one. The board stands as long as there is one of
// these.
class OnBoard {
 public:
  OnBoard() noexcept = default;
  OnBoard(const OnBoard&) = delete;
  OnBoard& operator=(const OnBoard&) = delete;
  ~OnBoard() { leave(); }

  // These take the arenas' lock. Once.
  board::ArenaFigures* join_arena(Mode mode, uint64_t device, uint64_t inode,
                                  uint64_t capacity_nbytes) noexcept;
  board::LedgerFigures* join_ledger(board::Carrier carrier, uint32_t pid, uint32_t uid) noexcept;
  // Nobody stores into its row any more. The board stays.
  void hide() noexcept;
  // Likewise, and no lease of it is still being ended.
  void leave() noexcept;

 private:
  board::Row* join(bool ledger) noexcept;

  board::Row* row_ = nullptr;
  bool joined_ = false;
  bool ledger_ = false;
  uint64_t generation_ = 0;
};

}  // namespace tenon::memory
