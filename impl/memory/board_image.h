// Somebody else's board, as bytes: whatever they are, decoding them ends in an error or in figures
// that are sound. Figures are only numbers that another process says of itself; nothing here lets
// them be more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "memory/board.h"

namespace tenon::memory {

struct ArenaOnBoard {
  // The default home of its mode, with the segments of storages that have one of their own.
  bool home = false;
  Mode mode = Mode::kShared;
  uint64_t number = 0;  // of this row's owner, never used again by that process
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
  bool descriptor = false;  // lent by a descriptor, to whoever opens it
  uint64_t number = 0;
  int64_t began_ns = 0;
  uint32_t borrower_pid = 0;  // as the lender sees it; 0: not known
  uint32_t borrower_uid = 0;
  uint64_t leases = 0;
  uint64_t nbytes = 0;
  uint64_t granted = 0;
  uint64_t granted_nbytes = 0;
};

struct BoardImage {
  uint32_t pid = 0;
  uint64_t pid_namespace = 0;
  int64_t began_ns = 0;
  std::vector<ArenaOnBoard> arenas;
  std::vector<LedgerOnBoard> ledgers;
  uint64_t unknown_rows = 0;  // of kinds that this version does not know
};

// How many bytes of a board of `file_nbytes` are worth reading, from its first kRowNbytes. CORRUPT:
// no board. INCOMPATIBLE: a newer one. WOULD_BLOCK: it is being made.
Result<uint64_t> board_image_nbytes(std::span<const std::byte> head, uint64_t file_nbytes);

// Whose board it says it is, in the numbers of that process, from the first kRowNbytes.
uint32_t board_image_pid(std::span<const std::byte> head) noexcept;

// The board changes while it is read, so it is read three times, one after the other: a row counts
// if it had the same tag in the first reading and the last, and has the figures of the second. All
// three have board_image_nbytes.
Result<BoardImage> decode_board(std::span<const std::byte> first, std::span<const std::byte> second,
                                std::span<const std::byte> last);

}  // namespace tenon::memory
