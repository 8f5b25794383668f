#include "memory/board_image.h"

#include <algorithm>
#include <cstring>

namespace tenon::memory {
namespace {

using board::ArenaFigures;
using board::Header;
using board::kRowNbytes;
using board::LedgerFigures;
using board::QueueFigures;
using board::Row;
using board::RowKind;

Status corrupt(const std::string& what) { return Status(Code::kCorrupt, "no board: " + what); }

template <typename Number>
Number number_at(std::span<const std::byte> bytes, size_t offset) noexcept {
  Number value{};
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

uint64_t arena_figure(std::span<const std::byte> row, size_t offset) noexcept {
  return number_at<uint64_t>(row, offsetof(Row, arena) + offset);
}

uint64_t ledger_figure(std::span<const std::byte> row, size_t offset) noexcept {
  return number_at<uint64_t>(row, offsetof(Row, ledger) + offset);
}

ArenaOnBoard read_arena(std::span<const std::byte> row, uint64_t tag, RowKind kind) {
  ArenaOnBoard arena;
  arena.home = kind == RowKind::kHome;
  arena.mode = static_cast<Mode>(tag >> 8 & 0xff);
  arena.number = tag >> 16;
  arena.began_ns = number_at<int64_t>(row, offsetof(Row, began_ns));
  arena.device = arena_figure(row, offsetof(ArenaFigures, device));
  arena.inode = arena_figure(row, offsetof(ArenaFigures, inode));
  arena.capacity_nbytes = arena_figure(row, offsetof(ArenaFigures, capacity_nbytes));
  arena.reserved_nbytes = arena_figure(row, offsetof(ArenaFigures, reserved_nbytes));
  arena.used_nbytes = arena_figure(row, offsetof(ArenaFigures, used_nbytes));
  arena.peak_nbytes = arena_figure(row, offsetof(ArenaFigures, peak_nbytes));
  arena.live_nbytes = arena_figure(row, offsetof(ArenaFigures, live_nbytes));
  arena.lent_nbytes = arena_figure(row, offsetof(ArenaFigures, lent_nbytes));
  arena.retired_nbytes = arena_figure(row, offsetof(ArenaFigures, retired_nbytes));
  arena.blocks_live = arena_figure(row, offsetof(ArenaFigures, blocks_live));
  arena.blocks_lent = arena_figure(row, offsetof(ArenaFigures, blocks_lent));
  arena.blocks_retired = arena_figure(row, offsetof(ArenaFigures, blocks_retired));
  arena.blocks_made = arena_figure(row, offsetof(ArenaFigures, blocks_made));
  arena.made_nbytes = arena_figure(row, offsetof(ArenaFigures, made_nbytes));
  // The figures are not all of one moment, so the parts may be larger than the whole.
  uint64_t left = arena.reserved_nbytes;
  left -= std::min(left, arena.used_nbytes);
  left -= std::min(left, arena.retired_nbytes);
  arena.free_nbytes = left;
  return arena;
}

LedgerOnBoard read_ledger(std::span<const std::byte> row, uint64_t tag) {
  LedgerOnBoard ledger;
  ledger.descriptor = (tag >> 8 & 0xff) == static_cast<uint64_t>(board::Carrier::kDescriptor);
  ledger.number = tag >> 16;
  ledger.began_ns = number_at<int64_t>(row, offsetof(Row, began_ns));
  ledger.borrower_pid =
      static_cast<uint32_t>(ledger_figure(row, offsetof(LedgerFigures, borrower_pid)));
  ledger.borrower_uid =
      static_cast<uint32_t>(ledger_figure(row, offsetof(LedgerFigures, borrower_uid)));
  ledger.leases = ledger_figure(row, offsetof(LedgerFigures, leases));
  ledger.nbytes = ledger_figure(row, offsetof(LedgerFigures, nbytes));
  ledger.granted = ledger_figure(row, offsetof(LedgerFigures, granted));
  ledger.granted_nbytes = ledger_figure(row, offsetof(LedgerFigures, granted_nbytes));
  return ledger;
}

QueueOnBoard read_queue(std::span<const std::byte> row, uint64_t tag) {
  const auto figure = [&](size_t offset) {
    return number_at<uint64_t>(row, offsetof(Row, queue) + offset);
  };
  QueueOnBoard queue;
  queue.number = tag >> 16;
  queue.began_ns = number_at<int64_t>(row, offsetof(Row, began_ns));
  queue.device = figure(offsetof(QueueFigures, device));
  queue.inode = figure(offsetof(QueueFigures, inode));
  queue.offset = figure(offsetof(QueueFigures, offset));
  const uint64_t member = figure(offsetof(QueueFigures, member));
  queue.index = static_cast<uint32_t>(member);
  queue.generation = static_cast<uint32_t>(member >> 32);
  queue.sent = figure(offsetof(QueueFigures, sent));
  queue.sent_nbytes = figure(offsetof(QueueFigures, sent_nbytes));
  queue.received = figure(offsetof(QueueFigures, received));
  queue.received_nbytes = figure(offsetof(QueueFigures, received_nbytes));
  queue.lost = figure(offsetof(QueueFigures, lost));
  queue.full_since_ns = static_cast<int64_t>(figure(offsetof(QueueFigures, full_since_ns)));
  return queue;
}

}  // namespace

Result<uint64_t> board_image_nbytes(std::span<const std::byte> head, uint64_t file_nbytes) {
  if (head.size() < kRowNbytes) return corrupt("it is shorter than its header");
  constexpr size_t kMagicNbytes = sizeof board::kMagic;
  const bool nothing = std::all_of(head.begin(), head.begin() + kMagicNbytes,
                                   [](std::byte each) { return each == std::byte{0}; });
  if (nothing) return Status(Code::kWouldBlock, "the board is being made");
  if (std::memcmp(head.data(), board::kMagic.data(), kMagicNbytes) != 0)
    return corrupt("its first bytes are others");
  const auto version = number_at<uint32_t>(head, offsetof(Header, version));
  const auto incompat = number_at<uint64_t>(head, offsetof(Header, incompat));
  if (version != board::kVersion)
    return Status(Code::kIncompatible,
                  format("a board of version %u, and this program knows 1", version));
  if (incompat != 0) {
    return Status(Code::kIncompatible,
                  format("a board with features that this program does not know: 0x%llx",
                         static_cast<unsigned long long>(incompat)));
  }
  if (number_at<uint32_t>(head, offsetof(Header, row_nbytes)) != kRowNbytes)
    return corrupt("its rows have another size");
  const auto rows = number_at<uint32_t>(head, offsetof(Header, rows));
  const auto used = number_at<uint64_t>(head, offsetof(Header, used_rows));
  constexpr uint32_t kMostRows = uint32_t{1} << 16;
  if (rows > kMostRows || (uint64_t{rows} + 1) * kRowNbytes != file_nbytes)
    return corrupt(format("%u rows do not fit its size", rows));
  if (used > rows) return corrupt("more rows are in use than it has");
  return (used + 1) * kRowNbytes;
}

uint32_t board_image_pid(std::span<const std::byte> head) noexcept {
  return head.size() < kRowNbytes ? 0 : number_at<uint32_t>(head, offsetof(Header, pid));
}

Result<BoardImage> decode_board(std::span<const std::byte> first, std::span<const std::byte> second,
                                std::span<const std::byte> last) {
  if (first.size() < kRowNbytes || first.size() % kRowNbytes != 0 ||
      second.size() != first.size() || last.size() != first.size())
    return corrupt("it was cut short");
  BoardImage image;
  image.pid = number_at<uint32_t>(first, offsetof(Header, pid));
  image.pid_namespace = number_at<uint64_t>(first, offsetof(Header, pid_namespace));
  image.began_ns = number_at<int64_t>(first, offsetof(Header, began_ns));
  for (size_t at = kRowNbytes; at < first.size(); at += kRowNbytes) {
    const auto tag = number_at<uint64_t>(first, at + offsetof(Row, tag));
    if (tag == 0 || tag != number_at<uint64_t>(last, at + offsetof(Row, tag))) continue;
    const std::span<const std::byte> row = second.subspan(at, kRowNbytes);
    const auto kind = static_cast<RowKind>(tag & 0xff);
    const uint64_t detail = tag >> 8 & 0xff;
    if ((kind == RowKind::kArena || kind == RowKind::kHome) && detail < kModes) {
      image.arenas.push_back(read_arena(row, tag, kind));
    } else if (kind == RowKind::kLedger &&
               detail <= static_cast<uint64_t>(board::Carrier::kDescriptor)) {
      image.ledgers.push_back(read_ledger(row, tag));
    } else if (kind == RowKind::kQueue && detail == 0) {
      image.queues.push_back(read_queue(row, tag));
    } else {
      ++image.unknown_rows;
    }
  }
  return image;
}

}  // namespace tenon::memory
