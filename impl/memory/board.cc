#include "memory/board.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "base/checked.h"
#include "base/fence.h"
#include "memory/arena_segment.h"
#include "memory/segment.h"
#include "os/clock.h"
#include "os/host.h"
#include "os/limits.h"
#include "os/memfd.h"

namespace tenon::memory {

using board::ArenaFigures;
using board::Header;
using board::kNbytes;
using board::kRowNbytes;
using board::kRows;
using board::LedgerFigures;
using board::put;
using board::Row;
using board::RowKind;
using board::Word;

namespace {

std::array<Word*, 14> words_of(ArenaFigures* figures) noexcept {
  return {&figures->device,          &figures->inode,       &figures->capacity_nbytes,
          &figures->reserved_nbytes, &figures->used_nbytes, &figures->peak_nbytes,
          &figures->live_nbytes,     &figures->lent_nbytes, &figures->retired_nbytes,
          &figures->blocks_live,     &figures->blocks_lent, &figures->blocks_retired,
          &figures->blocks_made,     &figures->made_nbytes};
}

// Moves the figures of a mode's default homes onto the board or off it. The caller holds the
// arenas' lock, under which all figures of arenas change.
void move_home(uint32_t mode, ArenaFigures* to) noexcept {
  ArenaState& all = arena_state();
  board::copy(*all.figures[mode], to);
  all.figures[mode] = to;
}

}  // namespace

void board::copy(const ArenaFigures& from, ArenaFigures* to) noexcept {
  const std::array<Word*, 14> source = words_of(const_cast<ArenaFigures*>(&from));
  const std::array<Word*, 14> target = words_of(to);
  for (size_t i = 0; i < source.size(); ++i) put(*target[i], get(*source[i]));
}

Header& Board::header() const noexcept { return *reinterpret_cast<Header*>(room_->mapping.base()); }

Row* Board::row_at(uint64_t index) const noexcept {
  return reinterpret_cast<Row*>(room_->mapping.base() + (index + 1) * kRowNbytes);
}

// Makes the pages by a call that can fail. A store into a page that cannot be had would end in a
// signal.
bool Board::make_pages(Room* room, uint64_t nbytes) {
  const uint64_t end = std::min(round_up(nbytes, os::page_nbytes()), kNbytes);
  if (end <= room->reached_nbytes) return true;
  if (!reserve_in_chunks(room->fd.get(), room->reached_nbytes, end - room->reached_nbytes).is_ok())
    return false;
  room->reached_nbytes = end;
  return true;
}

bool Board::open() noexcept {
  try {
    Result<os::Nonce> nonce = os::random_nonce();
    if (!nonce.is_ok() || !os::check_file_size(kNbytes).is_ok()) return false;
    auto room = std::make_unique<Room>();
    Result<os::Fd> fd = os::create_memfd(board::kNamePrefix + os::hex(nonce.value()), kNbytes);
    if (!fd.is_ok()) return false;
    room->fd = std::move(fd).value();
    Result<os::Mapping> mapping =
        os::Mapping::create(os::Mapping::Kind::kSharedWritable, room->fd.get(), 0, kNbytes);
    if (!mapping.is_ok()) return false;
    room->mapping = std::move(mapping).value();
    // A process that opens the board through /proc can only read it.
    const unsigned seals = os::kSealShrink | os::kSealGrow | os::kSealFutureWrite | os::kSealSeal;
    if (!make_pages(room.get(), (kModes + 1) * kRowNbytes) ||
        !os::add_seals(room->fd.get(), seals).is_ok())
      return false;
    room->older = std::move(forgotten_);
    room_ = std::move(room);
  } catch (...) {
    return false;  // No memory.
  }
  auto* const head = new (room_->mapping.base()) Header{};
  head->version = board::kVersion;
  head->row_nbytes = kRowNbytes;
  head->pid = static_cast<uint32_t>(os::process_id());
  head->rows = kRows;
  head->pid_namespace = os::host_identity().pid_namespace;
  head->began_ns = os::monotonic_ns();
  // The magic is written last, so that a reader that finds the fd before sees no board yet.
  full_fence();
  std::copy(board::kMagic.begin(), board::kMagic.end(), head->magic.begin());
  return true;
}

void Board::close() noexcept {
  forgotten_ = std::move(room_->older);
  room_.reset();
}

Row* Board::claim() noexcept {
  if (room_ == nullptr) return nullptr;
  Word& used = header().used_rows;
  const uint64_t end = board::get(used);
  uint64_t index = 0;
  while (index < end && board::get(row_at(index)->tag) != 0) ++index;
  if (index == kRows) return nullptr;
  try {
    if (!make_pages(room_.get(), (index + 2) * kRowNbytes)) return nullptr;
  } catch (...) {
    return nullptr;  // No memory to say why there is no page.
  }
  Row* const found = row_at(index);
  for (Word* const word : words_of(&found->arena)) put(*word, 0);
  put(found->began_ns, static_cast<uint64_t>(os::monotonic_ns()));
  if (index == end) put(used, end + 1);
  return found;
}

void Board::show(Row* row, RowKind kind, uint8_t detail) noexcept {
  const uint64_t tag = next_number_++ << 16 | uint64_t{detail} << 8 | static_cast<uint64_t>(kind);
  row->tag.store(tag, std::memory_order_release);
}

// The tag is cleared before the row's words are used for another owner. So a reader that sees the
// same tag before and after has read words of one owner.
void Board::give_back(Row* row) noexcept {
  put(row->tag, 0);
  full_fence();
}

void Board::forget_in_child() noexcept {
  if (room_ == nullptr) return;
  room_->fd.reset();
  forgotten_ = std::move(room_);
}

Row* OnBoard::join(bool ledger) noexcept {
  ArenaState& all = arena_state();
  generation_ = fork_generation();
  joined_ = true;
  ledger_ = ledger;
  ++all.board_users;
  // No board begins while a ledger exists, because that ledger has no row, and the board would not
  // show its leases.
  if (!all.public_board.is_open() && all.ledgers == 0 && all.public_board.open()) {
    for (uint32_t mode = 0; mode < kModes; ++mode) {
      Row* const home = all.public_board.claim();  // not null: it is on the first page
      move_home(mode, &home->arena);
      all.public_board.show(home, RowKind::kHome, static_cast<uint8_t>(mode));
    }
  }
  if (ledger) ++all.ledgers;
  row_ = all.public_board.claim();
  return row_;
}

ArenaFigures* OnBoard::join_arena(Mode mode, uint64_t device, uint64_t inode,
                                  uint64_t capacity_nbytes) noexcept {
  ArenaState& all = arena_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  Row* const row = join(false);
  if (row == nullptr) return nullptr;
  put(row->arena.device, device);
  put(row->arena.inode, inode);
  put(row->arena.capacity_nbytes, capacity_nbytes);
  all.public_board.show(row, RowKind::kArena, static_cast<uint8_t>(mode));
  return &row->arena;
}

LedgerFigures* OnBoard::join_ledger(board::Carrier carrier, uint32_t pid, uint32_t uid) noexcept {
  ArenaState& all = arena_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  Row* const row = join(true);
  if (row == nullptr) return nullptr;
  put(row->ledger.borrower_pid, pid);
  put(row->ledger.borrower_uid, uid);
  all.public_board.show(row, RowKind::kLedger, static_cast<uint8_t>(carrier));
  return &row->ledger;
}

board::QueueFigures* OnBoard::join_queue(const QueuePlace& place, uint64_t entry) noexcept {
  ArenaState& all = arena_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  Row* const row = join(false);
  if (row == nullptr) return nullptr;
  put(row->queue.device, place.device);
  put(row->queue.inode, place.inode);
  put(row->queue.offset, place.offset);
  put(row->queue.member, entry);
  all.public_board.show(row, RowKind::kQueue, 0);
  return &row->queue;
}

void OnBoard::hide() noexcept {
  if (!joined_ || generation_ != fork_generation()) return;
  ArenaState& all = arena_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (row_ != nullptr) all.public_board.give_back(std::exchange(row_, nullptr));
}

void OnBoard::leave() noexcept {
  if (!joined_ || generation_ != fork_generation()) return;
  hide();
  joined_ = false;
  ArenaState& all = arena_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (ledger_) --all.ledgers;
  if (--all.board_users > 0 || !all.public_board.is_open()) return;
  for (uint32_t mode = 0; mode < kModes; ++mode) move_home(mode, &all.own_figures[mode]);
  all.public_board.close();
}

}  // namespace tenon::memory
