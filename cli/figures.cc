#include "figures.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>

namespace tenon::cli {
namespace {

using memory::ArenaOnBoard;
using memory::LedgerOnBoard;

constexpr size_t kMostCommandColumns = 60;

double seconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e9; }

Json maybe_number(uint32_t value, bool known) { return known ? Json(value) : Json(nullptr); }

}  // namespace

const char* mode_text(memory::Mode mode) noexcept {
  switch (mode) {
    case memory::Mode::kShared: return "shared";
    case memory::Mode::kLenderWrites: return "lender_writes";
    case memory::Mode::kFrozen: return "frozen";
  }
  return "?";
}

std::string arena_text(const ArenaOnBoard& arena) {
  return arena.home ? "home" : std::to_string(arena.number);
}

std::string borrower_text(const LedgerOnBoard& ledger) {
  if (ledger.descriptor) return "a descriptor";
  return ledger.borrower_pid != 0 ? std::to_string(ledger.borrower_pid) : "?";
}

std::string command_text(const std::string& command) {
  return cut_text(safe_text(command), kMostCommandColumns);
}

// The clock may differ in another time namespace, so this prevents a negative age.
int64_t age_ns(const Boards& boards, int64_t began_ns) noexcept {
  return std::max<int64_t>(0, boards.read_ns - std::max<int64_t>(0, began_ns));
}

bool is_worth_showing(const ArenaOnBoard& arena) noexcept {
  return !arena.home || arena.blocks_made != 0;
}

std::vector<LeaseRow> lease_rows(const Boards& boards) {
  std::vector<LeaseRow> rows;
  std::map<uint32_t, std::string> commands;
  for (const Board& board : boards.all) {
    for (const LedgerOnBoard& ledger : board.image.ledgers) {
      std::string command;
      if (board.same_pids && ledger.borrower_pid != 0 &&
          ledger.borrower_pid <= uint32_t{INT32_MAX}) {
        const auto [at, is_new] = commands.try_emplace(ledger.borrower_pid);
        if (is_new) {
          if (auto facts = os::process_facts(static_cast<pid_t>(ledger.borrower_pid)))
            at->second = std::move(facts->command);
        }
        command = at->second;
      }
      rows.push_back({&board, &ledger, std::move(command)});
    }
  }
  return rows;
}

Table arenas_table(const Boards& boards) {
  Table table({{"PID", true},
               {"ARENA", true},
               {"MODE"},
               {"CAPACITY", true},
               {"RESERVED", true},
               {"LIVE", true},
               {"LENT", true},
               {"FREE", true},
               {"RETIRED", true},
               {"PEAK", true},
               {"AGE", true},
               {"COMMAND"}});
  for (const Board& board : boards.all) {
    for (const ArenaOnBoard& arena : board.image.arenas) {
      if (!is_worth_showing(arena)) continue;
      table.add(
          {{std::to_string(board.process.pid)},
           {arena_text(arena)},
           {mode_text(arena.mode)},
           {size_text(arena.capacity_nbytes)},
           {size_text(arena.reserved_nbytes)},
           {size_text(arena.live_nbytes)},
           {size_text(arena.lent_nbytes), arena.lent_nbytes != 0 ? Colour::kGreen : Colour::kNone},
           {size_text(arena.free_nbytes)},
           {size_text(arena.retired_nbytes)},
           {size_text(arena.peak_nbytes)},
           {age_text(age_ns(boards, arena.began_ns))},
           {command_text(board.process.command)}});
    }
  }
  return table;
}

Table leases_table(const Boards& boards) {
  Table table({{"LENDER", true},
               {"BORROWER", true},
               {"LEASES", true},
               {"BYTES", true},
               {"GRANTED", true},
               {"AGE", true},
               {"BORROWER'S COMMAND"}});
  for (const LeaseRow& row : lease_rows(boards)) {
    table.add({{std::to_string(row.lender->process.pid)},
               {borrower_text(*row.ledger)},
               {count_text(row.ledger->leases)},
               {size_text(row.ledger->nbytes)},
               {count_text(row.ledger->granted)},
               {age_text(age_ns(boards, row.ledger->began_ns))},
               {row.borrower.empty() ? "-" : command_text(row.borrower)}});
  }
  return table;
}

void print_unread(const Boards& boards) {
  if (boards.unreadable != 0) {
    print_text("arenas, leases and queues of " +
               plural_text(boards.unreadable, "process", "processes") + " could not be asked for" +
               (geteuid() == 0 ? "" : " (root can ask other users')") + "\n");
  }
  for (const std::string& line : boards.refused) print_error(line);
}

Json arenas_json(const Boards& boards) {
  Json list = Json::array();
  for (const Board& board : boards.all) {
    for (const ArenaOnBoard& arena : board.image.arenas) {
      if (!is_worth_showing(arena)) continue;
      list.push_back({{"pid", board.process.pid},
                      {"uid", board.process.uid},
                      {"command", board.process.command},
                      {"arena", arena.home ? Json(nullptr) : Json(arena.number)},
                      {"mode", mode_text(arena.mode)},
                      {"device", arena.home ? Json(nullptr) : Json(arena.device)},
                      {"inode", arena.home ? Json(nullptr) : Json(arena.inode)},
                      {"capacity_nbytes", arena.capacity_nbytes},
                      {"reserved_nbytes", arena.reserved_nbytes},
                      {"live_nbytes", arena.live_nbytes},
                      {"lent_nbytes", arena.lent_nbytes},
                      {"free_nbytes", arena.free_nbytes},
                      {"retired_nbytes", arena.retired_nbytes},
                      {"peak_nbytes", arena.peak_nbytes},
                      {"blocks_live", arena.blocks_live},
                      {"blocks_lent", arena.blocks_lent},
                      {"blocks_retired", arena.blocks_retired},
                      {"blocks_made", arena.blocks_made},
                      {"made_nbytes", arena.made_nbytes},
                      {"age_seconds", seconds(age_ns(boards, arena.began_ns))}});
    }
  }
  return list;
}

Json leases_json(const Boards& boards) {
  Json list = Json::array();
  for (const LeaseRow& row : lease_rows(boards)) {
    const LedgerOnBoard& ledger = *row.ledger;
    list.push_back({{"lender_pid", row.lender->process.pid},
                    {"lender_command", row.lender->process.command},
                    {"ledger", ledger.number},
                    {"carrier", ledger.descriptor ? "descriptor" : "connection"},
                    {"borrower_pid", maybe_number(ledger.borrower_pid, ledger.borrower_pid != 0)},
                    {"borrower_uid", maybe_number(ledger.borrower_uid, !ledger.descriptor)},
                    {"borrower_command", row.borrower.empty() ? Json(nullptr) : Json(row.borrower)},
                    {"leases", ledger.leases},
                    {"nbytes", ledger.nbytes},
                    {"granted", ledger.granted},
                    {"granted_nbytes", ledger.granted_nbytes},
                    {"age_seconds", seconds(age_ns(boards, ledger.began_ns))}});
  }
  return list;
}

}  // namespace tenon::cli
