// Prints arenas, leases and queues in Prometheus' text exposition format, version 0.0.4.
#include <cstdint>
#include <optional>
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

std::string labels_of(const SeenQueue& queue) {
  return format("queue=\"%s\"", queue_text(queue).c_str());
}

std::string labels_of(const SeenQueue& queue, const SeenMember& member) {
  return labels_of(queue) +
         format(",member=\"%u\",pid=\"%s\"", member.index,
                member.pid == 0 && member.said_pid == 0 ? "unknown" : member_text(member).c_str());
}

// Prints a metric with a sample for each queue for which value() has one.
template <typename Value>
void print_queue_metric(const std::vector<SeenQueue>& queues, const char* name, const char* type,
                        const char* help, const Value& value) {
  Samples samples;
  for (const SeenQueue& queue : queues) {
    if (const std::optional<uint64_t> number = value(queue))
      samples.emplace_back(labels_of(queue), std::to_string(*number));
  }
  print_metric(name, type, help, samples);
}

// Prints a metric with a sample for each member for which value() has one. A member that left or
// died has only what waits in its lane.
template <typename Value>
void print_member_metric(const std::vector<SeenQueue>& queues, const char* name, const char* type,
                         const char* help, const Value& value) {
  Samples samples;
  for (const SeenQueue& queue : queues) {
    for (const SeenMember& member : queue.members) {
      if (const std::optional<std::string> text = value(queue, member))
        samples.emplace_back(labels_of(queue, member), *text);
    }
  }
  print_metric(name, type, help, samples);
}

void print_member_counter(const std::vector<SeenQueue>& queues, const char* name, const char* help,
                          uint64_t memory::QueueOnBoard::* figure) {
  print_member_metric(
      queues, name, "counter", help, [&](const SeenQueue&, const SeenMember& member) {
        return member.row == nullptr ? std::nullopt
                                     : std::optional(std::to_string(member.row->*figure));
      });
}

void print_queues(const Boards& boards, const std::vector<SeenQueue>& queues) {
  print_queue_metric(queues, "tenon_queue_waiting_messages", "gauge",
                     "Messages in a queue that nobody has received.",
                     [](const SeenQueue& queue) { return queue.waiting; });
  print_queue_metric(queues, "tenon_queue_capacity_messages", "gauge",
                     "The most messages of one member that can wait.", [](const SeenQueue& queue) {
                       return queue.has_memory ? std::optional<uint64_t>(queue.capacity)
                                               : std::nullopt;
                     });
  print_queue_metric(
      queues, "tenon_queue_members", "gauge", "Members that have not left and not died.",
      [](const SeenQueue& queue) { return std::optional<uint64_t>(count_members(queue)); });
  print_queue_metric(queues, "tenon_queue_died_total", "counter",
                     "Members whose process ended while they were members.",
                     [](const SeenQueue& queue) {
                       return queue.has_memory ? std::optional(queue.died) : std::nullopt;
                     });
  Samples members;
  for (const SeenQueue& queue : queues) {
    for (const SeenMember& member : queue.members)
      members.emplace_back(labels_of(queue, member) + format(",uid=\"%u\",state=\"%s\"", member.uid,
                                                             state_text(member.state)),
                           "1");
  }
  print_metric("tenon_queue_member_info", "gauge", "Members of queues, and what became of them.",
               members);
  print_member_metric(queues, "tenon_queue_member_waiting_messages", "gauge",
                      "Messages that a member sent and nobody has received.",
                      [](const SeenQueue&, const SeenMember& member) {
                        return member.waiting ? std::optional(std::to_string(*member.waiting))
                                              : std::nullopt;
                      });
  print_member_metric(
      queues, "tenon_queue_member_full_seconds", "gauge",
      "For how long a send of a member has waited for room.",
      [&](const SeenQueue& queue, const SeenMember& member) {
        const std::optional<int64_t> full = full_ns(boards, queue, member);
        return member.row == nullptr
                   ? std::nullopt
                   : std::optional(format("%.3f", static_cast<double>(full.value_or(0)) / 1e9));
      });
  print_member_metric(queues, "tenon_queue_member_asleep", "gauge",
                      "1: a member sleeps until there is a message or room.",
                      [](const SeenQueue&, const SeenMember& member) {
                        const bool asleep = member.waits_for_message || member.waits_for_room;
                        return member.state == SeenState::kHere
                                   ? std::optional<std::string>(asleep ? "1" : "0")
                                   : std::nullopt;
                      });
  print_member_counter(queues, "tenon_queue_sent_messages_total", "Messages that a member sent.",
                       &memory::QueueOnBoard::sent);
  print_member_counter(queues, "tenon_queue_sent_bytes_total",
                       "Bytes of the tensors that a member sent.",
                       &memory::QueueOnBoard::sent_nbytes);
  print_member_counter(queues, "tenon_queue_received_messages_total",
                       "Messages that a member received.", &memory::QueueOnBoard::received);
  print_member_counter(queues, "tenon_queue_received_bytes_total",
                       "Bytes of the tensors that a member received.",
                       &memory::QueueOnBoard::received_nbytes);
  print_member_counter(queues, "tenon_queue_lost_messages_total",
                       "Messages of a member whose receiver died before it had them.",
                       &memory::QueueOnBoard::lost);
}

}  // namespace

void print_prometheus(const Boards& boards, const std::vector<SeenQueue>& queues) {
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
  print_metric("tenon_process_info", "gauge",
               "Processes that have arenas, lend, or are members of queues.", processes);
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
  print_queues(boards, queues);
  print_metric("tenon_boards_refused", "gauge", "Boards and queues that are none.",
               {{"", std::to_string(boards.refused.size())}});
  print_metric("tenon_processes_unreadable", "gauge", "Processes that could not be looked into.",
               {{"", std::to_string(boards.unreadable)}});
}

}  // namespace tenon::cli
