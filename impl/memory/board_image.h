// Decodes the bytes of another process's board (board.h), for `tenon ls` and `tenon top`. Whatever
// the bytes are, the result is an error or numbers of the right form. The figures are only what
// another process says of itself. They may be lies, and nothing here relies on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "memory/board.h"

namespace tenon::memory {

struct ArenaOnBoard {
  // The row of the default homes of a mode, which includes the segments that one storage has for
  // itself.
  bool home = false;
  Mode mode = Mode::kShared;
  uint64_t number = 0;  // identifies the row's owner, never used again by that process
  int64_t began_ns = 0;
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t capacity_nbytes = 0;
  uint64_t reserved_nbytes = 0;
  uint64_t used_nbytes = 0;
  uint64_t free_nbytes = 0;
  uint64_t peak_nbytes = 0;
  uint64_t live_nbytes = 0;
  uint64_t lent_nbytes = 0;
  uint64_t retired_nbytes = 0;
  uint64_t blocks_live = 0;
  uint64_t blocks_lent = 0;
  uint64_t blocks_retired = 0;
  uint64_t blocks_made = 0;
  uint64_t made_nbytes = 0;
};

struct LedgerOnBoard {
  bool descriptor = false;  // lent by a descriptor, which anybody may open
  uint64_t number = 0;
  int64_t began_ns = 0;
  uint32_t borrower_pid = 0;  // as the lender sees it; 0: not known
  uint32_t borrower_uid = 0;
  uint64_t leases = 0;
  uint64_t nbytes = 0;
  uint64_t granted = 0;
  uint64_t granted_nbytes = 0;
};

// One membership of the board's process in a queue.
struct QueueOnBoard {
  uint64_t number = 0;
  int64_t began_ns = 0;
  uint64_t device = 0;  // of the file in which the queue lies
  uint64_t inode = 0;
  uint64_t offset = 0;      // of the queue in the file
  uint32_t index = 0;       // of the member's entry in the queue
  uint32_t generation = 0;  // of the member in that entry
  uint64_t sent = 0;        // messages
  uint64_t sent_nbytes = 0;
  uint64_t received = 0;
  uint64_t received_nbytes = 0;
  uint64_t lost = 0;
  int64_t full_since_ns = 0;  // CLOCK_MONOTONIC; 0: no send waits for room
};

struct BoardImage {
  uint32_t pid = 0;
  uint64_t pid_namespace = 0;
  int64_t began_ns = 0;
  std::vector<ArenaOnBoard> arenas;
  std::vector<LedgerOnBoard> ledgers;
  std::vector<QueueOnBoard> queues;
  uint64_t unknown_rows = 0;  // rows of kinds that this version does not know
};

// Returns how many bytes of a board are worth reading. `head` has its first kRowNbytes, and its
// file has `file_nbytes`. CORRUPT: it is no board. INCOMPATIBLE: it has a newer format.
// WOULD_BLOCK: it is being made.
Result<uint64_t> board_image_nbytes(std::span<const std::byte> head, uint64_t file_nbytes);

// Returns the pid of the board's owner, as the board gives it and as the owner sees it. `head` has
// the first kRowNbytes. 0 if `head` is shorter.
uint32_t board_image_pid(std::span<const std::byte> head) noexcept;

// Decodes a board from three readings, made one after the other, because the board changes while it
// is read. A row counts if it has the same tag in the first reading and the last. Its figures are
// those of the second. Each reading has the size that board_image_nbytes() returned. CORRUPT: the
// readings are not whole rows of one size. The caller has called board_image_nbytes(), which checks
// the header.
Result<BoardImage> decode_board(std::span<const std::byte> first, std::span<const std::byte> second,
                                std::span<const std::byte> last);

}  // namespace tenon::memory
