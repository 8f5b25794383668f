// The board shows this process's arenas and leases to other processes of the same user, which need
// not ask this process. docs/format/board.md specifies the bytes. Arenas and ledgers write the
// figures, and board_image.h reads the board of another process.
//
// The board is a memfd that only this process can write. Readers find it by its name through
// /proc/<pid>/fd. It exists while there is a user's arena or a ledger. Each of these has a row, and
// so have the default homes of each mode together. The counters of an arena are the words of its
// row, so publishing costs nothing. Without an fd, memory or a free row, the counters lie in
// private memory, and no other process sees them.
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

// The states of a block for its lender, as in docs/format/lease.md. LIVE: a storage lies in the
// block. LENT: no storage lies in it any more, but a lease stands.
enum class BlockState : uint8_t { kFree, kLive, kLent };

namespace board {

inline constexpr const char* kNamePrefix = "tenon-board-";
inline constexpr std::array<char, 8> kMagic = {'T', 'E', 'N', 'O', 'N', 'B', 'R', 'D'};
inline constexpr uint32_t kVersion = 1;
inline constexpr uint32_t kRowNbytes = 128;
inline constexpr uint32_t kRows = 2047;
inline constexpr uint64_t kNbytes = uint64_t{kRows + 1} * kRowNbytes;

// The lowest byte of a row's tag says what the row stands for.
enum class RowKind : uint8_t { kFree = 0, kArena = 1, kHome = 2, kLedger = 3, kQueue = 4 };
// The byte above it is the mode of an arena or, for a ledger, how its token travels.
enum class Carrier : uint8_t { kConnection = 0, kDescriptor = 1 };

using Word = std::atomic<uint64_t>;
static_assert(sizeof(Word) == 8 && Word::is_always_lock_free);

struct Header {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t row_nbytes;
  uint64_t incompat;
  uint64_t compat;
  // The pid as the process itself sees it. By it a reader tells the board from a copy of the
  // board's fd in another process.
  uint32_t pid;
  uint32_t rows;
  uint64_t pid_namespace;
  int64_t began_ns;  // CLOCK_MONOTONIC
  Word used_rows;    // rows from here on were never used
  std::array<uint64_t, 8> zero;
};
static_assert(sizeof(Header) == kRowNbytes);

// These figures have one writer at a time, which holds the arenas' lock (memory/arena_segment.h).
struct ArenaFigures {
  Word device;
  Word inode;
  Word capacity_nbytes;
  Word reserved_nbytes;  // pages that exist
  Word used_nbytes;      // in LIVE and LENT blocks
  Word peak_nbytes;
  Word live_nbytes;
  Word lent_nbytes;  // in blocks with a lease, LIVE or LENT
  Word retired_nbytes;
  Word blocks_live;
  Word blocks_lent;
  Word blocks_retired;
  Word blocks_made;  // blocks ever made
  Word made_nbytes;
};

// These figures have one writer at a time, which holds the ledger's own lock. The ledger of a
// borrower that fetches deposits (Ledger::create_for_depot()) shows only the borrower: its leases
// are in the depot, and the four figures about leases stay 0.
struct LedgerFigures {
  Word borrower_pid;  // 0: not known
  Word borrower_uid;
  Word leases;
  Word nbytes;
  Word granted;  // leases ever granted
  Word granted_nbytes;
  std::array<Word, 8> zero;
};

// The figures of one membership in a queue (queue/queue.h). Each word has one writer at a time: a
// sender with the member's send lock, or a receiver with its receive lock. The two write different
// cache lines, because a Row is 128 bytes at a multiple of 128. Several threads may add to `lost`.
struct QueueFigures {
  Word device;  // of the file in which the queue lies
  Word inode;
  Word offset;  // of the queue in the file
  Word sent;    // messages
  Word sent_nbytes;
  Word full_since_ns;  // CLOCK_MONOTONIC: since when a send waits for room; 0: none does
  Word received;
  Word received_nbytes;
  Word lost;  // messages whose receiver died before its fetch
  // The member's entry in the queue. Bits 0 to 31: its index. Bits 32 to 63: its generation.
  Word member;
  std::array<Word, 4> zero;
};

struct Row {
  Word tag;  // RowKind, mode or carrier, and from bit 16 on a number that is never used again
  Word began_ns;
  union {
    ArenaFigures arena;
    LedgerFigures ledger;
    QueueFigures queue;
  };
};
static_assert(sizeof(Row) == kRowNbytes && sizeof(ArenaFigures) == sizeof(LedgerFigures) &&
              sizeof(ArenaFigures) == sizeof(QueueFigures));
static_assert(offsetof(Row, queue) + offsetof(QueueFigures, received) == 64);

inline void add(Word& word, uint64_t more) noexcept {
  word.store(word.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}
inline void sub(Word& word, uint64_t less) noexcept { add(word, uint64_t{0} - less); }
inline uint64_t get(const Word& word) noexcept { return word.load(std::memory_order_relaxed); }
inline void put(Word& word, uint64_t value) noexcept {
  word.store(value, std::memory_order_relaxed);
}
void copy(const ArenaFigures& from, ArenaFigures* to) noexcept;

// Updates the figures when a block goes from one state to another. The figures of leases
// (`lent_nbytes`, `blocks_lent`) are counted apart (LentCount in lent_block.h), because a LIVE
// block may have leases too.
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

// The board of this process. The caller of each function holds the arenas' lock.
class Board {
 public:
  // Makes the board. False: there can be none now, for want of an fd, memory or address space.
  bool open() noexcept;
  // No row is in use any more.
  void close() noexcept;
  bool is_open() const noexcept { return room_ != nullptr; }
  // Returns a row whose figures are 0. The caller shows it before it claims the next one. Null: no
  // row is left, or there is no page for it.
  board::Row* claim() noexcept;
  // Stores the row's tag, so that readers take the row for one of that kind. `detail` is the mode
  // or the Carrier.
  void show(board::Row* row, board::RowKind kind, uint8_t detail) noexcept;
  void give_back(board::Row* row) noexcept;
  // Closes the fd in a child of fork. The mapping stays, because the parent's arenas and ledgers
  // point into it and the child may still read it.
  void forget_in_child() noexcept;

 private:
  struct Room {
    os::Fd fd;
    os::Mapping mapping;
    uint64_t reached_nbytes = 0;  // pages exist below this offset
    std::unique_ptr<Room> older;  // the parent's boards, after a fork
  };
  static bool make_pages(Room* room, uint64_t nbytes);
  board::Row* row_at(uint64_t index) const noexcept;
  board::Header& header() const noexcept;

  std::unique_ptr<Room> room_;
  std::unique_ptr<Room> forgotten_;
  uint64_t next_number_ = 1;
};

// The presence of one arena, ledger or membership in a queue on the board: its row, if it has one.
// The board exists as long as any of them has joined. If it could not be made, the next join tries
// again, unless a ledger has joined by then. All functions and the destructor take the arenas'
// lock. In a forked child the row is the parent's, and hide(), leave() and the destructor do
// nothing.
class OnBoard {
 public:
  OnBoard() noexcept = default;
  OnBoard(const OnBoard&) = delete;
  OnBoard& operator=(const OnBoard&) = delete;
  ~OnBoard() { leave(); }

  // One of the three is called, once. Null: there is no row.
  board::ArenaFigures* join_arena(Mode mode, uint64_t device, uint64_t inode,
                                  uint64_t capacity_nbytes) noexcept;
  board::LedgerFigures* join_ledger(board::Carrier carrier, uint32_t pid, uint32_t uid) noexcept;
  // `place` says where the queue lies, and `entry` is QueueFigures::member.
  struct QueuePlace {
    uint64_t device = 0;
    uint64_t inode = 0;
    uint64_t offset = 0;
  };
  board::QueueFigures* join_queue(const QueuePlace& place, uint64_t entry) noexcept;
  // Gives back the row, into which the caller stores no more. The board stays.
  void hide() noexcept;
  // Gives back the row likewise, and leaves the board. No thread is still ending leases of this
  // arena or ledger, or is in a call of this member of a queue.
  void leave() noexcept;

 private:
  board::Row* join(bool ledger) noexcept;

  board::Row* row_ = nullptr;
  bool joined_ = false;
  bool ledger_ = false;
  uint64_t generation_ = 0;
};

}  // namespace tenon::memory
