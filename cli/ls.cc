// `tenon ls`: lists names, arenas, leases and queues, and the processes that hold them.
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "commands.h"
#include "figures.h"
#include "name_table.h"
#include "output.h"
#include "queues.h"

namespace tenon::cli {
namespace {

using names::NameKind;
using names::NameReport;
using names::NameState;

constexpr size_t kCommandColumns = 80;

struct Totals {
  uint64_t states[4] = {};
  uint64_t others = 0;
  uint64_t allocated_nbytes = 0;
  uint64_t hidden = 0;  // names of other users
  uint64_t unreadable = 0;
};

Totals sum_up(const std::vector<Listed>& names) {
  Totals totals;
  for (const Listed& one : names) {
    if (one.report.kind == NameKind::kOther) {
      ++totals.others;
    } else {
      ++totals.states[static_cast<size_t>(one.report.state)];
    }
    totals.allocated_nbytes += one.report.allocated_nbytes;
    totals.unreadable = std::max(totals.unreadable, one.unreadable);
  }
  return totals;
}

// Explains a live name by its holders, and another by the reason for its state.
std::vector<std::string> explanation_of(const Listed& one) {
  std::vector<std::string> lines;
  lines.reserve(one.holders.size() + 1);
  for (const os::ProcessFacts& holder : one.holders)
    lines.push_back(std::to_string(holder.pid) + " " +
                    cut_text(safe_text(holder.command), kCommandColumns));
  if (lines.empty() || one.report.state != NameState::kLive)
    lines.insert(lines.begin(), safe_text(one.report.why));
  return lines;
}

void print_names(const std::string& directory, const std::vector<Listed>& names) {
  Table table({{"NAME"},
               {"KIND"},
               {"SIZE", true},
               {"MEMORY", true},
               {"AGE", true},
               {"COUNT", true},
               {"STATE"},
               {"MAKER", true},
               {"HELD BY, OR WHY"}});
  for (const Listed& one : names) {
    const NameReport& report = one.report;
    const bool has_head = report.kind == NameKind::kFile || report.kind == NameKind::kTorchFile;
    const bool has_bytes = report.kind != NameKind::kSocket;
    const std::vector<std::string> lines = explanation_of(one);
    table.add({{safe_text(name_text(directory, report.leaf))},
               {kind_name(report.kind)},
               {has_bytes ? size_text(report.nbytes) : "-"},
               {has_bytes ? size_text(report.allocated_nbytes) : "-"},
               {age_text(report.age_ns)},
               {has_head ? std::to_string(report.count) : "-"},
               {report.kind == NameKind::kOther ? "-" : state_name(report.state),
                state_colour(report.state)},
               {report.maker_pid != 0 ? std::to_string(report.maker_pid) : "-"},
               {lines.front()}});
    for (size_t i = 1; i < lines.size(); ++i)
      table.add({{}, {}, {}, {}, {}, {}, {}, {}, {lines[i]}});
  }
  if (!table.is_empty()) table.print();
}

void print_totals(const std::string& directory, const std::vector<Listed>& names,
                  const Totals& totals) {
  std::string text = plural_text(names.size(), "name", "names") + " in " + safe_text(directory);
  const char* separator = ": ";
  for (const NameState state :
       {NameState::kLive, NameState::kInFlight, NameState::kDead, NameState::kUnsure}) {
    const uint64_t count = totals.states[static_cast<size_t>(state)];
    if (count == 0) continue;
    text += separator + count_text(count) + " " + state_name(state);
    separator = ", ";
  }
  if (totals.others != 0) text += separator + count_text(totals.others) + " of other programs";
  text += "; " + size_text(totals.allocated_nbytes) + " of memory";
  print_text(text + "\n");
  if (totals.hidden != 0)
    print_text(plural_text(totals.hidden, "name", "names") + " of other users not shown (--all)\n");
  if (totals.unreadable != 0) {
    print_text(plural_text(totals.unreadable, "process could not be asked what it holds",
                           "processes could not be asked what they hold") +
               (geteuid() == 0 ? "" : " (root can ask other users')") +
               "; states do not depend on that\n");
  }
}

Json names_json(const std::string& directory, const std::vector<Listed>& names,
                const Totals& totals) {
  Json list = Json::array();
  for (const Listed& one : names) {
    Json name = name_json(directory, one.report);
    name["holders"] = holders_json(one);
    list.push_back(std::move(name));
  }
  const auto of = [&totals](NameState state) { return totals.states[static_cast<size_t>(state)]; };
  return {{"directory", directory},       {"names", std::move(list)},
          {"live", of(NameState::kLive)}, {"in_flight", of(NameState::kInFlight)},
          {"dead", of(NameState::kDead)}, {"unsure", of(NameState::kUnsure)},
          {"others", totals.others},      {"allocated_nbytes", totals.allocated_nbytes},
          {"not_shown", totals.hidden},   {"unreadable_processes", totals.unreadable}};
}

// Adds the names to `json` if it is not null, and prints them otherwise.
Status list_names(const LsOptions& options, Json* json) {
  names::LookOptions look;
  look.patience = kPatience;
  look.any_user = options.all;
  TENON_ASSIGN(std::vector<NameReport> reports,
               collect_names(options.directory, look, options.all));
  uint64_t hidden = 0;
  if (!options.all)
    hidden =
        std::erase_if(reports, [](const NameReport& report) { return report.uid != geteuid(); });
  const std::vector<Listed> names = add_holders(options.directory, std::move(reports));
  Totals totals = sum_up(names);
  totals.hidden = hidden;
  if (options.json) {
    *json = names_json(options.directory, names, totals);
  } else {
    print_names(options.directory, names);
    print_totals(options.directory, names, totals);
  }
  return Status::ok();
}

// Which parts of the boards are listed.
struct Parts {
  bool arenas = false;
  bool leases = false;
  bool queues = false;
};

void print_boards(const Boards& boards, const std::vector<SeenQueue>& queues, const Parts& parts,
                  bool after_names) {
  std::vector<Table> tables;
  if (parts.arenas) tables.push_back(arenas_table(boards));
  if (parts.leases) tables.push_back(leases_table(boards));
  if (parts.queues) {
    tables.push_back(queues_table(queues));
    tables.push_back(queue_members_table(boards, queues));
  }
  bool is_first = !after_names;
  for (const Table& table : tables) {
    if (table.is_empty()) continue;
    if (!is_first) print_text("\n");
    table.print();
    is_first = false;
  }
  print_unread(boards);
}

}  // namespace

int run_ls(const LsOptions& options) {
  const bool everything = !options.names && !options.arenas && !options.leases && !options.queues;
  if (options.prometheus) {
    Boards boards = read_boards();
    const std::vector<SeenQueue> queues = read_queues(&boards);
    print_prometheus(boards, queues);
    return kExitOk;
  }
  Json json = Json::object();
  if (everything || options.names) {
    if (const Status status = list_names(options, &json); !status.is_ok()) {
      print_error(status);
      return kExitProblem;
    }
  }
  const Parts parts{everything || options.arenas, everything || options.leases,
                    everything || options.queues};
  if (parts.arenas || parts.leases || parts.queues) {
    Boards boards = read_boards();
    const std::vector<SeenQueue> queues =
        parts.queues ? read_queues(&boards) : std::vector<SeenQueue>();
    if (!options.json) {
      print_boards(boards, queues, parts, everything || options.names);
      return kExitOk;
    }
    if (parts.arenas) json["arenas"] = arenas_json(boards);
    if (parts.leases) json["leases"] = leases_json(boards);
    if (parts.queues) json["queues"] = queues_json(boards, queues);
    json["refused"] = boards.refused;
    json["unreadable_boards"] = boards.unreadable;
  }
  if (options.json) print_json(json);
  return kExitOk;
}

}  // namespace tenon::cli
