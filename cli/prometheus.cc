// Prints arenas and leases in Prometheus' text exposition format, version 0.0.4.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "figures.h"

namespace tenon::cli {
namespace {

using memory::ArenaOnBoard;
using memory::LedgerOnBoard;

std::string escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

// Prints all samples of a metric together, under its name, as the format demands.
void print_metric(const char* name, const char* type, const char* help,
                  const std::vector<std::pair<std::string, std::string>>& samples) {
  if (samples.empty()) return;
  print_text(format("# HELP %s %s\n# TYPE %s %s\n", name, help, name, type));
  for (const auto& [labels, value] : samples) {
    const std::string braced = labels.empty() ? "" : "{" + labels + "}";
    print_text(format("%s%s %s\n", name, braced.c_str(), value.c_str()));
  }
}

using Samples = std::vector<std::pair<std::string, std::string>>;

std::string labels_of(const Board& board, const ArenaOnBoard& arena) {
  return format("pid=\"%d\",arena=\"%s\",mode=\"%s\"", board.process.pid, arena_text(arena).c_str(),
                mode_text(arena.mode));
}

std::string labels_of(const LeaseRow& row) {
  const LedgerOnBoard& ledger = *row.ledger;
  std::string borrower = "descriptor";
  if (!ledger.descriptor)
    borrower = ledger.borrower_pid == 0 ? "unknown" : std::to_string(ledger.borrower_pid);
  return format("pid=\"%d\",ledger=\"%llu\",borrower=\"%s\"", row.lender->process.pid,
                static_cast<unsigned long long>(ledger.number), borrower.c_str());
}

struct ArenaFigure {
  const char* kind;
  uint64_t ArenaOnBoard::* member;
};

void print_kinds(const Boards& boards, const char* name, const char* help,
                 const std::vector<ArenaFigure>& figures) {
  Samples samples;
  for (const Board& board : boards.all) {
    for (const ArenaOnBoard& arena : board.image.arenas) {
      if (!is_worth_showing(arena)) continue;
      for (const ArenaFigure& each : figures)
        samples.emplace_back(labels_of(board, arena) + ",kind=\"" + each.kind + "\"",
                             std::to_string(arena.*each.member));
    }
  }
  print_metric(name, "gauge", help, samples);
}

template <typename Value>
void print_arena_metric(const Boards& boards, const char* name, const char* type, const char* help,
                        const Value& value) {
  Samples samples;
  for (const Board& board : boards.all) {
    for (const ArenaOnBoard& arena : board.image.arenas) {
      if (is_worth_showing(arena)) samples.emplace_back(labels_of(board, arena), value(arena));
    }
  }
  print_metric(name, type, help, samples);
}

template <typename Value>
void print_lease_metric(const std::vector<LeaseRow>& rows, const char* name, const char* type,
                        const char* help, const Value& value) {
  Samples samples;
  for (const LeaseRow& row : rows) samples.emplace_back(labels_of(row), value(*row.ledger));
  print_metric(name, type, help, samples);
}

}  // namespace

void print_prometheus(const Boards& boards) {
  const auto age = [&](int64_t began_ns) {
    return format("%.3f", static_cast<double>(age_ns(boards, began_ns)) / 1e9);
  };
  Samples processes;
  for (const Board& board : boards.all) {
    processes.emplace_back(
        format("pid=\"%d\",uid=\"%u\",command=\"%s\"", board.process.pid, board.process.uid,
               escape(safe_text(board.process.command)).c_str()),
        "1");
  }
  print_metric("tenon_process_info", "gauge", "Processes that have arenas or lend.", processes);
  print_kinds(boards, "tenon_arena_bytes", "Bytes of an arena.",
              {{"capacity", &ArenaOnBoard::capacity_nbytes},
               {"reserved", &ArenaOnBoard::reserved_nbytes},
               {"live", &ArenaOnBoard::live_nbytes},
               {"lent", &ArenaOnBoard::lent_nbytes},
               {"free", &ArenaOnBoard::free_nbytes},
               {"retired", &ArenaOnBoard::retired_nbytes},
               {"peak", &ArenaOnBoard::peak_nbytes}});
  print_kinds(boards, "tenon_arena_blocks", "Blocks of an arena.",
              {{"live", &ArenaOnBoard::blocks_live},
               {"lent", &ArenaOnBoard::blocks_lent},
               {"retired", &ArenaOnBoard::blocks_retired}});
  print_arena_metric(boards, "tenon_arena_made_blocks_total", "counter", "Blocks ever made.",
                     [](const ArenaOnBoard& arena) { return std::to_string(arena.blocks_made); });
  print_arena_metric(boards, "tenon_arena_made_bytes_total", "counter",
                     "Bytes of the blocks ever made.",
                     [](const ArenaOnBoard& arena) { return std::to_string(arena.made_nbytes); });
  print_arena_metric(boards, "tenon_arena_age_seconds", "gauge", "Since the arena was seen first.",
                     [&](const ArenaOnBoard& arena) { return age(arena.began_ns); });

  const std::vector<LeaseRow> rows = lease_rows(boards);
  print_lease_metric(rows, "tenon_leases", "gauge", "Leases that stand.",
                     [](const LedgerOnBoard& each) { return std::to_string(each.leases); });
  print_lease_metric(rows, "tenon_lease_bytes", "gauge", "Bytes under leases.",
                     [](const LedgerOnBoard& each) { return std::to_string(each.nbytes); });
  print_lease_metric(rows, "tenon_leases_granted_total", "counter", "Leases ever granted.",
                     [](const LedgerOnBoard& each) { return std::to_string(each.granted); });
  print_lease_metric(rows, "tenon_lease_granted_bytes_total", "counter",
                     "Bytes of the leases ever granted.",
                     [](const LedgerOnBoard& each) { return std::to_string(each.granted_nbytes); });
  print_lease_metric(rows, "tenon_lease_age_seconds", "gauge",
                     "Since the first lease of the ledger.",
                     [&](const LedgerOnBoard& each) { return age(each.began_ns); });
  print_metric("tenon_boards_refused", "gauge", "Boards that are none.",
               {{"", std::to_string(boards.refused.size())}});
  print_metric("tenon_processes_unreadable", "gauge", "Processes that could not be looked into.",
               {{"", std::to_string(boards.unreadable)}});
}

}  // namespace tenon::cli
